package retry

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// addAttachment adds the policy that makes an existing work queue dead-letter
// into the chain. Without knowing the queue's type there is none: a policy with
// one key that the type does not support is ignored as a whole.
func (c Chain) addAttachment(t *topology.Topology) {
	if c.Work.Type == "" {
		return
	}
	t.SetPolicy(topology.Policy{
		Name:       c.AttachPolicy(),
		Pattern:    "^" + regexp.QuoteMeta(c.Work.Name) + "$",
		ApplyTo:    topology.ApplyToQueues, // the narrower values need RabbitMQ 3.12
		Priority:   c.Policy.Priority,
		Definition: c.attachment(),
	})
}

// attachment is what the chain needs of an existing work queue, and what it
// carries over from the policy that it displaces.
func (c Chain) attachment() topology.Arguments {
	definition := topology.Arguments{}
	if c.Policy.Inherit {
		for key, value := range c.Policy.Inherited {
			definition[key] = value
		}
	}
	for key, value := range c.attachmentKeys() {
		definition[key] = value
	}
	return definition
}

func (c Chain) attachmentKeys() topology.Arguments {
	keys := topology.Arguments{topology.KeyDeadLetterExchange: c.deadLetterExchange()}
	if c.Shared {
		keys[topology.KeyDeadLetterRoutingKey] = c.Work.Name
	}
	if c.Work.Type == topology.Quorum {
		keys[topology.KeyDeadLetterStrategy] = string(c.DeadLetterStrategy)
		if c.DeadLetterStrategy == AtLeastOnce {
			keys[topology.KeyOverflow] = topology.RejectPublish
		}
	}
	for _, s := range workSettings {
		if value := s.value(&c.Work); value != nil && s.byPolicy {
			keys[topology.KeyOf(s.argument)] = value
		}
	}
	for key, value := range c.holdingArguments() {
		keys[topology.KeyOf(key)] = value
	}
	return keys
}

// inheritable returns the keys of a displaced policy that the chain's own can
// carry: all but those of dead-lettering, and those that the chain sets itself.
func (c Chain) inheritable(displaced topology.Policy) topology.Arguments {
	own := c.attachmentKeys()
	keys := topology.Arguments{}
	for key, value := range displaced.Definition {
		if _, set := own[key]; !set && !topology.IsDeadLetterKey(key) && c.Work.Type.Supports(key) {
			keys[key] = value
		}
	}
	return keys
}

// UnreachableLimit is the shield's.
const UnreachableLimit = topology.UnreachableLimit

// shield is a policy that changes nothing. RabbitMQ applies one policy to a
// queue, and so it keeps those of lower priority away. A policy needs at least
// one key, and max-length-bytes is one that classic and quorum queues of every
// version take.
func (c Chain) shield() topology.Policy {
	name := regexp.QuoteMeta(c.Name)
	names := []string{fmt.Sprintf(`%s\.(retry|attempt|wait)\.[0-9hms]+(\.[0-9]+)?`, name)}
	for _, name := range c.stores() {
		names = append(names, regexp.QuoteMeta(name))
	}
	if !c.Parking.Existing {
		names = append(names, regexp.QuoteMeta(c.Parking.Name))
	}
	if !c.Work.Existing {
		names = append(names, regexp.QuoteMeta(c.Work.Name))
	}
	return topology.Policy{
		Name:       c.ShieldPolicy(),
		Pattern:    "^(" + strings.Join(names, "|") + ")$",
		ApplyTo:    topology.ApplyToQueues,
		Priority:   c.Policy.Priority,
		Definition: topology.Arguments{topology.KeyMaxLengthBytes: UnreachableLimit},
	}
}

// Within completes the chain with what it takes from the virtual host: the type
// of an existing work queue, and the keys of the policy that it displaces.
func (c Chain) Within(in *topology.Topology) Chain {
	if !c.Work.Existing {
		return c
	}
	c.Work.Type, c.Policy.Inherited = "", nil
	q, exists := in.Queue(c.Work.Name)
	if !exists {
		return c
	}
	c.Work.Type = q.Type
	if displaced := c.foreign(in, q.Name, q.Type); len(displaced) == 1 {
		c.Policy.Inherited = c.inheritable(displaced[0])
	}
	return c
}

// foreign returns the other policies that would apply to the queue if the
// chain had none. RabbitMQ applies one; when several share the highest priority
// it is not known which.
func (c Chain) foreign(in *topology.Topology, queue string, kind topology.QueueType) []topology.Policy {
	return in.Governing(queue, kind, false, c.AttachPolicy(), c.ShieldPolicy())
}

// InEffect says whether the definition that RabbitMQ reports for an existing
// work queue makes it dead-letter into the chain.
func (c Chain) InEffect(definition topology.Arguments) bool {
	for key, value := range c.attachmentKeys() {
		if definition[key] != value {
			return false
		}
	}
	return true
}

// WeakensDeadLettering says whether a change of the chain's policy, to the one in
// wanted or to none, makes an application's quorum queue stop to dead-letter at least
// once. RabbitMQ then deletes the dead letters that are on their way
// (rabbit_fifo_dlx:switch_from/3).
func (c Chain) WeakensDeadLettering(in, wanted *topology.Topology) bool {
	q, exists := in.Queue(c.Work.Name)
	if !exists || q.Type != topology.Quorum {
		return false
	}
	after := topology.New()
	for _, p := range in.Policies() {
		if p.Operator || p.Name != c.AttachPolicy() {
			after.SetPolicy(p)
		}
	}
	if p, attached := wanted.Policy(c.AttachPolicy()); attached {
		after.SetPolicy(p)
	}
	weak := func(effective topology.Arguments) bool { return !isAtLeastOnce(effective) }
	return slices.ContainsFunc(in.Candidates(q, true), isAtLeastOnce) && slices.ContainsFunc(after.Candidates(q, true), weak)
}

func isAtLeastOnce(effective topology.Arguments) bool {
	_, dlx := effective[topology.DeadLetterExchange]
	return dlx && effective[topology.DeadLetterStrategy] == string(AtLeastOnce) && effective[topology.Overflow] == topology.RejectPublish
}
