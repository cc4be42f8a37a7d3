package messages

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// The headers that a redrive adds: how often the message was redriven, and when
// last.
const (
	RedriveCount = "redrive-count"
	RedrivenAt   = "redriven-at"
)

// AddedHeaders says in which form a redrive adds its headers.
type AddedHeaders string

// TypedHeaders, which is also the zero value, are an integer and a timestamp;
// TextHeaders are both text, for clients that take no other headers.
const (
	TypedHeaders AddedHeaders = "typed"
	TextHeaders  AddedHeaders = "text"
	NoHeaders    AddedHeaders = "none"
)

// RedriveBatch is how many messages are published before they are acknowledged.
// So it is also how many can be in both queues when the process or the
// connection ends in the middle: the next ones are not published before the
// broker has taken the acknowledgements, see [run.settle].
const RedriveBatch = 250

const (
	// confirmPatience is how long the broker has to confirm a message or to take
	// in another byte of one.
	confirmPatience = time.Minute
	// batchBytes is how many bytes of bodies a batch has at most, unless it is a
	// single message.
	batchBytes = 4 << 20
	// progressEvery is the time between two reports.
	progressEvery = time.Second
	// pacedBatch is how long a batch may take to fill when a rate is set.
	pacedBatch = 100 * time.Millisecond
	// endPatience is how long a run that was told to end may take to acknowledge what
	// was published, and again to give back the rest.
	endPatience = time.Second
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
	// Fanout says that Exchange routes by nothing that a message has. So the
	// message keeps its CC and BCC, which elsewhere route it to more queues.
	Fanout bool
	// Topic says that Exchange is a topic exchange, where a user may have
	// permissions for some routing keys only.
	Topic bool
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
	Filter deadletter.Filter
	// Max is the largest number of messages, 0 for no limit.
	Max int
	// PerSecond is the largest rate, 0 for no limit.
	PerSecond int
	// DryRun counts only.
	DryRun bool
	// Route says where a message goes; a message without a route stays. A
	// discard has none.
	Route func(deadletter.Message) (Route, bool)
	// Headers says which headers a redrive adds.
	Headers AddedHeaders
	// Strict lets messages stay that a redrive would change otherwise.
	Strict bool
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
	// Changed were selected and lose a property or a header in a redrive. With
	// [RedriveOptions.Strict] they stay.
	Changed int
	// Refused are messages that the broker refuses to take again, and those whose
	// headers cannot be read. They stay. Of
	// more than [maxRefused] only the first are here; RefusedCount counts all.
	Refused      []Refusal
	RefusedCount int
	// Twice counts messages that were published and that are in the queue as well,
	// unless the broker has not taken them or taken the acknowledgement: it did
	// not say.
	Twice int
}

// maxRefused is how many refused messages an outcome names.
const maxRefused = 20

// Refusal is a message that the broker refuses.
type Refusal struct {
	// ID is the message's id, "" when its publisher gave none.
	ID string
	// Position is the place in the queue at the start, from 1 at the head.
	Position int
	// Reason is the broker's own, unless the headers cannot be read.
	Reason string
}

// ErrNotTaken says that the broker refused messages, as a queue does that is
// over its length limit and rejects what is published.
var ErrNotTaken = errors.New("the broker did not take the messages; the destination may be full and reject what is published")

// ErrNotConfirmed says that the broker did not answer in time.
var ErrNotConfirmed = fmt.Errorf("the broker confirmed nothing within %s; the destination may be without a leader or recovering; try "+
	"again when it is well", confirmPatience)

// ErrUnknownReturn says that the broker returned a message that is none of those
// that were published, because something rewrote it.
var ErrUnknownReturn = errors.New("the broker returned a message that does not look like any of those published; a message interceptor " +
	"or plugin may rewrite messages")

// Redrive moves messages of the queue to where options.Route says. It publishes
// a batch with confirms and as mandatory, acknowledges it, and waits until the
// broker has taken the acknowledgements. So no message is ever missing, and an
// end in the middle leaves at most [RedriveBatch] messages twice. What is not
// moved stays in its place.
//
// The outcome is valid together with an error.
func (s *Session) Redrive(ctx context.Context, queue string, options RedriveOptions) (Outcome, error) {
	loses := func(m outgoing) bool { return m.loses(s.username) }
	if options.DryRun {
		return s.work(ctx, queue, options, nil, loses)
	}
	// A connection of its own: while the broker blocks publishers it reads nothing
	// from theirs, and the messages must come and go back all the same.
	to, err := s.another(ctx)
	if err != nil {
		return Outcome{}, err
	}
	defer to.Close() //nolint:errcheck // every message was confirmed, or counts as not taken
	p := &redriver{publisher: publisher{session: to}, headers: options.Headers, keys: map[string]bool{}}
	if err := p.ready(ctx); err != nil {
		return Outcome{}, err
	}
	return s.work(ctx, queue, options, p.publishBatch, loses)
}

// Discard deletes messages of the queue. What is not selected stays in its
// place. The outcome is valid together with an error.
func (s *Session) Discard(ctx context.Context, queue string, options RedriveOptions) (Outcome, error) {
	options.Route = func(deadletter.Message) (Route, bool) { return Route{}, true }
	return s.work(ctx, queue, options, func(_ context.Context, batch []outgoing) (fate, error) {
		return fate{done: batch}, nil
	}, nil)
}

// outgoing is a message that was selected.
type outgoing struct {
	Parked
	route Route
}

// fate is what became of the messages of a batch. Those that are in none of the
// lists are where they were.
type fate struct {
	// done were taken for certain. Of unknown nothing tells. unsent were not
	// published.
	done, unknown, unsent []outgoing

	refused []Refusal
}

func (f *fate) add(other fate) {
	f.done = append(f.done, other.done...)
	f.unknown = append(f.unknown, other.unknown...)
	f.refused = append(f.refused, other.refused...)
}

// handler does with a batch what must be done before it is acknowledged. The
// fate is valid together with an error.
type handler func(ctx context.Context, batch []outgoing) (fate, error)

// run is a redrive or a discard under way.
type run struct {
	options RedriveOptions
	pass    *Pass
	handle  handler
	// loses says that a message would change, nil where none is published.
	loses    func(outgoing) bool
	outcome  Outcome
	pace     pace
	reported time.Time
	// batch holds what was selected, bytes of bodies.
	batch       []outgoing
	size, bytes int
	// handled holds what is to be acknowledged.
	handled []Parked
}

func (s *Session) work(
	ctx context.Context, queue string, options RedriveOptions, handle handler, loses func(outgoing) bool,
) (Outcome, error) {
	pass, err := s.Pass(ctx, queue, PassOptions{First: options.first(), Most: RedriveBatch})
	if err != nil {
		return Outcome{}, err
	}
	r := &run{
		options: options, pass: pass, handle: handle, loses: loses, size: options.batch(), pace: pace{perSecond: options.PerSecond},
		reported: time.Now(),
	}
	r.outcome.Total = pass.Total()
	err = r.all(ctx)
	if closing := r.close(ctx); err == nil {
		err = closing
	}
	r.report(true)
	return r.outcome, err
}

// close gives back what stays. A run that was told to end does not wait for the
// broker: it gives back what a connection held that ends.
func (r *run) close(ctx context.Context) error {
	within := context.WithoutCancel(ctx)
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(within, endPatience)
		defer cancel()
	}
	return r.pass.Close(within)
}

// first is the first window: nothing tells yet how large messages are.
func (o RedriveOptions) first() int {
	if o.Max > 0 {
		return min(o.Max, leastWindow)
	}
	return leastWindow
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
			return r.end(ctx, err)
		}
		if !more {
			break
		}
		r.outcome.Seen++
		r.report(false)
		if err := r.look(ctx, m); err != nil {
			return r.end(ctx, err)
		}
	}
	if err := r.flush(ctx); err != nil {
		return r.end(ctx, err)
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	return r.pass.Finish(ctx)
}

// end acknowledges what was handled before err.
func (r *run) end(ctx context.Context, err error) error {
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	if ctx.Err() == nil {
		within = ctx
	}
	defer cancel()
	if settling := r.settle(within); settling != nil && ctx.Err() == nil && settling.Error() != err.Error() {
		return errors.Join(err, settling)
	}
	return err
}

func (r *run) full() bool {
	return r.options.Max > 0 && r.outcome.Done+len(r.handled)+len(r.batch) >= r.options.Max
}

// look does what is due after a message came.
func (r *run) look(ctx context.Context, m Parked) error {
	if r.options.Filter.Match(m.Message) {
		if err := r.add(ctx, m); err != nil {
			return err
		}
	}
	late := r.pass.Due()
	slow := r.options.PerSecond > 0 && len(r.handled) > 0
	if late {
		if err := r.flush(ctx); err != nil {
			return err
		}
	}
	if late || slow || len(r.handled) >= RedriveBatch {
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	if late {
		return r.pass.Renew(ctx)
	}
	// A request brings everything here that is under way, before its answer. So
	// little is to be under way when the next one is due.
	r.pass.options.Most = max(leastWindow, RedriveBatch-len(r.handled)-len(r.batch))
	return nil
}

func (r *run) add(ctx context.Context, m Parked) error {
	r.outcome.Selected++
	route, known := r.options.Route(m.Message)
	switch {
	case r.loses != nil && m.Illegible():
		r.refuse(Refusal{ID: m.ID(), Position: m.Position, Reason: "its headers cannot be read: they are nested too deep or have too " +
			"many elements"})
		return nil
	case !known:
		r.outcome.WithoutOrigin++
		return nil
	case r.loses != nil && r.loses(outgoing{m, route}):
		r.outcome.Changed++
		if r.options.Strict {
			return nil
		}
	}
	if r.options.DryRun {
		r.outcome.Done++
		return nil
	}
	if err := r.pace.wait(ctx); err != nil {
		return err
	}
	r.batch, r.bytes = append(r.batch, outgoing{m, route}), r.bytes+len(m.Body())
	if len(r.batch) < r.size && r.bytes < batchBytes {
		return nil
	}
	return r.flush(ctx)
}

// flush handles the batch.
func (r *run) flush(ctx context.Context) error {
	batch := r.batch
	r.batch, r.bytes = nil, 0
	if len(batch) == 0 {
		return nil
	}
	if err := r.pass.lost(ctx); err != nil {
		return err
	}
	became, err := r.handle(ctx, batch)
	for _, m := range became.done {
		m.Delivery.Body, m.Delivery.Headers = nil, nil // the tag is enough
		r.handled = append(r.handled, m.Parked)
	}
	r.outcome.Twice += len(became.unknown)
	r.refuse(became.refused...)
	return err
}

func (r *run) refuse(list ...Refusal) {
	r.outcome.RefusedCount += len(list)
	r.outcome.Refused = append(r.outcome.Refused, list[:min(len(list), maxRefused-len(r.outcome.Refused))]...)
}

// settle acknowledges what was handled, the messages of a channel in one
// transaction, and waits until the broker has taken that.
//
// A transaction makes one command of all acknowledgements for a queue
// (rabbit_channel:ack_cons/3), and a channel sends that to the queue before it
// answers. Without one it sends a quorum queue some 32 acknowledgements, keeps
// the others until the queue has applied these, and drops them if it ends
// before (rabbit_fifo_client:settle/3; 3.10 to 4.3). Then their messages would
// be in both queues, however many batches ago they were published.
func (r *run) settle(ctx context.Context) error {
	handled := r.handled
	r.handled = nil
	if len(handled) == 0 {
		return nil
	}
	byLine := map[*line][]Parked{}
	for _, m := range handled {
		byLine[m.reader.line] = append(byLine[m.reader.line], m)
	}
	for on, list := range byLine {
		if err := r.acknowledge(ctx, on, list); err != nil {
			r.outcome.Twice += len(handled)
			return err
		}
		r.outcome.Done += len(list)
		handled = handled[len(list):]
	}
	return nil
}

// acknowledge fails when the broker has taken the messages back: what is
// acknowledged afterwards stays in a quorum queue, without an error.
func (r *run) acknowledge(ctx context.Context, on *line, list []Parked) error {
	if err := r.pass.lost(ctx); err != nil {
		return err
	}
	if !on.transactional {
		if err := r.pass.request(ctx, on.channel.Tx); err != nil {
			return err
		}
		on.transactional = true
	}
	for _, m := range list {
		if err := r.pass.Take(ctx, m); err != nil {
			return err
		}
	}
	if err := r.pass.request(ctx, on.channel.TxCommit); err != nil {
		return err
	}
	return r.pass.lost(ctx)
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

// key is the routing key to publish with.
func (m outgoing) key() string {
	if m.route.RoutingKey != "" {
		return m.route.RoutingKey
	}
	return m.EnteredWith()
}
