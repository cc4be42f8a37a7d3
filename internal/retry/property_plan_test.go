package retry_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// plan lists the steps from what the broker holds of the chain to what the
// chain wants.
func plan(b *simulator.Broker, x target) []topology.Step {
	actual := x.chain.Actual(b.Topology(), x.features())
	return slices.Concat(x.chain.Plan(actual, x.topology())...)
}

// carryOut makes the steps; every one has to be possible when it comes.
func carryOut(t reporter, b *simulator.Broker, steps []topology.Step) {
	t.Helper()
	for _, step := range steps {
		if err := b.Apply(step); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// wantComplete fails unless the broker holds the chain, and nothing of it is
// left to do.
func wantComplete(t reporter, b *simulator.Broker, x target) {
	t.Helper()
	if d := topology.Diff(x.chain.Actual(b.Topology(), x.features()), x.topology()); !d.Empty() {
		t.Fatalf("missing:\n%s\nextra:\n%s\nchanged: %v %v", text(d.Missing), text(d.Extra), d.Exchanges, d.Queues)
	}
	if rest := plan(b, x); len(rest) > 0 {
		t.Fatalf("%d steps are left", len(rest))
	}
}

// sourcesOnly is a broker with the exchanges that feed the chain and nothing
// else.
func sourcesOnly(x target) *topology.Topology {
	in := topology.New()
	for _, e := range x.withSources().Exchanges() {
		if _, own := x.topology().Exchange(e.Name); !own {
			in.SetExchange(e)
		}
	}
	return in
}

func TestPropertyInterruptedCreationConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		b := newBroker(t, x.version, sourcesOnly(x))
		for range rapid.IntRange(0, 3).Draw(t, "interruptions") {
			steps := plan(b, x)
			carryOut(t, b, steps[:rapid.IntRange(0, len(steps)).Draw(t, "done")])
		}
		carryOut(t, b, plan(b, x))
		wantComplete(t, b, x)
	})
}

// While a chain is being made, no message can reach the work queue before it
// can be retried: a message that a source sends is unroutable or safe.
func TestPropertyCreationBringsTrafficLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits, func(_ *rapid.T, c *retry.Chain) {
			c.Work.Bindings = []retry.SourceBinding{{Exchange: "events", RoutingKey: "#", Headers: topology.Arguments{}}}
		}).Draw(t, "target")
		b := newBroker(t, x.version, sourcesOnly(x))
		for _, step := range plan(b, x) {
			carryOut(t, b, []topology.Step{step})
			for _, p := range []simulator.Publishing{{Exchange: "events", RoutingKey: "k"}, {RoutingKey: x.chain.Work.Name}} {
				if _, err := b.Publish(p); err != nil {
					t.Fatalf("%v", err)
				}
				if d, ok := b.Get(x.chain.Work.Name); ok {
					settle(t, b.Reject(d, false))
				}
			}
		}
		if len(lossesOf(b)) > 0 {
			t.Fatalf("lost: %v", lossesOf(b))
		}
	})
}

// damages are single objects of the chain that somebody could delete; tiers
// only while they are empty.
func damages(b *simulator.Broker, x target) []topology.Step {
	var steps []topology.Step
	in := x.topology()
	for _, e := range in.Exchanges() {
		steps = append(steps, topology.Step{DeleteExchange: &e})
	}
	for _, binding := range in.Bindings() {
		steps = append(steps, topology.Step{Unbind: &binding})
	}
	for _, tier := range x.chain.Tiers() {
		if b.Depth(tier.Queue) == (simulator.Depth{}) {
			steps = append(steps, topology.Step{DeleteQueue: &topology.Queue{Name: tier.Queue}})
		}
	}
	return steps
}

// traffic is the same random work on any broker: it publishes, rejects and
// waits.
type traffic []struct {
	Publish bool
	Reject  int
	Wait    time.Duration
}

func genTraffic() *rapid.Generator[traffic] {
	return rapid.Custom(func(t *rapid.T) traffic {
		made := make(traffic, rapid.IntRange(1, 15).Draw(t, "actions"))
		for i := range made {
			made[i].Publish = rapid.Bool().Draw(t, "publish")
			made[i].Reject = rapid.IntRange(0, 2).Draw(t, "rejects")
			made[i].Wait = time.Duration(rapid.Int64Range(0, 60_000).Draw(t, "wait")) * time.Millisecond
		}
		return made
	})
}

func (work traffic) run(t reporter, b *simulator.Broker, c retry.Chain) {
	t.Helper()
	for _, action := range work {
		if action.Publish {
			publish(t, b, simulator.Publishing{RoutingKey: c.Work.Name})
		}
		for range action.Reject {
			if d, ok := b.Get(c.Work.Name); ok {
				settle(t, b.Reject(d, false))
			}
		}
		b.Advance(action.Wait)
	}
}

// repairCase is a chain with messages under way in which one object was
// deleted.
type repairCase struct {
	x             target
	before, after traffic
	damage        int
}

// play damages the chain, makes the first steps of the repair, lets messages
// move on, completes the repair, and lets everything come to an end. With no
// repair at all it stops before the completion.
func (r repairCase) play(t reporter, steps int, complete bool) *simulator.Broker {
	t.Helper()
	b := newBroker(t, r.x.version, r.x.withSources())
	r.before.run(t, b, r.x.chain)
	possible := damages(b, r.x)
	carryOut(t, b, []topology.Step{possible[r.damage%len(possible)]})
	repair := plan(b, r.x)
	carryOut(t, b, repair[:min(steps, len(repair))])
	r.after.run(t, b, r.x.chain)
	if complete {
		carryOut(t, b, plan(b, r.x))
		wantComplete(t, b, r.x)
		b.Advance(simulator.HoldPeriod)
	}
	return b
}

// A repair loses nothing that the damage alone would not have lost, wherever it
// is interrupted, and after a repair in one go nothing is lost at all.
func TestPropertyRepairLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := repairCase{
			x:      genTarget(withoutLimits).Draw(t, "target"),
			before: genTraffic().Draw(t, "before"),
			after:  genTraffic().Draw(t, "after"),
			damage: rapid.IntRange(0, 1000).Draw(t, "damage"),
		}
		unrepaired := lossesOf(r.play(t, 0, false))
		partly := r.play(t, rapid.IntRange(0, 4).Draw(t, "steps"), true)
		for _, id := range lossesOf(partly) {
			if !slices.Contains(unrepaired, id) {
				t.Fatalf("the repair lost message %d\n%s", id, journey(partly, id))
			}
		}
		whole := r.play(t, 1000, true)
		if lost := lossesOf(whole); len(lost) > 0 {
			t.Fatalf("lost %v after the repair\n%s", lost, journey(whole, lost[0]))
		}
		drain(t, whole, r.x.chain)
	})
}

// Changing the delays of a chain at work loses nothing, if no queue is deleted
// before it is empty: what the caller of Plan has to see to.
func TestPropertyChangeOfDelaysLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := genTarget(withoutLimits).Draw(t, "target")
		after := before
		after.chain.Delays = genOtherDelays(t, before.chain.Delays)
		if len(errorsOf(after.chain, after.version)) > 0 {
			t.Skip("the new delays collide with a name")
		}
		b := newBroker(t, before.version, before.withSources())
		work := genTraffic()
		work.Draw(t, "before").run(t, b, before.chain)
		for _, step := range planChange(b, before, after) {
			if step.DeleteQueue != nil {
				for b.Depth(step.DeleteQueue.Name) != (simulator.Depth{}) && b.AdvanceToNextExpiry() {
				}
			}
			carryOut(t, b, []topology.Step{step})
			work.Draw(t, "between").run(t, b, after.chain)
		}
		if lost := lossesOf(b); len(lost) > 0 {
			t.Fatalf("lost %v\n%s", lost, journey(b, lost[0]))
		}
		wantComplete(t, b, after)
		for b.AdvanceToNextExpiry() {
		}
		for id, fates := range b.Account() {
			if len(fates) == 0 || fates[0].State == simulator.IsHeld {
				t.Fatalf("message %d: %v\n%s", id, fates, journey(b, id))
			}
			// While the first tier changes, a message may go to both.
			if sameFirst(before.chain, after.chain) && len(fates) > 1 {
				t.Fatalf("message %d is doubled: %v\n%s", id, fates, journey(b, id))
			}
		}
	})
}

func sameFirst(a, b retry.Chain) bool {
	return len(a.Delays) > 0 && len(b.Delays) > 0 && a.Delays[0] == b.Delays[0]
}

// planChange lists the steps from what the broker holds to the new chain.
func planChange(b *simulator.Broker, before, after target) []topology.Step {
	actual := before.chain.Actual(b.Topology(), before.features())
	return slices.Concat(after.chain.Plan(actual, after.topology())...)
}
