// Package worker publishes messages, consumes them, fails on demand and tells
// what it saw, for tests, the demo and the benchmark.
package worker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
)

// Worker is a connection to one virtual host with a channel for publishing and one for
// looks into queues.
type Worker struct {
	conn    *amqp.Connection
	publish *amqp.Channel
	returns chan amqp.Return
	mu      sync.Mutex // one mandatory publish at a time

	look    *amqp.Channel // nil before the first look; an error closes it
	looking sync.Mutex
}

// Dial connects to a virtual host; address is amqp://user:password@host:port.
func Dial(address, vhost string) (*Worker, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, errors.New("the AMQP address is not a URL")
	}
	conn, err := amqp.DialConfig(u.Scheme+"://"+u.User.String()+"@"+u.Host, amqp.Config{Vhost: vhost, Heartbeat: 10 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("connect to %s, virtual host %q: %w", u.Host, vhost, err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &Worker{conn: conn, publish: ch, returns: ch.NotifyReturn(make(chan amqp.Return, 1))}, nil
}

// Close ends the connection and every consumer on it.
func (w *Worker) Close() error { return w.conn.Close() }

// Connection gives access to what the worker does not wrap.
func (w *Worker) Connection() *amqp.Connection { return w.conn }

// Publish publishes one persistent message and waits for the broker's confirm.
// It fails when the broker refuses the message or no queue takes it.
func (w *Worker) Publish(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	message.DeliveryMode = amqp.Persistent
	confirm, err := w.publish.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, message)
	if err != nil {
		return fmt.Errorf("publish to exchange %q: %w", exchange, err)
	}
	acked, err := confirm.WaitContext(ctx)
	if err != nil {
		return fmt.Errorf("publish to exchange %q: no confirm: %w", exchange, err)
	}
	select {
	case returned := <-w.returns:
		return fmt.Errorf("publish to exchange %q: no queue took the message: %s", exchange, returned.ReplyText)
	default:
	}
	if !acked {
		return fmt.Errorf("publish to exchange %q: the broker refused the message", exchange)
	}
	return nil
}

// Outcome is what a consumer does with a delivery.
type Outcome int

// The outcomes.
const (
	Ack           Outcome = iota
	Reject                // basic.reject, requeue=false
	Nack                  // basic.nack, requeue=false
	Requeue               // basic.nack, requeue=true
	RejectRequeue         // basic.reject, requeue=true
	Keep                  // neither: the message stays unacknowledged
)

// Delivery is one delivery as the consumer saw it.
type Delivery struct {
	amqp.Delivery
	Queue string
	At    time.Time
}

// Consume consumes a queue until ctx ends: decide says what to do with each
// delivery. It returns the first error of the connection, and nil when ctx
// ended. prefetch limits the deliveries under way.
func (w *Worker) Consume(ctx context.Context, queue string, prefetch int, decide func(Delivery) Outcome) error {
	ch, err := w.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { _ = ch.Close() }()
	if err := ch.Qos(prefetch, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.Consume(queue, "", false, false, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume queue %q: %w", queue, err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open {
				return ended(ctx, queue)
			}
			if err := settle(d, decide(Delivery{Delivery: d, Queue: queue, At: time.Now()})); err != nil {
				return err
			}
		}
	}
}

// ended is not an error when the caller wanted the end.
func ended(ctx context.Context, queue string) error {
	if ctx.Err() == nil {
		return fmt.Errorf("consume queue %q: the broker ended the consumer", queue)
	}
	return nil
}

func settle(d amqp.Delivery, outcome Outcome) error {
	switch outcome {
	case Ack:
		return d.Ack(false)
	case Reject:
		return d.Reject(false)
	case Nack:
		return d.Nack(false, false)
	case Requeue:
		return d.Nack(false, true)
	case RejectRequeue:
		return d.Reject(true)
	default:
		return nil
	}
}

// Get takes one message out of a queue and acknowledges it, or waits until ctx
// ends.
func (w *Worker) Get(ctx context.Context, queue string) (Delivery, error) {
	found := Delivery{Queue: queue}
	err := poll.UntilDone(ctx, func() (ok bool, err error) {
		err = w.lookInto(func(ch *amqp.Channel) error {
			found.Delivery, ok, err = ch.Get(queue, false)
			return err
		})
		found.At = time.Now()
		return ok, err
	})
	if err != nil {
		return Delivery{}, fmt.Errorf("get from queue %q: %w", queue, err)
	}
	return found, found.Ack(false)
}

// lookInto calls f with the channel for looks.
func (w *Worker) lookInto(f func(ch *amqp.Channel) error) error {
	w.looking.Lock()
	defer w.looking.Unlock()
	if w.look == nil || w.look.IsClosed() {
		ch, err := w.conn.Channel()
		if err != nil {
			return err
		}
		w.look = ch
	}
	return f(w.look)
}

// Drain takes every ready message out of a queue and acknowledges it. It
// returns when the queue was found empty.
func (w *Worker) Drain(queue string) ([]Delivery, error) {
	var drained []Delivery
	err := w.lookInto(func(ch *amqp.Channel) error {
		for {
			d, ok, err := ch.Get(queue, true)
			if err != nil || !ok {
				return err
			}
			drained = append(drained, Delivery{Delivery: d, Queue: queue, At: time.Now()})
		}
	})
	return drained, err
}

// Ready returns the number of messages that are ready in the queue, exactly
// (a passive declare).
func (w *Worker) Ready(queue string) (int, error) {
	var n int
	err := w.lookInto(func(ch *amqp.Channel) error {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		n = q.Messages
		return err
	})
	return n, err
}

// Deaths returns how often the message died in the queue for the reason, from
// its x-death header.
func (d Delivery) Deaths(queue, reason string) int64 {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, death := range deaths {
		table, _ := death.(amqp.Table)
		if table["queue"] == queue && table["reason"] == reason {
			count, _ := table["count"].(int64)
			return count
		}
	}
	return 0
}
