package retry

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Attachment leads the dead letters of one work queue into shared tiers, and
// messages whose wait is over back to it.
type Attachment struct {
	// Tiers is the name of the shared tiers.
	Tiers string
	// Work is the queue. Of its settings an attachment uses the name, whether it
	// belongs to others, the type if so, the delivery limit and arguments.
	Work WorkQueue
	// QueueType and DeadLetterStrategy are those of the work queue; the tiers have
	// their own. The type is that of a queue that the attachment declares.
	QueueType          topology.QueueType
	DeadLetterStrategy DeadLetterStrategy
	Policy             PolicySettings
}

// chain is the part of the shared tiers that the attachment sees: the names,
// and its own queue.
func (a Attachment) chain() Chain {
	c := NewShared(a.Tiers)
	c.Work, c.QueueType, c.DeadLetterStrategy, c.Policy = a.Work, a.QueueType, a.DeadLetterStrategy, a.Policy
	c.Parking = ParkingQueue{}
	return c
}

// ReturnExchange is the exchange from which messages come back to the queue.
func (a Attachment) ReturnExchange() string { return a.chain().ReturnExchange() }

// PolicyName is the name of the policy that attaches an existing queue.
func (a Attachment) PolicyName() string { return a.chain().AttachPolicy() }

// Return is the binding that leads messages back to the queue.
func (a Attachment) Return() topology.Binding {
	return toQueue(a.ReturnExchange(), a.Work.Name, a.Work.Name, nil)
}

// Topology expands the attachment into its objects: the binding, and the queue
// or the policy that attaches an existing one. A policy is left out while the
// queue's type is not known.
func (a Attachment) Topology(f Features) *topology.Topology {
	t := topology.New()
	c := a.chain()
	if a.Work.Existing {
		c.addAttachment(t)
	} else {
		c.addWorkQueue(t, f)
		q, _ := t.Queue(a.Work.Name)
		q.Arguments[topology.DeadLetterRoutingKey] = a.Work.Name
		t.SetQueue(q)
	}
	t.Bind(a.Return())
	return t
}

// Actual picks from the topology of a virtual host what belongs to the
// attachment: the queue or the policy in the form in which it exists, and every
// binding by which the queue's name, as a routing key, leads out of the return
// exchange, or by which another key leads to the queue.
func (a Attachment) Actual(in *topology.Topology) *topology.Topology {
	actual := topology.New()
	if !a.Work.Existing {
		copyQueue(actual, in, a.Work.Name)
	}
	if p, exists := in.Policy(a.PolicyName()); exists {
		actual.SetPolicy(p)
	}
	for _, b := range in.From(a.ReturnExchange()) {
		if b.RoutingKey == a.Work.Name || b.DestinationKind == topology.KindQueue && b.Destination == a.Work.Name {
			actual.Bind(b)
		}
	}
	return actual
}

// Steps returns the steps from what is there of the attachment to what is
// wanted; from nothing they make it. The way back comes first, then what sends
// messages on their way. A queue that exists in another form is left alone; the
// caller must refuse it.
func (a Attachment) Steps(actual, wanted *topology.Topology) []topology.Stage {
	d := topology.Diff(actual, wanted)
	every := func(topology.Binding) bool { return true }
	policies := d.Missing.SetPolicies()
	for _, change := range d.Policies {
		policies = append(policies, topology.Step{SetPolicy: &change.Wanted})
	}
	return withoutEmpty([]topology.Stage{
		d.Missing.DeclareQueues(func(topology.Queue) bool { return true }),
		d.Missing.BindAll(every),
		policies,
		d.Extra.UnbindAll(every),
		d.Extra.DeletePolicies(),
	})
}

// Closing changes the policy of an existing queue so that what fails is parked
// and nothing enters the tiers any more. Messages that are under way come back
// for a last attempt. There is no such step for a queue that dead-letters by its
// arguments.
func (a Attachment) Closing(actual *topology.Topology) []topology.Stage {
	p, exists := actual.Policy(a.PolicyName())
	if !exists {
		return nil
	}
	p.Pattern, _ = topology.WithdrawnPattern(p.Pattern) // where a detachment was broken off
	p.Definition = p.Definition.Clone()
	p.Definition[topology.KeyDeadLetterExchange] = a.chain().ParkingExchange()
	return []topology.Stage{{{SetPolicy: &p}}}
}

// IsClosed says whether the definition that RabbitMQ reports for the queue is
// that of [Attachment.Closing].
func (a Attachment) IsClosed(definition topology.Arguments) bool {
	return definition[topology.KeyDeadLetterExchange] == a.chain().ParkingExchange()
}

// InEffect says whether the definition that RabbitMQ reports for an existing
// queue makes it dead-letter into the tiers.
func (a Attachment) InEffect(definition topology.Arguments) bool {
	return a.chain().InEffect(definition)
}

// Removal orders the steps that detach the queue. One that the attachment
// declared goes with all its bindings at once, so that a refusal leaves it whole.
// For an existing queue the way back goes first: what is still under way is
// parked from then on; and then the policy that sends messages on their way.
func (a Attachment) Removal(actual *topology.Topology) []topology.Stage {
	return withoutEmpty([]topology.Stage{
		actual.DeleteQueues(),
		actual.UnbindAll(func(b topology.Binding) bool {
			_, gone := actual.Queue(b.Destination)
			return !gone || b.DestinationKind != topology.KindQueue
		}),
		actual.DeletePolicies(),
	})
}

// Targets is like [Chain.Targets].
func (a Attachment) Targets(in *topology.Topology) []topology.Target { return a.chain().Targets(in) }

// WeakensDeadLettering is like [Chain.WeakensDeadLettering].
func (a Attachment) WeakensDeadLettering(in, wanted *topology.Topology) bool {
	return a.Work.Existing && a.chain().WeakensDeadLettering(in, wanted)
}

// Within completes the attachment with what it takes from the virtual host, as
// [Chain.Within] does.
func (a Attachment) Within(in *topology.Topology) Attachment {
	c := a.chain().Within(in)
	a.Work, a.Policy = c.Work, c.Policy
	return a
}

// Problems returns what can be said about the attachment without a broker.
func (a Attachment) Problems() []Problem {
	var p problems
	c := a.chain()
	c.checkName(&p, "tiers", "The name of the tiers", a.Tiers)
	c.checkName(&p, "queue", "The queue's name", a.Work.Name)
	if strings.HasPrefix(a.Work.Name, a.Tiers+".retry.") || a.Work.Name == NewShared(a.Tiers).Parking.Name {
		p.errorf("queue", "Queue of the Tiers",
			"%q is a queue of the shared tiers %q, or has the name of one. Attach work queues only.", a.Work.Name, a.Tiers)
	}
	if a.Work.Existing {
		a.checkForeign(&p)
		return p
	}
	c.checkKind(&p)
	if l := a.Work.DeliveryLimit; l != nil && a.QueueType == topology.Classic {
		p.errorf("delivery_limit", "Delivery Limit Needs Quorum Queues",
			"Classic queues have no delivery limit. Leave delivery_limit out, or set queue_type = \"quorum\".")
	}
	a.checkArguments(&p)
	return p
}

// checkForeign refuses settings of a queue that the attachment does not declare.
func (a Attachment) checkForeign(p *problems) {
	for _, setting := range []struct {
		attribute string
		set       bool
	}{
		{"queue_type", a.QueueType != ""}, {"delivery_limit", a.Work.DeliveryLimit != nil}, {"arguments", len(a.Work.Arguments) > 0},
	} {
		if setting.set {
			p.errorf(setting.attribute, "Queue Belongs to Others",
				"With ownership = \"application\" the queue %q is neither declared nor changed here. Set this where the queue is "+
					"declared, and leave it out here.", a.Work.Name)
		}
	}
}

// attachedArguments are the queue arguments that nobody can set, and why.
var attachedArguments = map[string]string{
	topology.DeadLetterExchange:   "the attachment itself sets it",
	topology.DeadLetterRoutingKey: "the attachment itself sets it",
	topology.DeadLetterStrategy:   "dead_letter_strategy sets it",
	topology.QueueTypeArgument:    "queue_type sets it",
	topology.DeliveryLimit:        "delivery_limit sets it",
	topology.Overflow:             "dead_letter_strategy decides it",
	topology.MaxLength:            "a queue that is full would hold up the tiers for all other queues",
	topology.MaxLengthBytes:       "a queue that is full would hold up the tiers for all other queues",
	topology.Expires:              "a queue that expires is deleted with everything in it",
}

func (a Attachment) checkArguments(p *problems) {
	for _, key := range slices.Sorted(maps.Keys(a.Work.Arguments)) {
		reason, refused := attachedArguments[key]
		if topology.HoldsBack(key) {
			reason, refused = "the queue itself would hold back messages, beside the tiers", true
		}
		if refused {
			p.errorf("arguments", "Argument Not Possible Here",
				"The argument %q of the queue %q is not possible here: %s. Remove it.", key, a.Work.Name, reason)
		}
	}
}

// ExistingProblems tells why the queue cannot be attached, or what about it its
// owner should know. Tiers and a queue that are missing are no problem here:
// something else may make them in the same run.
func (a Attachment) ExistingProblems(in *topology.Topology, f Features) []Problem {
	var p problems
	c := a.chain()
	var contradiction *NotAChainError
	if _, _, err := ReadShared(a.Tiers, in, abilities.Version{}); errors.As(err, &contradiction) {
		p.errorf("tiers", "No Shared Tiers",
			"The objects of %s. A retry chain has one work queue of its own, and no other can be attached to it.", contradiction.Reason)
		return p
	}
	q, exists := in.Queue(a.Work.Name)
	if exists && a.Work.Existing {
		for _, tier := range SharedTiersOn(a.Tiers, in) {
			c.Delays = append(c.Delays, tier.Delay)
		}
		c.checkExistingWork(&p, q, f)
		a.checkFull(&p, in.Candidates(q, f.UnlimitedDelivery), q)
	}
	return a.mine(p)
}

// checkFull warns about a queue that can refuse messages.
func (a Attachment) checkFull(p *problems, candidates []topology.Arguments, q topology.Queue) {
	limited := func(effective topology.Arguments) bool {
		_, length := effective[topology.MaxLength]
		_, bytes := effective[topology.MaxLengthBytes]
		return length || bytes
	}
	refuses := func(effective topology.Arguments) bool {
		return limited(effective) && strings.HasPrefix(effective.String(topology.Overflow), topology.RejectPublish)
	}
	atLeastOnce := q.Type == topology.Quorum && a.DeadLetterStrategy == AtLeastOnce
	if slices.ContainsFunc(candidates, refuses) || atLeastOnce && slices.ContainsFunc(candidates, limited) {
		p.warnf("queue", "A Full Queue Holds Up the Tiers",
			"The queue %q has a length limit and refuses messages when it is full. Tiers that dead-letter at least once keep a refused "+
				"message and offer it again after 180 seconds; 32 of them hold up the messages of every attached queue. Tiers that "+
				"dead-letter at most once lose it. Remove the limit.", q.Name)
	}
}

// PolicyProblems tells what other policies and operator policies do to the
// queue, and whether they leave the attachment's own policy in effect.
func (a Attachment) PolicyProblems(in *topology.Topology, f Features) []Problem {
	return a.mine(a.chain().PolicyProblems(in, f))
}

// mine gives the problems of a chain the names of the attachment's attributes.
func (a Attachment) mine(found []Problem) []Problem {
	for i := range found {
		switch at := found[i].Attribute; at {
		case "policy.priority", "policy.inherit":
			found[i].Attribute = sharedText.Replace(at)
		case "dead_letter_strategy", "tiers":
		default:
			found[i].Attribute = "queue"
		}
		found[i].Detail = sharedText.Replace(found[i].Detail)
	}
	return found
}

// ErrNotAttached says that a queue is not attached to shared tiers of that name.
var ErrNotAttached = errors.New("the queue is not attached to these tiers")

// ReadAttachment reads an attachment back from the objects of a virtual host,
// for an import.
func ReadAttachment(tiers, queue string, in *topology.Topology, live abilities.Version) (Attachment, Features, error) {
	a := Attachment{
		Tiers: tiers, Work: WorkQueue{Name: queue, Arguments: topology.Arguments{}},
		Policy: PolicySettings{Priority: DefaultPriority},
	}
	c, f := a.chain(), FeaturesOf(live)
	q, exists := in.Queue(queue)
	p, byPolicy := in.Policy(a.PolicyName())
	byArgument := q.Arguments.String(topology.DeadLetterExchange) == c.RetryExchange()
	if !byPolicy && !byArgument && !in.Has(a.Return()) {
		return Attachment{}, f, ErrNotAttached
	}
	if a.Work.Existing = !byArgument && (byPolicy || exists); a.Work.Existing {
		return a.readPolicy(p, byPolicy, in), f, nil
	}
	a.QueueType, a.DeadLetterStrategy = topology.Quorum, AtLeastOnce
	if !exists {
		return a, f, nil
	}
	a.QueueType, a.DeadLetterStrategy = q.Type, AtMostOnce
	if q.Arguments.String(topology.DeadLetterStrategy) == string(AtLeastOnce) {
		a.DeadLetterStrategy = AtLeastOnce
	}
	a.Work.DeliveryLimit = readDeliveryLimit(q, false)
	for key, value := range q.Arguments {
		if _, own := attachedArguments[key]; !own {
			a.Work.Arguments[key] = value
		}
	}
	return a, f, nil
}

// readPolicy reads what the policy tells of an existing queue's attachment.
func (a Attachment) readPolicy(p topology.Policy, exists bool, in *topology.Topology) Attachment {
	a = a.Within(in)
	a.DeadLetterStrategy = DefaultDeadLetterStrategy(a.Work.Type)
	if !exists {
		return a
	}
	a.Policy.Priority = p.Priority
	if a.Work.Type == topology.Quorum {
		a.DeadLetterStrategy = DeadLetterStrategy(p.Definition.String(topology.KeyDeadLetterStrategy))
	}
	a.Policy.Inherit = len(p.Definition) > len(a.chain().attachmentKeys())
	return a
}
