// Command republisher moves failed messages to their next retry. It consumes
// the queue of failed messages, adds one to a header that counts the failures,
// and publishes each message to a headers exchange, which routes it by that
// header to a delay or to the parking queue.
//
//	AMQP_URL=amqp://user:password@localhost:5672/ go run ./examples/republisher
//
// A delivery is acknowledged only after the broker has confirmed its successor
// and has not returned it. So no end of the program or of the connection loses a
// message; each may double up to -prefetch messages. SIGTERM and SIGINT end the
// program in good order and double none.
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
)

type config struct {
	address  string // amqp or amqps URL with credentials
	queue    string // of failed messages
	exchange string // of type headers
	header   string // that counts the failures
	prefetch int    // messages under way at once

	user string // of the address, set by check
}

func main() {
	var c config
	flag.StringVar(&c.address, "amqp", "", "`URL` of the broker (default $AMQP_URL, where its password is not seen by other users)")
	flag.StringVar(&c.queue, "queue", "orders.failed", "queue of failed messages")
	flag.StringVar(&c.exchange, "exchange", "orders.retry", "headers exchange to publish to")
	flag.StringVar(&c.header, "header", "count", "header that counts the failures")
	flag.IntVar(&c.prefetch, "prefetch", 20, "messages under way at once")
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
	c.run(ctx)
	slog.Info("stopped")
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
	case c.queue == "" || c.exchange == "" || c.header == "":
		return errors.New("-queue, -exchange and -header must not be empty")
	case strings.HasPrefix(c.header, "x-") || brokersOwn(c.header):
		return fmt.Errorf("-header %q: headers that begin with x- are the broker's, and headers exchanges do not look at them", c.header)
	case c.prefetch < 1 || c.prefetch > maxPrefetch:
		return fmt.Errorf("-prefetch %d: must be from 1 to %d", c.prefetch, maxPrefetch)
	}
	return nil
}

// run moves messages until ctx ends, over one connection after the other.
func (c *config) run(ctx context.Context) {
	var pause backoff
	for {
		var moved atomic.Bool
		err := c.session(ctx, &moved)
		if ctx.Err() != nil {
			return
		}
		if moved.Load() {
			pause = 0
		}
		slog.Error("session ended, connecting again", "error", err)
		if !pause.wait(ctx) {
			return
		}
	}
}

// session moves messages over one connection, until ctx ends or something fails.
// Deliveries that are not acknowledged go back to the queue at its end. moved is
// set when a message has been moved.
func (c *config) session(ctx context.Context, moved *atomic.Bool) error {
	conn, err := amqp.DialConfig(c.address, amqp.Config{
		Heartbeat:  10 * time.Second,
		Dial:       amqp.DefaultDial(dialTimeout),
		Properties: amqp.Table{"connection_name": "republisher " + c.queue},
	})
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(finishTimeout)) }()
	movers, err := c.movers(conn, moved)
	if err != nil {
		return err
	}
	source, err := c.consume(conn)
	if err != nil {
		return err
	}
	slog.Info("connected", "address", conn.RemoteAddr().String(), "vhost", conn.Config.Vhost, "queue", c.queue, "exchange", c.exchange)

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

// consumer is the source of failed messages.
type consumer struct {
	deliveries <-chan amqp.Delivery
	closed     chan *amqp.Error
	cancelled  chan string
}

func (c *config) consume(conn *amqp.Connection) (*consumer, error) {
	channel, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	s := &consumer{
		closed:    channel.NotifyClose(make(chan *amqp.Error, 1)),
		cancelled: channel.NotifyCancel(make(chan string, 1)),
	}
	if err := channel.Qos(c.prefetch, 0, false); err != nil {
		return nil, err
	}
	s.deliveries, err = channel.Consume(c.queue, "", false, false, false, false, nil)
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
	config  *config
	moved   *atomic.Bool
	channel *amqp.Channel
	returns chan amqp.Return
	closed  chan *amqp.Error
}

// movers returns as many movers as messages may be under way.
func (c *config) movers(conn *amqp.Connection, moved *atomic.Bool) ([]*mover, error) {
	var all []*mover
	for range c.prefetch {
		channel, err := conn.Channel()
		if err != nil {
			return nil, err
		}
		if err := channel.Confirm(false); err != nil {
			return nil, err
		}
		all = append(all, &mover{
			config:  c,
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
	message := retry(d, m.config.header, m.config.user)
	log := slog.With("message_id", d.MessageId, "routing_key", d.RoutingKey, "count", message.Headers[m.config.header])
	var pause backoff
	for {
		err := m.publish(d.RoutingKey, message)
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

// publish returns nil when every queue that the message was routed to has taken
// it, and there was at least one.
func (m *mover) publish(key string, message amqp.Publishing) error {
	confirm, err := m.channel.PublishWithDeferredConfirm(m.config.exchange, key, true, false, message)
	if err != nil {
		return err
	}
	confirmed := confirm.Wait()
	select {
	// The broker sends a return before the confirm of the same message.
	case returned, open := <-m.returns:
		if open {
			return fmt.Errorf("exchange %q: no queue for the message: %s", m.config.exchange, returned.ReplyText)
		}
	default:
	}
	if confirmed {
		return nil
	}
	if m.channel.IsClosed() {
		return lost(<-m.closed)
	}
	return fmt.Errorf("exchange %q: a queue refused the message", m.config.exchange)
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
