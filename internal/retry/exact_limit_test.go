package retry_test

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// bounded is a chain without delays and with a delivery limit.
func bounded(version string, limit int64) target {
	c := orders(func(c *retry.Chain) { c.Delays, c.Work.DeliveryLimit = nil, &limit })
	if version < "3.13" {
		c.Strategy = retry.RoutingKey
	}
	return target{version: version, chain: c, exact: true}
}

// A message of a chain that is made without delays is delivered once more than
// the limit says, and then parked.
func TestExactLimit(t *testing.T) {
	for _, version := range brokerVersions {
		for _, limit := range []int64{0, 1, 3} {
			x := bounded(version, limit)
			if found := errorsOf(x.chain, version); len(found) > 0 {
				t.Fatalf("%s: %v", version, found)
			}
			b := newBroker(t, version, x.topology())
			id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
			deliveries := int64(0)
			for d, ok := b.Get("orders"); ok; d, ok = b.Get("orders") {
				deliveries++
				settle(t, b.Crash(d))
			}
			if deliveries != limit+1 {
				t.Errorf("%s: %d deliveries with a limit of %d", version, deliveries, limit)
			}
			isOnlyIn(t, b, id, "orders.parking")
		}
	}
}

// The limit stays what the queue was declared with, whatever the delays become.
func TestExactLimitOutlivesItsDelays(t *testing.T) {
	limitOf := func(c retry.Chain, f retry.Features) int64 {
		q, _ := c.Topology(f).Queue("orders")
		limit, _ := q.Arguments.Int(topology.DeliveryLimit)
		return limit
	}
	live := featuresOf("4.3.6")
	without := bounded("4.3.6", 3).chain
	with := orders(func(c *retry.Chain) { c.Work.DeliveryLimit = new(int64(3)) })
	for name, test := range map[string]struct {
		made, now retry.Chain
		want      int64
	}{
		"without":            {without, without, 3},
		"with":               {with, with, 53},
		"without, then with": {without, with, 3},
		"with, then without": {with, without, 53},
	} {
		f := live.AsDeclared(live.ForNew(test.made))
		if got := limitOf(test.now, f); got != test.want {
			t.Errorf("%s: the queue's limit is %d, want %d", name, got, test.want)
		}
	}
}

// On a work queue with an exact limit a chain that gets delays warns: all
// attempts are made, but a crash after as many rounds as the limit parks at once.
func TestDelaysOnAnExactLimit(t *testing.T) {
	x := bounded("4.3.6", 2)
	f := x.features()
	x.chain.Delays = orders(threeDelays).Delays
	found := x.chain.BrokerProblems(x.version, f)
	if len(found) != 1 || !found[0].Warning || found[0].Attribute != "delays" {
		t.Errorf("problems %v", found)
	}
	b := newBroker(t, x.version, x.chain.Topology(f))
	id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
	if got := len(fail(t, b, x.chain, 10)); got != 4 {
		t.Errorf("%d attempts, want 4", got)
	}
	isOnlyIn(t, b, id, "orders.parking")
	for rounds, back := range map[int]bool{1: true, 2: false} {
		b := newBroker(t, x.version, x.chain.Topology(f))
		id := publish(t, b, simulator.Publishing{RoutingKey: "orders"})
		for range rounds {
			d, _ := waitFor(b, "orders", "orders.parking")
			settle(t, b.Reject(d, false))
		}
		waitUntilBack(b, x.chain)
		d, ok := b.Get("orders")
		if !ok {
			t.Fatalf("after %d rounds the message is not back", rounds)
		}
		settle(t, b.Crash(d))
		if _, ok := b.Get("orders"); ok != back {
			t.Errorf("after %d rounds and a crash: back in the queue is %v", rounds, ok)
		}
		if !back {
			isOnlyIn(t, b, id, "orders.parking")
		}
	}
}

// Before 3.13 a message that dies otherwise than by a rejection is parked in a
// chain without delays, and so nothing is refused there.
func TestWithoutDelaysEveryDeathParks(t *testing.T) {
	x := bounded("3.10.8", 3)
	ofOldBrokers := x.chain.Problems()
	ofOldBrokers = append(ofOldBrokers, x.chain.BrokerProblems(x.version, x.features())...)
	for _, p := range ofOldBrokers {
		t.Errorf("%s: %s", p.Summary, p.Detail)
	}
	x.chain.Delays = orders().Delays
	refused(t, x)
}

// The exactness of a limit is read off the queue.
func TestExactLimitIsReadBack(t *testing.T) {
	for _, limit := range []int64{0, 3, 20, 49, 50, 60} {
		x := bounded("4.0.5", limit)
		got, f, err := retry.Read("orders", x.topology(), abilities.MustParse("4.0.5"))
		if err != nil {
			t.Fatal(err)
		}
		if *got.Work.DeliveryLimit != limit || !f.ExactLimit {
			t.Errorf("limit %d is read as %d, exact: %v", limit, *got.Work.DeliveryLimit, f.ExactLimit)
		}
	}
	emptied := target{version: "4.0.5", chain: orders(func(c *retry.Chain) { c.Delays = nil })}
	got, f, err := retry.Read("orders", emptied.topology(), abilities.MustParse("4.3.6"))
	if err != nil || *got.Work.DeliveryLimit != retry.DefaultDeliveryLimit || f.ExactLimit {
		t.Errorf("%v: %v, exact: %v", err, got.Work.DeliveryLimit, f.ExactLimit)
	}
}
