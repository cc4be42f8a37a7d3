package messages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

const (
	// passQuiet is how long nothing must arrive before a pass asks the broker
	// whether the queue holds anything more.
	passQuiet = 200 * time.Millisecond
	// passEmpty is how often the queue must be found empty to be passed.
	passEmpty = 3
	// passPatience is how long a pass waits for messages that the queue says
	// it has and does not deliver.
	passPatience = 30 * time.Second
	// returnPatience is how long a pass waits for what it gave back to appear.
	returnPatience = 2 * time.Second
	returnPause    = 10 * time.Millisecond
	// hopePause is how long a pass waits for what was read already before it lets
	// more be read, and grantPause the time between two grants while a single
	// message is longer than one.
	hopePause  = 2 * time.Millisecond
	grantPause = 20 * time.Millisecond
)

// The number of messages that the broker may send ahead of what was taken or
// kept. It bounds what the broker has under way; what is read here is bounded by
// [readAhead].
const (
	firstWindow, leastWindow = 250, 32
	// windowBytes is what a window should hold, and overhead what a message takes
	// besides its body.
	windowBytes = 8 << 20
	overhead    = 1 << 10
	// perChannel is how many consumers a channel has, one after the other. When a
	// channel ends, a quorum queue takes back what its consumers held in the order
	// of their tags, before 4.3 only for as many consumers as this
	// (rabbit_fifo:handle_down/3, and the order of small maps).
	perChannel = 32
	// maxReaders bounds the consumers of a pass: a connection has 2047 channels by
	// default.
	maxReaders = 10_000
)

// consumerTimeout is RabbitMQ's default for how long a consumer may hold a
// message (rabbit.consumer_timeout, 3.10 to 4.3).
const consumerTimeout = 30 * time.Minute

// Parked is a message of a [Pass].
type Parked struct {
	deadletter.Message

	reader *reader
}

// Traits are what a [Pass] should know of its queue. The zero value fits any.
type Traits struct {
	// KeepsPlaces says that the queue puts whatever comes back where it was, as a
	// classic queue does.
	KeepsPlaces bool
	// ConsumerTimeout is the queue's own, 0 when it has none.
	ConsumerTimeout time.Duration
	// WorkQueue returns the work queue of the retry chain to which a queue belongs,
	// "" for none. It may be nil.
	WorkQueue func(queue string) string
}

// Know sets what is known of the queue that the session reads.
func (s *Session) Know(t Traits) { s.traits = t }

// PassOptions say how a [Pass] reads.
type PassOptions struct {
	// Window fixes how many messages the broker may send ahead of what was taken
	// or kept, 65535 at most. With 0 the pass chooses by the size of the messages.
	// A pass opens one consumer for every window that it keeps, and one channel for
	// every 32 of these. A cut connection puts the kept messages of several channels
	// back in no certain order.
	Window int
	// First is the first window that the pass chooses, 250 if it is 0, and Most the
	// largest, 65535 if it is 0.
	First, Most int
}

// ErrCut says that the connection ended in the middle of a pass. Every message
// that was not acknowledged is in the queue again.
var ErrCut = errors.New("the connection to the broker was cut")

// ErrNotDelivered says that a queue has messages that it does not deliver, as
// one does whose single active consumer is another.
var ErrNotDelivered = errors.New("the queue has messages, but the broker does not deliver them")

// ErrRevoked says that the broker has cancelled the consumer and taken back what
// it had delivered, as RabbitMQ 4.3 does after the consumer timeout of a quorum
// queue. What was not acknowledged is in the queue again.
var ErrRevoked = errors.New("the broker cancelled the consumer and took back what it had delivered; the queue's consumer timeout may be " +
	"too short")

// ErrHeldTooLong says that a pass cannot be renewed, see [Pass.Renew].
var ErrHeldTooLong = errors.New("reading the messages that stay takes longer than the queue's consumer timeout allows; raise it")

// Pass goes once over a queue, from its head to the tail as it was at the
// start. What is not taken goes back when the pass is closed, unchanged, in its
// old order, and before what arrived meanwhile.
//
// A pass consumes the queue and closes its channels. RabbitMQ 3.10 to 4.3 give
// back what a closed channel held at the head of the queue and in order; with
// basic.nack a quorum queue of 3.10 to 4.2 puts it at the tail
// (rabbit_fifo:handle_aux/6). The broker marks what came back as redelivered,
// and a quorum queue adds one to its delivery count, which is why a queue with
// a delivery limit must not be looked at, see [Unsafe].
type Pass struct {
	session *Session
	queue   string
	options PassOptions

	// total is the depth of the queue at the start, seen what came so far.
	total, seen int
	// again counts what was kept before a renewal and comes again.
	again int
	// shared says that the queue had other consumers at the start.
	shared  bool
	readers []*reader
	began   time.Time
	done    bool
	// lastReturned says that the last message had been given back to the queue before,
	// and so others may come that were.
	lastReturned bool
	// answers has what the queue says of itself while asking is true.
	answers chan answer
	asking  bool
	// revoked is closed when the broker cancels a consumer.
	revoked chan struct{}
	revoke  func()
	// deleted says that the queue is gone.
	deleted bool
	// end ends the thrift.
	end func()
}

// line is a channel with consumers, of which only the last is not cancelled.
type line struct {
	channel *amqp.Channel
	closed  chan *amqp.Error
	readers int
	// transactional says that the channel has transactions.
	transactional bool
}

// reader is one consumer.
type reader struct {
	*line

	tag        string
	deliveries <-chan amqp.Delivery
	window     int
	// came counts what came, and bytes its bodies and the overhead.
	came, bytes int
	// unsettled counts what came and was not taken.
	unsettled int
	// cancelled says that nothing more is sent to it.
	cancelled bool
}

// answer is that of a passive declaration.
type answer struct {
	found amqp.Queue
	err   error
}

// Pass starts a pass. It returns [ErrNotFound] when there is no such queue, and
// a [RefusedError] when the user may not read it, or a consumer has it for its
// own. The pass must be closed.
func (s *Session) Pass(ctx context.Context, queue string, options PassOptions) (*Pass, error) {
	p := &Pass{session: s, queue: queue, options: options, answers: make(chan answer, 1), revoked: make(chan struct{})}
	p.revoke = sync.OnceFunc(func() { close(p.revoked) })
	depth, exists, err := s.depth(ctx, queue)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, fmt.Errorf("queue %q: %w", queue, ErrNotFound)
	}
	p.total, p.shared = depth.Ready, depth.Consumers > 0
	thrift.begin()
	p.end = sync.OnceFunc(thrift.end)
	if err := p.open(ctx); err != nil {
		_ = p.Close(ctx)
		return nil, err
	}
	return p, nil
}

// depth looks again when the queue seems empty: a quorum queue whose leader
// is slow says so.
func (s *Session) depth(ctx context.Context, queue string) (depth Depth, exists bool, err error) {
	depths := map[string]Depth{}
	if err := s.look(ctx, []string{queue}, depths); err != nil {
		return Depth{}, false, err
	}
	if depth, exists = depths[queue]; !exists || depth.Ready > 0 {
		return depth, exists, nil
	}
	depths, err = s.Depths(ctx, []string{queue})
	depth, exists = depths[queue]
	return depth, exists, err
}

// Total is the number of messages that the queue had ready when the pass began.
func (p *Pass) Total() int { return p.total }

// Shared says that the queue had other consumers when the pass began: they get
// messages at the same time, and the pass does not see those.
func (p *Pass) Shared() bool { return p.shared }

// open starts one more consumer.
func (p *Pass) open(ctx context.Context) error {
	defer p.session.endWith(ctx)()
	window := p.window()
	p.session.socket.release()
	defer p.session.socket.grant()
	on, err := p.line()
	if err != nil {
		return p.explain(ctx, err)
	}
	if len(p.readers) == 0 {
		p.began = time.Now()
	}
	on.readers++
	r := &reader{line: on, tag: fmt.Sprintf("pass-%02d", on.readers), window: window}
	p.readers = append(p.readers, r)
	if err := on.channel.Qos(window, 0, false); err != nil {
		return p.explain(ctx, err)
	}
	r.deliveries, err = on.channel.ConsumeWithContext(context.WithoutCancel(ctx), p.queue, r.tag, false, false, false, false, nil)
	return p.explain(ctx, err)
}

// line returns the channel for the next reader.
func (p *Pass) line() (*line, error) {
	if len(p.readers) > 0 && p.last().readers < perChannel {
		return p.last().line, nil
	}
	channel, err := p.session.connection.Channel()
	if err != nil {
		return nil, err
	}
	go p.await(channel.NotifyCancel(make(chan string, 1)))
	return &line{channel: channel, closed: channel.NotifyClose(make(chan *amqp.Error, 1))}, nil
}

// window is that of the next reader.
func (p *Pass) window() int {
	if p.options.Window > 0 {
		return min(p.options.Window, watchPrefetch)
	}
	most, window := watchPrefetch, firstWindow
	if p.options.Most > 0 {
		most = p.options.Most
	}
	if p.options.First > 0 {
		window = p.options.First
	}
	if last := len(p.readers) - 1; last >= 0 && p.readers[last].came > 0 {
		window = max(leastWindow, windowBytes*p.readers[last].came/p.readers[last].bytes)
	}
	return min(max(min(window, most), p.total/maxReaders), watchPrefetch)
}

// await hears of a consumer that the broker cancels. It returns when the channel
// is closed.
func (p *Pass) await(cancels <-chan string) {
	for range cancels {
		p.revoke()
	}
}

// Next returns the next message, false when the pass has come to the tail.
func (p *Pass) Next(ctx context.Context) (m Parked, more bool, err error) {
	q := quiet{since: time.Now(), asked: time.Now()}
	revoked := p.revoked
	for !p.done && (p.seen < p.total || p.again > 0) && err == nil {
		var r *reader
		if r, err = p.reader(ctx); err != nil {
			break
		}
		select {
		case <-revoked:
			revoked, err = nil, p.lost(ctx)
		case d, open := <-r.deliveries:
			switch {
			case !open:
				err = p.nextReader(ctx, r)
			case p.came(r, d):
				return p.parked(r, d), true, nil
			}
			q.pauses = 0
		case <-ctx.Done():
			err = context.Cause(ctx)
		case a := <-p.answers:
			p.asking = false
			p.done, err = p.dry(ctx, a, &q)
		case <-time.After(q.pause()):
			p.session.socket.grant()
			p.ask(r, &q)
		}
	}
	return Parked{}, false, err
}

// reader returns the one that delivers, cancelled when its window is full.
func (p *Pass) reader(ctx context.Context) (*reader, error) {
	r := p.last()
	if r.unsettled >= r.window && !r.cancelled {
		return r, p.cancel(ctx, r)
	}
	return r, nil
}

func (p *Pass) last() *reader { return p.readers[len(p.readers)-1] }

// quiet is a time in which nothing comes.
type quiet struct {
	since, asked time.Time
	pauses       int
	// empty counts how often the queue was found empty.
	empty int
}

func (q *quiet) pause() time.Duration {
	q.pauses++
	if q.pauses == 1 {
		return hopePause
	}
	return grantPause
}

// came counts the message. It is false for one that the pass has shown before.
func (p *Pass) came(r *reader, d amqp.Delivery) bool {
	r.unsettled++
	r.came++
	r.bytes += len(d.Body) + overhead
	p.lastReturned = d.Redelivered
	if p.again > 0 {
		p.again--
		return false
	}
	p.seen++
	return true
}

func (p *Pass) parked(r *reader, d amqp.Delivery) Parked {
	return Parked{deadletter.Read(d, p.seen, p.session.traits.WorkQueue), r}
}

// cancel ends a reader whose window is full: what is taken of it later must not
// bring messages out of turn.
func (p *Pass) cancel(ctx context.Context, r *reader) error {
	r.cancelled = true
	return p.request(ctx, func() error { return r.channel.Cancel(r.tag, false) })
}

// request makes a request on the channel of a reader, one at a time.
func (p *Pass) request(ctx context.Context, call func() error) error {
	defer p.session.endWith(ctx)()
	p.session.socket.release()
	defer p.session.socket.grant()
	var asked answer
	if p.asking {
		asked = <-p.answers
		p.asking = false
	}
	err := call()
	if err != nil && asked.err != nil {
		err = asked.err // the answer ended the channel, and says why
	}
	return p.explain(ctx, err)
}

// nextReader follows a reader that has nothing more.
func (p *Pass) nextReader(ctx context.Context, r *reader) error {
	if !r.cancelled || r.channel.IsClosed() {
		return p.ended(ctx, r)
	}
	return p.open(ctx)
}

// ask begins to ask whether the queue has anything ready. It asks on the
// reader's own channel, so that what was sent to us before the answer is here
// before it.
func (p *Pass) ask(r *reader, q *quiet) {
	if p.asking || time.Since(q.asked) < passQuiet {
		return
	}
	p.asking, q.asked = true, time.Now()
	go func() {
		found, err := r.channel.QueueDeclarePassive(p.queue, true, false, false, false, nil)
		p.answers <- answer{found, err}
	}()
}

// dry says whether the queue has nothing ready any more, because messages
// expired or went to other consumers. An answer without consumers is none, see
// [secondLook].
func (p *Pass) dry(ctx context.Context, a answer, q *quiet) (bool, error) {
	switch {
	case a.err != nil:
		return false, p.explain(ctx, a.err)
	case time.Since(q.since) > passPatience:
		return false, p.explain(ctx, ErrNotDelivered)
	case a.found.Messages == 0 && a.found.Consumers > 0:
		q.empty++
	}
	q.asked = time.Now()
	return q.empty == passEmpty, nil
}

// lost returns an error when the broker has taken back what it had delivered:
// then nothing can be acknowledged any more. It has not when the queue was
// deleted: then what was delivered is nowhere else.
func (p *Pass) lost(ctx context.Context) error {
	select {
	case <-p.revoked:
	default:
		return nil
	}
	if p.deleted {
		return nil
	}
	p.session.socket.release()
	defer p.session.socket.grant()
	_, exists, err := p.session.depth(ctx, p.queue)
	switch {
	case err != nil:
		return p.explain(ctx, err)
	case exists:
		return p.explain(ctx, ErrRevoked)
	}
	p.deleted = true
	return nil
}

// ended tells why a consumer ended.
func (p *Pass) ended(ctx context.Context, r *reader) error {
	select {
	case cause := <-r.closed:
		if cause != nil && !isCut(cause) {
			return p.explain(ctx, cause)
		}
		return p.explain(ctx, ErrCut)
	case <-p.revoked: // the channel lives
	}
	if err := p.lost(ctx); err != nil {
		return err
	}
	return fmt.Errorf("queue %q: it was deleted: %w", p.queue, ErrNotFound)
}

// Take acknowledges the message: it is in the queue no more. Do first with it
// what must be done. Take may be called for any message of the pass, in any
// order, until the pass is closed or renewed.
func (p *Pass) Take(ctx context.Context, m Parked) error {
	defer p.session.endWith(ctx)()
	if err := m.Delivery.Ack(false); err != nil {
		return p.explain(ctx, err)
	}
	m.reader.unsettled--
	return nil
}

// Due says that the pass must be renewed: the broker takes back what a
// consumer holds for longer than the consumer timeout, and RabbitMQ looks for
// that once a minute before 4.3.
func (p *Pass) Due() bool {
	timeout := p.session.traits.ConsumerTimeout
	if timeout <= 0 {
		timeout = consumerTimeout
	}
	return time.Since(p.began) > timeout/2
}

// Renew gives back what was not taken and holds it again, so that the broker
// counts the consumer timeout from now on. What was shown is not shown again.
// It fails with [ErrHeldTooLong] when that would be due again at once.
func (p *Pass) Renew(ctx context.Context) error {
	if p.again > 0 {
		return p.explain(ctx, ErrHeldTooLong)
	}
	seen, kept := p.seen, 0
	for _, r := range p.readers {
		kept += r.unsettled
	}
	if err := p.Finish(ctx); err != nil {
		return err
	}
	if err := p.giveBack(ctx); err != nil {
		return err
	}
	p.seen, p.again, p.done = seen, kept, false
	p.lastReturned = true // the next one, whichever it is
	return p.open(ctx)
}

// Finish reads on as far as the order of the queue needs it. A quorum queue
// serves first what came back, in the order in which it came back. So a message
// that comes back now would come behind those that came back earlier and were
// not read. After a message that never came back there are none of those
// (rabbit_fifo:take_next_msg/1, 3.10 to 4.3).
func (p *Pass) Finish(ctx context.Context) error {
	for !p.session.traits.KeepsPlaces && (p.seen == 0 || p.lastReturned) {
		if _, more, err := p.Next(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// Close gives back what was not taken and waits until the queue has it: the
// broker answers before that.
func (p *Pass) Close(ctx context.Context) error {
	p.done = true
	defer p.end()
	return p.giveBack(ctx)
}

func (p *Pass) closing(ctx context.Context, err error) error {
	if ctx.Err() == nil && (isCut(err) || p.session.connection.IsClosed()) {
		return nil // nothing is held any more: the broker has it
	}
	return p.explain(ctx, err)
}

func (p *Pass) explain(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case isCut(err) && ctx.Err() == nil:
		err = ErrCut
	default:
		return queueError(ctx, p.queue, err)
	}
	return fmt.Errorf("queue %q: %w", p.queue, err)
}

// isCut says whether err is of a connection that was open and is no more.
func isCut(err error) bool {
	var told *amqp.Error
	var broken net.Error
	switch {
	case errors.As(err, &told):
		return !told.Server || told.Code == amqp.ConnectionForced
	case errors.As(err, &broken):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
