package retry_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// Attacks that a chain was made to survive.

// A work queue that its application deletes and declares again loses its
// bindings. What waits in the tiers then parks.
func TestPropertyWorkQueueReplacedParksWhatWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		genTraffic().Draw(t, "before").run(t, b, x.chain)
		work, _ := b.Topology().Queue(x.chain.Work.Name)
		settle(t, b.Apply(topology.Step{DeleteQueue: &work}))
		deleted := len(lossesOf(b))
		settle(t, b.Apply(topology.Step{DeclareQueue: &work}))
		for b.AdvanceToNextExpiry() {
		}
		if got := len(lossesOf(b)); got != deleted {
			t.Fatalf("%d messages lost after the deletion", got-deleted)
		}
		for id, fates := range b.Account() {
			if f := fates[0]; len(fates) != 1 || f.State == simulator.IsReady && f.Queue != x.chain.Parking.Name || f.State == simulator.IsHeld {
				t.Fatalf("message %d: %v\n%s", id, fates, journey(b, id))
			}
		}
	})
}

// Looking at a parked message, any number of times, does not remove it.
func TestPropertyParkedMessagesCanBeLookedAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		id := publish(t, b, genPublishing(t, x))
		fail(t, b, x.chain, 100)
		for range 100 {
			d, ok := b.Get(x.chain.Parking.Name)
			if !ok {
				t.Fatalf("gone\n%s", journey(b, id))
			}
			settle(t, rapid.SampledFrom([]func(simulator.Delivery) error{
				b.Crash,
				func(d simulator.Delivery) error { return b.Nack(d, true) },
				func(d simulator.Delivery) error { return b.Reject(d, true) },
			}).Draw(t, "requeue")(d))
		}
		isOnlyIn(t, b, id, x.chain.Parking.Name)
	})
}

// On 4.3 a message that failed often in an application's queue arrives with its
// delivery limit used up: the first crash parks it, but does not lose it.
func TestDeliveryCountFromElsewhereParks(t *testing.T) {
	for version, attempts := range map[string]int{"4.0.5": 3, "4.3.6": 0} {
		c := orders()
		in := c.Topology(featuresOf(version))
		in.SetQueue(topology.Queue{Name: "upstream", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{
			topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "orders", topology.DeliveryLimit: int64(1000),
		}})
		b := newBroker(t, version, in)
		id := publish(t, b, simulator.Publishing{RoutingKey: "upstream"})
		for range 100 {
			d, _ := b.Get("upstream")
			settle(t, b.Reject(d, true))
		}
		d, _ := b.Get("upstream")
		settle(t, b.Reject(d, false))
		d, _ = b.Get("orders")
		settle(t, b.Crash(d))
		if got := len(fail(t, b, c, 10)); got != attempts {
			t.Errorf("%s: %d attempts, want %d", version, got, attempts)
		}
		isOnlyIn(t, b, id, "orders.parking")
	}
}

// Two length limits, on the work queue and on a tier, stop an at-least-once
// chain for good: each refuses what the other holds. The expansion limits no
// tier; with a limit on the work queue alone it is slow, but goes on.
func TestLengthLimitsOnBothSidesDeadlock(t *testing.T) {
	c := orders(func(c *retry.Chain) { c.Delays, c.Work.MaxLength = c.Delays[:1], new(int64(20)) })
	in := c.Topology(featuresOf("4.0.5"))
	limited := in.Clone()
	tier, _ := limited.Queue(c.Tiers()[0].Queue)
	tier.Arguments = tier.Arguments.Clone()
	tier.Arguments[topology.MaxLength] = int64(20)
	limited.SetQueue(tier)
	if early, late := parkedInTime(t, c, in); late <= early {
		t.Errorf("the expansion: %d messages parked early and %d late", early, late)
	}
	if early, late := parkedInTime(t, c, limited); late != early {
		t.Errorf("with a limit on the tier, too: %d messages parked early and %d late", early, late)
	}
}

// parkedInTime offers 200 messages, rejects everything, and counts what is
// parked after two periods of retrying held messages and after six.
func parkedInTime(t *testing.T, c retry.Chain, in *topology.Topology) (early, late int) {
	t.Helper()
	b := newBroker(t, "4.0.5", in)
	rejectAll := func() {
		for {
			d, ok := b.Get(c.Work.Name)
			if !ok {
				return
			}
			settle(t, b.Reject(d, false))
		}
	}
	for range 200 {
		if _, err := b.Publish(simulator.Publishing{RoutingKey: c.Work.Name}); err != nil {
			t.Fatal(err)
		}
		rejectAll()
	}
	for i := range 6 {
		b.Advance(simulator.HoldPeriod)
		rejectAll()
		if i == 1 {
			early = b.Depth(c.Parking.Name).Ready
		}
	}
	return early, b.Depth(c.Parking.Name).Ready
}
