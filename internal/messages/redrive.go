package messages

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The headers that a redrive adds: how often the message was redriven, an
// integer, and when last, a timestamp.
const (
	RedriveCount = "redrive-count"
	RedrivenAt   = "redriven-at"
)

// RedriveBatch is how many messages are published before they are acknowledged.
// So it is also how many can be in both queues when the process or the
// connection ends in the middle: the next ones are not published before the
// broker has taken the acknowledgements, see [run.settle].
const RedriveBatch = 250

const (
	// confirmPatience is how long the broker has to confirm what was published.
	confirmPatience = time.Minute
	// progressEvery is the time between two reports.
	progressEvery = time.Second
	// pacedBatch is how long a batch may take to fill when a rate is set.
	pacedBatch = 100 * time.Millisecond
)

// Route says where a message is published.
type Route struct {
	// Exchange is "" for the default exchange.
	Exchange string
	// RoutingKey replaces the message's own; "" keeps that with which the
	// message came to the queue that it failed in.
	RoutingKey string
	// Drop are headers that the message must not keep.
	Drop []string
}

// String names the destination in errors.
func (r Route) String() string {
	if r.Exchange == "" {
		return fmt.Sprintf("queue %q", r.RoutingKey)
	}
	return fmt.Sprintf("exchange %q", r.Exchange)
}

// RedriveOptions say which messages are moved or deleted, and how fast.
type RedriveOptions struct {
	Filter Filter
	// Max is the largest number of messages, 0 for no limit.
	Max int
	// PerSecond is the largest rate, 0 for no limit.
	PerSecond int
	// DryRun counts only.
	DryRun bool
	// Route says where a message goes; a message without a route stays. A
	// discard has none.
	Route func(Parked) (Route, bool)
	// Progress is called about once per second, and at the end. It may be nil.
	Progress func(Outcome)
}

// Outcome counts messages.
type Outcome struct {
	// Total were in the queue at the start, Seen of them were looked at.
	Total, Seen int
	// Selected passed the filter.
	Selected int
	// Done were moved or deleted for certain; in a dry run they would have been.
	Done int
	// WithoutOrigin were selected and stay, because nothing tells where they
	// belong.
	WithoutOrigin int
}

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

// ErrNotTaken says that the broker refused messages, as a queue does that is
// over its length limit and rejects what is published.
var ErrNotTaken = errors.New("the broker did not take the messages; the destination may be full and reject what is published")

// ErrNotConfirmed says that the broker did not answer in time, as one does that
// has blocked publishers because memory or disk ran short.
var ErrNotConfirmed = fmt.Errorf("the broker did not confirm the messages within %s; it may have blocked publishers because memory or disk ran short, or the destination was just recovering; try again when it is well", confirmPatience)

// Redrive moves messages of the queue to where options.Route says. It publishes
// a batch with confirms and as mandatory, acknowledges it, and waits until the
// broker has taken the acknowledgements. So no message is ever missing, and an
// end in the middle leaves at most [RedriveBatch] messages twice. What is not
// moved stays in its place.
//
// The outcome is valid together with an error.
func (s *Session) Redrive(ctx context.Context, queue string, options RedriveOptions) (Outcome, error) {
	p := &publisher{session: s}
	defer p.close()
	return s.work(ctx, queue, options, func(ctx context.Context, batch []outgoing) ([]outgoing, error) {
		return p.publishBatch(ctx, batch)
	})
}

// Discard deletes messages of the queue. What is not selected stays in its
// place. The outcome is valid together with an error.
func (s *Session) Discard(ctx context.Context, queue string, options RedriveOptions) (Outcome, error) {
	options.Route = func(Parked) (Route, bool) { return Route{}, true }
	return s.work(ctx, queue, options, func(_ context.Context, batch []outgoing) ([]outgoing, error) {
		return batch, nil
	})
}

// outgoing is a message that was selected.
type outgoing struct {
	Parked
	route Route
}

// handler does with a batch what has to be done before it is acknowledged. It
// returns the messages for which that is certain, also with an error.
type handler func(ctx context.Context, batch []outgoing) (done []outgoing, err error)

// run is a redrive or a discard under way.
type run struct {
	options  RedriveOptions
	pass     *Pass
	handle   handler
	batch    []outgoing
	size     int
	outcome  Outcome
	pace     pace
	reported time.Time
	// transactional are the readers whose channel has transactions.
	transactional map[*reader]bool
}

func (s *Session) work(ctx context.Context, queue string, options RedriveOptions, handle handler) (Outcome, error) {
	pass, err := s.Pass(ctx, queue, PassOptions{})
	if err != nil {
		return Outcome{}, err
	}
	r := &run{
		options: options, pass: pass, handle: handle, size: options.batch(), pace: pace{perSecond: options.PerSecond},
		reported: time.Now(), transactional: map[*reader]bool{},
	}
	r.outcome.Total = pass.Total()
	err = r.all(ctx)
	if closing := pass.Close(context.WithoutCancel(ctx)); err == nil {
		err = closing
	}
	r.report(true)
	return r.outcome, err
}

func (o RedriveOptions) batch() int {
	if o.PerSecond == 0 {
		return RedriveBatch
	}
	return max(1, min(RedriveBatch, int(int64(o.PerSecond)*int64(pacedBatch)/int64(time.Second))))
}

func (r *run) all(ctx context.Context) error {
	for !r.full() {
		m, more, err := r.pass.Next(ctx)
		if err != nil {
			return err
		}
		if !more {
			break
		}
		r.outcome.Seen++
		r.report(false)
		if !r.options.Filter.Match(m) {
			continue
		}
		if err := r.add(ctx, m); err != nil {
			return err
		}
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	return r.toTail(ctx)
}

// toTail reads what is left of the queue after the last selected message: a
// quorum queue puts what comes back behind what came back before, and so the
// order stays only if everything comes back.
func (r *run) toTail(ctx context.Context) error {
	for {
		if _, more, err := r.pass.Next(ctx); err != nil || !more {
			return err
		}
	}
}

func (r *run) full() bool {
	return r.options.Max > 0 && r.outcome.Done+len(r.batch) >= r.options.Max
}

func (r *run) add(ctx context.Context, m Parked) error {
	r.outcome.Selected++
	route, known := r.options.Route(m)
	switch {
	case !known:
		r.outcome.WithoutOrigin++
		return nil
	case r.options.DryRun:
		r.outcome.Done++
		return nil
	}
	if err := r.pace.wait(ctx); err != nil {
		return err
	}
	if r.batch = append(r.batch, outgoing{m, route}); len(r.batch) < r.size {
		return nil
	}
	return r.flush(ctx)
}

// flush handles and acknowledges the batch.
func (r *run) flush(ctx context.Context) error {
	batch := r.batch
	r.batch = nil
	if len(batch) == 0 {
		return nil
	}
	done, err := r.handle(ctx, batch)
	switch settling := r.settle(ctx, done); {
	case settling != nil && errors.Is(err, ErrCut):
		return err // the end of the connection, told twice
	case settling != nil:
		return errors.Join(err, settling)
	}
	r.outcome.Done += len(done)
	return err
}

// settle acknowledges messages, those of a channel in one transaction, and
// waits until the broker has taken that.
//
// A transaction makes one command of all acknowledgements for a queue
// (rabbit_channel:ack_cons/3), and a channel sends that to the queue before it
// answers. Without one it sends a quorum queue some 32 acknowledgements, keeps
// the others until the queue has applied these, and drops them if it ends
// before (rabbit_fifo_client:settle/3; 3.10 to 4.3). Then their messages would
// be in both queues, however many batches ago they were published.
func (r *run) settle(ctx context.Context, taken []outgoing) error {
	byReader := map[*reader][]outgoing{}
	for _, m := range taken {
		byReader[m.reader] = append(byReader[m.reader], m)
	}
	for reader, list := range byReader {
		if err := r.acknowledge(ctx, reader, list); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) acknowledge(ctx context.Context, reader *reader, list []outgoing) error {
	defer r.pass.session.endWith(ctx)()
	if !r.transactional[reader] {
		if err := reader.channel.Tx(); err != nil {
			return r.pass.explain(ctx, err)
		}
		r.transactional[reader] = true
	}
	for _, m := range list {
		if err := r.pass.Take(ctx, m.Parked); err != nil {
			return err
		}
	}
	return r.pass.explain(ctx, reader.channel.TxCommit())
}

func (r *run) report(last bool) {
	if r.options.Progress == nil || !last && time.Since(r.reported) < progressEvery {
		return
	}
	r.reported = time.Now()
	r.options.Progress(r.outcome)
}

// pace spreads messages evenly over time. What takes longer than it should is
// made good, up to pacedBatch.
type pace struct {
	perSecond int
	next      time.Time
}

// interval is rounded up, so that the rate is not above what was asked for.
func (p *pace) interval() time.Duration {
	n := time.Duration(p.perSecond)
	return (time.Second + n - 1) / n
}

// wait returns when the next message may go.
func (p *pace) wait(ctx context.Context) error {
	if p.perSecond == 0 {
		return nil
	}
	now := time.Now()
	switch {
	case p.next.IsZero():
		p.next = now
	case now.Sub(p.next) > pacedBatch:
		p.next = now.Add(-pacedBatch)
	}
	pause := p.next.Sub(now)
	p.next = p.next.Add(p.interval())
	if pause <= 0 {
		return nil
	}
	select {
	case <-time.After(pause):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// publishBatch publishes the messages in their order and returns those that a
// queue has for certain.
func (p *publisher) publishBatch(ctx context.Context, batch []outgoing) ([]outgoing, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, confirmPatience, ErrNotConfirmed)
	defer cancel()
	defer p.session.endWith(ctx)()
	if err := p.openForBatch(); err != nil {
		return nil, &PublishError{batch[0].route, ended(ctx, err)}
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, len(batch))
	prints := make([]string, 0, len(batch))
	var failed error
	for _, m := range batch {
		message := p.redriven(m, time.Now())
		key := m.key()
		confirm, err := p.channel.PublishWithDeferredConfirmWithContext(ctx, m.route.Exchange, key, true, false, message)
		if err != nil {
			failed = p.notTaken(err)
			break
		}
		confirms = append(confirms, confirm)
		prints = append(prints, fingerprint(m.route.Exchange, key, message.MessageId, message.CorrelationId, message.Headers, message.Body))
	}
	return p.sort(ctx, batch, confirms, prints, failed)
}

// openForBatch opens a channel that can hold as many returned messages as a
// batch has: they come before the confirms, and nobody reads them until then.
func (p *publisher) openForBatch() error {
	if p.channel != nil && !p.channel.IsClosed() {
		return nil
	}
	channel, err := p.session.connection.Channel()
	if err != nil {
		return err
	}
	p.channel = channel
	p.returns = channel.NotifyReturn(make(chan amqp.Return, RedriveBatch))
	p.closed = channel.NotifyClose(make(chan *amqp.Error, 1))
	return channel.Confirm(false)
}

// sort waits for the confirms and tells apart what was taken. A message that
// looks like a returned one counts as returned.
func (p *publisher) sort(ctx context.Context, batch []outgoing, confirms []*amqp.DeferredConfirmation, prints []string, failed error) ([]outgoing, error) {
	taken, at := make([]bool, len(confirms)), batch[0].route
	for i, c := range confirms {
		acked, err := c.WaitContext(ctx)
		taken[i] = acked && err == nil
		if !taken[i] && failed == nil {
			failed, at = p.notTaken(err), batch[i].route
		}
	}
	returned, reason := p.returned()
	var done []outgoing
	var unroutable *UnroutableError
	for i, m := range batch[:len(confirms)] {
		switch {
		case !taken[i]:
		case returned[prints[i]]:
			if unroutable == nil {
				unroutable = &UnroutableError{Route: m.route, Reason: reason}
			}
			unroutable.Count++
		default:
			done = append(done, m)
		}
	}
	switch {
	case failed != nil:
		return done, &PublishError{at, ended(ctx, failed)}
	case unroutable != nil:
		return done, unroutable
	}
	return done, nil
}

// notTaken tells why a confirm was negative or did not come.
func (p *publisher) notTaken(err error) error {
	switch {
	case p.channel.IsClosed():
	case err != nil:
		return err
	default:
		return ErrNotTaken
	}
	if refusal := <-p.closed; refusal != nil {
		return refusal
	}
	return amqp.ErrClosed
}

func (p *publisher) returned() (prints map[string]bool, reason string) {
	prints = map[string]bool{}
	for {
		select {
		case r, open := <-p.returns:
			if !open {
				return prints, reason
			}
			reason = r.ReplyText
			prints[fingerprint(r.Exchange, r.RoutingKey, r.MessageId, r.CorrelationId, r.Headers, r.Body)] = true
		default:
			return prints, reason
		}
	}
}

// ended makes [ErrCut] of a connection that is closed.
func ended(ctx context.Context, err error) error {
	var refusal *amqp.Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case isCut(err):
		return ErrCut
	case errors.As(err, &refusal) && refusal.Code == amqp.NotFound:
		return fmt.Errorf("the destination does not exist: the broker says %q", refusal.Reason)
	default:
		return explain(ctx, err)
	}
}

func fingerprint(exchange, key, id, correlation string, headers amqp.Table, body []byte) string {
	var text bytes.Buffer
	encoded, err := json.Marshal(plainTable(headers))
	if err != nil {
		encoded = nil // a number that JSON has no word for
	}
	fmt.Fprintf(&text, "%q %q %q %q %s %x", exchange, key, id, correlation, encoded, body)
	return text.String()
}

// key is the routing key to publish with.
func (m outgoing) key() string {
	if m.route.RoutingKey != "" {
		return m.route.RoutingKey
	}
	return m.enteredWith()
}

// enteredWith is the routing key with which the message first came to the queue
// that it failed in: tiers and shared tiers can give it another one.
func (p Parked) enteredWith() string {
	h := p.delivery.Headers
	var origin []death
	for _, d := range deathsOf(h) {
		if d.queue == p.OriginQueue {
			origin = append(origin, d)
		}
	}
	if len(origin) == 0 {
		return p.delivery.RoutingKey
	}
	earliest := origin[0]
	for _, d := range origin[1:] {
		// Times have seconds, and what is retried was rejected first.
		if d.time.Before(earliest.time) || d.time.Equal(earliest.time) && d.reason == Rejected {
			earliest = d
		}
	}
	if first := firstDeath(h, origin); text(h, "x-first-death-queue") == p.OriginQueue {
		earliest = first
	}
	return earliest.key
}

// redriven is the message as it is published again.
func (p *publisher) redriven(m outgoing, now time.Time) amqp.Publishing {
	message := p.copy(m.Message)
	headers := maps.Clone(message.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	count, _ := integer(headers[RedriveCount])
	maps.DeleteFunc(headers, func(name string, _ any) bool { return brokerHeader(name) })
	for _, name := range m.route.Drop {
		delete(headers, name)
	}
	if m.route.Exchange == "" {
		// They would route the message to other queues as well.
		maps.DeleteFunc(headers, func(name string, _ any) bool { return strings.EqualFold(name, "CC") || strings.EqualFold(name, "BCC") })
	}
	headers[RedriveCount], headers[RedrivenAt] = count+1, now.UTC().Truncate(time.Second)
	message.Headers = headers
	return message
}

// Through is the exchange through which the message came to the queue in which
// it is.
func (p Parked) Through() string { return p.delivery.Exchange }

// PublishError says that a message could not be published. Nothing tells
// whether it was.
type PublishError struct {
	Route Route
	Err   error
}

func (e *PublishError) Error() string { return fmt.Sprintf("publish to %s: %s", e.Route, e.Err) }

func (e *PublishError) Unwrap() error { return e.Err }
