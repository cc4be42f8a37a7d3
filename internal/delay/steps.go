package delay

import (
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Repair returns the steps from what is there of the network, as
// [Network.Actual] returns it, to what is wanted; from nothing they make it.
// What leads into the network comes last. Objects that exist in another form
// are left alone; the caller has to refuse them.
func (n Network) Repair(actual, wanted *topology.Topology) []topology.Stage {
	d := topology.Diff(actual, wanted)
	every := func(topology.Queue) bool { return true }
	isEntry := func(b topology.Binding) bool { return b.Source == n.EntryExchange() }
	inside := func(b topology.Binding) bool { return !isEntry(b) }
	return withoutEmpty([]topology.Stage{
		d.Missing.DeclareExchanges(),
		d.Missing.DeclareQueues(every),
		d.Missing.BindAll(inside),
		slices.Concat(d.Missing.BindAll(isEntry), d.Extra.UnbindAll(func(topology.Binding) bool { return true })),
	})
}

// Complete is [Network.Repair] for a network whose create was broken off. It makes
// all bindings of topic exchanges anew, those that are there as well: RabbitMQ
// 4.0.5 can list one through which no message goes, when the connection that made
// it ended early. Until they are made, messages are unrouted and kept. A network
// that lacks no binding is whole.
func (n Network) Complete(actual, wanted *topology.Topology) []topology.Stage {
	d := topology.Diff(actual, wanted)
	if len(d.Missing.Bindings()) == 0 {
		return n.Repair(actual, wanted)
	}
	suspect := func(b topology.Binding) bool { return b.Source != n.Unrouted() }
	left := actual.Clone()
	for _, b := range actual.Bindings() {
		if suspect(b) {
			left.Unbind(b)
		}
	}
	return withoutEmpty(append([]topology.Stage{actual.UnbindAll(suspect)}, n.Repair(left, wanted)...))
}

// Removal returns the steps that remove the network: first the entry, then the
// queues of the levels, their exchanges from the highest to the lowest, and what
// takes unrouted messages last. If the removal of a queue is refused because a
// message came meanwhile, the message still has a way out.
//
// Exchanges that are bound to each other are deleted one after the other:
// RabbitMQ 3.10.8 sometimes keeps one of two that are deleted at once, although
// it answers 204, and 4.0.5 refuses one with 400.
func (n Network) Removal(actual *topology.Topology) []topology.Stage {
	var stages []topology.Stage
	deleteExchange := func(name string) {
		if e, exists := actual.Exchange(name); exists {
			stages = append(stages, topology.Stage{{DeleteExchange: &e}})
		}
	}
	var levels, unrouted topology.Stage
	for _, step := range actual.DeleteQueues() {
		if step.DeleteQueue.Name == n.Unrouted() {
			unrouted = append(unrouted, step)
			continue
		}
		levels = append(levels, step)
	}
	deleteExchange(n.EntryExchange())
	stages = append(stages, levels)
	for level := n.Levels - 1; level >= 0; level-- {
		deleteExchange(n.Level(level))
	}
	deleteExchange(n.DeliveryExchange())
	stages = append(stages, unrouted)
	deleteExchange(n.Unrouted())
	return withoutEmpty(stages)
}

func withoutEmpty(stages []topology.Stage) []topology.Stage {
	return slices.DeleteFunc(stages, func(s topology.Stage) bool { return len(s) == 0 })
}
