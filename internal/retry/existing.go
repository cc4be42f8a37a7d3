package retry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Redeclare says what it takes to change what a queue was declared with.
const Redeclare = "RabbitMQ fixes this when a queue is declared: move all its messages to another queue, delete it and declare it again. " +
	"Do not change it in another Terraform provider while it holds messages: that replaces the queue and deletes them."

// ExistingProblems tells why the chain cannot use the existing queues that it
// names, or what about them its owner should know. A queue that is missing is
// no problem here: something else may make it in the same run.
func (c Chain) ExistingProblems(in *topology.Topology, f Features) []Problem {
	var p problems
	if q, exists := in.Queue(c.Work.Name); exists && c.Work.Existing {
		c.checkExistingWork(&p, q, f)
	}
	if q, exists := in.Queue(c.Parking.Name); exists && c.Parking.Existing {
		c.checkExistingParking(&p, q, f)
	}
	return p
}

func (c Chain) checkExistingWork(p *problems, q topology.Queue, f Features) {
	const at = "work_queue.name"
	switch {
	case q.Type != topology.Classic && q.Type != topology.Quorum:
		p.errorf(at, "Queue Type Not Supported",
			"The queue %q is a %s queue, which does not dead-letter messages. A chain needs a classic or a quorum queue.", q.Name, q.Type)
		return
	case q.Exclusive:
		p.errorf(at, "Exclusive Queue", "The queue %q is exclusive to one connection: nobody else can bind it, and it goes with the "+
			"connection. Declare it without \"exclusive\". %s", q.Name, Redeclare)
		return
	case q.AutoDelete:
		p.warnf(at, "Queue Deletes Itself", "The queue %q is deleted with its last consumer, and the chain's bindings with it. Messages "+
			"that come back from a tier are parked from then on.", q.Name)
	}
	c.checkOverriding(p, q)
	c.checkOtherDeathsOf(p, q, f)
	c.checkLengthOf(p, q)
	if !q.Durable {
		p.warnf(at, "Queue Is Not Durable",
			"The queue %q is not durable: a restart of the broker deletes it with its messages, and the chain's bindings with it.", q.Name)
	}
	if q.Type == topology.Classic && c.DeadLetterStrategy == AtLeastOnce {
		p.warnf("dead_letter_strategy", "Work Queue Dead-Letters at Most Once",
			"The existing queue %q is a classic queue, and so a rejected message goes from it to the first tier at most once. Between "+
				"the chain's own queues it goes at least once.", q.Name)
	}
	c.checkExistingLimit(p, q, f)
}

// checkOverriding looks for arguments of the queue that win over the chain's
// policy (rabbit_amqqueue_process:process_args_policy/1 and
// rabbit_quorum_queue:gather_policy_config/2, all versions).
func (c Chain) checkOverriding(p *problems, q topology.Queue) {
	override := func(key, effect string) {
		p.errorf("work_queue.name", "Argument Overrides the Chain",
			"The queue %q was declared with %s, which wins over the chain's policy: %s. The chain needs a queue without this argument. %s",
			q.Name, topology.Arguments{key: q.Arguments[key]}.Text(), effect, Redeclare)
	}
	if dlx, set := q.Arguments[topology.DeadLetterExchange]; set && dlx != c.deadLetterExchange() {
		override(topology.DeadLetterExchange, "rejected messages would go there and not into the chain")
	}
	switch key, set := q.Arguments[topology.DeadLetterRoutingKey]; {
	case set && c.Shared && key != q.Name:
		override(topology.DeadLetterRoutingKey,
			"this key has to be the name of the queue, by which messages find their way back from the tiers")
	case set && !c.Shared:
		override(topology.DeadLetterRoutingKey,
			"retried messages would carry this routing key in place of their own, and with strategy \"routing_key\" go round for ever")
	}
	for _, key := range c.shortened(q) {
		override(key, fmt.Sprintf("the shorter time counts, and messages would wait for other times than [%s]", quoted(c.Delays)))
	}
	atLeastOnce := c.DeadLetterStrategy == AtLeastOnce && q.Type == topology.Quorum
	if atLeastOnce && q.Arguments.String(topology.DeadLetterStrategy) == string(AtMostOnce) {
		override(topology.DeadLetterStrategy, "the chain asks for at-least-once")
	}
	overflow := q.Arguments.String(topology.Overflow)
	if q.Type == topology.Classic && strings.HasPrefix(overflow, topology.RejectPublish) {
		override(topology.Overflow, "when the queue is full it refuses the messages that come back from a tier, and they are lost")
	}
}

// shortened lists the arguments of the queue that make messages wait shorter
// than the chain's delays.
func (c Chain) shortened(q topology.Queue) []string {
	return slices.DeleteFunc([]string{topology.DelayedRetryMin, topology.DelayedRetryMax}, func(key string) bool {
		own, set := q.Arguments.Int(key)
		wanted, asked := c.holdingArguments().Int(key)
		return !set || !asked || own >= wanted
	})
}

// checkLengthOf warns when at-least-once changes what a full queue does.
func (c Chain) checkLengthOf(p *problems, q topology.Queue) {
	if q.Type != topology.Quorum || c.DeadLetterStrategy != AtLeastOnce {
		return
	}
	limits := topology.Arguments{}
	for _, key := range []string{topology.MaxLength, topology.MaxLengthBytes} {
		name := topology.KeyOf(key)
		if limit, set := q.Arguments[key]; set {
			limits[key] = limit
		}
		if limit, inherited := c.Policy.Inherited[name]; inherited && c.Policy.Inherit {
			limits[name] = limit
		}
	}
	if len(limits) > 0 {
		p.warnf("work_queue.name", "A Full Queue Will Refuse Messages",
			"The queue %q has a length limit (%s). The chain's policy sets overflow=reject-publish there, which at-least-once needs: "+
				"when the queue is full publishers are refused, instead of the oldest messages being dropped, and messages that come "+
				"back from a tier wait up to 180 seconds.", q.Name, limits.Text())
	}
}

// TakeoverProblems tells why the chain cannot take over queues that belonged to
// others in its form of before: it redeclares nothing that exists, and
// without its policy a work queue of other arguments would not dead-letter into
// the chain any more.
func (c Chain) TakeoverProblems(before Chain, in *topology.Topology, f Features) []Problem {
	var p problems
	wanted := c.Topology(f)
	for _, q := range []struct {
		attribute, name string
		taken           bool
	}{
		{"work_queue.ownership", c.Work.Name, before.Work.Existing && !c.Work.Existing},
		{"parking_queue.ownership", c.Parking.Name, before.Parking.Existing && !c.Parking.Existing},
	} {
		actual, exists := in.Queue(q.name)
		if form, _ := wanted.Queue(q.name); q.taken && exists && !actual.Equal(form) {
			p.errorf(q.attribute, "Queue Cannot Be Taken Over",
				"The queue %q belongs to others and is declared as\n\n  %s\n\nWith ownership = \"application\" the chain used it as it "+
					"is. With \"chain\", it would own it and needs\n\n  %s\n\n"+
					"RabbitMQ cannot change one into the other. Leave ownership = \"application\".", q.name, actual.Line(), form.Line())
		}
	}
	return p
}

// checkOtherDeathsOf refuses arguments by which messages of the queue die
// otherwise than by a rejection, where the broker cannot tell the two apart.
func (c Chain) checkOtherDeathsOf(p *problems, q topology.Queue, f Features) {
	if !c.confusesDeaths(f) {
		return
	}
	for _, key := range []string{topology.MessageTTL, topology.MaxLength, topology.MaxLengthBytes, topology.DeliveryLimit} {
		if _, set := q.Arguments[key]; set {
			p.errorf("work_queue.name", "Queue Would Lose Messages",
				"The queue %q was declared with %s. Before RabbitMQ 3.13 strategy \"routing_key\" cannot tell a message that dies for "+
					"this reason from a rejected one: it would be sent through a tier, and the broker would drop it later. The chain "+
					"needs a queue without this argument. %s",
				q.Name, topology.Arguments{key: q.Arguments[key]}.Text(), Redeclare)
		}
	}
}

// checkExistingLimit warns when messages reach the delivery limit of the queue
// before they have had all their attempts: from RabbitMQ 4.0 on deliveries are
// counted across dead-lettering.
func (c Chain) checkExistingLimit(p *problems, q topology.Queue, f Features) {
	if q.Type != topology.Quorum || !f.UnlimitedDelivery {
		return
	}
	limit, set := q.Arguments.Int(topology.DeliveryLimit)
	if !set {
		limit = topology.DefaultDeliveryLimit
	}
	if limit >= 0 && limit <= int64(len(c.Delays)) {
		p.warnf("delays", "Delivery Limit Ends the Retries Early",
			"The queue %q has a delivery limit of %d, and RabbitMQ can count every retry as a delivery: a message may be parked "+
				"before it has had all of its %d attempts. The chain needs a queue with a higher x-delivery-limit. %s",
			q.Name, limit, c.Attempts(), Redeclare)
	}
}

func (c Chain) checkExistingParking(p *problems, q topology.Queue, f Features) {
	const at = "parking_queue.name"
	loses := func(key, effect string) {
		p.errorf(at, "Parking Queue Would Lose Messages",
			"The queue %q was declared with %s: %s. The chain needs a queue without this argument. %s",
			q.Name, topology.Arguments{key: q.Arguments[key]}.Text(), effect, Redeclare)
	}
	for _, key := range []string{topology.MaxLength, topology.MaxLengthBytes} {
		if _, set := q.Arguments[key]; set {
			loses(key, "parked messages over the limit are deleted, or the ones before them")
		}
	}
	if _, set := q.Arguments[topology.Expires]; set {
		loses(topology.Expires, "when nobody uses it for that time it is deleted with all its messages")
	}
	if ttl, set := q.Arguments.Int(topology.MessageTTL); set {
		p.warnf(at, "Parked Messages Are Deleted", "The queue %q was declared with a time-to-live: parked messages are deleted, or "+
			"dead-lettered further, after %s.", q.Name, milli(ttl))
	}
	if q.Type != topology.Classic && q.Type != topology.Quorum {
		p.errorf(at, "Queue Type Not Supported", "The queue %q is a %s queue, from which nobody can take a message out. Park messages in "+
			"a classic or a quorum queue.", q.Name, q.Type)
	}
	if !q.Durable {
		p.errorf(at, "Parking Queue Would Lose Messages", "The queue %q is not durable: a restart of the broker deletes it with all its "+
			"messages. The chain needs a durable one. %s", q.Name, Redeclare)
	}
	if q.AutoDelete || q.Exclusive {
		p.errorf(at, "Parking Queue Would Lose Messages",
			"The queue %q is deleted with its last consumer or its connection, and parked messages with it. The chain needs one that "+
				"is neither exclusive nor auto-delete. %s", q.Name, Redeclare)
	}
	c.checkParkingLimit(p, q, f)
}

func (c Chain) checkParkingLimit(p *problems, q topology.Queue, f Features) {
	if q.Type != topology.Quorum {
		return
	}
	limit, set := q.Arguments.Int(topology.DeliveryLimit)
	what := fmt.Sprintf("has a delivery limit of %d", limit)
	switch {
	case !set && !f.UnlimitedDelivery, set && limit < 0 && f.UnlimitedDelivery:
		return
	case !set:
		limit, what = topology.DefaultDeliveryLimit, fmt.Sprintf("has no x-delivery-limit, and so RabbitMQ's default "+
			"of %d", topology.DefaultDeliveryLimit)
	}
	p.warnf("parking_queue.name", "Looking at Parked Messages Deletes Them",
		"The queue %q %s: a parked message that was looked at and put back more than %d times is deleted. The chain needs a queue with "+
			"x-delivery-limit = -1 on RabbitMQ 4.0 and later, and without this argument on 3.x. %s", q.Name, what, max(limit, 0), Redeclare)
}
