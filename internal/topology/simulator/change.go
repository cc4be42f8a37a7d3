package simulator

import (
	"fmt"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Apply changes the broker's topology, with messages in it, as the management
// API or AMQP would. Declaring what exists in the same form, and removing what
// does not exist, changes nothing; declaring it in another form fails. The
// messages in a deleted queue are lost: nothing is dead-lettered then.
func (b *Broker) Apply(step topology.Step) error {
	defer b.settle()
	switch {
	case step.DeclareExchange != nil:
		return b.declareExchange(*step.DeclareExchange)
	case step.DeclareQueue != nil:
		return b.declareQueue(*step.DeclareQueue)
	case step.Bind != nil:
		return b.bind(*step.Bind)
	case step.Unbind != nil:
		b.topology.Unbind(*step.Unbind)
	case step.DeleteExchange != nil:
		b.topology.RemoveExchange(step.DeleteExchange.Name)
	case step.DeleteQueue != nil:
		b.deleteQueue(step.DeleteQueue.Name)
	}
	return nil
}

func (b *Broker) declareExchange(e topology.Exchange) error {
	if !slices.Contains([]string{topology.Direct, topology.Fanout, topology.Topic, topology.Headers}, e.Type) {
		return fmt.Errorf("exchange %q of type %q: %w", e.Name, e.Type, ErrNotSimulated)
	}
	if existing, exists := b.topology.Exchange(e.Name); exists {
		if !existing.Equal(e) {
			return fmt.Errorf("exchange %q exists with other properties", e.Name)
		}
		return nil
	}
	b.topology.SetExchange(e)
	return nil
}

func (b *Broker) declareQueue(q topology.Queue) error {
	if q.Type != topology.Classic && q.Type != topology.Quorum {
		return fmt.Errorf("queue %q of type %q: %w", q.Name, q.Type, ErrNotSimulated)
	}
	if existing, exists := b.topology.Queue(q.Name); exists {
		if !existing.Equal(q) {
			return fmt.Errorf("queue %q exists with other properties", q.Name)
		}
		return nil
	}
	b.topology.SetQueue(q)
	b.queues[q.Name] = &queue{name: q.Name}
	return nil
}

func (b *Broker) bind(binding topology.Binding) error {
	if _, exists := b.topology.Exchange(binding.Source); !exists {
		return fmt.Errorf("no exchange %q to bind %q to", binding.Source, binding.Destination)
	}
	_, exists := b.topology.Queue(binding.Destination)
	if binding.DestinationKind == topology.KindExchange {
		_, exists = b.topology.Exchange(binding.Destination)
	}
	if !exists {
		return fmt.Errorf("no %s %q to bind to %q", binding.DestinationKind, binding.Destination, binding.Source)
	}
	b.topology.Bind(binding)
	return nil
}

func (b *Broker) deleteQueue(name string) {
	q, exists := b.queues[name]
	if !exists {
		return
	}
	delete(b.queues, name)
	b.topology.RemoveQueue(name)
	for _, list := range [][]*entry{q.returned, q.ready, q.unacked} {
		for _, e := range list {
			b.lose(q, e.message, "", QueueDeleted)
		}
	}
	b.dropHeld(q, QueueDeleted)
}

func (b *Broker) dropHeld(q *queue, cause string) {
	for _, list := range [][]*pending{q.held, q.discarded} {
		for _, p := range list {
			if len(p.done) == 0 {
				b.lose(q, p.entry.message, p.reason, cause)
			}
		}
	}
	q.held, q.discarded = nil, nil
}

// Reconfigure changes what is in effect for an existing queue in place, as a
// change of its policy does. Messages keep the expiry that they came with. A
// queue that stops to dead-letter at least once deletes what it holds
// (rabbit_fifo_dlx:switch_from); any other change makes it try again at once
// (rabbit_fifo_dlx_worker:update_config).
func (b *Broker) Reconfigure(changed topology.Queue) error {
	q, err := b.queue(changed.Name)
	if err != nil {
		return err
	}
	before := b.settings(q)
	b.topology.SetQueue(changed)
	switch after := b.settings(q); {
	case before.atLeast && !after.atLeast:
		b.dropHeld(q, StrategyWeakened)
	case after.atLeast:
		for _, p := range slices.Clone(q.held) {
			b.try(q, p)
		}
		b.forward(q)
	}
	b.limitLength(q)
	b.settle()
	return nil
}
