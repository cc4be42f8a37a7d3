package simulator

import (
	"slices"
	"time"
)

// pending is a dead letter of an at-least-once queue that is not yet confirmed
// by all queues it goes to (rabbit_fifo_dlx_worker).
type pending struct {
	entry  *entry
	reason string
	// dead is the message with its death recorded, nil before the first try.
	dead *message
	// done are the queues that took it.
	done map[string]bool
	// sent is when it was last offered to a queue, nil if never.
	sent *time.Duration
	// cause says why it is held.
	cause string
}

// forward sends on what the queue discarded, as long as fewer than [HoldSlots]
// dead letters are held.
func (b *Broker) forward(q *queue) {
	for len(q.discarded) > 0 && len(q.held) < HoldSlots {
		p := q.discarded[0]
		q.discarded = q.discarded[1:]
		b.hold(q, p)
		b.try(q, p)
	}
	b.limitLength(q)
}

// hold puts a dead letter among those that wait for confirms. The timer that
// tries all of them again starts with the first.
func (b *Broker) hold(q *queue, p *pending) {
	if len(q.held) == 0 {
		q.retryAt = b.now + HoldPeriod
	}
	q.held = append(q.held, p)
}

// try sends a dead letter to the queues that have not taken it, and lets go of
// it when all have.
func (b *Broker) try(q *queue, p *pending) {
	s := b.settings(q)
	first := p.dead == nil
	if first {
		p.dead = p.entry.message.died(b, q.name, p.reason, *s.target)
	} else {
		p.redirect(*s.target)
	}
	routed, cause := b.deadLetterTargets(p.dead, p.reason)
	if cause != "" {
		b.keep(q, p, cause)
		return
	}
	// What an exchange holds back counts as not routed, and so every try leaves
	// another copy there.
	b.holdBackAt(routed.holding, p.dead)
	open := slices.DeleteFunc(routed.open, func(name string) bool { return b.queues[name] == nil })
	if len(open) == 0 && len(p.done) == 0 {
		b.keep(q, p, routed.cause())
		return
	}
	full := false
	for _, name := range open {
		if p.done[name] {
			continue
		}
		p.sent = new(b.now)
		if b.offer(name, p.dead, tracked) == taken {
			p.done[name] = true
		} else {
			full = true
		}
	}
	switch {
	case full:
		b.keep(q, p, Full)
		return
	case b.rules.keepsOwn && p.done[q.name]:
		b.keep(q, p, OwnQueue)
		return
	}
	q.held = slices.DeleteFunc(q.held, func(other *pending) bool { return other == p })
}

// redirect gives the dead letter the exchange and the key of its queue as they
// are now.
func (p *pending) redirect(to deadLetterTarget) {
	next := *p.dead
	next.exchange = to.exchange
	next.keys = p.entry.message.keys
	if to.key != nil {
		next.keys = []string{*to.key}
	}
	p.dead = &next
}

func (b *Broker) keep(q *queue, p *pending, cause string) {
	if p.cause != cause {
		b.event(Event{Kind: Held, Message: p.dead.id, Queue: q.name, Reason: p.reason, Cause: cause})
	}
	p.cause = cause
}

// retryHeld tries the held dead letters of the queue again when their time has
// come and says whether it had. One that a full queue refused must be as old
// as the period; one that had no way is tried at every turn.
func (b *Broker) retryHeld(q *queue) bool {
	if len(q.held) == 0 || q.retryAt > b.now {
		return false
	}
	q.retryAt = b.now + HoldPeriod
	for _, p := range slices.Clone(q.held) {
		if p.sent == nil || *p.sent+HoldPeriod <= b.now {
			b.try(q, p)
		}
	}
	b.forward(q)
	return true
}
