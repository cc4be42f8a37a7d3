package simulator

import (
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// delayedRetry is how a quorum queue holds back messages that come back to it
// (RabbitMQ 4.3). The zero value holds back nothing.
type delayedRetry struct {
	failed, returned bool // which messages
	minimum, maximum time.Duration
}

// readDelayedRetry reads the queue's arguments. Without a positive minimum
// nothing is held back, and the maximum is the minimum unless it is given
// (rabbit_quorum_queue:get_delayed_retry_config/1).
func readDelayedRetry(a topology.Arguments) delayedRetry {
	minimum := integer(a, topology.DelayedRetryMin)
	if minimum == nil || *minimum <= 0 {
		return delayedRetry{}
	}
	kind := a.String(topology.DelayedRetryType)
	d := delayedRetry{
		failed:   kind == "all" || kind == "failed",
		returned: kind == "all" || kind == "returned",
		minimum:  time.Duration(*minimum) * time.Millisecond,
	}
	d.maximum = d.minimum
	if maximum := integer(a, topology.DelayedRetryMax); maximum != nil {
		d.maximum = time.Duration(*maximum) * time.Millisecond
	}
	return d
}

// applies says whether a message that comes back is held back; failed says
// whether its delivery counts as failed.
func (d delayedRetry) applies(failed bool) bool { return failed && d.failed || !failed && d.returned }

// holdBack keeps the message away from consumers: the n-th failed delivery for n
// times the minimum, up to the maximum, and one that does not count for as long
// as the last one that did, at least the minimum
// (rabbit_fifo:calculate_ready_at/4).
func (b *Broker) holdBack(q *queue, e *entry, d delayedRetry) {
	e.readyAt = b.now + min(time.Duration(max(1, e.failed))*d.minimum, d.maximum)
	i := len(q.delayed)
	for i > 0 && q.delayed[i-1].readyAt > e.readyAt {
		i--
	}
	q.delayed = slices.Insert(q.delayed, i, e)
	b.event(Event{Kind: HeldBack, Message: e.message.id, Queue: q.name})
}

// release makes the messages ready whose time has come and says whether there
// were any. They are served before those that never came back.
func (b *Broker) release(q *queue) bool {
	due := 0
	for due < len(q.delayed) && q.delayed[due].readyAt <= b.now {
		due++
	}
	q.returned = append(q.returned, q.delayed[:due]...)
	q.delayed = slices.Clone(q.delayed[due:])
	return due > 0
}
