package retry

import (
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Plan orders the steps that turn the actual topology of the chain into the
// wanted one, so that a message that is under way is never without a route:
// exchanges first, then the queues behind the work queue and the bindings
// between them, then the work queue, and the bindings that bring traffic last.
// What is not wanted goes at the end, queues before the exchanges they use.
//
// Queues that exist with other arguments are deleted and declared again, and
// queues that are not wanted are deleted: the caller has to prove them empty
// first (see [Deleted]). An exchange that exists with other properties is left
// alone; the caller has to refuse it.
func (c Chain) Plan(actual, wanted *topology.Topology) []topology.Stage {
	d := topology.Diff(actual, wanted)
	is := c.roles(actual, wanted)
	orphan := func(b topology.Binding) bool { // goes with its exchange
		_, extra := d.Extra.Exchange(b.Source)
		return extra && is.returning(b)
	}
	stages := []topology.Stage{
		d.Missing.DeclareExchanges(),
		d.Missing.DeclareQueues(func(q topology.Queue) bool { return q.Name != c.Work.Name }),
	}
	stages = append(stages, redeclare(d, actual, wanted)...)
	stages = append(stages, c.moveSteps(d, is)...)
	stages = append(stages,
		d.Missing.DeclareQueues(func(q topology.Queue) bool { return q.Name == c.Work.Name }),
		d.Missing.BindAll(is.returning),
		d.Missing.BindAll(is.source),
		d.Extra.UnbindAll(func(b topology.Binding) bool { return !is.inside(b) && !orphan(b) }),
		d.Extra.DeleteQueues(),
		d.Extra.DeleteExchanges(),
	)
	return withoutEmpty(stages)
}

// moveSteps changes the bindings between the chain's own objects. On the
// exchanges that know a message's last tier the old binding goes before the new
// one comes: a message in between matches nothing and is retried from the first
// tier, where two bindings would double it. Anywhere else the new one comes
// first: a message in between would be parked too early.
func (c Chain) moveSteps(d topology.Difference, is roles) []topology.Stage {
	step := func(b topology.Binding) bool {
		return is.inside(b) && (b.Source == c.RetryExchange() || b.Source == c.KeysExchange())
	}
	elsewhere := func(b topology.Binding) bool { return is.inside(b) && !step(b) }
	return []topology.Stage{
		d.Extra.UnbindAll(step),
		d.Missing.BindAll(is.inside),
		d.Extra.UnbindAll(elsewhere),
	}
}

// redeclare replaces queues whose arguments differ. Their incoming bindings go
// first, so that a message takes the alternate exchange instead of a way to a
// queue that is gone.
func redeclare(d topology.Difference, actual, wanted *topology.Topology) []topology.Stage {
	var unbind, remove, declare, bind topology.Stage
	for _, change := range d.Queues {
		for _, b := range actual.To(topology.KindQueue, change.Actual.Name) {
			unbind = append(unbind, topology.Step{Unbind: &b})
		}
		remove = append(remove, topology.Step{DeleteQueue: &change.Actual})
		declare = append(declare, topology.Step{DeclareQueue: &change.Wanted})
		for _, b := range wanted.To(topology.KindQueue, change.Wanted.Name) {
			bind = append(bind, topology.Step{Bind: &b})
		}
	}
	return []topology.Stage{unbind, remove, declare, bind}
}

// Deleted returns the queues that [Chain.Plan] deletes.
func Deleted(actual, wanted *topology.Topology) []topology.Queue {
	d := topology.Diff(actual, wanted)
	queues := d.Extra.Queues()
	for _, change := range d.Queues {
		queues = append(queues, change.Actual)
	}
	return queues
}

// Removal orders the steps that remove the whole chain: the bindings that
// bring traffic first, then the work queue, the tiers, the parking queue and
// the exchanges. The caller has to prove every queue empty first, unless its
// messages are given up.
func (c Chain) Removal(actual *topology.Topology) []topology.Stage {
	is := c.roles(actual)
	var work, tiers, parking topology.Stage
	for _, step := range actual.DeleteQueues() {
		switch step.DeleteQueue.Name {
		case c.Work.Name:
			work = append(work, step)
		case c.Parking.Name:
			parking = append(parking, step)
		default:
			tiers = append(tiers, step)
		}
	}
	return withoutEmpty([]topology.Stage{actual.UnbindAll(is.source), work, tiers, parking, actual.DeleteExchanges()})
}

// roles tells the bindings of a chain apart by what they do.
type roles struct {
	// source: from an exchange of others to the work queue.
	source func(topology.Binding) bool
	// returning: from an exchange of the chain to the work queue.
	returning func(topology.Binding) bool
	// inside: from an exchange of the chain to anything else.
	inside func(topology.Binding) bool
}

func (c Chain) roles(topologies ...*topology.Topology) roles {
	own := func(b topology.Binding) bool {
		return slices.ContainsFunc(topologies, func(t *topology.Topology) bool {
			_, exists := t.Exchange(b.Source)
			return exists
		})
	}
	toWork := func(b topology.Binding) bool {
		return b.DestinationKind == topology.KindQueue && b.Destination == c.Work.Name
	}
	return roles{
		source:    func(b topology.Binding) bool { return !own(b) },
		returning: func(b topology.Binding) bool { return own(b) && toWork(b) },
		inside:    func(b topology.Binding) bool { return own(b) && !toWork(b) },
	}
}

func withoutEmpty(stages []topology.Stage) []topology.Stage {
	return slices.DeleteFunc(stages, func(s topology.Stage) bool { return len(s) == 0 })
}
