package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// longTTL is the time-to-live of queues with consumers: longer than a consumer
// needs to look, even on a busy machine.
const longTTL = 5 * time.Second

// random draws the parts of a case.
type random struct{ *rand.Rand }

func newRandom(seed int64) random { return random{rand.New(rand.NewPCG(uint64(seed), 0))} }

func (r random) chance(percent int) bool { return r.IntN(100) < percent }

func pick[T any](r random, from ...T) T { return from[r.IntN(len(from))] }

func (r random) outcomes(from ...outcome) []outcome {
	list := make([]outcome, 7)
	for i := range list {
		list[i] = pick(r, from...)
	}
	return list
}

// anyCase is a chain, a graph or a delay network.
func anyCase(r random, prefix string, version abilities.Version) testCase {
	c := chainCase(r, prefix, version)
	switch {
	case r.chance(40):
		c = graphCase(r, prefix)
	case r.chance(20):
		c = networkCase(r, prefix, version)
	}
	return c
}

// existingCase is a chain that attaches to an application's queue by a policy.
func existingCase(r random, prefix string, version abilities.Version) testCase {
	for {
		if c := chainCase(r, prefix, version); c.attached {
			return c
		}
	}
}

// drawn draws until there is a case that does not get out of hand.
func drawn(seed int64, letter string, version abilities.Version, draw func(random, string, abilities.Version) testCase) (testCase, error) {
	r := newRandom(seed)
	for {
		c, err := draw(r, fmt.Sprintf("%s%d", letter, seed), version).finish(seed, version)
		if !errors.Is(err, errTooMany) {
			return c, err
		}
	}
}

// finish completes a drawn case and tries it. The error is errTooMany when it gets
// out of hand.
func (c testCase) finish(seed int64, version abilities.Version) (testCase, error) {
	c.seed = seed
	c.name = fmt.Sprintf("%s with seed %d", c.name, seed)
	c.longest = max(300*time.Millisecond, c.longest, longestWait(c.topology))
	b, err := simulator.New(c.topology, simulator.Options{Version: version.String()})
	if err == nil {
		_, err = c.run(&simulated{broker: b})
	}
	return c, err
}

// longestWait is the longest time that a queue or a policy makes a message wait.
func longestWait(t *topology.Topology) time.Duration {
	var longest int64
	consider := func(a topology.Arguments, keys ...string) {
		for _, key := range keys {
			ms, _ := a.Int(key)
			longest = max(longest, ms)
		}
	}
	for _, q := range t.Queues() {
		consider(q.Arguments, topology.MessageTTL, topology.DelayedRetryMin, topology.DelayedRetryMax)
	}
	for _, p := range t.Policies() {
		consider(p.Definition, topology.KeyMessageTTL, topology.KeyDelayedRetryMax)
	}
	return time.Duration(longest) * time.Millisecond
}

// chainCase is an expanded chain and one message for it.
func chainCase(r random, prefix string, version abilities.Version) testCase {
	f := retry.FeaturesOf(version)
	for {
		c := randomChain(r, prefix+pick(r, "", " a/b#*", ".retry", ".é😀"), f)
		problems := append(c.Problems(), c.BrokerProblems(version.String(), f)...)
		if slices.ContainsFunc(problems, func(p retry.Problem) bool { return !p.Warning }) {
			continue
		}
		t := c.Topology(f)
		t.SetExchange(topology.Exchange{Name: prefix + " events", Type: topology.Topic, Durable: true})
		if c.Work.Existing {
			t.SetQueue(existingQueue(r, c))
		}
		t.Bind(topology.Binding{
			Source: prefix + " events", Destination: c.Work.Name, DestinationKind: topology.KindQueue, RoutingKey: "order.#",
		})
		made := testCase{
			name:     fmt.Sprintf("%s %s %s %v existing=%v", c.Strategy, c.QueueType, c.DeadLetterStrategy, c.Delays, c.Work.Existing),
			topology: t, consumed: []string{c.Work.Name},
			messages: []simulator.Publishing{chainMessage(r, c, prefix)}, attached: c.Work.Existing,
			outcomes: r.outcomes(reject, reject, nack, nack, reject, nack, ack, rejectRequeue, nackRequeue, crash, leave),
		}
		switch c.Strategy {
		case retry.Republish:
			made.republished = &c
		case retry.DelayedRetry:
			made.outcomes = r.outcomes(rejectRequeue, rejectRequeue, rejectRequeue, crash, nackRequeue, ack, reject)
		}
		return made
	}
}

// randomChain is a chain of any strategy that the broker supports, with a work
// queue of its own or of others.
func randomChain(r random, name string, f retry.Features) retry.Chain {
	c := retry.Chain{
		Name: name, Strategy: r.strategy(f), QueueType: topology.Classic, DeadLetterStrategy: retry.AtMostOnce,
		Work: retry.WorkQueue{Name: name}, Parking: retry.ParkingQueue{Name: name + ".parking"},
		Policy: retry.PolicySettings{Priority: retry.DefaultPriority},
	}
	c.Delays = r.delays(4)
	if c.Strategy == retry.DelayedRetry || r.chance(60) {
		c.QueueType = topology.Quorum
		c.DeadLetterStrategy = pick(r, retry.AtLeastOnce, retry.AtMostOnce)
	}
	switch c.Strategy {
	case retry.Republish:
		c.CountHeader = pick(r, "count", "failed so often")
	case retry.DelayedRetry:
		step, longest := time.Duration(pick(r, 20, 50))*time.Millisecond, time.Duration(pick(r, 50, 100, 500))*time.Millisecond
		for i := range c.Delays {
			c.Delays[i] = min(time.Duration(i+1)*step, longest)
		}
	}
	if r.chance(25) {
		c.Work = retry.WorkQueue{Name: name, Existing: true, Type: topology.Quorum}
		if c.Strategy != retry.DelayedRetry {
			c.Work.Type = pick(r, topology.Quorum, topology.Classic)
		}
		return c
	}
	if c.QueueType == topology.Quorum && (c.Strategy != retry.DelayedRetry || len(c.Delays) == 0) && r.chance(60) {
		c.Work.DeliveryLimit = new(pick[int64](r, -1, 0, 1, 20))
	}
	if f.LastDeathHeaders && r.chance(25) {
		c.Work.MessageTTL = new(longTTL)
	}
	return c
}

func (r random) strategy(f retry.Features) retry.Strategy {
	known := []retry.Strategy{retry.RoutingKey, retry.Republish}
	if f.LastDeathHeaders {
		known = append(known, retry.Headers, retry.Headers)
	}
	if f.DelayedRetry {
		known = append(known, retry.DelayedRetry)
	}
	return pick(r, known...)
}

// existingQueue is an application's work queue, with arguments that the chain allows.
func existingQueue(r random, c retry.Chain) topology.Queue {
	q := topology.Queue{Name: c.Work.Name, Type: c.Work.Type, Durable: true, Arguments: topology.Arguments{}}
	if c.Strategy != retry.RoutingKey && q.Type == topology.Quorum && r.chance(50) {
		q.Arguments[topology.DeliveryLimit] = pick[int64](r, 3, 20)
	}
	return q
}

// networkCase is a delay network with destinations whose names share words, and
// messages with random delays for them and for one that is not attached.
func networkCase(r random, prefix string, version abilities.Version) testCase {
	n := delay.Network{
		Name: prefix + " delays", Unit: time.Duration(pick(r, 1, 20, 50)) * time.Millisecond, Levels: 1 + r.IntN(5),
		QueueType: topology.Classic, DeadLetterStrategy: retry.AtMostOnce,
	}
	if r.chance(70) {
		n.QueueType, n.DeadLetterStrategy = topology.Quorum, pick(r, retry.AtLeastOnce, retry.AtMostOnce)
	}
	t := n.Topology(retry.FeaturesOf(version))
	destinations := []string{"orders", "eu.orders", "0.orders"}
	for _, name := range destinations {
		queue := prefix + " " + name
		t.SetQueue(topology.Queue{
			Name: queue, Type: pick(r, topology.Classic, topology.Quorum), Durable: true, Arguments: topology.Arguments{},
		})
		t.Bind(delay.Destination{Network: n.Name, Levels: n.Levels, Name: name, Queue: queue}.Binding())
	}
	name := fmt.Sprintf("network %s %s, %d levels of %s", n.QueueType, n.DeadLetterStrategy, n.Levels, n.Unit)
	c := testCase{name: name, topology: t, longest: n.Maximum()}
	for i := range 8 {
		p := simulator.Publishing{Exchange: n.EntryExchange(), Body: fmt.Sprint(i), Headers: topology.Arguments{"tenant": "t1"}}
		key, err := n.Key(time.Duration(r.Int64N(int64(n.Maximum())+1)), pick(r, append(destinations, "nobody")...))
		if err != nil {
			panic(err)
		}
		if p.RoutingKey = key; r.chance(10) {
			p.RoutingKey = pick(r, "", "1", "orders", "2."+key)
		}
		c.messages = append(c.messages, p)
	}
	return c
}

func chainMessage(r random, c retry.Chain, prefix string) simulator.Publishing {
	p := simulator.Publishing{RoutingKey: c.Work.Name, Body: "body", Headers: topology.Arguments{"tenant": "t1", "n": int64(1)}}
	if p.Exchange = pick(r, "", c.RedriveExchange(), prefix+" events"); p.Exchange != "" {
		p.RoutingKey = "order.created"
	}
	decorate(r, &p, c.Work.Name)
	return p
}

// decorate adds what clients can add to a message.
func decorate(r random, p *simulator.Publishing, queue string) {
	if r.chance(15) {
		p.Expiration = new(time.Duration(pick(r, 0, 30, 60)) * time.Millisecond)
	}
	if r.chance(25) {
		p.Headers["CC"] = []any{"copied", "order.cc"}
	}
	if r.chance(15) {
		p.Headers["BCC"] = []any{"hidden"}
	}
	if r.chance(25) {
		p.Headers["x-first-death-reason"], p.Headers["x-last-death-reason"] = "expired", "expired"
		p.Headers["x-last-death-exchange"] = queue + ".return.20ms"
	}
	if r.chance(25) {
		p.Headers["x-death"] = []any{map[string]any{
			"queue": pick(r, queue, "elsewhere"), "reason": pick(r, "expired", "rejected"), "count": int64(3), "exchange": "old",
			"routing-keys": []any{"old"}, "time": time.Unix(1_700_000_000, 0).Unix(),
		}}
	}
}

// graphCase is a random graph of queues and exchanges, some of which dead-letter
// in circles, to themselves or to nowhere.
func graphCase(r random, prefix string) testCase {
	t := topology.New()
	var queues, exchanges []string
	for i := range 2 + r.IntN(3) {
		queues = append(queues, fmt.Sprintf("%s q%d", prefix, i))
	}
	for i := range 1 + r.IntN(3) {
		exchanges = append(exchanges, fmt.Sprintf("%s x%d", prefix, i))
	}
	c := testCase{
		name: "graph", topology: t,
		outcomes: r.outcomes(ack, reject, nack, reject, nack, rejectRequeue, nackRequeue, crash),
	}
	for _, name := range exchanges {
		e := topology.Exchange{Name: name, Type: pick(r, topology.Fanout, topology.Direct, topology.Topic, topology.Headers), Durable: true}
		if r.chance(30) {
			e.Arguments = topology.Arguments{topology.AlternateExchange: pick(r, append(exchanges, prefix+" nowhere")...)}
		}
		t.SetExchange(e)
	}
	for _, name := range queues {
		consumed := r.chance(50)
		if consumed {
			c.consumed = append(c.consumed, name)
		}
		t.SetQueue(randomQueue(r, name, consumed, queues, exchanges))
	}
	limitOne(r, t)
	for range 2 + r.IntN(6) {
		t.Bind(randomBinding(r, queues, exchanges))
	}
	p := simulator.Publishing{
		Exchange: pick(r, append(exchanges, "")...), RoutingKey: pick(r, append(queues, "k", "a.b")...), Body: "body",
		Headers: topology.Arguments{"tenant": "t1"},
	}
	decorate(r, &p, queues[0])
	c.messages = []simulator.Publishing{p}
	return c
}

func randomQueue(r random, name string, consumed bool, queues, exchanges []string) topology.Queue {
	q := topology.Queue{Name: name, Type: pick(r, topology.Classic, topology.Quorum), Durable: true, Arguments: topology.Arguments{}}
	a := q.Arguments
	switch {
	case !consumed && r.chance(70):
		a[topology.MessageTTL] = pick[int64](r, 0, 1, 30, 60)
	case consumed && r.chance(20):
		a[topology.MessageTTL] = longTTL.Milliseconds()
	}
	if r.chance(80) {
		a[topology.DeadLetterExchange] = pick(r, append(exchanges, "", "", "nowhere")...)
		if r.chance(50) {
			a[topology.DeadLetterRoutingKey] = pick(r, append(queues, "k", "a.b")...)
		}
	}
	if q.Type == topology.Quorum {
		if r.chance(50) {
			a[topology.DeadLetterStrategy] = "at-least-once"
		}
		if r.chance(40) {
			a[topology.DeliveryLimit] = pick[int64](r, -1, 0, 1, 3)
		}
		if consumed && r.chance(30) {
			a[topology.DelayedRetryType] = pick(r, "all", "failed", "returned", "disabled")
			a[topology.DelayedRetryMin] = pick[int64](r, 1, 30)
			if r.chance(70) {
				a[topology.DelayedRetryMax] = pick[int64](r, 30, 100)
			}
		}
	}
	if r.chance(40) {
		a[topology.Overflow] = pick(r, "drop-head", "reject-publish", "reject-publish")
	}
	return q
}

// limitOne sometimes makes a queue always full. Between two of them RabbitMQ 3.10
// can send a message to and fro indefinitely; and when a quorum queue tells its
// publishers to stop is a matter of timing.
func limitOne(r random, t *topology.Topology) {
	q := pick(r, t.Queues()...)
	if r.chance(25) && (q.Type == topology.Classic || q.Arguments[topology.Overflow] != "reject-publish") {
		q.Arguments[topology.MaxLength] = int64(0)
		t.SetQueue(q)
	}
}

func randomBinding(r random, queues, exchanges []string) topology.Binding {
	b := topology.Binding{
		Source: pick(r, exchanges...), Destination: pick(r, queues...), DestinationKind: topology.KindQueue,
		RoutingKey: pick(r, append(queues, "k", "a.b", "#", "*.b", "")...),
	}
	if r.chance(20) {
		b.DestinationKind, b.Destination = topology.KindExchange, pick(r, exchanges...)
	}
	if r.chance(60) {
		b.Arguments = topology.Arguments{topology.Match: pick(r, "all", "any", "all-with-x", "any-with-x")}
		for key, value := range map[string]string{
			"x-last-death-reason": pick(r, "rejected", "expired", "maxlen", "delivery_limit"), "x-first-death-queue": pick(r, queues...),
			"x-last-death-exchange": pick(r, append(exchanges, "")...), "tenant": "t1",
		} {
			if r.IntN(3) == 0 {
				b.Arguments[key] = value
			}
		}
	}
	return b
}
