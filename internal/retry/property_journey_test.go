package retry_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// genPublishing makes a message for the work queue, with application headers,
// further keys, and headers that look like the broker's.
func genPublishing(t *rapid.T, x target) simulator.Publishing {
	c := x.chain
	p := simulator.Publishing{
		RoutingKey: c.Work.Name,
		Body:       rapid.SampledFrom([]string{"", "body", "{}"}).Draw(t, "body"),
		Headers:    topology.Arguments{"tenant": "t1", "count": int64(3)},
	}
	entries := []string{"", c.RedriveExchange()}
	if len(c.Work.Bindings) > 0 {
		entries = append(entries, c.Work.Bindings[0].Exchange)
	}
	if p.Exchange = rapid.SampledFrom(entries).Draw(t, "entry"); p.Exchange != "" {
		p.RoutingKey = "order.created"
	}
	if rapid.Bool().Draw(t, "CC") {
		p.Headers["CC"] = []any{"order.copied", "no such queue"}
	}
	if rapid.Bool().Draw(t, "spoofed") {
		for _, when := range []string{"first", "last"} {
			p.Headers["x-"+when+"-death-reason"] = rapid.SampledFrom([]string{"rejected", "expired"}).Draw(t, "spoofed reason")
			p.Headers["x-"+when+"-death-exchange"] = lastReturn(c)
			p.Headers["x-"+when+"-death-queue"] = c.Work.Name
		}
	}
	return p
}

// lastReturn is an exchange through which a message comes back for its last
// attempt.
func lastReturn(c retry.Chain) string {
	if tiers := c.Tiers(); len(tiers) > 0 {
		return tiers[len(tiers)-1].Return
	}
	return c.RedriveExchange()
}

func TestPropertyRejectedMessageVisitsEveryTierOnceThenParks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		p := genPublishing(t, x)
		id := publish(t, b, p)
		deliveries := fail(t, b, x.chain, 100)
		isOnlyIn(t, b, id, x.chain.Parking.Name)
		if got, want := queuesOf(b, id), path(x.chain); !slices.Equal(got, want) {
			t.Fatalf("way %q, want %q\n%s", got, want, journey(b, id))
		}
		checkTimes(t, b, x.chain, id)
		parked, _ := b.Get(x.chain.Parking.Name)
		for _, d := range append(deliveries, parked) {
			checkIntact(t, x.chain, p, d)
		}
	})
}

// checkTimes wants every wait to last as long as its tier says. A quorum queue
// takes a time-to-live of 0 for 1 ms.
func checkTimes(t reporter, b *simulator.Broker, c retry.Chain, id simulator.ID) {
	t.Helper()
	elapsed := map[string]time.Duration{}
	for _, e := range b.Journey(id) {
		switch e.Kind {
		case simulator.Enqueued:
			elapsed[e.Queue] = -e.At
		case simulator.DeadLettered:
			elapsed[e.Queue] += e.At
		}
	}
	for _, tier := range c.Tiers() {
		want := tier.Delay
		if want == 0 && c.QueueType == topology.Quorum {
			want = time.Millisecond
		}
		if got := elapsed[tier.Queue]; got != want {
			t.Fatalf("waited %v in %s, want %v", got, tier.Queue, want)
		}
	}
}

func checkIntact(t reporter, c retry.Chain, p simulator.Publishing, d simulator.Delivery) {
	t.Helper()
	if d.Body != p.Body {
		t.Fatalf("body %q, want %q", d.Body, p.Body)
	}
	if got, want := own(d.Headers), own(p.Headers); !got.Equal(want) {
		t.Fatalf("headers %v, want %v", got, want)
	}
	if c.Strategy == retry.Headers && d.RoutingKey != p.RoutingKey {
		t.Fatalf("routing key %q, want %q", d.RoutingKey, p.RoutingKey)
	}
}

func TestPropertySuccessEndsTheJourney(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		id := publish(t, b, genPublishing(t, x))
		failures := rapid.IntRange(0, len(x.chain.Delays)).Draw(t, "failures")
		fail(t, b, x.chain, failures)
		d, ok := waitFor(b, x.chain.Work.Name, x.chain.Parking.Name)
		if !ok {
			t.Fatalf("no attempt %d\n%s", failures+1, journey(b, id))
		}
		settle(t, b.Ack(d))
		b.Advance(1000 * time.Hour)
		if got := b.Fates(id); len(got) != 1 || got[0].State != simulator.IsAcked {
			t.Fatalf("%v\n%s", got, journey(b, id))
		}
	})
}

// A message that came through application queues, and died there, starts like any
// other. Before 3.13 only its first death can be seen: if that was no
// rejection, the message parks at its first failure. That is documented.
func TestPropertyForeignDeathsDoNotCount(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		c := x.chain
		in := x.withSources()
		upstream := topology.Queue{
			Name: "upstream", Durable: true, Type: rapid.SampledFrom([]topology.QueueType{topology.Classic, topology.Quorum}).Draw(t, "upstream"),
			Arguments: topology.Arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: c.Work.Name},
		}
		in.SetQueue(upstream)
		b := newBroker(t, x.version, in)
		p := simulator.Publishing{RoutingKey: upstream.Name, Headers: topology.Arguments{"tenant": "t1"}}
		rejected := rapid.Bool().Draw(t, "rejected")
		if !rejected {
			p.Expiration = new(time.Second)
		}
		id := publish(t, b, p)
		if rejected {
			d, _ := b.Get(upstream.Name)
			settle(t, b.Reject(d, false))
		}
		deliveries := fail(t, b, c, 100)
		isOnlyIn(t, b, id, c.Parking.Name)
		want := c.Attempts()
		if !rejected && !x.features().LastDeathHeaders {
			want = 1
		}
		if len(deliveries) != want {
			t.Fatalf("%d attempts, want %d\n%s", len(deliveries), want, journey(b, id))
		}
	})
}

// A message that dies in the work queue otherwise than by rejection, at
// whichever attempt, parks at once: it is neither lost nor doubled.
func TestPropertyOtherDeathsPark(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		p := genPublishing(t, x)
		if rapid.Bool().Draw(t, "own expiration") {
			p.Expiration = new(time.Duration(rapid.Int64Range(0, 1000).Draw(t, "expiration")) * time.Millisecond)
		}
		id := publish(t, b, p)
		failures := rapid.IntRange(0, len(x.chain.Delays)).Draw(t, "failures")
		fail(t, b, x.chain, failures)
		for b.Depth(x.chain.Work.Name).Ready == 0 && b.Depth(x.chain.Parking.Name).Ready == 0 {
			if !b.AdvanceToNextExpiry() {
				t.Fatalf("stopped\n%s", journey(b, id))
			}
		}
		rapid.SampledFrom(deadlyFor(x)).Draw(t, "end")(t, b, x)
		if reason := lastDeath(b, id, x.chain.Work.Name); reason != "" && reason != simulator.Rejected {
			isOnlyIn(t, b, id, x.chain.Parking.Name)
		}
		if got := b.Fates(id); len(got) != 1 || got[0].State != simulator.IsReady {
			t.Fatalf("%v\n%s", got, journey(b, id))
		}
	})
}

// deadlyFor are the ways in which a message can die in the work queue of the
// chain without being rejected.
func deadlyFor(x target) []func(*rapid.T, *simulator.Broker, target) {
	ends := []func(*rapid.T, *simulator.Broker, target){
		func(_ *rapid.T, b *simulator.Broker, _ target) { b.Advance(200 * time.Second) },
	}
	c := x.chain
	if c.Work.MaxLength != nil && c.Work.Overflow != topology.RejectPublish {
		ends = append(ends, fillUp)
	}
	if c.QueueType == topology.Quorum && c.Work.DeliveryLimit != nil && *c.Work.DeliveryLimit != retry.Unlimited {
		ends = append(ends, crashUntilGone)
	}
	return ends
}

func fillUp(t *rapid.T, b *simulator.Broker, x target) {
	for range *x.chain.Work.MaxLength {
		publish(t, b, simulator.Publishing{RoutingKey: x.chain.Work.Name})
	}
}

func crashUntilGone(t *rapid.T, b *simulator.Broker, x target) {
	for range 200 {
		d, ok := b.Get(x.chain.Work.Name)
		if !ok {
			return
		}
		if rapid.Bool().Draw(t, "crash") {
			settle(t, b.Crash(d))
		} else {
			settle(t, b.Reject(d, true))
		}
	}
	t.Fatalf("200 failed deliveries did not end it")
}

// lastDeath is the reason for which the message last died in the queue.
func lastDeath(b *simulator.Broker, id simulator.ID, queue string) string {
	reason := ""
	for _, e := range b.Journey(id) {
		if e.Kind == simulator.DeadLettered && e.Queue == queue {
			reason = e.Reason
		}
	}
	return reason
}

// A message taken out of parking and sent through the redrive exchange starts
// over. With strategy "routing_key" it needs a key that is not a tier's, and
// until 3.13 its old history must go: the broker would take it up again.
func TestPropertyRedriveStartsOver(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		c := x.chain
		b := newBroker(t, x.version, x.withSources())
		p := genPublishing(t, x)
		if rapid.Bool().Draw(t, "expired") {
			p.Expiration = new(time.Duration(0))
		}
		publish(t, b, p)
		fail(t, b, c, 100)
		parked, ok := b.Get(c.Parking.Name)
		if !ok {
			t.Fatalf("nothing parked")
		}
		again := simulator.Publishing{Exchange: c.RedriveExchange(), RoutingKey: p.RoutingKey, Headers: p.Headers, Body: parked.Body}
		if abilities.MustParse(x.version).AtLeast("4.0.0") && rapid.Bool().Draw(t, "keeps headers") {
			again.Headers = parked.Headers
		}
		id := publish(t, b, again)
		settle(t, b.Ack(parked))
		if got := len(fail(t, b, c, 100)); got != c.Attempts() {
			t.Fatalf("%d attempts, want %d\n%s", got, c.Attempts(), journey(b, id))
		}
		isOnlyIn(t, b, id, c.Parking.Name)
		if got, want := queuesOf(b, id), path(c); !slices.Equal(got, want) {
			t.Fatalf("way %q, want %q", got, want)
		}
	})
}

// Many messages, in any interleaving of deliveries, outcomes and waits: each is
// in one place at any time, and in the end done or parked.
func TestPropertyManyMessagesAreAccountedFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		var open []simulator.Delivery
		t.Repeat(map[string]func(*rapid.T){
			"publish": func(t *rapid.T) {
				p := genPublishing(t, x)
				if rapid.Bool().Draw(t, "own expiration") {
					p.Expiration = new(time.Duration(rapid.Int64Range(0, 10_000).Draw(t, "expiration")) * time.Millisecond)
				}
				if _, err := b.Publish(p); err != nil {
					t.Fatalf("%v", err)
				}
			},
			"get": func(*rapid.T) {
				if d, ok := b.Get(x.chain.Work.Name); ok {
					open = append(open, d)
				}
			},
			"settle": func(t *rapid.T) {
				if len(open) == 0 {
					t.Skip("nothing to settle")
				}
				i := rapid.IntRange(0, len(open)-1).Draw(t, "delivery")
				settle(t, anyOutcome(t)(b, open[i]))
				open = slices.Delete(open, i, i+1)
			},
			"wait": func(t *rapid.T) {
				b.Advance(time.Duration(rapid.Int64Range(0, 400_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(t *rapid.T) { checkAccounts(t, b, x.chain) },
		})
		for _, d := range open {
			settle(t, b.Crash(d))
		}
		drain(t, b, x.chain)
	})
}

func anyOutcome(t *rapid.T) func(*simulator.Broker, simulator.Delivery) error {
	return rapid.SampledFrom([]func(*simulator.Broker, simulator.Delivery) error{
		(*simulator.Broker).Ack,
		(*simulator.Broker).Crash,
		func(b *simulator.Broker, d simulator.Delivery) error { return b.Reject(d, false) },
		func(b *simulator.Broker, d simulator.Delivery) error { return b.Nack(d, false) },
		func(b *simulator.Broker, d simulator.Delivery) error { return b.Reject(d, true) },
		func(b *simulator.Broker, d simulator.Delivery) error { return b.Nack(d, true) },
	}).Draw(t, "outcome")
}

// checkAccounts wants every message in one place, and none lost. A publisher
// that was refused was told so.
func checkAccounts(t reporter, b *simulator.Broker, c retry.Chain) {
	t.Helper()
	for id, fates := range b.Account() {
		if len(fates) != 1 || fates[0].State == simulator.IsLost || fates[0].State == simulator.IsUnroutable {
			t.Fatalf("message %d: %v\n%s", id, fates, journey(b, id))
		}
		if f := fates[0]; f.State == simulator.IsHeld && c.Work.MaxLength == nil && c.Work.MaxLengthBytes == nil {
			t.Fatalf("message %d: %v\n%s", id, f, journey(b, id))
		}
	}
}

// drain rejects everything until all messages are done or parked.
func drain(t reporter, b *simulator.Broker, c retry.Chain) {
	t.Helper()
	for range 10_000 {
		if d, ok := b.Get(c.Work.Name); ok {
			settle(t, b.Reject(d, false))
		} else if !b.AdvanceToNextExpiry() {
			break
		}
	}
	checkAccounts(t, b, c)
	for id, fates := range b.Account() {
		if f := fates[0]; f.State == simulator.IsReady && f.Queue != c.Parking.Name || f.State == simulator.IsHeld {
			t.Fatalf("message %d in the end: %v\n%s", id, f, journey(b, id))
		}
	}
}
