package simulator

import (
	"fmt"
	"maps"
	"reflect"
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
	case step.DeleteUnfed != nil:
		return b.deleteUnfed(*step.DeleteUnfed)
	case step.DeleteQueue != nil:
		b.deleteQueue(step.DeleteQueue.Name)
	case step.SetPolicy != nil:
		b.reconfigure(func() { b.topology.SetPolicy(*step.SetPolicy) })
	case step.DeletePolicy != nil:
		b.reconfigure(func() { b.topology.RemovePolicy(*step.DeletePolicy) })
	}
	return nil
}

func (b *Broker) deleteUnfed(u topology.Unfed) error {
	if _, exists := b.topology.Queue(u.Queue); exists {
		return fmt.Errorf("queue %q dead-letters to exchange %q", u.Queue, u.Exchange.Name)
	}
	b.topology.RemoveExchange(u.Exchange.Name)
	return nil
}

func (b *Broker) declareExchange(e topology.Exchange) error {
	routedAs := e
	if e.Type == topology.DelayedMessage && b.rules.delayedExchange {
		routedAs.Type = e.Arguments.String(topology.DelayedType)
	}
	if !routedAs.KnownType() {
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
	for _, list := range [][]*entry{q.returned, q.ready, q.delayed, q.unacked} {
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

// reconfigure makes a change of policies, which takes effect in place. Messages
// keep the expiry that they came with. A queue that stops to dead-letter at
// least once deletes what it holds (rabbit_fifo_dlx:switch_from); any other
// change of such a queue makes it try again at once
// (rabbit_fifo_dlx_worker:update_config).
func (b *Broker) reconfigure(change func()) {
	before := map[string]settings{}
	for name, q := range b.queues {
		before[name] = b.settings(q)
	}
	change()
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		q := b.queues[name]
		q.known = nil
		after := b.settings(q)
		switch {
		case reflect.DeepEqual(before[name], after):
			continue
		case before[name].atLeast && !after.atLeast:
			b.dropHeld(q, StrategyWeakened)
		case after.atLeast:
			for _, p := range slices.Clone(q.held) {
				b.try(q, p)
			}
			b.forward(q)
		}
		b.limitLength(q)
	}
}

// Reconfigure changes what is in effect for an existing queue in place, as a
// change of its policy does.
func (b *Broker) Reconfigure(changed topology.Queue) error {
	if _, err := b.queue(changed.Name); err != nil {
		return err
	}
	b.reconfigure(func() { b.topology.SetQueue(changed) })
	b.settle()
	return nil
}
