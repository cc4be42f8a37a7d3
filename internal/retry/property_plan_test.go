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
	return slices.Concat(x.chain.Transition(actual, x.topology(), nil).Stages...)
}

// carryOut makes the steps; every one must be possible when it comes.
func carryOut(t reporter, b *simulator.Broker, steps []topology.Step) {
	t.Helper()
	for _, step := range steps {
		if err := b.Apply(step); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

// wantComplete fails unless the broker holds the chain, and nothing of it is
// left to do but for what drains.
func wantComplete(t reporter, b *simulator.Broker, x target) {
	t.Helper()
	actual := x.chain.Actual(b.Topology(), x.features())
	rest, _ := x.chain.Draining(actual, x.topology())
	if d := topology.Diff(rest, x.topology()); !d.Empty() {
		t.Fatalf("missing:\n%s\nextra:\n%s\nchanged: %v %v", text(d.Missing), text(d.Extra), d.Exchanges, d.Queues)
	}
}

// sourcesOnly is a broker with the other objects that the chain uses and
// nothing else.
func sourcesOnly(x target) *topology.Topology {
	in := topology.New()
	for _, e := range x.withSources().Exchanges() {
		if _, own := x.topology().Exchange(e.Name); !own {
			in.SetExchange(e)
		}
	}
	if w := x.chain.Work; w.Existing {
		in.SetQueue(topology.Queue{Name: w.Name, Type: w.Type, Durable: true})
	}
	return in
}

func TestPropertyInterruptedCreationConverges(t *testing.T) {
	t.Parallel()
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
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits, func(_ *rapid.T, c *retry.Chain) {
			c.Work.Bindings = []retry.SourceBinding{{Exchange: "events", RoutingKey: "#", Arguments: topology.Arguments{}}}
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
	t.Parallel()
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

// change is a chain's next form, and how much of the way there is made before
// the run is killed; the configuration may be put back after that.
type change struct {
	to     target
	killed int // steps before the kill; -1: none
	revert bool
}

func genChange(t *rapid.T, x target) change {
	next := change{to: x, killed: -1}
	next.to.chain.Delays = genOtherDelays(t, x.chain.Delays)
	if x.features().LastDeathHeaders && rapid.IntRange(0, 3).Draw(t, "switch of strategy") == 0 {
		next.to.chain.Strategy = map[retry.Strategy]retry.Strategy{retry.Headers: retry.RoutingKey, retry.RoutingKey: retry.Headers}[x.chain.Strategy]
	}
	if rapid.Bool().Draw(t, "killed") {
		next.killed = rapid.IntRange(0, 25).Draw(t, "steps")
		next.revert = rapid.Bool().Draw(t, "revert")
	}
	return next
}

// Changing the delays or the strategy of a chain at work loses nothing, however
// often, wherever it is interrupted, and also when it is taken back. In the end
// nothing of the forms in between is left.
func TestPropertyChangesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		b := newBroker(t, x.version, x.withSources())
		work := genTraffic()
		work.Draw(t, "before").run(t, b, x.chain)
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			next := genChange(t, x)
			if len(errorsOf(next.to.chain, next.to.version)) > 0 {
				continue // the new delays collide with a name
			}
			makeChange(t, b, x, next.to, next.killed, func() { work.Draw(t, "between").run(t, b, x.chain) })
			wantNothingHidden(t, b, x)
			wantNothingHidden(t, b, next.to)
			work.Draw(t, "after").run(t, b, x.chain)
			if next.killed >= 0 && !next.revert || next.killed < 0 {
				before := x
				x = next.to
				makeChange(t, b, before, x, -1, func() {})
			} else {
				makeChange(t, b, x, x, -1, func() {})
			}
			wantComplete(t, b, x)
			if lost := lossesOf(b); len(lost) > 0 {
				t.Fatalf("lost %v\n%s", lost, journey(b, lost[0]))
			}
		}
		finish(t, b, x)
	})
}

// wantNothingHidden fails if a plan would show nothing to do although there is
// more to do than to wait for tiers, and to remove steps out of tiers that are
// gone.
func wantNothingHidden(t reporter, b *simulator.Broker, x target) {
	t.Helper()
	actual := x.chain.Actual(b.Topology(), x.features())
	rest, draining := x.chain.Draining(actual, x.topology())
	if !topology.Diff(rest, x.topology()).Empty() {
		return
	}
	for _, step := range plan(b, x) {
		if step.Unbind != nil {
			if _, wanted := x.topology().Queue(step.Unbind.Destination); !wanted {
				t.Fatalf("hidden from a plan: the way into %q", step.Unbind.Destination)
			}
		}
		// A run that was killed may leave a tier without its way out.
		if step.Unbind == nil && (step.Bind == nil || len(draining) == 0) {
			t.Fatalf("hidden from a plan: %+v", step)
		}
	}
}

// makeChange carries out the first steps of a change, or all of them and the
// removal of what is empty.
func makeChange(t *rapid.T, b *simulator.Broker, before, after target, steps int, between func()) {
	actual := after.chain.Actual(b.Topology(), after.features())
	transition := after.chain.Transition(actual, after.topology(), before.chain.Tiers())
	todo := slices.Concat(transition.Stages...)
	for i, step := range todo {
		if i == steps {
			return
		}
		if step.DeleteQueue != nil {
			t.Fatalf("the change deletes queue %q, which may hold messages", step.DeleteQueue.Name)
		}
		carryOut(t, b, []topology.Step{step})
		if rapid.IntRange(0, 3).Draw(t, "traffic") == 0 {
			between()
		}
	}
	removeEmpty(t, b, after)
}

// removeEmpty removes the retired tiers that hold nothing.
func removeEmpty(t reporter, b *simulator.Broker, x target) {
	t.Helper()
	actual := x.chain.Actual(b.Topology(), x.features())
	_, draining := x.chain.Draining(actual, x.topology())
	empty := slices.DeleteFunc(draining, func(tier retry.Tier) bool { return b.Depth(tier.Queue) != (simulator.Depth{}) })
	carryOut(t, b, slices.Concat(x.chain.RemoveTiers(empty, actual, x.topology())...))
}

// finish lets every message come to rest and every retired tier go, and fails
// if a message is without a place or anything of another form of the chain is
// left but steps that lead out of tiers that are gone.
func finish(t *rapid.T, b *simulator.Broker, x target) {
	for b.AdvanceToNextExpiry() {
	}
	b.Advance(simulator.HoldPeriod)
	for b.AdvanceToNextExpiry() {
	}
	removeEmpty(t, b, x)
	wantComplete(t, b, x)
	if _, draining := x.chain.Draining(x.chain.Actual(b.Topology(), x.features()), x.topology()); len(draining) > 0 {
		t.Fatalf("the tiers %v are left", draining)
	}
	carryOut(t, b, plan(b, x))
	if d := topology.Diff(x.chain.Actual(b.Topology(), x.features()), x.topology()); !d.Empty() {
		t.Fatalf("left:\n%s", text(d.Extra))
	}
	for id, fates := range b.Account() {
		if len(fates) == 0 || fates[0].State == simulator.IsHeld {
			t.Fatalf("message %d: %v\n%s", id, fates, journey(b, id))
		}
	}
	for parked, ok := b.Get(x.chain.Parking.Name); ok && x.features().LastDeathHeaders; parked, ok = b.Get(x.chain.Parking.Name) {
		if from := parked.Headers["x-last-death-queue"]; from != x.chain.Work.Name {
			t.Fatalf("a message was parked out of %v\n%v", from, parked.Headers)
		}
	}
}

// Without a change of the first tier or of the strategy no message is doubled.
func TestPropertyChangesDoubleNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget(withoutLimits).Draw(t, "target")
		after := x
		after.chain.Delays = genOtherDelays(t, x.chain.Delays)
		if len(errorsOf(after.chain, after.version)) > 0 || !sameFirst(x.chain, after.chain) {
			t.Skip("the first tier changes, or the new delays collide with a name")
		}
		b := newBroker(t, x.version, x.withSources())
		work := genTraffic()
		work.Draw(t, "before").run(t, b, x.chain)
		makeChange(t, b, x, after, -1, func() { work.Draw(t, "between").run(t, b, x.chain) })
		finish(t, b, after)
		for id, fates := range b.Account() {
			if len(fates) > 1 {
				t.Fatalf("message %d is doubled: %v\n%s", id, fates, journey(b, id))
			}
		}
	})
}

func sameFirst(a, b retry.Chain) bool {
	return len(a.Delays) > 0 && len(b.Delays) > 0 && a.Delays[0] == b.Delays[0]
}
