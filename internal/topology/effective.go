package topology

import "slices"

// Effective returns the arguments that are in effect for a queue: its own, and
// what the policy and the operator policy that apply to it add or change. If
// RabbitMQ may apply one of several it takes the first by name; callers that must
// be safe use [Topology.Candidates].
//
// unlimited says how delivery limits merge: from RabbitMQ 4.0 on a negative one
// stands for no limit and wins. The rules are those of
// rabbit_policies:merge_policy_value/3, rabbit_amqqueue_process:process_args_policy/1
// and rabbit_quorum_queue:gather_policy_config/2 (3.10 to 4.3).
func (t *Topology) Effective(q Queue, unlimited bool) Arguments {
	return effectiveOf(q, unlimited, first(t.Governing(q.Name, q.Type, false)), first(t.Governing(q.Name, q.Type, true)))
}

func first(policies []Policy) Policy {
	if len(policies) == 0 {
		return Policy{}
	}
	return policies[0]
}

// Candidates returns what [Topology.Effective] is for each policy and operator policy
// that RabbitMQ may apply to the queue: of several with the highest priority it applies
// either (rabbit_policy:match/2, 3.10 to 4.3), and of some nobody knows here whether they
// apply, see [Topology.Governing].
func (t *Topology) Candidates(q Queue, unlimited bool) []Arguments {
	var candidates []Arguments
	for _, policy := range t.choices(q, false) {
		for _, operator := range t.choices(q, true) {
			candidates = append(candidates, effectiveOf(q, unlimited, policy, operator))
		}
	}
	return candidates
}

// choices are the policies of which RabbitMQ applies one. An empty one stands for none.
func (t *Topology) choices(q Queue, operator bool) []Policy {
	governing := t.Governing(q.Name, q.Type, operator)
	surely := func(p Policy) bool {
		return p.supportedBy(q.Type) == yes && t.matchers[p.key()].matches(q.Name, t.done) == yes
	}
	if !slices.ContainsFunc(governing, surely) {
		governing = append(governing, Policy{})
	}
	return governing
}

func effectiveOf(q Queue, unlimited bool, policy, operator Policy) Arguments {
	merge := merger{quorum: q.Type == Quorum, unlimited: unlimited}
	definition := policy.Definition.Clone()
	if definition == nil {
		definition = Arguments{}
	}
	for key, value := range operator.Definition {
		definition[key] = merge.operator(key, definition[key], value)
	}
	effective := q.Arguments.Clone()
	for key, value := range definition {
		effective["x-"+key] = merge.argument(key, effective["x-"+key], value)
	}
	return effective
}

type merger struct {
	quorum, unlimited bool
}

// operator merges a policy's value, nil if there is none, with an operator
// policy's.
func (m merger) operator(key string, policy, operator any) any {
	if policy == nil {
		return operator
	}
	switch key {
	case KeyMessageTTL, KeyMaxLength, KeyMaxLengthBytes, KeyExpires:
		return smaller(policy, operator)
	case KeyDeliveryLimit:
		return m.deliveryLimit(policy, operator)
	case KeyDelayedRetryMin:
		return larger(policy, operator)
	case KeyDelayedRetryMax:
		return smaller(policy, operator)
	default:
		return operator
	}
}

// argument merges a queue's own argument, nil if there is none, with the value
// that policies give it.
func (m merger) argument(key string, argument, policy any) any {
	if argument == nil {
		return policy
	}
	switch key {
	case KeyMessageTTL, KeyMaxLength, KeyMaxLengthBytes, KeyExpires, KeyDelayedRetryMin, KeyDelayedRetryMax, KeyConsumerTimeout:
		return smaller(argument, policy)
	case KeyDeliveryLimit:
		return m.deliveryLimit(argument, policy)
	case KeyOverflow, KeyDelayedRetryType:
		if m.quorum {
			return policy
		}
	}
	return argument
}

func (m merger) deliveryLimit(a, b any) any {
	x, xIs := a.(int64)
	y, yIs := b.(int64)
	if m.unlimited && xIs && yIs && (x < 0 || y < 0) {
		return max(x, y)
	}
	return smaller(a, b)
}

func smaller(a, b any) any {
	x, xIs := a.(int64)
	y, yIs := b.(int64)
	if xIs && yIs {
		return min(x, y)
	}
	return a
}

func larger(a, b any) any {
	x, xIs := a.(int64)
	y, yIs := b.(int64)
	if xIs && yIs {
		return max(x, y)
	}
	return a
}
