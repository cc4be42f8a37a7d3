package messages

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// passQuiet is how long nothing has to come before a pass asks the broker
	// whether the queue holds anything more.
	passQuiet = 200 * time.Millisecond
	// passEmpty is how often the queue has to be found empty to be passed.
	passEmpty = 3
	// passPatience is how long a pass waits for messages that the queue says
	// it has and does not deliver.
	passPatience = 30 * time.Second
	// returnPatience is how long a pass waits for what it gave back to appear.
	returnPatience = 2 * time.Second
	returnPause    = 10 * time.Millisecond
)

// PassOptions say how a [Pass] reads.
type PassOptions struct {
	// Window is how many messages the broker may send ahead of what was taken
	// or kept, 65535 if it is 0, which is also the largest. A pass over more
	// messages opens one channel for every Window that it keeps. A small one
	// bounds the memory of a slow pass. A cut connection then puts the kept
	// messages of several channels back in no certain order.
	Window int
}

// ErrCut says that the connection ended in the middle of a pass. Every message
// that was not acknowledged is in the queue again.
var ErrCut = errors.New("the connection to the broker was cut")

// ErrNotDelivered says that a queue has messages that it does not deliver, as
// one does whose single active consumer is another.
var ErrNotDelivered = errors.New("the queue has messages, but the broker does not deliver them")

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
	window  int

	// total is the depth of the queue at the start, seen what came so far.
	total, seen int
	// shared says that the queue had other consumers at the start.
	shared  bool
	readers []*reader
	done    bool
}

// reader is one consumer on a channel of its own.
type reader struct {
	channel    *amqp.Channel
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
	// unsettled counts what came and was not taken.
	unsettled int
	// cancelled says that nothing more is sent to it.
	cancelled bool
}

// Pass starts a pass. It returns [ErrNotFound] when there is no such queue, and
// a [RefusedError] when the user may not read it, or a consumer has it for its
// own. The pass has to be closed.
func (s *Session) Pass(ctx context.Context, queue string, options PassOptions) (*Pass, error) {
	p := &Pass{session: s, queue: queue, window: options.Window}
	if p.window <= 0 || p.window > watchPrefetch {
		p.window = watchPrefetch
	}
	depth, exists, err := s.depth(ctx, queue)
	switch {
	case err != nil:
		return nil, err
	case !exists:
		return nil, fmt.Errorf("queue %q: %w", queue, ErrNotFound)
	}
	p.total, p.shared = depth.Ready, depth.Consumers > 0
	if err := p.open(ctx); err != nil {
		_ = p.Close(ctx)
		return nil, err
	}
	return p, nil
}

// depth looks once more when the queue seems empty: a quorum queue whose leader
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
	channel, err := p.session.connection.Channel()
	if err != nil {
		return p.explain(ctx, err)
	}
	r := &reader{channel: channel, closed: channel.NotifyClose(make(chan *amqp.Error, 1))}
	p.readers = append(p.readers, r)
	if err := channel.Qos(p.window, 0, false); err != nil {
		return p.explain(ctx, err)
	}
	r.deliveries, err = channel.ConsumeWithContext(context.WithoutCancel(ctx), p.queue, passTag, false, false, false, false, nil)
	return p.explain(ctx, err)
}

// passTag is the consumer tag of every reader, each on a channel of its own.
const passTag = "pass"

// Next returns the next message, false when the pass has come to the tail.
func (p *Pass) Next(ctx context.Context) (m Parked, more bool, err error) {
	q := quiet{since: time.Now()}
	for !p.done && p.seen < p.total && err == nil {
		var r *reader
		if r, err = p.reader(ctx); err != nil {
			break
		}
		select {
		case d, open := <-r.deliveries:
			if open {
				return p.came(r, d), true, nil
			}
			err = p.nextReader(ctx, r)
		case <-ctx.Done():
			err = context.Cause(ctx)
		case <-time.After(passQuiet):
			p.done, err = p.dry(ctx, r, &q)
		}
	}
	return Parked{}, false, err
}

// reader returns the one that delivers, cancelled when its window is full.
func (p *Pass) reader(ctx context.Context) (*reader, error) {
	r := p.readers[len(p.readers)-1]
	if r.unsettled >= p.window && !r.cancelled {
		return r, p.cancel(ctx, r)
	}
	return r, nil
}

// quiet is a time in which nothing comes.
type quiet struct {
	since time.Time
	// empty counts how often the queue was found empty.
	empty int
}

func (p *Pass) came(r *reader, d amqp.Delivery) Parked {
	r.unsettled++
	p.seen++
	m := newParked(Message{d}, p.seen)
	m.reader = r
	return m
}

// cancel ends a reader whose window is full: what is taken of it later must not
// bring messages out of turn.
func (p *Pass) cancel(ctx context.Context, r *reader) error {
	defer p.session.endWith(ctx)()
	r.cancelled = true
	return p.explain(ctx, r.channel.Cancel(passTag, false))
}

// nextReader follows a reader that has nothing more.
func (p *Pass) nextReader(ctx context.Context, r *reader) error {
	if !r.cancelled || r.channel.IsClosed() {
		return p.ended(ctx, r)
	}
	return p.open(ctx)
}

// dry says whether the queue has nothing ready any more, because messages
// expired or went to other consumers. It asks on the reader's own channel, so
// that what was sent to us before the answer is here before it. An answer
// without consumers is none, see [secondLook].
func (p *Pass) dry(ctx context.Context, r *reader, q *quiet) (bool, error) {
	defer p.session.endWith(ctx)()
	found, err := r.channel.QueueDeclarePassive(p.queue, true, false, false, false, nil)
	switch {
	case err != nil:
		return false, p.explain(ctx, err)
	case time.Since(q.since) > passPatience:
		return false, p.explain(ctx, ErrNotDelivered)
	case found.Messages == 0 && found.Consumers > 0:
		q.empty++
	}
	return q.empty == passEmpty, nil
}

// ended tells why a consumer ended.
func (p *Pass) ended(ctx context.Context, r *reader) error {
	select {
	case cause := <-r.closed:
		if cause != nil && !isCut(cause) {
			return p.explain(ctx, cause)
		}
		return p.explain(ctx, ErrCut)
	default:
	}
	// The channel lives, so the broker has cancelled the consumer.
	if _, exists, err := p.session.depth(ctx, p.queue); err == nil && !exists {
		return fmt.Errorf("queue %q: it was deleted: %w", p.queue, ErrNotFound)
	}
	return p.explain(ctx, ErrCut)
}

// Take acknowledges the message: it is in the queue no more. Do first with it
// what has to be done. Take may be called for any message of the pass, in any
// order, until the pass is closed.
func (p *Pass) Take(ctx context.Context, m Parked) error {
	defer p.session.endWith(ctx)()
	if err := m.delivery.Ack(false); err != nil {
		return p.explain(ctx, err)
	}
	m.reader.unsettled--
	return nil
}

// Close gives back what was not taken and waits until the queue has it: the
// broker answers before that.
func (p *Pass) Close(ctx context.Context) error {
	defer p.session.endWith(ctx)()
	p.done = true
	readers := p.readers
	p.readers = nil
	if last := len(readers) - 1; last > 0 && readers[last].deliveries != nil {
		// What the first channel gives back must not go to the last one.
		if err := readers[last].channel.Cancel(passTag, false); err != nil {
			return p.closing(ctx, err)
		}
	}
	// The broker answers before it gives back, and so what two channels hold
	// would be mixed if both were closed at once.
	kept := 0
	for _, r := range readers {
		kept += r.unsettled
		if err := r.channel.Close(); err != nil {
			return p.closing(ctx, err)
		}
		if err := p.returned(ctx, kept); err != nil {
			return err
		}
	}
	return nil
}

// returned waits until at least kept messages are ready, or their number does
// not grow: they may expire, and other consumers take them.
func (p *Pass) returned(ctx context.Context, kept int) error {
	if p.shared {
		return nil
	}
	most, since := -1, time.Now()
	for time.Since(since) < returnPatience {
		depths := map[string]Depth{}
		if err := p.session.look(ctx, []string{p.queue}, depths); err != nil {
			return p.closing(ctx, err)
		}
		depth, exists := depths[p.queue]
		if !exists || depth.Ready >= kept {
			return nil
		}
		if depth.Ready > most {
			most, since = depth.Ready, time.Now()
		}
		select {
		case <-time.After(returnPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
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
		err = explain(ctx, err)
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
