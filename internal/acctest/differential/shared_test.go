package differential

import (
	"fmt"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// sharedCase is a set of shared tiers with queues of every kind attached to it,
// whose names are parts of each other, and one whose way back is missing; and
// messages for them, some of which go to two.
func sharedCase(r random, prefix string, version abilities.Version) testCase {
	f := retry.FeaturesOf(version)
	tiers := retry.NewShared(prefix + " tiers")
	tiers.Delays = r.delays(4)
	tiers.QueueType, tiers.DeadLetterStrategy = r.kind()
	t := tiers.Topology(f)
	c := testCase{
		name: fmt.Sprintf("shared tiers %s %s %v", tiers.QueueType, tiers.DeadLetterStrategy, tiers.Delays), topology: t,
		// No queue is left: which of its messages stay would depend on their order.
		outcomes: r.outcomes(reject, nack, reject, nack, reject, ack, rejectRequeue, nackRequeue, crash),
	}
	const detached = "gone"
	for _, name := range []string{"orders", "eu.orders", "#", detached} {
		a := r.attachment(tiers.Name, prefix+" "+name)
		if problems := a.Problems(); len(problems) > 0 {
			panic(fmt.Sprint(problems))
		}
		c.name += fmt.Sprintf(", %s existing=%t", a.Work.Type+a.QueueType, a.Work.Existing)
		if a.Work.Existing {
			t.SetQueue(topology.Queue{Name: a.Work.Name, Type: a.Work.Type, Durable: true})
		}
		t.Add(a.Topology(f))
		if name == detached {
			t.Unbind(a.Return())
		}
		c.consumed = append(c.consumed, a.Work.Name)
	}
	for i := range 3 {
		c.messages = append(c.messages, r.sharedMessage(fmt.Sprint(i), c.consumed))
	}
	return c
}

// sharedMessage is for one of the queues, and sometimes for a second.
func (r random) sharedMessage(body string, queues []string) simulator.Publishing {
	p := simulator.Publishing{RoutingKey: pick(r, queues...), Body: body, Headers: topology.Arguments{"tenant": "t1"}}
	decorate(r, &p, p.RoutingKey)
	if r.chance(30) {
		p.Headers["CC"] = []any{pick(r, queues...)}
	}
	return p
}

func (r random) delays(most int) []time.Duration {
	var delays []time.Duration
	for range r.IntN(most + 1) {
		delays = append(delays, time.Duration(pick(r, 0, 20, 50, 80, 120))*time.Millisecond)
	}
	return delays
}

func (r random) kind() (topology.QueueType, retry.DeadLetterStrategy) {
	if r.chance(30) {
		return topology.Classic, retry.AtMostOnce
	}
	return topology.Quorum, pick(r, retry.AtLeastOnce, retry.AtMostOnce)
}

// attachment attaches a queue of its own or one of others.
func (r random) attachment(tiers, queue string) retry.Attachment {
	a := retry.Attachment{Tiers: tiers, Work: retry.WorkQueue{Name: queue}, Policy: retry.PolicySettings{Priority: retry.DefaultPriority}}
	a.QueueType, a.DeadLetterStrategy = r.kind()
	switch {
	case r.chance(30):
		a.Work.Existing, a.Work.Type, a.QueueType = true, a.QueueType, ""
	case a.QueueType == topology.Quorum && r.chance(60):
		a.Work.DeliveryLimit = new(pick[int64](r, -1, 0, 1, 20))
	}
	return a
}

// heldBackCase is a chain of strategy "delayed_exchange" with its two processes,
// and a message for it.
func heldBackCase(r random, prefix string, version abilities.Version) testCase {
	f := retry.FeaturesOf(version)
	c := retry.Chain{
		Name: prefix, Strategy: retry.DelayedExchange, Delays: r.delays(4), Work: retry.WorkQueue{Name: prefix},
		Parking: retry.ParkingQueue{Name: prefix + ".parking"}, Policy: retry.PolicySettings{Priority: retry.DefaultPriority},
	}
	c.QueueType, c.DeadLetterStrategy = r.kind()
	problems := append(c.Problems(), c.BrokerProblems(version.String(), f)...)
	if slices.ContainsFunc(problems, func(p retry.Problem) bool { return !p.Warning }) {
		panic(fmt.Sprint(problems))
	}
	t := c.Topology(f)
	t.SetExchange(topology.Exchange{Name: prefix + " events", Type: topology.Topic, Durable: true})
	t.Bind(topology.Binding{
		Source: prefix + " events", Destination: c.Work.Name, DestinationKind: topology.KindQueue, RoutingKey: "order.#",
	})
	made := testCase{
		name:     fmt.Sprintf("%s %s %s %v", c.Strategy, c.QueueType, c.DeadLetterStrategy, c.Delays),
		topology: t, consumed: []string{c.Work.Name},
		messages: []simulator.Publishing{chainMessage(r, c, prefix)}, heldBack: &c,
		outcomes: r.outcomes(reject, reject, nack, nack, reject, nack, ack, rejectRequeue, nackRequeue, crash),
	}
	for _, delay := range c.Delays {
		made.longest = max(made.longest, delay)
	}
	return made
}
