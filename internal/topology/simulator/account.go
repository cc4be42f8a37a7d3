package simulator

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Loss is where and why a message was lost: no copy came out of it.
type Loss struct {
	Queue string
	// Exchange is set instead of Queue where an exchange held the message back
	// and could not deliver it then.
	Exchange string
	Reason   string // for which it died, empty when its queue was deleted
	Cause    string
	At       time.Duration
}

// State is where a message is or how it ended.
type State string

// The states of a message.
const (
	IsAcked      State = "acked"
	IsReady      State = "ready"
	IsUnacked    State = "unacked"
	IsHeld       State = "held"
	IsDelayed    State = "delayed"
	IsLost       State = "lost"
	IsUnroutable State = "unroutable"
	IsRefused    State = "refused"
)

// Fate is where one copy of a message is or how it ended.
type Fate struct {
	State State
	// Queue is where it is, or was lost.
	Queue string
	// Exchange is the one that holds it back, or that lost it.
	Exchange string
	// Cause is why it is held or was lost.
	Cause string
}

// String describes the fate.
func (f Fate) String() string {
	text := string(f.State)
	if f.Queue != "" {
		text += fmt.Sprintf(" in %q", f.Queue)
	}
	if f.Exchange != "" {
		text += fmt.Sprintf(" at exchange %q", f.Exchange)
	}
	if f.Cause != "" {
		text += " (" + f.Cause + ")"
	}
	return text
}

// fates is what became of messages that are in no queue any more.
type fates struct {
	acked             map[ID]int
	lost              map[ID][]Loss
	returned, refused map[ID]bool
}

func newFates() fates {
	return fates{acked: map[ID]int{}, lost: map[ID][]Loss{}, returned: map[ID]bool{}, refused: map[ID]bool{}}
}

// Account tells for every published message what became of it: one fate for
// each copy, so that a message that was neither lost without a trace nor
// doubled has exactly one.
func (b *Broker) Account() map[ID][]Fate {
	account := map[ID][]Fate{}
	add := func(id ID, f Fate) { account[id] = append(account[id], f) }
	for id := ID(1); id <= b.lastID; id++ {
		account[id] = nil
		for range b.fates.acked[id] {
			add(id, Fate{State: IsAcked})
		}
		for _, loss := range b.fates.lost[id] {
			add(id, Fate{State: IsLost, Queue: loss.Queue, Exchange: loss.Exchange, Cause: loss.Cause})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		b.queues[name].account(add)
	}
	for _, w := range b.waiting {
		add(w.message.id, Fate{State: IsDelayed, Exchange: w.exchange})
	}
	for id := range account {
		switch {
		case b.fates.returned[id]:
			add(id, Fate{State: IsUnroutable})
		case b.fates.refused[id] && len(account[id]) == 0:
			add(id, Fate{State: IsRefused})
		}
	}
	return account
}

func (q *queue) account(add func(ID, Fate)) {
	for _, list := range [][]*entry{q.returned, q.ready} {
		for _, e := range list {
			add(e.message.id, Fate{State: IsReady, Queue: q.name})
		}
	}
	for _, e := range q.delayed {
		add(e.message.id, Fate{State: IsDelayed, Queue: q.name})
	}
	for _, e := range q.unacked {
		add(e.message.id, Fate{State: IsUnacked, Queue: q.name})
	}
	for _, list := range [][]*pending{q.held, q.discarded} {
		for _, p := range list {
			add(p.entry.message.id, Fate{State: IsHeld, Queue: q.name, Cause: p.cause})
		}
	}
}

// Fates tells what became of one message.
func (b *Broker) Fates(id ID) []Fate { return b.Account()[id] }

// Losses tells where and why copies of a message were lost.
func (b *Broker) Losses(id ID) []Loss { return b.fates.lost[id] }

// Depth is how many messages a queue holds.
type Depth struct {
	Ready, Unacked int
	// Held counts the dead letters that an at-least-once queue could not
	// deliver yet, those that wait behind them included (messages_dlx).
	Held int
	// Delayed counts the messages that came back and are held back
	// (messages_delayed).
	Delayed int
}

// Depth counts the messages of a queue.
func (b *Broker) Depth(queueName string) Depth {
	q, exists := b.queues[queueName]
	if !exists {
		return Depth{}
	}
	return Depth{
		Ready: len(q.ready) + len(q.returned), Unacked: len(q.unacked), Held: len(q.held) + len(q.discarded), Delayed: len(q.delayed),
	}
}
