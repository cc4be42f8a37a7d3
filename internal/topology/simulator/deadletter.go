package simulator

import (
	"errors"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Causes for which a message is lost or held.
const (
	NoDeadLetterExchange = "the queue has no dead-letter exchange"
	MissingExchange      = "the dead-letter exchange does not exist"
	NoRoute              = "the dead-letter exchange leads nowhere"
	Cycle                = "a cycle without a rejection"
	Full                 = "every queue is full"
	QueueDeleted         = "the queue was deleted"
	OwnQueue             = "delivered to the queue itself and never confirmed"
	StrategyWeakened     = "at-least-once was switched off"
	NowhereThen          = "the exchange that held it back leads nowhere"
)

// die dead-letters a message that was taken out of its queue.
func (b *Broker) die(q *queue, e *entry, reason string) {
	s := b.settings(q)
	b.event(Event{Kind: DeadLettered, Message: e.message.id, Queue: q.name, Reason: reason})
	if s.target == nil {
		b.lose(q, e.message, reason, NoDeadLetterExchange)
		return
	}
	if b.counts(s) && e.failed > 0 {
		annotated := *e.message
		annotated.count = e.failed
		e.message = &annotated
	}
	if s.atLeast {
		q.discarded = append(q.discarded, &pending{entry: e, reason: reason, done: map[string]bool{}})
		b.forward(q)
		return
	}
	b.sendOnce(q, s, e.message, reason)
}

// sendOnce is at-most-once dead-lettering: what cannot be delivered is lost.
func (b *Broker) sendOnce(q *queue, s settings, m *message, reason string) {
	dead := m.died(b, q.name, reason, *s.target)
	targets, cause := b.deadLetterTargets(dead, reason)
	if cause != "" {
		b.lose(q, m, reason, cause)
		return
	}
	b.holdBackAt(targets.holding, dead)
	if !slices.ContainsFunc(targets.open, func(name string) bool { return b.queues[name] != nil }) {
		if len(targets.holding) > 0 {
			return
		}
		b.lose(q, m, reason, targets.cause())
		return
	}
	delivered := false
	for _, name := range targets.open {
		if b.offer(name, dead, untracked) != refused {
			delivered = true
		}
	}
	if !delivered {
		b.lose(q, m, reason, Full)
	}
}

// targets are the queues that a dead letter is routed to.
type targets struct {
	open   []string
	cyclic []string
	// holding are the exchanges that hold it back.
	holding []string
}

func (t targets) cause() string {
	if len(t.cyclic) > 0 {
		return Cycle
	}
	return NoRoute
}

// deadLetterTargets routes a dead letter. A message that dies by rejection may
// go anywhere; otherwise the queues it would come back to in a cycle without a
// rejection are left out. The string says why there is no way at all.
func (b *Broker) deadLetterTargets(dead *message, reason string) (targets, string) {
	routed, holding, err := b.route(dead.exchange, dead)
	if err != nil {
		if errors.Is(err, topology.ErrNoExchange) {
			return targets{}, MissingExchange
		}
		return targets{}, err.Error()
	}
	t := targets{holding: holding}
	for _, name := range routed {
		if reason != Rejected && dead.cycles(name) {
			t.cyclic = append(t.cyclic, name)
		} else {
			t.open = append(t.open, name)
		}
	}
	return t, ""
}

func (b *Broker) lose(q *queue, m *message, reason, cause string) {
	b.event(Event{Kind: Lost, Message: m.id, Queue: q.name, Reason: reason, Cause: cause})
	b.fates.lost[m.id] = append(b.fates.lost[m.id], Loss{Queue: q.name, Reason: reason, Cause: cause, At: b.now})
}
