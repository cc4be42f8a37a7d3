package delay

import (
	"fmt"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Destination attaches a queue to a network under a name. Several destinations
// can have the same name: each gets a copy of a message.
type Destination struct {
	// Network is the name of the network, Levels its number of levels, 0 while nobody
	// knows it.
	Network string
	Levels  int
	Name    string
	Queue   string
}

// Binding returns the binding that attaches the queue.
func (d Destination) Binding() topology.Binding {
	n := Network{Name: d.Network, Levels: d.Levels}
	return topology.Binding{
		Source: n.DeliveryExchange(), Destination: d.Queue, DestinationKind: topology.KindQueue, RoutingKey: n.DestinationKey(d.Name),
	}
}

// Problems returns what can be said about the destination without a broker.
func (d Destination) Problems() []retry.Problem {
	var p problems
	if err := (Network{Levels: max(d.Levels, 1)}).CheckDestination(d.Name); err != nil {
		p.errorf("name", "Invalid Name of a Destination",
			"Messages cannot be addressed to this destination: %s. Choose another name; the queue keeps its own.", err)
	}
	return p
}

// ExistingProblems compares the destination with the network and the queue of
// the virtual host, as far as they exist.
func (d Destination) ExistingProblems(in *topology.Topology) []retry.Problem {
	var p problems
	if levels := FinalLevels(d.Network, in); levels > 0 && d.Levels > 0 && levels != d.Levels {
		p.errorf("network", "Levels Differ From the Network",
			"The delay network %q has %d levels, and a binding for %d would match none of its messages. The network was replaced since "+
				"the plan: plan and apply again.",
			d.Network, levels, d.Levels)
	}
	if q, exists := in.Queue(d.Queue); exists && slices.ContainsFunc(in.Candidates(q, true), refusesWhenFull) {
		p.errorf("queue", "Full Queue Holds Up the Network",
			"The queue %q has a length limit and refuses messages when it is full. A network that dead-letters at least once keeps a "+
				"refused message and offers it again after 180 seconds; 32 of them hold up the messages for all destinations that "+
				"come out of the same level. One that dead-letters at most once loses it. Use overflow drop-head, or no limit.", d.Queue)
		p[len(p)-1].Warning = true
	}
	return p
}

func refusesWhenFull(arguments topology.Arguments) bool {
	_, length := arguments[topology.MaxLength]
	_, bytes := arguments[topology.MaxLengthBytes]
	overflow := arguments.String(topology.Overflow)
	return (length || bytes) && overflow != "" && overflow != topology.DropHead
}

// String names the destination for people.
func (d Destination) String() string {
	return fmt.Sprintf("destination %q of the delay network %q to the queue %q", d.Name, d.Network, d.Queue)
}
