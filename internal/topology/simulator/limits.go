package simulator

import "github.com/retrychain/terraform-provider-rabbitmq/internal/topology"

// limitLength does what a queue does when it holds more than it may: drop what
// is at its head, or, a quorum queue with reject-publish, tell publishers to
// stop until it is down to 80 percent (rabbit_fifo:evaluate_limit).
func (b *Broker) limitLength(q *queue) {
	for {
		s := b.settings(q)
		over := overflows(q, s, 0, 0)
		if s.overflow != topology.DropHead {
			if s.quorum {
				q.refusing = over || q.refusing && !isBelowSoftLimit(q, s)
			}
			return
		}
		if !over {
			return
		}
		e := q.next()
		if e == nil {
			return
		}
		b.die(q, e, MaxLen)
	}
}

// overflows says whether the queue would be over a limit with so much more.
// Messages that are with consumers do not count; dead letters that a quorum
// queue holds do.
func overflows(q *queue, s settings, messages, bytes int64) bool {
	length, size := q.load()
	return s.maxLen != nil && length+messages > *s.maxLen || s.maxBytes != nil && size+bytes > *s.maxBytes
}

func isBelowSoftLimit(q *queue, s settings) bool {
	length, size := q.load()
	below := func(n int64, limit *int64) bool { return limit == nil || n <= *limit*8/10 }
	return below(length, s.maxLen) && below(size, s.maxBytes)
}

// load is what counts towards the limits: messages and bytes of their bodies.
func (q *queue) load() (messages, bytes int64) {
	for _, list := range [][]*entry{q.ready, q.returned, q.delayed} {
		for _, e := range list {
			messages++
			bytes += int64(len(e.message.body))
		}
	}
	for _, list := range [][]*pending{q.held, q.discarded} {
		for _, p := range list {
			messages++
			bytes += int64(len(p.entry.message.body))
		}
	}
	return messages, bytes
}
