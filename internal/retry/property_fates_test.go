package retry_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// genAny makes chains of every strategy that a broker supports, with a work
// queue of their own or attached to one of others. Their messages die by
// rejection or over the delivery limit only.
func genAny() *rapid.Generator[target] {
	return rapid.OneOf(genTarget(withoutLimits), genRepublished(), genHeldBack(), rapid.Map(genRamped(), attachSome))
}

// attachSome gives every other ramp an existing work queue, by its delays.
func attachSome(x target) target {
	if len(x.chain.Delays)%2 == 0 {
		x.chain.Work = retry.WorkQueue{Name: "orders", Existing: true, Type: topology.Quorum, Arguments: topology.Arguments{}}
	}
	return x
}

// neighbour is a chain of the same form and other names.
func (x target) neighbour() target {
	x.chain.Name = "neighbour"
	x.chain.Work.Name, x.chain.Parking.Name = "neighbour", "neighbour.parking"
	return x
}

// queues are those that a message of the chain may enter.
func (x target) queues() []string {
	names := []string{x.chain.Work.Name, x.chain.Parking.Name, x.chain.FailedQueue(), x.chain.RequeueQueue()}
	for _, tier := range x.chain.Tiers() {
		names = append(names, tier.Queue)
	}
	return names
}

// crowd is a chain at work, and what its consumers did with each message.
type crowd struct {
	t reporter
	b *simulator.Broker
	x target
	// failed counts the failures of each message that use up an attempt.
	failed map[simulator.ID]int
	// refused: with strategy "delayed_retry" the message was rejected for good.
	refused map[simulator.ID]bool
}

func newCrowd(t reporter, x target) *crowd {
	in := x.withSources()
	in.Add(x.neighbour().withSources())
	in.SetQueue(topology.Queue{Name: "bystander", Type: topology.Classic, Durable: true})
	return &crowd{t, newBroker(t, x.version, in), x, map[simulator.ID]int{}, map[simulator.ID]bool{}}
}

// delays says whether the work queue itself holds messages back.
func (w *crowd) delays() bool {
	return w.x.chain.Strategy == retry.DelayedRetry && len(w.x.chain.Delays) > 0
}

// act takes the next message of the work queue and settles it in that way.
func (w *crowd) act(how string) bool {
	w.t.Helper()
	d, ok := w.b.Get(w.x.chain.Work.Name)
	if !ok {
		return false
	}
	requeue := w.delays()
	switch how {
	case "ack":
		settle(w.t, w.b.Ack(d))
		return true
	case "fail":
		settle(w.t, w.b.Reject(d, requeue))
		w.failed[d.ID]++
	case "reject":
		settle(w.t, w.b.Reject(d, false))
		w.failed[d.ID]++
		w.refused[d.ID] = requeue
	case "nack":
		settle(w.t, w.b.Nack(d, false))
		w.failed[d.ID]++
		w.refused[d.ID] = requeue
	case "requeue":
		settle(w.t, w.b.Nack(d, true))
	case "crash":
		settle(w.t, w.b.Crash(d))
		if requeue {
			w.failed[d.ID]++
		}
	}
	return true
}

var fates = []string{"ack", "fail", "fail", "fail", "reject", "nack", "requeue", "crash"}

// end lets every message fail until all are at rest.
func (w *crowd) end() {
	w.t.Helper()
	for w.act("fail") || w.process() || w.b.AdvanceToNextExpiry() {
	}
}

// process lets the processes of the strategy, if it has any, move a message each.
func (w *crowd) process() bool {
	w.t.Helper()
	switch w.x.chain.Strategy {
	case retry.Republish:
		return republish(w.t, w.b, w.x.chain, w.renamed)
	case retry.DelayedExchange:
		return moveFailed(w.t, w.b, w.x.chain, w.renamed) || moveDue(w.t, w.b, w.x.chain, w.renamed)
	default:
		return false
	}
}

// renamed goes on with the count of a message that the process published again.
func (w *crowd) renamed(before, after simulator.ID) { w.failed[after] = w.failed[before] }

// check wants every message in one place, and never in an application's queue; end
// says that all of them have come to rest.
func (w *crowd) check(end bool) {
	w.t.Helper()
	own := w.x.queues()
	for id, all := range w.b.Account() {
		if len(all) != 1 {
			w.t.Fatalf("message %d has the fates %v\n%s", id, all, journey(w.b, id))
		}
		for _, queue := range queuesOf(w.b, id) {
			if !slices.Contains(own, queue) {
				w.t.Fatalf("message %d was in %q\n%s", id, queue, journey(w.b, id))
			}
		}
		switch fate := all[0]; fate.State {
		case simulator.IsAcked:
		case simulator.IsReady:
			if fate.Queue == w.x.chain.Parking.Name {
				w.checkParked(id)
			} else if end {
				w.t.Fatalf("message %d is left in %q\n%s", id, fate.Queue, journey(w.b, id))
			}
		case simulator.IsDelayed:
			if end {
				w.t.Fatalf("message %d is held back for ever\n%s", id, journey(w.b, id))
			}
		default:
			w.t.Fatalf("message %d is %s\n%s", id, fate, journey(w.b, id))
		}
	}
}

// checkParked wants a parked message to have had all of its attempts, unless it
// went over the delivery limit or was rejected for good.
func (w *crowd) checkParked(id simulator.ID) {
	w.t.Helper()
	limited := slices.ContainsFunc(w.b.Journey(id), func(e simulator.Event) bool { return e.Reason == simulator.DeliveryLimit })
	switch attempts := w.x.chain.Attempts(); {
	case w.refused[id], limited && !w.delays():
	case w.failed[id] != attempts:
		w.t.Fatalf("message %d was parked after %d failures, the chain has %d attempts\n%s", id, w.failed[id], attempts, journey(w.b, id))
	}
}

// Whatever consumers do with the messages of a chain, every message is
// acknowledged, parked, or still on its way, in one copy and in no queue of
// others; and a parked one has had as many attempts as configured.
func TestPropertyEveryMessageHasOneFate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newCrowd(t, genAny().Draw(t, "target"))
		for range rapid.IntRange(1, 40).Draw(t, "actions") {
			switch rapid.SampledFrom([]string{"publish", "consume", "consume", "wait", "process"}).Draw(t, "action") {
			case "publish":
				publish(t, w.b, simulator.Publishing{RoutingKey: w.x.chain.Work.Name, Headers: topology.Arguments{"tenant": "t1"}})
			case "consume":
				w.act(rapid.SampledFrom(fates).Draw(t, "fate"))
			case "process":
				w.process()
			default:
				w.b.Advance(time.Duration(rapid.Int64Range(0, 100_000).Draw(t, "ms")) * time.Millisecond)
			}
			w.check(false)
		}
		w.end()
		w.check(true)
	})
}

// TestEveryStrategyIsDrawn: what is drawn for the property meets every strategy,
// with and without an application's work queue, on every broker that supports it.
func TestEveryStrategyIsDrawn(t *testing.T) {
	seen := map[string]bool{}
	for seed := range 2000 {
		x := genAny().Example(seed)
		seen[fmt.Sprintf("%s %s existing=%t", x.version, x.chain.Strategy, x.chain.Work.Existing)] = true
	}
	for _, version := range brokerVersions {
		f := featuresOf(version)
		for strategy, supported := range map[retry.Strategy]bool{
			retry.Headers: f.LastDeathHeaders, retry.RoutingKey: true, retry.Republish: true, retry.DelayedRetry: f.DelayedRetry, retry.DelayedExchange: !f.NoMnesia,
		} {
			for _, existing := range []bool{false, true} {
				if name := fmt.Sprintf("%s %s existing=%t", version, strategy, existing); seen[name] != supported {
					t.Errorf("%s: drawn %t, supported %t", name, seen[name], supported)
				}
			}
		}
	}
}
