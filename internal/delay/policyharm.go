package delay

import (
	"maps"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// PolicyProblems tells which policies and operator policies lose or delay
// messages in the network's queues. RabbitMQ applies one policy and one operator
// policy to a queue, those of the highest priority.
func (n Network) PolicyProblems(in *topology.Topology) []retry.Problem {
	var p problems
	seen := map[string]bool{}
	for _, q := range n.Topology(retry.Features{}).Queues() {
		if existing, exists := in.Queue(q.Name); exists {
			q.Type = existing.Type
		}
		for _, policy := range slices.Concat(in.Governing(q.Name, q.Type, false), in.Governing(q.Name, q.Type, true)) {
			n.checkPolicy(&p, seen, q, policy)
		}
	}
	return p
}

// checkPolicy reports each key of a policy once, and not for every queue.
func (n Network) checkPolicy(p *problems, seen map[string]bool, q topology.Queue, policy topology.Policy) {
	for _, key := range slices.Sorted(maps.Keys(policy.Definition)) {
		value := policy.Definition[key]
		effect := n.harm(q, key, value)
		id := policy.Kind() + " " + policy.Name + " " + key
		if effect == "" || seen[id] {
			continue
		}
		seen[id] = true
		p.errorf("name", "Policy Endangers Messages",
			"The %s %q sets %s on the queue %q: %s. Narrow its pattern %q so that it does not match this queue, or give the queues of "+
				"the network, whose names start with %q, a harmless policy of higher priority.",
			policy.Kind(), policy.Name, topology.Arguments{key: value}.Text(), q.Name, effect, policy.Pattern, n.Name+".")
		(*p)[len(*p)-1].Policy = &policy
	}
}

// harm says what a key of a policy does to messages of the queue that must not
// be, or returns "".
func (n Network) harm(q topology.Queue, key string, value any) string {
	if topology.Unreachable(key, value) {
		return ""
	}
	number, isNumber := value.(int64)
	switch key {
	case topology.KeyExpires:
		return retry.HarmOfExpires(number)
	case topology.KeyMaxLength, topology.KeyMaxLengthBytes:
		return "messages over the limit are lost, move on too early, or hold up the whole network"
	}
	if q.Name == n.Unrouted() {
		switch {
		case key == topology.KeyDeliveryLimit && isNumber && number >= 0:
			return retry.HarmOfDeliveryLimit(number)
		default:
			return retry.HarmToStore(key, number)
		}
	}
	wait, _ := q.Arguments.Int(topology.MessageTTL)
	switch {
	case key == topology.KeyMessageTTL && isNumber && number < wait:
		return "messages are delivered too early"
	case key == topology.KeyDeadLetterRoutingKey:
		return "messages lose the routing key that leads them, and are not delivered"
	case key == topology.KeyOverflow && n.DeadLetterStrategy == retry.AtLeastOnce && value != topology.RejectPublish:
		return retry.HarmOfFallback
	}
	return ""
}
