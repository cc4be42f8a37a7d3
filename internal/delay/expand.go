package delay

import (
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Topology expands the network into its objects, without the bindings of
// destinations. It expects a network without problems.
//
// Every exchange of the network has the unrouted exchange as its alternate: an
// at-least-once queue that cannot get rid of 32 messages stops for all others
// (dead_letter_worker_consumer_prefetch, RabbitMQ 3.10 to 4.3).
func (n Network) Topology(f retry.Features) *topology.Topology {
	t := topology.New()
	n.addUnrouted(t, f)
	t.SetExchange(n.exchange(n.DeliveryExchange()))
	for level := range n.Levels {
		n.addLevel(t, level)
	}
	n.addEntry(t)
	return t
}

func (n Network) addUnrouted(t *topology.Topology, f retry.Features) {
	t.SetExchange(n.unroutedExchange())
	arguments := topology.Arguments{}
	if n.QueueType == topology.Quorum && f.UnlimitedDelivery {
		// Else a message that was looked at and put back 21 times is deleted.
		arguments[topology.DeliveryLimit] = int64(retry.Unlimited)
	}
	t.SetQueue(n.queue(n.Unrouted(), arguments))
	t.Bind(topology.Binding{Source: n.Unrouted(), Destination: n.Unrouted(), DestinationKind: topology.KindQueue})
}

// addLevel adds a queue, and the exchange that comes before it: it leads a
// message to the queue if the level's bit is 1, and else past it.
func (n Network) addLevel(t *topology.Topology, level int) {
	name := n.Level(level)
	arguments := topology.Arguments{
		topology.MessageTTL:         n.Wait(level).Milliseconds(),
		topology.DeadLetterExchange: n.below(level),
	}
	if n.QueueType == topology.Quorum {
		arguments[topology.DeadLetterStrategy] = string(n.DeadLetterStrategy)
	}
	if n.DeadLetterStrategy == retry.AtLeastOnce {
		// Without it the broker falls back to at-most-once (3.10 and later).
		arguments[topology.Overflow] = topology.RejectPublish
	}
	t.SetQueue(n.queue(name, arguments))
	t.SetExchange(n.exchange(name))
	higher := strings.Repeat("*.", n.Levels-1-level)
	t.Bind(topology.Binding{Source: name, Destination: name, DestinationKind: topology.KindQueue, RoutingKey: higher + "1.#"})
	t.Bind(topology.Binding{Source: name, Destination: n.below(level), DestinationKind: topology.KindExchange, RoutingKey: higher + "0.#"})
}

// below is the exchange behind the queue of a level.
func (n Network) below(level int) string {
	if level == 0 {
		return n.DeliveryExchange()
	}
	return n.Level(level - 1)
}

// addEntry adds the exchange that messages enter through. It leads straight to
// the queue of the highest level whose bit is 1.
func (n Network) addEntry(t *topology.Topology) {
	entry := n.EntryExchange()
	t.SetExchange(n.exchange(entry))
	for level := range n.Levels {
		higher := strings.Repeat("0.", n.Levels-1-level)
		t.Bind(topology.Binding{
			Source: entry, Destination: n.Level(level), DestinationKind: topology.KindQueue, RoutingKey: higher + "1.#",
		})
	}
	t.Bind(topology.Binding{
		Source: entry, Destination: n.DeliveryExchange(), DestinationKind: topology.KindExchange,
		RoutingKey: strings.Repeat("0.", n.Levels) + "#",
	})
}

func (n Network) exchange(name string) topology.Exchange {
	return topology.Exchange{
		Name: name, Type: topology.Topic, Durable: true,
		Arguments: topology.Arguments{topology.AlternateExchange: n.Unrouted()},
	}
}

func (n Network) unroutedExchange() topology.Exchange {
	return topology.Exchange{Name: n.Unrouted(), Type: topology.Fanout, Durable: true}
}

func (n Network) queue(name string, arguments topology.Arguments) topology.Queue {
	return topology.Queue{Name: name, Type: n.QueueType, Durable: true, Arguments: arguments}
}
