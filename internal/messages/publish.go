package messages

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// UnroutableError says that no queue took a message.
type UnroutableError struct {
	Route Route
	// Count is the number of messages.
	Count int
	// Reason is the broker's own.
	Reason string
}

func (e *UnroutableError) Error() string {
	if e.Route.Exchange == "" {
		return fmt.Sprintf("%s does not exist: the broker returned %d of the messages with %q", e.Route, e.Count, e.Reason)
	}
	return fmt.Sprintf("%s leads to no queue for %d of the messages: the broker says %q", e.Route, e.Count, e.Reason)
}

// PublishError says that a message could not be published. Nothing tells
// whether it was.
type PublishError struct {
	Route Route
	Err   error

	cause error
}

func (e *PublishError) Error() string { return fmt.Sprintf("publish to %s: %s", e.Route, e.Err) }

func (e *PublishError) Unwrap() error { return e.Err }

// redriver publishes messages to where they belong.
type redriver struct {
	publisher

	headers AddedHeaders
	// largest is the size of the largest body that the broker took from us, and
	// keys are the routes that it took, see [redriver.safe].
	largest int
	keys    map[string]bool
	// alone says that every message goes alone.
	alone bool
}

// maxKeys bounds what a redriver remembers.
const maxKeys = 10_000

// ready opens the channel. It fails with a [BlockedError] while the broker
// blocks publishers, before a message is at stake: of a connection that
// published nothing before, the broker takes one message even then.
func (p *redriver) ready(ctx context.Context) error {
	ctx, stop := p.session.unlessBlocked(ctx)
	defer stop()
	defer p.session.endWith(ctx)()
	err := p.probe(ctx, "")
	if err == nil || answers(err, amqp.AccessRefused) {
		err = p.answer()
	}
	if err != nil {
		return ended(ctx, err)
	}
	return nil
}

// publishBatch publishes the messages in their order.
//
// A message that the broker refuses ends the channel and with it the confirms of
// those before. So a message that the broker might refuse goes alone, after the
// others are confirmed, and no message but itself is in doubt.
func (p *redriver) publishBatch(ctx context.Context, batch []outgoing) (fate, error) {
	var all fate
	for len(batch) > 0 {
		n := 0
		for n < len(batch) && p.safe(batch[n]) {
			n++
		}
		n = max(n, 1)
		became, err := p.publish(ctx, batch[:n])
		rest := batch[n:]
		switch reason, refused := refusal(err); {
		case refused && n == 1:
			became, err = fate{refused: []Refusal{{ID: batch[0].ID(), Position: batch[0].Position, Reason: reason}}}, nil
		case refused:
			// The broker's rules have changed. Which message it refused is not known.
			p.alone, err = true, nil
			rest = slices.Concat(became.unknown, became.unsent, rest)
			became.unknown = nil
		default:
			p.learn(batch[:n])
		}
		all.add(became)
		if err != nil {
			return all, err
		}
		batch = rest
	}
	return all, nil
}

// safe says that the broker took such a message before. It refuses single
// messages whose body is over max_message_size, whose routing key a topic
// permission does not allow, and whose CC or BCC is not a list of text
// (rabbit_channel, 3.10 to 4.3).
func (p *redriver) safe(m outgoing) bool {
	return !p.alone && len(m.Body()) <= p.largest && p.keys[m.routeKey()] && m.ccIsValid()
}

func (p *redriver) learn(batch []outgoing) {
	if len(p.keys) > maxKeys {
		clear(p.keys)
	}
	for _, m := range batch {
		p.largest = max(p.largest, len(m.Body()))
		p.keys[m.routeKey()] = true
	}
}

func (m outgoing) routeKey() string {
	if m.route.Topic {
		return m.route.Exchange + "\x00" + m.key()
	}
	return m.route.Exchange
}

func (m outgoing) ccIsValid() bool {
	if !m.route.Fanout {
		return true // they are dropped
	}
	for name, value := range m.Delivery.Headers {
		list, isList := value.([]any)
		if isCC(name) && !isList {
			return false
		}
		for i := range list {
			if _, isText := list[i].(string); isCC(name) && !isText {
				return false
			}
		}
	}
	return true
}

// isCC says whether the header routes a message to more queues. RabbitMQ knows
// the names in capital letters only.
func isCC(name string) bool { return strings.EqualFold(name, "CC") || strings.EqualFold(name, "BCC") }

// refusal says whether the broker refused one message rather than the route.
func refusal(err error) (reason string, refused bool) {
	var publishing *PublishError
	var told *amqp.Error
	if !errors.As(err, &publishing) || !errors.As(publishing.cause, &told) || !told.Server {
		return "", false
	}
	switch told.Code {
	case amqp.PreconditionFailed, amqp.ContentTooLarge:
		return told.Reason, true
	case amqp.AccessRefused:
		return told.Reason, strings.Contains(told.Reason, "topic")
	default:
		return "", false
	}
}

// withPatience returns a context that ends with [ErrNotConfirmed] when the broker
// makes no headway, or with a [BlockedError]. headway is to be called with every
// confirm.
func (p *redriver) withPatience(ctx context.Context) (patient context.Context, headway, stop func()) {
	ctx, unblock := p.session.unlessBlocked(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	limit := p.session.patience
	confirmed := make(chan struct{}, 1)
	go func() {
		last := time.Now()
		for {
			select {
			case <-confirmed:
				last = time.Now()
			case <-time.After(limit / 10):
			case <-ctx.Done():
				return
			}
			if sent := p.session.socket.lastSent(); sent.After(last) {
				last = sent
			}
			if time.Since(last) > limit {
				cancel(ErrNotConfirmed)
			}
		}
	}()
	headway = func() {
		select {
		case confirmed <- struct{}{}:
		default:
		}
	}
	return ctx, headway, func() {
		cancel(context.Canceled)
		unblock()
	}
}

// publish publishes the messages at once and waits for the confirms.
func (p *redriver) publish(ctx context.Context, batch []outgoing) (fate, error) {
	ctx, headway, stop := p.withPatience(ctx)
	defer stop()
	defer p.session.endWith(ctx)()
	if err := p.open(); err != nil {
		return fate{}, publishError(ctx, batch[0].route, err)
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, len(batch))
	var failed error
	for _, m := range batch {
		message := p.redriven(m, time.Now())
		confirm, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, m.route.Exchange, m.key(), true, false, message)
		if err != nil {
			failed = p.notTaken(err)
			break
		}
		confirms = append(confirms, confirm)
	}
	return p.sort(ctx, batch, confirms, failed, headway)
}

// sort waits for the confirms and tells apart what was taken.
func (p *redriver) sort(
	ctx context.Context, batch []outgoing, confirms []*amqp.DeferredConfirmation, failed error, headway func(),
) (fate, error) {
	var taken, unknown []outgoing
	at := batch[0].route
	for i, c := range confirms {
		acked, err := c.WaitContext(ctx)
		headway()
		if acked && err == nil {
			taken = append(taken, batch[i])
			continue
		}
		reason := p.notTaken(err)
		if failed == nil {
			failed, at = reason, batch[i].route
		}
		if !errors.Is(reason, ErrNotTaken) {
			unknown = append(unknown, batch[i])
		}
	}
	became, err := withoutReturned(taken, p.returned())
	became.unknown = append(became.unknown, unknown...)
	became.unsent = batch[len(confirms):]
	if failed != nil {
		return became, publishError(ctx, at, failed)
	}
	return became, err
}

// notTaken tells why a confirm was negative or did not come.
func (p *redriver) notTaken(err error) error {
	switch {
	case p.channel.IsClosed():
	case err != nil:
		return err
	default:
		return ErrNotTaken
	}
	if told := <-p.closed; told != nil {
		p.ended = told
	}
	if p.ended != nil {
		return p.ended
	}
	return amqp.ErrClosed
}

// returned are the messages that the broker returned, see [publisher.open].
func (p *redriver) returned() []amqp.Return {
	var list []amqp.Return
	for {
		select {
		case r, open := <-p.returns:
			if !open {
				return list
			}
			list = append(list, r)
		default:
			return list
		}
	}
}

// withoutReturned tells apart the confirmed messages that the broker returned
// from those that a queue has.
//
// A return names its message by nothing but the message itself, and a message
// interceptor of the broker may have rewritten it before (rabbit_msg_interceptor,
// 3.12 to 4.3: headers and the timestamp). So neither of these is compared, and
// what cannot be told for certain counts as not taken: messages of which some were
// returned that look the same, and every one if a return looks like none. Of a
// single message, whatever is returned is that message.
func withoutReturned(confirmed []outgoing, returns []amqp.Return) (fate, error) {
	if len(returns) == 0 {
		return fate{done: confirmed}, nil
	}
	if len(confirmed) == 0 {
		return fate{}, nil
	}
	unroutable := &UnroutableError{Route: confirmed[0].route, Count: len(returns), Reason: returns[0].ReplyText}
	if len(confirmed) == 1 {
		return fate{}, unroutable
	}
	came, went := map[likeness]int{}, map[likeness]int{}
	for _, m := range confirmed {
		went[m.likeness()]++
	}
	for i := range returns {
		look := likenessOf(returns[i])
		came[look]++
		if came[look] > went[look] {
			return fate{unknown: confirmed}, &PublishError{Route: confirmed[0].route, Err: ErrUnknownReturn}
		}
	}
	var became fate
	for _, m := range confirmed {
		switch look := m.likeness(); came[look] {
		case 0:
			became.done = append(became.done, m)
		case went[look]:
			unroutable.Route = m.route
		default:
			unroutable.Route = m.route
			became.unknown = append(became.unknown, m)
		}
	}
	return became, unroutable
}

// likeness is what a message looks like, but for its headers and its timestamp.
type likeness struct {
	exchange, key, id, correlation, replyTo, kind, app, contentType, contentEncoding, expiration string

	body [sha256.Size]byte
}

func (m outgoing) likeness() likeness {
	d := m.Delivery
	return likeness{
		m.route.Exchange, m.key(), d.MessageId, d.CorrelationId, d.ReplyTo, d.Type, d.AppId, d.ContentType, d.ContentEncoding, d.Expiration,
		sha256.Sum256(d.Body),
	}
}

func likenessOf(r amqp.Return) likeness {
	return likeness{
		r.Exchange, r.RoutingKey, r.MessageId, r.CorrelationId, r.ReplyTo, r.Type, r.AppId, r.ContentType, r.ContentEncoding, r.Expiration,
		sha256.Sum256(r.Body),
	}
}

func publishError(ctx context.Context, at Route, err error) error {
	return &PublishError{Route: at, Err: ended(ctx, err), cause: err}
}

// ended makes [ErrCut] of a connection that is closed.
func ended(ctx context.Context, err error) error {
	var told *amqp.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isCut(err):
		return ErrCut
	case errors.As(err, &told) && told.Code == amqp.NotFound:
		return fmt.Errorf("the destination does not exist: the broker says %q", told.Reason)
	default:
		return explain(ctx, err)
	}
}

// amqp10 is the type of a message whose AMQP 1.0 body is none that AMQP 0-9-1 has
// (mc_amqpl:convert_from/3, 3.13 to 4.3).
const amqp10 = "amqp-1.0"

// loses says whether the message is known to lose something when it is published
// again by the user. AMQP 0-9-1 does not show everything that one has which was
// published over AMQP 1.0.
func (m outgoing) loses(user string) bool {
	if m.Delivery.UserId != "" && m.Delivery.UserId != user || m.Delivery.Type == amqp10 {
		return true
	}
	for name := range m.Delivery.Headers {
		if isCC(name) && !m.route.Fanout {
			return true
		}
	}
	return false
}

// redriven is the message as it is published again.
func (p *redriver) redriven(m outgoing, now time.Time) amqp.Publishing {
	message := p.copy(m.Delivery)
	headers := maps.Clone(message.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	count := redriveCount(headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool {
		// CC and BCC would route the message to other queues as well.
		return deadletter.BrokerHeader(name) || !m.route.Fanout && isCC(name)
	})
	for _, name := range m.route.Drop {
		delete(headers, name)
	}
	now = now.UTC().Truncate(time.Second)
	switch p.headers {
	case NoHeaders:
	case TextHeaders:
		headers[RedriveCount], headers[RedrivenAt] = strconv.FormatInt(count+1, 10), now.Format(time.RFC3339)
	default:
		headers[RedriveCount], headers[RedrivenAt] = count+1, now
	}
	message.Headers = headers
	return message
}

// redriveCount reads the header that earlier redrives wrote.
func redriveCount(headers amqp.Table) int64 {
	if written, isText := headers[RedriveCount].(string); isText {
		count, err := strconv.ParseInt(written, 10, 64)
		if err != nil {
			return 0
		}
		return count
	}
	count, _ := deadletter.Integer(headers[RedriveCount])
	return count
}
