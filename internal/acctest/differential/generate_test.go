package differential

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// longTTL is the time-to-live of queues with consumers: longer than a consumer
// needs to look, even on a busy machine.
const longTTL = 2 * time.Second

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

// generate makes the case of that seed for a broker, one that does not get out
// of hand.
func generate(seed int64, version broker.Version) (testCase, error) {
	r := newRandom(seed)
	prefix := fmt.Sprintf("c%d", seed)
	for {
		c := chainCase(r, prefix, version)
		if r.chance(50) {
			c = graphCase(r, prefix)
		}
		c.seed = seed
		c.name = fmt.Sprintf("%s with seed %d", c.name, seed)
		c.longest = max(300*time.Millisecond, longestTTL(c.topology))
		b, err := simulator.New(c.topology, simulator.Options{Version: version.String()})
		if err != nil {
			return c, err
		}
		if _, err := c.run(&simulated{broker: b}); !errors.Is(err, errTooMany) {
			return c, err
		}
	}
}

func longestTTL(t *topology.Topology) time.Duration {
	var longest time.Duration
	for _, q := range t.Queues() {
		if ms, set := q.Arguments.Int(topology.MessageTTL); set {
			longest = max(longest, time.Duration(ms)*time.Millisecond)
		}
	}
	return longest
}

// chainCase is an expanded chain and one message for it.
func chainCase(r random, prefix string, version broker.Version) testCase {
	f := retry.FeaturesOf(version.AtLeast)
	for {
		c := randomChain(r, prefix+pick(r, "", " a/b#*", ".retry", ".é😀"), f)
		problems := append(c.Problems(), c.BrokerProblems(version.String(), f)...)
		if slices.ContainsFunc(problems, func(p retry.Problem) bool { return !p.Warning }) {
			continue
		}
		t := c.Topology(f)
		t.SetExchange(topology.Exchange{Name: prefix + " events", Type: topology.Topic, Durable: true})
		t.Bind(topology.Binding{Source: prefix + " events", Destination: c.Work.Name, DestinationKind: topology.KindQueue, RoutingKey: "order.#"})
		return testCase{
			name: fmt.Sprintf("%s %s %s %v", c.Strategy, c.QueueType, c.DeadLetterStrategy, c.Delays), topology: t, consumed: []string{c.Work.Name},
			messages: []simulator.Publishing{chainMessage(r, c, prefix)},
			outcomes: r.outcomes(reject, reject, nack, nack, reject, nack, ack, rejectRequeue, nackRequeue, crash, leave),
		}
	}
}

func randomChain(r random, name string, f retry.Features) retry.Chain {
	c := retry.Chain{
		Name: name, Strategy: retry.RoutingKey, QueueType: topology.Classic, DeadLetterStrategy: retry.AtMostOnce,
		Work: retry.WorkQueue{Name: name}, Parking: retry.ParkingQueue{Name: name + ".parking"},
	}
	for range r.IntN(5) {
		c.Delays = append(c.Delays, time.Duration(pick(r, 0, 20, 50, 80, 120))*time.Millisecond)
	}
	if f.LastDeathHeaders && r.chance(60) {
		c.Strategy = retry.Headers
	}
	if r.chance(60) {
		c.QueueType = topology.Quorum
		c.DeadLetterStrategy = pick(r, retry.AtLeastOnce, retry.AtMostOnce)
		if r.chance(60) {
			c.Work.DeliveryLimit = new(pick[int64](r, -1, 0, 1, 20))
		}
	}
	if f.LastDeathHeaders && r.chance(25) {
		c.Work.MessageTTL = new(longTTL)
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
	}
	if r.chance(40) {
		a[topology.Overflow] = pick(r, "drop-head", "reject-publish", "reject-publish")
	}
	// When a quorum queue tells its publishers to stop is a matter of timing.
	if r.chance(10) && (q.Type == topology.Classic || a[topology.Overflow] != "reject-publish") {
		a[topology.MaxLength] = int64(0)
	}
	return q
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
