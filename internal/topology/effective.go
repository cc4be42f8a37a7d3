package topology

import (
	"cmp"
	"slices"
)

// Effective returns the arguments that are in effect for a queue: its own, and
// what the policy and the operator policy that apply to it add or change. If
// RabbitMQ may apply one of several it takes the first by name; callers that must
// be safe use [Topology.Candidates].
//
// unlimited says how delivery limits merge: from RabbitMQ 4.0 on a negative one
// stands for no limit. How values merge is in the table of settings.
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
	definition := policy.Definition.Clone()
	if definition == nil {
		definition = Arguments{}
	}
	for key, value := range operator.Definition {
		if own, set := definition[key]; set {
			value = cmp.Or(byKey[key].WithOperator, Second).merged(own, value, q.Type, unlimited)
		}
		definition[key] = value
	}
	effective := q.Arguments.Clone()
	for key, value := range definition {
		argument := ArgumentOf(key)
		if own, set := effective[argument]; set {
			value = cmp.Or(byKey[key].WithArgument, First).merged(own, value, q.Type, unlimited)
		}
		effective[argument] = value
	}
	return effective
}
