package messages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// PutBack publishes the messages to the queue, one after the other and each
// confirmed. It returns those that are not in the queue for certain, with the
// reason.
//
// A message goes through its own exchange when that is one of only, which lead
// nowhere but to the queue. Others go through a fanout exchange that is made
// for the purpose and deleted again, or through the default exchange where the
// user may not make that: then they lose their routing key, and their CC header
// that would route them elsewhere. Everything else stays, but for a user id that
// is not ours, which RabbitMQ would refuse, and the count of deliveries.
func (s *Session) PutBack(ctx context.Context, queue string, only []string, held []Message) (left []Message, err error) {
	ctx, stop := s.unlessBlocked(ctx)
	defer stop()
	defer s.endWith(ctx)()
	p := publisher{session: s, queue: queue, only: only}
	defer p.close()
	for i, m := range held {
		if err := p.publish(ctx, m); err != nil {
			return held[i:], fmt.Errorf("queue %q: %w", queue, explain(ctx, err))
		}
	}
	return nil, nil
}

// MayPutBack says whether the user may do what [Session.PutBack] needs, with a
// [RefusedError] when not, and with a [BlockedError] and the end of the
// connection while the broker blocks publishers. It publishes a message that no
// queue gets.
func (s *Session) MayPutBack(ctx context.Context, queue string) error {
	ctx, stop := s.unlessBlocked(ctx)
	defer stop()
	defer s.endWith(ctx)()
	p := publisher{session: s, queue: queue}
	defer p.close()
	err := p.probe(ctx, "")
	if answers(err, amqp.AccessRefused) {
		if other := p.declare(ctx); other != nil {
			return explain(ctx, other)
		}
		if p.may(p.fanout) {
			err = nil
		}
	}
	if err == nil {
		err = p.answer()
	}
	return explain(ctx, err)
}

// publisher publishes to one queue.
type publisher struct {
	session *Session
	queue   string
	only    []string
	// refused are the exchanges that the user may not publish to.
	refused []string

	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
	// ended is why the broker closed the channel, once it was asked for.
	ended error
	// fanout is the exchange that was made, "" when there is none.
	fanout string
}

// publish tries one exchange after the other until the user may publish to one.
func (p *publisher) publish(ctx context.Context, m Message) error {
	for {
		exchange, err := p.exchange(ctx, m)
		if err != nil {
			return err
		}
		err = p.publishTo(ctx, exchange, m)
		if exchange == "" || !answers(err, amqp.AccessRefused, amqp.NotFound) {
			return err
		}
		p.refused = append(p.refused, exchange)
	}
}

func (p *publisher) exchange(ctx context.Context, m Message) (string, error) {
	if own := m.delivery.Exchange; slices.Contains(p.only, own) && p.may(own) {
		return own, nil
	}
	if p.fanout == "" {
		if err := p.declare(ctx); err != nil {
			return "", err
		}
	}
	if p.may(p.fanout) {
		return p.fanout, nil
	}
	return "", nil
}

// may says whether there is such an exchange and the user was not refused.
func (p *publisher) may(exchange string) bool {
	return exchange != "" && !slices.Contains(p.refused, exchange)
}

// fanoutMark follows the queue's name in that of the exchange, so that patterns
// of permissions that begin with the queue's name allow it.
const fanoutMark = ".put-back-"

// declare makes the fanout exchange and binds the queue to it, unless the user
// may not.
func (p *publisher) declare(ctx context.Context) error {
	name := p.queue + fanoutMark + rand.Text()
	if len(name) > topology.MaxNameBytes || slices.Contains(p.refused, fanoutMark) {
		return nil
	}
	if err := p.open(); err != nil {
		return err
	}
	err := p.channel.ExchangeDeclare(name, amqp.ExchangeFanout, false, true, false, false, nil)
	if err == nil {
		p.fanout = name
		err = p.probe(ctx, name)
	}
	if err == nil {
		err = p.channel.QueueBind(p.queue, "", name, false, nil)
	}
	if answers(err, amqp.AccessRefused) {
		p.refused = append(p.refused, fanoutMark, name)
		return nil
	}
	return err
}

// open opens a channel with confirms if there is none. It can hold as many
// returned messages as a batch has: they come before the confirms, nobody reads
// them until then, and amqp091 drops what it cannot hand over.
func (p *publisher) open() error {
	if p.channel != nil && !p.channel.IsClosed() {
		return nil
	}
	channel, err := p.session.connection.Channel()
	if err != nil {
		return err
	}
	p.channel, p.ended = channel, nil
	p.returns = channel.NotifyReturn(make(chan amqp.Return, RedriveBatch))
	p.closed = channel.NotifyClose(make(chan *amqp.Error, 1))
	return channel.Confirm(false)
}

func (p *publisher) publishTo(ctx context.Context, exchange string, m Message) error {
	key, message := m.delivery.RoutingKey, p.copy(m.delivery)
	if exchange == "" {
		key = p.queue
		delete(message.Headers, "CC")
	}
	return p.send(ctx, exchange, key, message)
}

// probe publishes a message that no queue gets: the exchange leads nowhere yet,
// or is the default exchange.
func (p *publisher) probe(ctx context.Context, exchange string) error {
	err := p.send(ctx, exchange, fanoutMark+rand.Text(), amqp.Publishing{})
	if errors.Is(err, errReturned) {
		return nil
	}
	return err
}

var errReturned = errors.New("the message was returned")

// send publishes a message and waits for the broker's confirm.
func (p *publisher) send(ctx context.Context, exchange, key string, message amqp.Publishing) error {
	if err := p.open(); err != nil {
		return err
	}
	confirmation, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, exchange, key, true, false, message)
	if err != nil {
		return err
	}
	acked, err := confirmation.WaitContext(ctx)
	if err != nil {
		return err
	}
	if !acked && p.channel.IsClosed() {
		if refusal := <-p.closed; refusal != nil {
			return refusal
		}
		return amqp.ErrClosed
	}
	select {
	case returned := <-p.returns: // it comes before the confirm
		return fmt.Errorf("%w: %s", errReturned, returned.ReplyText)
	default:
	}
	if !acked {
		return errors.New("the broker did not take the message")
	}
	return nil
}

// copy is the message as it is published again.
func (p *publisher) copy(d amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	delete(headers, "x-delivery-count")
	delete(headers, "x-acquired-count")
	copied := amqp.Publishing{
		Headers:         headers,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		DeliveryMode:    d.DeliveryMode,
		Priority:        d.Priority,
		CorrelationId:   d.CorrelationId,
		ReplyTo:         d.ReplyTo,
		Expiration:      d.Expiration,
		MessageId:       d.MessageId,
		Timestamp:       d.Timestamp,
		Type:            d.Type,
		AppId:           d.AppId,
		Body:            d.Body,
	}
	if d.UserId == p.session.username {
		copied.UserId = d.UserId
	}
	return copied
}

// answer makes a request that the broker does not answer while it blocks
// publishers: of a connection that has published nothing before it takes one
// message even then, and reads nothing more (rabbit_reader, 3.10 to 4.3).
func (p *publisher) answer() error {
	channel, err := p.session.connection.Channel()
	if err != nil {
		return err
	}
	return channel.Close()
}

// close deletes the exchange that was made.
func (p *publisher) close() {
	if p.channel == nil {
		return
	}
	if p.fanout != "" && p.open() == nil {
		_ = p.channel.ExchangeDelete(p.fanout, false, false)
	}
	_ = p.channel.Close()
}
