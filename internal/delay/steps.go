package delay

import (
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Repair returns the steps from what is there of the network, as
// [Network.Actual] returns it, to what is wanted; from nothing they make it.
// What leads into the network comes last. Objects that exist in another form
// are left alone; the caller must refuse them.
//
// RabbitMQ 3.10 and 4.0 can list a binding of a topic exchange through which no message
// goes, if the connection that created it ended early. So a mark is set before bindings are
// created and removed afterwards. If it is there, all of them are created again; until then
// messages are unrouted and kept.
func (n Network) Repair(actual, wanted *topology.Topology) []topology.Stage {
	if actual.Has(n.unfinished()) {
		return n.rebind(actual, wanted)
	}
	return n.repair(actual, wanted)
}

func (n Network) repair(actual, wanted *topology.Topology) []topology.Stage {
	d := topology.Diff(actual, wanted)
	every := func(topology.Queue) bool { return true }
	isEntry := func(b topology.Binding) bool { return b.Source == n.EntryExchange() }
	inside := func(b topology.Binding) bool { return !isEntry(b) }
	var mark, done topology.Stage
	if len(d.Missing.Bindings()) > 0 {
		marked := topology.New()
		marked.Bind(n.unfinished())
		mark, done = marked.BindAll(isEntry), marked.UnbindAll(isEntry)
	}
	return withoutEmpty([]topology.Stage{
		d.Missing.DeclareExchanges(),
		d.Missing.DeclareQueues(every),
		mark,
		d.Missing.BindAll(inside),
		slices.Concat(d.Missing.BindAll(isEntry),
			d.Extra.UnbindAll(func(b topology.Binding) bool { return b.ID() != n.unfinished().ID() })),
		done,
	})
}

// unfinished is the binding that marks a network whose bindings are being created. It leads
// where everything goes that fits nowhere.
func (n Network) unfinished() topology.Binding {
	return topology.Binding{
		Source: n.EntryExchange(), Destination: n.Unrouted(), DestinationKind: topology.KindExchange, RoutingKey: "unfinished",
	}
}

// Complete is [Network.Repair] for a network that is imported, because its create may have
// been broken off. A network that lacks no binding and has no mark is whole.
func (n Network) Complete(actual, wanted *topology.Topology) []topology.Stage {
	if len(topology.Diff(actual, wanted).Missing.Bindings()) == 0 {
		return n.Repair(actual, wanted)
	}
	return n.rebind(actual, wanted)
}

// rebind creates all bindings of topic exchanges again.
func (n Network) rebind(actual, wanted *topology.Topology) []topology.Stage {
	suspect := func(b topology.Binding) bool { return b.Source != n.Unrouted() && b.ID() != n.unfinished().ID() }
	left := actual.Clone()
	for _, b := range actual.Bindings() {
		if suspect(b) {
			left.Unbind(b)
		}
	}
	return withoutEmpty(append([]topology.Stage{actual.UnbindAll(suspect)}, n.repair(left, wanted)...))
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
