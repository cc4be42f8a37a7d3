package simulator

import (
	"cmp"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// queue is the state of a queue. What it was declared with is in the topology.
type queue struct {
	name string
	// ready are the messages in order; returned are those of a quorum queue
	// that came back, which are served first.
	ready, returned []*entry
	unacked         []*entry
	// delayed are those that came back and are held back, in the order in which
	// their time comes.
	delayed []*entry
	// held are dead letters that an at-least-once queue could not deliver and
	// tries again at retryAt; discarded wait behind them.
	held, discarded []*pending
	retryAt         time.Duration
	// refusing: a full quorum queue with overflow reject-publish has told its
	// publishers to stop.
	refusing bool
	// known are its settings, until something changes them.
	known *settings
}

// entry is a message in a queue.
type entry struct {
	message *message
	seq     int64
	// expires is when the message's time-to-live ends, fixed when it came.
	expires *time.Duration
	// acquired and failed count what quorum queues count.
	acquired, failed int64
	delivered        bool
	// readyAt is when a message that is held back is ready again.
	readyAt time.Duration
}

// settings are what a queue was declared with, merged with the policies that
// apply to it.
type settings struct {
	quorum   bool
	ttl      *time.Duration
	target   *deadLetterTarget
	atLeast  bool // at-least-once is in effect
	overflow string
	maxLen   *int64
	maxBytes *int64
	limit    *int64 // delivery limit
	delayed  delayedRetry
}

// deadLetterTarget is where dead letters go; a nil key keeps the message's own.
type deadLetterTarget struct {
	exchange string
	key      *string
}

func (b *Broker) settings(q *queue) settings {
	if q.known == nil {
		declared, _ := b.topology.Queue(q.name)
		q.known = new(b.settingsOf(declared, b.topology.Effective(declared, b.rules.defaultLimit)))
	}
	return *q.known
}

// settingsOf reads the settings from the arguments that are in effect.
func (b *Broker) settingsOf(declared topology.Queue, a topology.Arguments) settings {
	s := settings{
		quorum:   declared.Type == topology.Quorum,
		overflow: cmp.Or(a.String(topology.Overflow), topology.DropHead),
		maxLen:   integer(a, topology.MaxLength),
		maxBytes: integer(a, topology.MaxLengthBytes),
	}
	if ms := integer(a, topology.MessageTTL); ms != nil {
		ttl := time.Duration(*ms) * time.Millisecond
		s.ttl = &ttl
	}
	if exchange, set := a[topology.DeadLetterExchange].(string); set {
		s.target = &deadLetterTarget{exchange: exchange}
		if key, set := a[topology.DeadLetterRoutingKey].(string); set {
			s.target.key = &key
		}
	}
	if s.quorum {
		b.quorumSettings(&s, a)
	}
	return s
}

func (b *Broker) quorumSettings(s *settings, a topology.Arguments) {
	// Quorum queues accept reject-publish-dlx and behave as with drop-head
	// (rabbit_quorum_queue:overflow).
	if s.overflow == topology.RejectPublishDLX {
		s.overflow = topology.DropHead
	}
	// At-least-once needs reject-publish; else the queue falls back to
	// at-most-once and says so in the log only (rabbit_quorum_queue:dlh).
	s.atLeast = s.target != nil && a.String(topology.DeadLetterStrategy) == "at-least-once" && s.overflow == topology.RejectPublish
	s.limit = integer(a, topology.DeliveryLimit)
	if b.rules.delaysReturned {
		s.delayed = readDelayedRetry(a)
	}
	if b.rules.defaultLimit {
		switch {
		case s.limit == nil:
			s.limit = new(int64(topology.DefaultDeliveryLimit))
		case *s.limit < 0:
			s.limit = nil
		}
	}
}

func integer(a topology.Arguments, key string) *int64 {
	if n, set := a.Int(key); set {
		return &n
	}
	return nil
}

// answer is what a queue says to a message that is offered to it.
type answer int

const (
	taken answer = iota
	refused
	// deadLettered: refused, but sent on to the dead-letter exchange.
	deadLettered
)

// tracking is whether a queue learns who sends. A quorum queue can refuse only
// those that wait for its confirms: publishers and at-least-once dead letters,
// not at-most-once ones (measured on 4.0.5 and 4.3.6).
type tracking bool

const (
	tracked   tracking = true
	untracked tracking = false
)

// offer puts a copy of the message into the queue if the queue takes it.
func (b *Broker) offer(name string, m *message, by tracking) answer {
	q, exists := b.queues[name]
	if !exists {
		return refused
	}
	s := b.settings(q)
	if s.quorum {
		if q.refusing && by == tracked {
			return b.refuse(q, m)
		}
	} else if s.overflow != topology.DropHead && overflows(q, s, 1, int64(len(m.body))) {
		answer := b.refuse(q, m)
		if s.overflow == topology.RejectPublishDLX && s.target != nil {
			b.event(Event{Kind: DeadLettered, Message: m.id, Queue: q.name, Reason: MaxLen})
			b.sendOnce(q, s, m, MaxLen)
			return deadLettered
		}
		return answer
	}
	b.enqueue(q, s, m)
	return taken
}

func (b *Broker) refuse(q *queue, m *message) answer {
	b.event(Event{Kind: RefusedBy, Message: m.id, Queue: q.name})
	return refused
}

func (b *Broker) enqueue(q *queue, s settings, m *message) {
	b.lastSeq++
	e := &entry{message: m, seq: b.lastSeq, expires: b.expiry(s, m)}
	if b.counts(s) {
		e.failed = m.count
	}
	q.ready = append(q.ready, e)
	b.event(Event{Kind: Enqueued, Message: m.id, Queue: q.name, Exchange: m.exchange, RoutingKey: m.keys[0]})
	b.limitLength(q)
}

// counts says whether the queue goes on with the delivery count of a dead letter
// and gives it on.
func (b *Broker) counts(s settings) bool {
	return b.rules.carriesCount && (s.quorum || b.rules.classicCounts)
}

// expiry is fixed when a message comes: the smaller of its own and the queue's
// time-to-live. In a quorum queue one of 0 lasts a millisecond
// (rabbit_fifo:update_expiry_header).
func (b *Broker) expiry(s settings, m *message) *time.Duration {
	ttl := s.ttl
	if m.expiration != nil && (ttl == nil || *m.expiration < *ttl) {
		ttl = m.expiration
	}
	if ttl == nil {
		return nil
	}
	at := b.now + *ttl
	if s.quorum && *ttl == 0 {
		at += time.Millisecond
	}
	return &at
}

// heads are the messages that can expire next. Those behind them stay until
// they are heads themselves.
func (b *Broker) heads(q *queue) []*entry {
	var heads []*entry
	if len(q.returned) > 0 {
		heads = append(heads, q.returned[0])
		if !b.rules.expiresReturned {
			return heads
		}
	}
	if len(q.ready) > 0 {
		heads = append(heads, q.ready[0])
	}
	return heads
}

// expire dead-letters the messages at the head of the queue whose time is up
// and says whether there were any.
func (b *Broker) expire(q *queue) bool {
	expired := false
	for {
		i := slices.IndexFunc(b.heads(q), func(e *entry) bool { return e.expires != nil && *e.expires <= b.now })
		if i < 0 {
			return expired
		}
		e := b.heads(q)[i]
		q.remove(e)
		b.die(q, e, Expired)
		expired = true
	}
}

// next removes and returns the message that is served next.
func (q *queue) next() *entry {
	for _, list := range []*[]*entry{&q.returned, &q.ready} {
		if len(*list) > 0 {
			e := (*list)[0]
			*list = (*list)[1:]
			return e
		}
	}
	return nil
}

// remove takes the message out of wherever it is in the queue.
func (q *queue) remove(e *entry) {
	for _, list := range []*[]*entry{&q.returned, &q.ready, &q.unacked} {
		if i := slices.Index(*list, e); i >= 0 {
			*list = slices.Delete(*list, i, i+1)
			return
		}
	}
}
