package simulator

import (
	"errors"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ErrSettled says that a delivery was settled before, or that its queue is
// gone.
var ErrSettled = errors.New("the delivery is settled already")

// Delivery is a message that a client got and must settle.
type Delivery struct {
	ID         ID
	Queue      string
	Exchange   string
	RoutingKey string
	// Headers are those that the client sees, x-death and x-delivery-count
	// included.
	Headers topology.Arguments
	Deaths  []Death
	Body    string
	// Expiration is the message's own time-to-live, nil for none.
	Expiration  *time.Duration
	Redelivered bool

	entry *entry
	queue *queue
}

// Get takes the next message out of the queue for a client to settle, as
// basic.get without no-ack does. It returns false when the queue is empty or
// does not exist.
func (b *Broker) Get(queueName string) (Delivery, bool) {
	q, exists := b.queues[queueName]
	if !exists {
		return Delivery{}, false
	}
	e := q.next()
	if e == nil {
		return Delivery{}, false
	}
	q.unacked = append(q.unacked, e)
	d := b.delivery(q, e)
	e.delivered = true
	b.event(Event{Kind: Delivered, Message: d.ID, Queue: q.name, Exchange: d.Exchange, RoutingKey: d.RoutingKey})
	b.limitLength(q)
	b.settle()
	return d, true
}

func (b *Broker) delivery(q *queue, e *entry) Delivery {
	m := e.message
	d := Delivery{
		ID: m.id, Queue: q.name, Exchange: m.exchange, RoutingKey: m.keys[0], Headers: m.headers.Clone(),
		Deaths: slices.Clone(m.deaths), Body: m.body, Expiration: m.expiration,
		Redelivered: e.delivered, entry: e, queue: q,
	}
	s := b.settings(q)
	switch {
	case s.quorum:
		b.addCounts(&d, e)
	case b.counts(s):
		d.Redelivered = e.delivered || e.failed > 0
	}
	return d
}

// addCounts writes the headers in which quorum queues tell their counts
// (rabbit_fifo_client:add_delivery_count_header). A count that came from
// another queue makes the first delivery look like a second one from 4.0 on.
func (b *Broker) addCounts(d *Delivery, e *entry) {
	if !b.rules.countsAcquired {
		d.Redelivered = e.failed > 0
		if e.failed > 0 || b.rules.getSetsCount {
			d.Headers["x-delivery-count"] = e.failed
		}
		return
	}
	shown := e.acquired
	if shown == 0 {
		shown = e.failed
	}
	d.Redelivered = shown > 0
	switch {
	case shown == 0:
	case b.rules.limitsAcquired:
		d.Headers["x-delivery-count"] = shown
	default:
		d.Headers["x-acquired-count"] = shown
		if e.failed > 0 {
			d.Headers["x-delivery-count"] = e.failed
		}
	}
}

// settlement is the way in which a client, or its end, settles a delivery.
type settlement int

const (
	byReject settlement = iota
	byNack
	byCrash
)

// Ack settles the delivery: the message is done.
func (b *Broker) Ack(d Delivery) error {
	if err := b.take(d); err != nil {
		return err
	}
	b.event(Event{Kind: Acked, Message: d.ID, Queue: d.Queue})
	b.fates.acked[d.ID]++
	b.limitLength(d.queue)
	b.settle()
	return nil
}

// Reject settles the delivery by basic.reject.
func (b *Broker) Reject(d Delivery, requeue bool) error {
	return b.refuseDelivery(d, byReject, requeue)
}

// Nack settles the delivery by basic.nack, which differs from basic.reject in
// what 4.3 counts.
func (b *Broker) Nack(d Delivery, requeue bool) error { return b.refuseDelivery(d, byNack, requeue) }

// Crash closes the channel that the delivery was made on. Every delivery is
// taken to have a channel of its own.
func (b *Broker) Crash(d Delivery) error { return b.refuseDelivery(d, byCrash, true) }

func (b *Broker) refuseDelivery(d Delivery, by settlement, requeue bool) error {
	if err := b.take(d); err != nil {
		return err
	}
	failed := b.count(d.entry, by, requeue)
	if requeue {
		b.giveBack(d.queue, d.entry, by, failed)
	} else {
		b.die(d.queue, d.entry, Rejected)
	}
	b.limitLength(d.queue)
	b.settle()
	return nil
}

// take removes the delivery from those that wait to be settled.
func (b *Broker) take(d Delivery) error {
	q := b.queues[d.Queue]
	if d.entry == nil || q == nil || q != d.queue || !slices.Contains(q.unacked, d.entry) {
		return ErrSettled
	}
	q.remove(d.entry)
	return nil
}

// count adds to what a quorum queue counts of a message that was not acked
// (rabbit_fifo:incr_msg_headers; rabbit_channel for what nack and reject are),
// and says whether that is a failed delivery.
func (b *Broker) count(e *entry, by settlement, requeue bool) (failed bool) {
	e.acquired++
	failed = true
	switch by {
	case byNack:
		failed = !b.rules.nackIsRelease && (!requeue || b.rules.rejectFails)
	case byReject:
		failed = !requeue || b.rules.rejectFails
	case byCrash:
	}
	if failed {
		e.failed++
	}
	return failed
}

// giveBack puts a message back into its queue, unless that takes it over the
// delivery limit.
func (b *Broker) giveBack(q *queue, e *entry, by settlement, failed bool) {
	s := b.settings(q)
	b.event(Event{Kind: Requeued, Message: e.message.id, Queue: q.name})
	switch {
	case !s.quorum:
		i, _ := slices.BinarySearchFunc(q.ready, e.seq, func(other *entry, seq int64) int { return int(other.seq - seq) })
		q.ready = slices.Insert(q.ready, i, e)
	case s.limit != nil && b.limited(e) > *s.limit:
		b.die(q, e, DeliveryLimit)
	case s.delayed.applies(failed):
		b.holdBack(q, e, s.delayed)
	case s.limit == nil && by != byCrash && b.rules.requeuesBehind:
		q.ready = append(q.ready, e)
	default:
		q.returned = append(q.returned, e)
	}
}

func (b *Broker) limited(e *entry) int64 {
	if b.rules.limitsAcquired {
		return e.acquired
	}
	return e.failed
}
