package messages

import (
	"context"
	"errors"
	"slices"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// watchPrefetch is the largest prefetch count that AMQP 0-9-1 has. None would
// be 2000 for a quorum queue (rabbit_quorum_queue, 3.10 to 4.3).
const watchPrefetch = 65535

// watchPriority lets the broker prefer our consumer to one that comes while we
// watch.
const watchPriority = 100

// Message is a message that a [Watch] got.
type Message struct{ delivery amqp.Delivery }

// ID is the message's id, "" when its publisher gave none.
func (m Message) ID() string { return m.delivery.MessageId }

// Watch is a consumer of one queue that keeps what it gets and acknowledges
// nothing. While it is there, no message disappears unseen with the queue.
type Watch struct {
	session *Session
	channel *amqp.Channel
	queue   string
	// cancelled holds a consumer tag when the broker cancelled the consumer.
	cancelled chan string
	// ended is closed when nothing more can come.
	ended chan struct{}

	mu   sync.Mutex
	held []Message
}

// watchTag is the consumer tag of a Watch, on a channel of its own.
const watchTag = "watch"

// Watch consumes the queue. It returns [ErrNotFound] when there is no such
// queue, and a [RefusedError] when the user may not read it.
func (s *Session) Watch(ctx context.Context, queue string) (*Watch, error) {
	defer s.endWith(ctx)()
	channel, err := s.connection.Channel()
	if err != nil {
		return nil, explain(ctx, err)
	}
	if err := channel.Qos(watchPrefetch, 0, false); err != nil {
		return nil, explain(ctx, err)
	}
	w := &Watch{
		session:   s,
		channel:   channel,
		queue:     queue,
		cancelled: channel.NotifyCancel(make(chan string, 1)),
		ended:     make(chan struct{}),
	}
	deliveries, err := channel.ConsumeWithContext(context.WithoutCancel(ctx), queue, watchTag, false, false, false, false,
		amqp.Table{"x-priority": int32(watchPriority)})
	if err != nil {
		return nil, queueError(ctx, queue, err)
	}
	go w.collect(deliveries)
	return w, nil
}

func (w *Watch) collect(deliveries <-chan amqp.Delivery) {
	defer close(w.ended)
	for d := range deliveries {
		w.mu.Lock()
		w.held = append(w.held, Message{d})
		w.mu.Unlock()
	}
}

// Held returns what has come so far.
func (w *Watch) Held() []Message {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[:len(w.held):len(w.held)]
}

// Depth declares the queue passively. Its consumers include the watch.
func (w *Watch) Depth(ctx context.Context) (Depth, error) {
	q, err := w.session.ask(ctx, w.channel, w.queue)
	if err != nil {
		return Depth{}, err
	}
	return Depth{Ready: q.Messages, Consumers: q.Consumers}, nil
}

// Rest waits until the broker ends the consumer because the queue is gone, and
// returns everything that came before. gone is false when ctx ended first, or
// the connection.
func (w *Watch) Rest(ctx context.Context) (held []Message, gone bool) {
	select {
	case <-w.ended:
	case <-ctx.Done():
	}
	select {
	case _, gone = <-w.cancelled:
	default:
	}
	return w.Held(), gone
}

// Release ends the watch and gives back what came. RabbitMQ counts that as a
// delivery of each message (before 4.3 towards the delivery limit), and puts
// them at the end of a queue without a limit before 4.3. A message that a
// return would take over the delivery limit is published to the queue again,
// see [Session.PutBack]; a negative limit means none.
func (w *Watch) Release(ctx context.Context, limit int64) error {
	defer w.session.endWith(ctx)()
	if err := w.channel.Cancel(watchTag, false); err != nil {
		return explain(ctx, err)
	}
	<-w.ended
	for _, m := range w.Held() {
		if err := w.giveBack(ctx, m, limit); err != nil {
			return explain(ctx, err)
		}
	}
	return explain(ctx, w.channel.Close())
}

func (w *Watch) giveBack(ctx context.Context, m Message, limit int64) error {
	count, _ := m.delivery.Headers["x-delivery-count"].(int64)
	if limit < 0 || count < limit {
		return m.delivery.Nack(false, true)
	}
	if _, err := w.session.PutBack(ctx, w.queue, nil, []Message{m}); err != nil {
		return err
	}
	return m.delivery.Ack(false)
}

// endWith ends what is under way with ctx, until the returned function is
// called: amqp091 has no contexts.
func (s *Session) endWith(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = s.socket.Close() })
}

// answers says whether err is the broker's, with one of the codes.
func answers(err error, codes ...int) bool {
	var refusal *amqp.Error
	return errors.As(err, &refusal) && refusal.Server && slices.Contains(codes, refusal.Code)
}
