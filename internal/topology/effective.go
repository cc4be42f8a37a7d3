package topology

// Effective returns the arguments that are in effect for a queue: its own, and
// what the policy and the operator policy that apply to it add or change. Where
// several policies share the highest priority it takes the first by name.
//
// unlimited says how delivery limits merge: from RabbitMQ 4.0 on a negative one
// stands for no limit and wins. The rules are those of
// rabbit_policies:merge_policy_value/3, rabbit_amqqueue_process:process_args_policy/1
// and rabbit_quorum_queue:gather_policy_config/2 (3.10 to 4.3).
func (t *Topology) Effective(q Queue, unlimited bool) Arguments {
	merge := merger{quorum: q.Type == Quorum, unlimited: unlimited}
	definition := Arguments{}
	if policies := t.Governing(q.Name, q.Type, false); len(policies) > 0 {
		definition = policies[0].Definition.Clone()
	}
	if operators := t.Governing(q.Name, q.Type, true); len(operators) > 0 {
		for key, value := range operators[0].Definition {
			definition[key] = merge.operator(key, definition[key], value)
		}
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
	case KeyMessageTTL, KeyMaxLength, KeyMaxLengthBytes, KeyExpires, KeyDelayedRetryMin, KeyDelayedRetryMax:
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
