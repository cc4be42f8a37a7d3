package retry_test

import (
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// What Problems and BrokerProblems refuse really goes wrong. Every test here
// makes a chain that is refused, and shows what becomes of its messages.

func refused(t *testing.T, x target) {
	t.Helper()
	if len(errorsOf(x.chain, x.version)) == 0 {
		t.Error("the chain is not refused")
	}
}

// onlyFate is what became of the message, which must be in one place.
func onlyFate(t *testing.T, b *simulator.Broker, id simulator.ID) simulator.Fate {
	t.Helper()
	fates := b.Fates(id)
	if len(fates) != 1 {
		t.Fatalf("fates %v\n%s", fates, journey(b, id))
	}
	return fates[0]
}

// byKeys is a chain of the only strategy that brokers before 3.13 can run.
func byKeys(change ...func(*retry.Chain)) retry.Chain {
	c := orders(change...)
	c.Strategy = retry.RoutingKey
	return c
}

func atMostOnce(c *retry.Chain) { c.DeadLetterStrategy, c.Work.Overflow = retry.AtMostOnce, "" }

// failOnce rejects the message and waits until it is back.
func failOnce(t *testing.T, b *simulator.Broker, c retry.Chain) {
	t.Helper()
	if got := len(fail(t, b, c, 1)); got != 1 {
		t.Fatalf("%d deliveries", got)
	}
	waitUntilBack(b, c)
}

func waitUntilBack(b *simulator.Broker, c retry.Chain) {
	for b.Depth(c.Work.Name).Ready == 0 && b.AdvanceToNextExpiry() {
	}
}

// Where rejections cannot be told from other deaths, a message that came back
// from a tier and then dies otherwise is sent to the next tier. From 3.13 on it
// could not even return. Before, the broker shuffles the history of deaths, so
// that this message comes back, and is dropped for a cycle at its next
// rejection instead (measured on 3.10.8: rejected, otherwise, rejected).
func TestRefusedBefore313OtherDeathsAreLost(t *testing.T) {
	cases := map[string]struct {
		set func(*retry.Chain)
		die func(*testing.T, *simulator.Broker)
	}{
		"delivery limit": {
			func(c *retry.Chain) { c.Work.DeliveryLimit = new(int64(0)) },
			func(t *testing.T, b *simulator.Broker) {
				t.Helper()
				for range retry.MaxTiers + 1 {
					d, _ := b.Get("orders")
					settle(t, b.Crash(d))
				}
			},
		},
		"message TTL": {
			func(c *retry.Chain) { c.Work.MessageTTL = new(time.Second) },
			func(_ *testing.T, b *simulator.Broker) { b.Advance(time.Second) },
		},
		"drop-head": {
			func(c *retry.Chain) { c.Work.MaxLength, c.Work.Overflow = new(int64(1)), topology.DropHead },
			func(t *testing.T, b *simulator.Broker) {
				t.Helper()
				publish(t, b, simulator.Publishing{RoutingKey: "orders"})
				d, _ := b.Get("orders")
				settle(t, b.Ack(d))
			},
		},
	}
	for name, test := range cases {
		for _, version := range []string{"3.10.8", "3.12.14"} {
			t.Run(name+" on "+version, func(t *testing.T) {
				x := target{version: version, chain: byKeys(atMostOnce, threeDelays, func(c *retry.Chain) { c.Work.DeliveryLimit = nil }, test.set)}
				refused(t, x)
				// The limit is left out of the expansion there; the test puts it in.
				b := newBroker(t, version, x.chain.Topology(retry.Features{DeliveryLimit: true}))
				id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
				failOnce(t, b, x.chain)
				test.die(t, b)
				waitUntilBack(b, x.chain)
				fail(t, b, x.chain, 1)
				b.Advance(time.Hour)
				if f := onlyFate(t, b, id); f.State != simulator.IsLost || f.Cause != simulator.Cycle {
					t.Errorf("%v, want it lost\n%s", f, journey(b, id))
				}
			})
		}
	}
}

func threeDelays(c *retry.Chain) { c.Delays = append(c.Delays, time.Minute) }

// With at-least-once the same message is not lost but stuck in its tier.
func TestRefusedBefore313OtherDeathsAreStuckAtLeastOnce(t *testing.T) {
	x := target{version: "3.10.8", chain: byKeys(threeDelays, func(c *retry.Chain) { c.Work.MessageTTL, c.Work.DeliveryLimit = new(time.Second), nil })}
	refused(t, x)
	b := newBroker(t, x.version, x.topology())
	id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	failOnce(t, b, x.chain)
	b.Advance(time.Second)
	waitUntilBack(b, x.chain)
	fail(t, b, x.chain, 1)
	b.Advance(time.Hour)
	if f := onlyFate(t, b, id); f.State != simulator.IsHeld || f.Queue != "orders.attempt.1m" || f.Cause != simulator.Cycle {
		t.Errorf("%v, want it held in the third tier\n%s", f, journey(b, id))
	}
}

// Before 3.13 strategy "headers" retries nothing: every message parks at its
// first failure, because no binding can match.
func TestRefusedHeadersBefore313ParksAtOnce(t *testing.T) {
	x := target{version: "3.12.14", chain: orders(func(c *retry.Chain) { c.Work.DeliveryLimit = nil })}
	refused(t, x)
	b := newBroker(t, x.version, x.topology())
	id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	if got := len(fail(t, b, x.chain, 10)); got != 1 {
		t.Errorf("%d attempts", got)
	}
	isOnlyIn(t, b, id, "orders.parking")
}

// A full classic queue with reject-publish refuses what comes back from a tier.
func TestRefusedClassicRejectPublishLosesRetries(t *testing.T) {
	x := target{version: "4.0.5", chain: orders(atMostOnce, func(c *retry.Chain) {
		c.QueueType, c.Work.DeliveryLimit = topology.Classic, nil
		c.Work.MaxLength, c.Work.Overflow = new(int64(1)), topology.RejectPublish
	})}
	refused(t, x)
	b := newBroker(t, x.version, x.topology())
	id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	fail(t, b, x.chain, 1)
	publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	b.Advance(time.Minute)
	if f := onlyFate(t, b, id); f.State != simulator.IsLost || f.Cause != simulator.Full {
		t.Errorf("%v, want it lost", f)
	}
}

// With drop-head, at-least-once is off without a word: a dead letter that has no
// way is lost instead of held.
func TestRefusedAtLeastOnceWithDropHead(t *testing.T) {
	for overflow, want := range map[string]simulator.State{topology.DropHead: simulator.IsLost, topology.RejectPublish: simulator.IsHeld} {
		c := orders(func(c *retry.Chain) { c.Work.Overflow = overflow })
		if overflow == topology.DropHead {
			refused(t, target{version: "4.0.5", chain: c})
		}
		b := newBroker(t, "4.0.5", c.Topology(featuresOf("4.0.5")))
		settle(t, b.Apply(topology.Step{DeleteExchange: &topology.Exchange{Name: c.RetryExchange()}}))
		id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
		fail(t, b, c, 1)
		if f := onlyFate(t, b, id); f.State != want {
			t.Errorf("%s: %v, want %s", overflow, f, want)
		}
	}
}

// The delivery limit leaves room for the rounds that 4.3 counts: at the last
// attempt of the longest chain a message may still come back as often as the
// limit says, and parks when it is rejected or comes back again.
func TestLongestChainOn43(t *testing.T) {
	const limit = 3
	for _, strategy := range []retry.Strategy{retry.Headers, retry.RoutingKey} {
		for _, deadLetters := range []retry.DeadLetterStrategy{retry.AtLeastOnce, retry.AtMostOnce} {
			for crashes := range limit + 2 {
				c := orders(func(c *retry.Chain) {
					c.Delays = make([]time.Duration, retry.MaxTiers)
					c.Strategy, c.DeadLetterStrategy = strategy, deadLetters
					c.Work.DeliveryLimit = new(int64(limit))
				})
				b := newBroker(t, "4.3.6", c.Topology(featuresOf("4.3.6")))
				id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
				for range retry.MaxTiers {
					d, _ := waitFor(b, "orders", "orders.parking")
					settle(t, b.Reject(d, false))
				}
				waitUntilBack(b, c)
				for range crashes {
					d, _ := b.Get("orders")
					settle(t, b.Crash(d))
				}
				if d, ok := b.Get("orders"); ok != (crashes <= limit) {
					t.Errorf("%s: after %d crashes: back in the queue is %v", strategy, crashes, ok)
				} else if ok {
					settle(t, b.Reject(d, false))
				}
				isOnlyIn(t, b, id, "orders.parking")
			}
		}
	}
}

// The prices of strategy "routing_key" that the documentation names.
func TestPricesOfRoutingKey(t *testing.T) {
	c := byKeys(func(c *retry.Chain) { c.Work.DeliveryLimit = nil })
	attempts := func(version string, p simulator.Publishing) int {
		b := newBroker(t, version, c.Topology(featuresOf(version)))
		p.Exchange = c.RedriveExchange()
		publish(t, b, p)
		return len(fail(t, b, c, 10))
	}
	lastTier := c.Tiers()[1].Queue
	if got := attempts("4.0.5", simulator.Publishing{RoutingKey: lastTier}); got != 1 {
		t.Errorf("%d attempts with the key of the last tier, want 1: redrive has to restore the key", got)
	}
	firstTier := c.Tiers()[0].Queue
	if got := attempts("4.0.5", simulator.Publishing{RoutingKey: "k", Headers: topology.Arguments{"CC": []any{firstTier}}}); got != 2 {
		t.Errorf("%d attempts with a tier's key in CC, want 2", got)
	}
	history := topology.Arguments{
		"x-first-death-reason": "expired",
		"x-death":              []any{map[string]any{"queue": "elsewhere", "reason": "expired", "count": int64(1)}},
	}
	for version, want := range map[string]int{"3.10.8": 1, "3.13.7": 3, "4.0.5": 3} {
		if got := attempts(version, simulator.Publishing{RoutingKey: "k", Headers: history}); got != want {
			t.Errorf("%s: %d attempts of a message that is sent on with the history of an expired one, want %d", version, got, want)
		}
	}
}

// Until 3.12 a message that is sent on with the history of an earlier rejection
// in the same work queue, and with an expiration of its own, is retried when it
// expires, because its first death was a rejection, and lost when it is rejected
// after that. Who sends messages on there must strip x-death.
func TestOldHistoryAndExpirationAreLostBefore313(t *testing.T) {
	history := topology.Arguments{
		"x-first-death-reason": "rejected",
		"x-death":              []any{map[string]any{"queue": "orders", "reason": "rejected", "count": int64(1)}},
	}
	c := byKeys(atMostOnce, func(c *retry.Chain) { c.Work.DeliveryLimit = nil })
	for version, want := range map[string]simulator.State{"3.10.8": simulator.IsLost, "3.13.7": simulator.IsReady, "4.0.5": simulator.IsReady} {
		b := newBroker(t, version, c.Topology(featuresOf(version)))
		id := publish(t, b, simulator.Publishing{RoutingKey: "orders", Headers: history, Expiration: new(time.Second)})
		b.Advance(time.Second)
		fail(t, b, c, 10)
		if f := onlyFate(t, b, id); f.State != want {
			t.Errorf("%s: %v, want it %s\n%s", version, f, want, journey(b, id))
		}
	}
}

// A dead-letter routing key that a policy adds makes strategy "routing_key" go
// round indefinitely: the key is what counts.
func TestForeignDeadLetterRoutingKeyLoops(t *testing.T) {
	c := byKeys(func(c *retry.Chain) { c.Work.DeliveryLimit = nil })
	b := newBroker(t, "4.0.5", c.Topology(featuresOf("4.0.5")))
	work, _ := b.Topology().Queue("orders")
	work.Arguments = work.Arguments.Clone()
	work.Arguments[topology.DeadLetterRoutingKey] = "foreign"
	settle(t, b.Reconfigure(work))
	publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	if got := len(fail(t, b, c, 20)); got != 20 {
		t.Errorf("%d attempts, want no end", got)
	}
}
