package retry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// genHeldBack is a chain of strategy "delayed_exchange", on a broker that the
// plugin runs on.
func genHeldBack() *rapid.Generator[target] {
	return rapid.Map(genRepublished(), func(x target) target {
		x.chain.Strategy, x.chain.CountHeader = retry.DelayedExchange, ""
		if featuresOf(x.version).NoMnesia {
			x.version = "4.2.9"
		}
		return x
	}).Filter(func(x target) bool { return len(errorsOf(x.chain, x.version)) == 0 })
}

// again are the headers of a message that a process publishes again: those of the
// broker and of the plugin are left out.
func again(d simulator.Delivery) topology.Arguments {
	headers := topology.Arguments{}
	for key, value := range d.Headers {
		if !strings.HasPrefix(key, "x-") && key != "CC" {
			headers[key] = value
		}
	}
	return headers
}

// moveFailed does what the error consumer of strategy "delayed_exchange" does with
// one failed message, and returns false when there is none: it counts, and has
// the message held back for the next delay, or parked after the last.
func moveFailed(t reporter, b *simulator.Broker, c retry.Chain, published ...func(before, after simulator.ID)) bool {
	t.Helper()
	d, ok := b.Get(c.FailedQueue())
	if !ok {
		return false
	}
	headers := again(d)
	count, _ := headers["count"].(int64)
	headers["count"] = count + 1
	p := simulator.Publishing{Exchange: c.ParkingExchange(), RoutingKey: d.RoutingKey, Headers: headers, Body: d.Body}
	var delay time.Duration
	if retried := count < int64(len(c.Delays)) && d.Deaths[0].Reason == simulator.Rejected; retried {
		delay = c.Delays[count]
		headers[topology.DelayHeader] = delay.Milliseconds()
		p.Exchange = c.WaitExchange()
	}
	var id simulator.ID
	if delay == 0 {
		id = publish(t, b, p)
	} else {
		receipt, err := b.Publish(p)
		settle(t, err)
		if !slices.Equal(receipt.HeldBack, []string{c.WaitExchange()}) || len(receipt.Queues) > 0 {
			t.Fatalf("held back at %q, and in the queues %q", receipt.HeldBack, receipt.Queues)
		}
		id = receipt.ID
	}
	settle(t, b.Ack(d))
	for _, f := range published {
		f(d.ID, id)
	}
	return true
}

// moveDue does what the requeue consumer does with one message whose delay is
// over: it goes to the work queue.
func moveDue(t reporter, b *simulator.Broker, c retry.Chain, published ...func(before, after simulator.ID)) bool {
	t.Helper()
	d, ok := b.Get(c.RequeueQueue())
	if !ok {
		return false
	}
	id := publish(t, b, simulator.Publishing{Exchange: c.ReturnExchange(), RoutingKey: d.RoutingKey, Headers: again(d), Body: d.Body})
	settle(t, b.Ack(d))
	for _, f := range published {
		f(d.ID, id)
	}
	return true
}

// Each failure is followed by exactly the declared wait, in no queue; after the
// last the message is parked, with its own key and headers.
func TestPropertyHeldBackMessageWaitsThenParks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genHeldBack().Draw(t, "target")
		c := x.chain
		b := newBroker(t, x.version, x.withSources())
		publish(t, b, simulator.Publishing{Exchange: c.RedriveExchange(), RoutingKey: "order.created", Headers: topology.Arguments{"tenant": "t1"}, Body: "body"})
		var at []time.Duration
		for range 200 {
			if d, ok := b.Get(c.Work.Name); ok {
				at = append(at, b.Now())
				settle(t, b.Reject(d, false))
			} else if !moveFailed(t, b, c) && !moveDue(t, b, c) && !b.AdvanceToNextExpiry() {
				break
			}
		}
		want := []time.Duration{0}
		for i, delay := range c.Delays {
			want = append(want, want[i]+delay)
		}
		if !slices.Equal(at, want) {
			t.Fatalf("attempts at %v, want %v", at, want)
		}
		d, ok := b.Get(c.Parking.Name)
		if !ok || d.RoutingKey != "order.created" || d.Headers["tenant"] != "t1" || d.Headers["count"] != int64(c.Attempts()) || d.Body != "body" {
			t.Fatalf("parked: %t %+v", ok, d)
		}
		if lost := lossesOf(b); len(lost) > 0 || b.HeldBack(c.WaitExchange()) > 0 {
			t.Fatalf("lost %v", lost)
		}
	})
}

// A change of the delays changes no object, and loses nothing: the process counts
// on, with the new delays.
func TestPropertyHeldBackChangesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := genHeldBack().Draw(t, "target")
		after := before
		after.chain.Delays = genOtherDelays(t, before.chain.Delays)
		if d := topology.Diff(before.topology(), after.topology()); !d.Empty() {
			t.Fatalf("the change makes\n%s\nand removes\n%s", text(d.Missing), text(d.Extra))
		}
		w := newCrowd(t, before)
		for range rapid.IntRange(1, 10).Draw(t, "messages") {
			publish(t, w.b, simulator.Publishing{RoutingKey: before.chain.Work.Name, Headers: topology.Arguments{"tenant": "t1"}})
		}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			if !w.act("fail") && !w.process() {
				w.b.AdvanceToNextExpiry()
			}
		}
		w.x = after
		w.end()
		for id, fates := range w.b.Account() {
			if len(fates) != 1 || fates[0].State != simulator.IsAcked && fates[0].Queue != after.chain.Parking.Name {
				t.Fatalf("message %d: %v\n%s", id, fates, journey(w.b, id))
			}
		}
	})
}

// Without the binding to the requeue queue, which a plan shows as missing, what
// the exchange held back is lost: it has no alternate exchange, where it would go
// at once.
func TestHeldBackWithoutBindingIsLost(t *testing.T) {
	c := heldBack()
	in := c.Topology(featuresOf("4.0.5"))
	for _, b := range in.From(c.WaitExchange()) {
		in.Unbind(b)
	}
	b := newBroker(t, "4.0.5", in)
	publish(t, b, simulator.Publishing{RoutingKey: c.Work.Name})
	d, _ := b.Get(c.Work.Name)
	settle(t, b.Reject(d, false))
	var id simulator.ID
	moveFailed(t, b, c, func(_, after simulator.ID) { id = after })
	b.Advance(time.Hour)
	if fates := b.Fates(id); len(fates) != 1 || fates[0].State != simulator.IsLost || fates[0].Exchange != c.WaitExchange() {
		t.Errorf("fates %v", fates)
	}
}
