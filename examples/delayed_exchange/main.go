// Command delayed_exchange moves failed messages of a retry chain of strategy
// "delayed_exchange". It has two parts.
//
// The error consumer takes messages from the queue of failed messages, counts in
// a header and publishes each to the exchange of type x-delayed-message, which
// holds it back, or to the parking exchange: after the last delay, and when it
// died of something else than a rejection.
//
// The requeue consumer takes messages whose delay is over from the requeue queue,
// and publishes them to the exchange that leads to the work queue.
//
//	AMQP_URL=amqp://user:password@localhost:5672/ go run ./examples/delayed_exchange -chain orders -delays 5s,30s,5m
//
// A delivery is acknowledged only after the broker has confirmed its successor.
// So no end of the program or of the connection loses a message; each may double
// up to twice -prefetch messages. SIGTERM and SIGINT end the program in good order
// and double none.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// dialTimeout is for a connection with TLS and the AMQP handshake.
	dialTimeout = 10 * time.Second
	// finishTimeout is how long messages under way may take to be confirmed
	// when nothing new is started any more.
	finishTimeout = 10 * time.Second
	// stopTimeout is how long the program may take to end after a signal. It
	// is below the 30 s that service managers commonly give.
	stopTimeout = 20 * time.Second
	// firstPause and longestPause limit the pauses between attempts.
	firstPause   = 200 * time.Millisecond
	longestPause = 30 * time.Second
	// maxPrefetch leaves room below the 2,047 channels that a connection has
	// by default.
	maxPrefetch = 1000
	// longestDelay is 2³² - 1 ms. The plugin does not hold back a message with
	// more.
	longestDelay = (1<<32 - 1) * time.Millisecond
)

type config struct {
	address  string // amqp or amqps URL with credentials
	chain    string // name of the retry chain
	header   string // that counts the failures
	prefetch int    // messages under way at once, for each part
	delays   []time.Duration

	user string // of the address, set by check
}

func main() {
	var c config
	flag.StringVar(&c.address, "amqp", "", "`URL` of the broker (default $AMQP_URL, where its password is not seen by other users)")
	flag.StringVar(&c.chain, "chain", "orders", "name of the retry chain")
	flag.StringVar(&c.header, "header", "count", "header that counts the failures")
	flag.IntVar(&c.prefetch, "prefetch", 20, "messages under way at once, for each of the two parts")
	flag.Func("delays", "waits before each retry, such as `5s,30s,5m`", c.setDelays)
	flag.Parse()
	if c.address == "" {
		c.address = os.Getenv("AMQP_URL")
	}
	if err := c.check(); err != nil {
		slog.Error("start", "error", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	context.AfterFunc(ctx, func() {
		stop() // a second signal ends the program at once
		time.Sleep(stopTimeout)
		slog.Error("the broker does not answer; messages that are not confirmed stay in the queue", "waited", stopTimeout)
		os.Exit(1)
	})
	var group sync.WaitGroup
	for _, p := range c.parts() {
		group.Go(func() { p.run(ctx) })
	}
	group.Wait()
	slog.Info("stopped")
}

func (c *config) setDelays(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		delay, err := time.ParseDuration(item)
		if err != nil {
			return err
		}
		c.delays = append(c.delays, delay)
	}
	return nil
}

// check finds what would fail later. Its errors hold no part of the URL, which
// may hold a password.
func (c *config) check() error {
	uri, err := amqp.ParseURI(c.address)
	c.user = uri.Username
	switch {
	case c.address == "":
		return errors.New("no address: set AMQP_URL or -amqp")
	case err != nil:
		return errors.New("the address is not an AMQP URL such as amqp://user:password@host:5672/vhost")
	case c.chain == "" || c.header == "":
		return errors.New("-chain and -header must not be empty")
	case strings.HasPrefix(c.header, "x-") || brokersOwn(c.header):
		return fmt.Errorf("-header %q: headers that begin with x- are the broker's", c.header)
	case c.prefetch < 1 || c.prefetch > maxPrefetch:
		return fmt.Errorf("-prefetch %d: must be from 1 to %d", c.prefetch, maxPrefetch)
	}
	for _, delay := range c.delays {
		if delay < 0 || delay > longestDelay || delay%time.Millisecond != 0 {
			return fmt.Errorf("-delays %s: must be whole milliseconds from 0 to %s", delay, longestDelay)
		}
	}
	return nil
}

// part consumes one queue and moves its messages on.
type part struct {
	config *config
	queue  string
	// next says where a message goes, and in which form.
	next func(amqp.Delivery) successor
}

// parts returns the error consumer and the requeue consumer.
func (c *config) parts() []part {
	return []part{
		{config: c, queue: c.chain + ".failed", next: c.failed},
		{config: c, queue: c.chain + ".requeue", next: c.due},
	}
}

// run moves messages until ctx ends, over one connection after the other.
func (p part) run(ctx context.Context) {
	var pause backoff
	for {
		var moved atomic.Bool
		err := p.session(ctx, &moved)
		if ctx.Err() != nil {
			return
		}
		if moved.Load() {
			pause = 0
		}
		slog.Error("session ended, connecting again", "queue", p.queue, "error", err)
		if !pause.wait(ctx) {
			return
		}
	}
}

// session moves messages over one connection, until ctx ends or something fails.
// Deliveries that are not acknowledged go back to the queue at its end. moved is
// set when a message has been moved.
func (p part) session(ctx context.Context, moved *atomic.Bool) error {
	conn, err := amqp.DialConfig(p.config.address, amqp.Config{
		Heartbeat:  10 * time.Second,
		Dial:       amqp.DefaultDial(dialTimeout),
		Properties: amqp.Table{"connection_name": "delayed_exchange " + p.queue},
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(finishTimeout)) }()
	movers, err := p.movers(conn, moved)
	if err != nil {
		return err
	}
	source, err := p.consume(conn)
	if err != nil {
		return err
	}
	slog.Info("connected", "address", conn.RemoteAddr().String(), "vhost", conn.Config.Vhost, "queue", p.queue)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var group sync.WaitGroup
	for _, m := range movers {
		group.Go(func() {
			if err := m.work(ctx, source.deliveries); err != nil {
				cancel(err)
			}
		})
	}
	cancel(source.ended(ctx))
	wait(&group, finishTimeout)
	return context.Cause(ctx)
}

// consumer is the source of messages.
type consumer struct {
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
	cancelled  chan string
}

func (p part) consume(conn *amqp.Connection) (*consumer, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	s := &consumer{
		closed:    channel.NotifyClose(make(chan *amqp.Error, 1)),
		cancelled: channel.NotifyCancel(make(chan string, 1)),
	}
	if err := channel.Qos(p.config.prefetch, 0, false); err != nil {
		return nil, err
	}
	s.deliveries, err = channel.Consume(p.queue, "", false, false, false, false, nil)
	return s, err
}

// ended waits until ctx or the consumer ends, and says why. It notices what the
// movers do not while all of them pause.
func (s *consumer) ended(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case err := <-s.closed:
		return lost(err)
	case _, open := <-s.cancelled:
		if open {
			return errors.New("the broker ended the consumer")
		}
		return lost(<-s.closed) // a channel that ends closes both
	}
}

// wait waits for a group, but not longer than limit.
func wait(group *sync.WaitGroup, limit time.Duration) {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// mover moves one message at a time. It has a channel of its own, because a
// returned message does not say which publishing it belongs to.
type mover struct {
	part    part
	moved   *atomic.Bool
	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
}

// movers returns as many movers as messages may be under way.
func (p part) movers(conn *amqp.Connection, moved *atomic.Bool) ([]*mover, error) {
	var all []*mover
	for range p.config.prefetch {
		channel, err := conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := channel.Confirm(false); err != nil {
			return nil, err
		}
		all = append(all, &mover{
			part:    p,
			moved:   moved,
			channel: channel,
			returns: channel.NotifyReturn(make(chan amqp.Return, 1)),
			closed:  channel.NotifyClose(make(chan *amqp.Error, 1)),
		})
	}
	return all, nil
}

// work moves deliveries until ctx or the consumer ends. It returns an error when
// a channel is of no more use.
func (m *mover) work(ctx context.Context, deliveries <-chan amqp.Delivery) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case d, open := <-deliveries:
			if !open {
				return nil
			}
			if err := m.move(ctx, d); err != nil {
				return err
			}
		}
	}
}

// move publishes the successor of a delivery and then acknowledges exactly that
// delivery. A message that the exchange routes nowhere or that a queue refuses
// is kept and tried again; it goes back to the queue when ctx ends. It returns an
// error when the channel is of no more use.
func (m *mover) move(ctx context.Context, d amqp.Delivery) error {
	next := m.part.next(d)
	log := slog.With("message_id", d.MessageId, "routing_key", d.RoutingKey, "exchange", next.exchange, "delay", next.delay)
	var pause backoff
	for {
		err := m.publish(d.RoutingKey, next)
		if err == nil {
			log.Info("moved")
			m.moved.Store(true)
			return d.Ack(false)
		}
		if m.channel.IsClosed() {
			return err
		}
		log.Warn("not moved, trying again", "error", err)
		if !pause.wait(ctx) {
			return nil
		}
	}
}

// publish returns nil when the broker has taken charge of the message: when every
// queue that it was routed to has taken it, and there was at least one, or when
// the exchange holds it back. What it holds back counts as not routed, and so a
// message with a delay cannot be mandatory.
func (m *mover) publish(key string, next successor) error {
	confirm, err := m.channel.PublishWithDeferredConfirm(next.exchange, key, next.delay == 0, false, next.message)
	if err != nil {
		return err
	}
	confirmed := confirm.Wait()
	select {
	// The broker sends a return before the confirm of the same message.
	case returned, open := <-m.returns:
		if open {
			return fmt.Errorf("exchange %q: no queue for the message: %s", next.exchange, returned.ReplyText)
		}
	default:
	}
	if confirmed {
		return nil
	}
	if m.channel.IsClosed() {
		return lost(<-m.closed)
	}
	return fmt.Errorf("exchange %q: a queue refused the message", next.exchange)
}

// lost says why a channel ended; err is nil if the broker did not say it.
func lost(err *amqp.Error) error {
	if err == nil {
		return errors.New("the channel ended")
	}
	return err
}

// backoff is the pause before the next attempt, doubled each time. The zero
// value begins with [firstPause].
type backoff time.Duration

// wait waits between half of the pause and all of it, so that programs that
// failed together do not come back together. It returns false when ctx ended.
func (b *backoff) wait(ctx context.Context) bool {
	pause := min(max(2*time.Duration(*b), firstPause), longestPause)
	*b = backoff(pause)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause/2 + rand.N(pause/2)): //nolint:gosec // chance needs no secrecy
		return true
	}
}
