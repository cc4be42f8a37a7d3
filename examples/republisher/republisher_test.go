package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// setting is a virtual host with the topology and what a test does in it.
type setting struct {
	*topology
	broker  *rabbit.Broker
	worker  *worker.Worker
	program string // path of the executable
	amqpURL string
}

func (s *setting) start(t *testing.T) *process.Process {
	t.Helper()
	return start(t, s.program, s.amqpURL)
}

// publish publishes a message and waits for the confirm.
func (s *setting) publish(t *testing.T, exchange, key string, message amqp.Publishing) {
	t.Helper()
	if err := s.worker.Publish(t.Context(), exchange, key, message); err != nil {
		t.Fatal(err)
	}
}

// get takes a message out of a queue, which it may have to wait for.
func (s *setting) get(t *testing.T, queue string) worker.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	d, err := s.worker.Get(ctx, queue)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s *setting) ready(t *testing.T, queue string) int {
	t.Helper()
	n, err := s.worker.Ready(queue)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// each runs a test on every broker, with classic and with quorum queues.
func each(t *testing.T, delays []time.Duration, test func(t *testing.T, s *setting)) {
	t.Helper()
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"classic", "quorum"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				test(t, &setting{
					topology: declare(t, b, vhost, queueType, delays...),
					broker:   b,
					worker:   acctest.Worker(t, b, vhost),
					program:  process.Build(t, "."),
					amqpURL:  process.Address(t, b, vhost, nil),
				})
			})
		}
	})
}

// messages of the tests with a failing consumer.
const messages = 150

var accountDelays = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond}

// TestAccKilled kills the program at random moments. No message is lost, and no
// kill doubles more messages than were under way.
func TestAccKilled(t *testing.T) {
	each(t, accountDelays, func(t *testing.T, s *setting) {
		p := s.start(t)
		a := s.fail(t)
		kills := 0
		for s.somewhatLater(t, a, p) {
			p.Kill()
			kills++
			p = s.start(t)
		}
		copies := s.account(t, a)
		t.Logf("%d kills, %d copies", kills, copies)
		if kills < 3 || copies > kills*prefetch {
			t.Errorf("%d kills and %d copies, want 3 kills or more and at most %d copies for each", kills, copies, prefetch)
		}
	})
}

// TestAccTerminated ends the program in good order at random moments. No message
// is lost or doubled.
func TestAccTerminated(t *testing.T) {
	each(t, accountDelays, func(t *testing.T, s *setting) {
		p := s.start(t)
		a := s.fail(t)
		ends := 0
		for s.somewhatLater(t, a, p) {
			p.Terminate(finishTimeout)
			ends++
			p = s.start(t)
		}
		if copies := s.account(t, a); ends < 3 || copies > 0 {
			t.Errorf("%d ends and %d copies, want 3 ends or more and no copies", ends, copies)
		}
	})
}

// TestAccConnectionLost cuts the program's connection at random moments. The
// program connects again by itself.
func TestAccConnectionLost(t *testing.T) {
	each(t, accountDelays, func(t *testing.T, s *setting) {
		u, err := url.Parse(s.amqpURL)
		if err != nil {
			t.Fatal(err)
		}
		r := newRelay(t, u.Host)
		u.Host = r.listener.Addr().String()
		p := start(t, s.program, u.String())
		a := s.fail(t)
		cuts := 0
		for s.somewhatLater(t, a, p) {
			r.cut()
			cuts++
			process.Eventually(t, "the program connects again", func() bool { return p.Logged("INFO connected") > cuts })
		}
		copies := s.account(t, a)
		t.Logf("%d cuts, %d copies", cuts, copies)
		if cuts < 3 || copies > cuts*prefetch {
			t.Errorf("%d cuts and %d copies, want 3 cuts or more and at most %d copies for each", cuts, copies, prefetch)
		}
		p.Terminate(finishTimeout)
	})
}

// accounts notes where messages have ended, by message id.
type accounts struct {
	mu    sync.Mutex
	ended map[string]int
	wrong []string
	last  time.Time // when something was seen
}

// fail begins to publish the messages and to consume them: two of three
// deliveries are rejected. Messages end when they are acknowledged or parked.
func (s *setting) fail(t *testing.T) *accounts {
	t.Helper()
	a := &accounts{ended: map[string]int{}}
	s.consume(t, "orders", func(d worker.Delivery) worker.Outcome {
		if rand.IntN(3) > 0 {
			a.note(d, false, "")
			return worker.Reject
		}
		a.note(d, true, "")
		return worker.Ack
	})
	s.consume(t, "orders.parking", func(d worker.Delivery) worker.Outcome {
		wrong := ""
		if got, want := d.Headers["count"], int64(len(s.tiers)+1); got != want {
			wrong = fmt.Sprintf("message %s is parked with count %v, want %d", d.MessageId, got, want)
		}
		a.note(d, true, wrong)
		return worker.Ack
	})
	published := make(chan error, 1)
	go func() { published <- s.publishAll(t.Context(), "", "orders") }()
	t.Cleanup(func() {
		if err := <-published; err != nil {
			t.Error(err)
		}
	})
	return a
}

// publishAll publishes the messages and waits for the confirm of each.
func (s *setting) publishAll(ctx context.Context, exchange, key string) error {
	for i := range messages {
		if err := s.worker.Publish(ctx, exchange, key, amqp.Publishing{MessageId: fmt.Sprint(i)}); err != nil {
			return err
		}
	}
	return nil
}

// consume consumes a queue until the test ends.
func (s *setting) consume(t *testing.T, queue string, decide func(worker.Delivery) worker.Outcome) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.worker.Consume(ctx, queue, 10, decide) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (a *accounts) note(d worker.Delivery, ended bool, wrong string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = d.At
	if ended {
		a.ended[d.MessageId]++
	}
	if wrong != "" {
		a.wrong = append(a.wrong, wrong)
	}
}

func (a *accounts) all() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ended) == messages
}

// somewhatLater waits until the program has moved a random number of messages,
// and a moment of random length more. It returns false when every message has ended.
func (s *setting) somewhatLater(t *testing.T, a *accounts, p *process.Process) bool {
	t.Helper()
	enough := p.Logged(moved) + 1 + rand.IntN(40)
	process.Eventually(t, fmt.Sprintf("all %d messages have ended", messages), func() bool { return p.Logged(moved) >= enough || a.all() })
	time.Sleep(rand.N(2 * time.Millisecond))
	return !a.all()
}

// account waits until every message has ended and no copy is on its way any
// more. It returns the number of copies.
func (s *setting) account(t *testing.T, a *accounts) int {
	t.Helper()
	process.Eventually(t, fmt.Sprintf("all %d messages have ended", messages), a.all)
	began := time.Now()
	process.Eventually(t, "the queues are empty for longer than the longest delay", func() bool {
		for _, queue := range append([]string{"orders", "orders.failed", "orders.parking"}, s.tiers...) {
			if s.ready(t, queue) > 0 {
				began = time.Now()
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.last.After(began) {
			began = a.last
		}
		return time.Since(began) > 2*slices.Max(accountDelays)
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, wrong := range a.wrong {
		t.Error(wrong)
	}
	copies := 0
	for _, n := range a.ended {
		copies += n - 1
	}
	return copies
}

// TestAccKeeps checks what a consumer sees at its second attempt.
func TestAccKeeps(t *testing.T) {
	each(t, accountDelays[:1], func(t *testing.T, s *setting) {
		want := amqp.Publishing{
			Headers:         amqp.Table{"tenant": "blue", "size": int32(7), "CC": []any{"audit"}, "x-request-id": "r"},
			ContentType:     "application/json",
			ContentEncoding: "gzip",
			Priority:        9,
			CorrelationId:   "c",
			ReplyTo:         "r",
			MessageId:       "m",
			Timestamp:       time.Unix(1700000000, 0),
			Type:            "order",
			UserId:          s.broker.Username,
			AppId:           "a",
			Body:            []byte("{}"),
		}
		s.exchange(t, "shop", "fanout", nil)
		s.bind(t, "shop", "orders", nil)
		p := s.start(t)
		s.publish(t, "shop", "order.created", want)
		s.reject(t)
		got := s.get(t, "orders")
		p.Terminate(finishTimeout)
		checkKept(t, got.Delivery, want)
		if got.RoutingKey != "order.created" || got.DeliveryMode != amqp.Persistent {
			t.Errorf("routing key %q, delivery mode %d", got.RoutingKey, got.DeliveryMode)
		}
		if got.Headers["tenant"] != "blue" || got.Headers["size"] != int32(7) ||
			got.Headers["x-request-id"] != "r" || got.Headers["count"] != int64(1) {
			t.Errorf("headers %v", got.Headers)
		}
		if _, left := got.Headers["CC"]; left || got.Deaths("orders", "rejected") != 0 || got.Deaths(s.tiers[0], "expired") != 1 {
			t.Errorf("headers of the broker %v", got.Headers)
		}
	})
}

// checkKept compares the properties but for the headers.
func checkKept(t *testing.T, got amqp.Delivery, want amqp.Publishing) {
	t.Helper()
	have := amqp.Publishing{
		Headers: want.Headers, ContentType: got.ContentType, ContentEncoding: got.ContentEncoding, Priority: got.Priority,
		CorrelationId: got.CorrelationId, ReplyTo: got.ReplyTo, MessageId: got.MessageId, Timestamp: got.Timestamp.UTC(),
		Type: got.Type, UserId: got.UserId, AppId: got.AppId, Body: got.Body,
	}
	want.Timestamp = want.Timestamp.UTC()
	if fmt.Sprintf("%+v", have) != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %+v\nwant %+v", have, want)
	}
}

// reject rejects one delivery of the work queue.
func (s *setting) reject(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	err := s.worker.Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome {
		cancel()
		return worker.Reject
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAccExpired lets a message expire in the work queue. With its death headers,
// RabbitMQ before 4.0 would drop it on its way back.
func TestAccExpired(t *testing.T) {
	each(t, accountDelays[:2], func(t *testing.T, s *setting) {
		p := s.start(t)
		s.publish(t, "", "orders", amqp.Publishing{MessageId: "m", Expiration: "50"})
		process.Eventually(t, "the program has moved the expired message", func() bool { return p.Logged("moved message_id=m") > 0 })
		if d := s.get(t, "orders"); d.MessageId != "m" || d.Headers["count"] != int64(1) || d.Expiration != "" {
			t.Errorf("got %s with expiration %q and headers %v", d.MessageId, d.Expiration, d.Headers)
		}
	})
}

// TestAccExpiration publishes a message with an expiration below the delay of the
// tier: straight to the tier, where it ends the delay early, and through the program.
func TestAccExpiration(t *testing.T) {
	const delay = 3 * time.Second
	each(t, []time.Duration{delay}, func(t *testing.T, s *setting) {
		s.start(t)
		for _, test := range []struct {
			exchange string
			count    int64
			early    bool
		}{{"orders.retry", 1, true}, {"orders.failed", 0, false}} {
			began := time.Now()
			s.publish(t, test.exchange, "orders", amqp.Publishing{Expiration: "1000", Headers: amqp.Table{"count": test.count}})
			s.get(t, "orders")
			if took := time.Since(began); took < delay != test.early {
				t.Errorf("published to %s: back after %s of %s", test.exchange, took, delay)
			}
		}
	})
}

// TestAccParks sends messages that are at the end of their retries or have no
// proper count.
func TestAccParks(t *testing.T) {
	each(t, accountDelays, func(t *testing.T, s *setting) {
		s.start(t)
		for _, test := range []struct{ before, after any }{
			{int16(3), int64(4)},
			{int64(77), int64(78)},
			{int64(-1), int64(-1)},
			{"2", int64(-1)},
			{1.5, int64(-1)},
		} {
			s.publish(t, "orders.failed", "orders", amqp.Publishing{Headers: amqp.Table{"count": test.before}})
			if d := s.get(t, "orders.parking"); d.Headers["count"] != test.after {
				t.Errorf("count %v was parked with %v, want %v", test.before, d.Headers["count"], test.after)
			}
		}
		s.publish(t, "orders.failed", "orders", amqp.Publishing{Headers: amqp.Table{"count": uint8(1)}})
		if d := s.get(t, "orders"); d.Headers["count"] != int64(2) || d.Deaths(s.tiers[1], "expired") != 1 {
			t.Errorf("count 1 came back with headers %v", d.Headers)
		}
	})
}

// obstacle is what keeps a message from its first retry.
type obstacle struct {
	name string
	says string // in the program's log
	set  func(t *testing.T, s *setting)
	lift func(t *testing.T, s *setting)
}

var obstacles = []obstacle{
	{
		name: "no exchange", says: "no exchange 'orders.retry'",
		set: func(t *testing.T, s *setting) { s.dropRetry(t) },
		lift: func(t *testing.T, s *setting) {
			s.exchange(t, "orders.retry", "headers", nil)
			s.bind(t, "orders.retry", s.tiers[0], matchCount(1))
		},
	},
	{
		name: "no queue", says: "no queue for the message",
		set: func(t *testing.T, s *setting) {
			s.dropRetry(t)
			s.exchange(t, "orders.retry", "headers", nil)
		},
		lift: func(t *testing.T, s *setting) { s.bind(t, "orders.retry", s.tiers[0], matchCount(1)) },
	},
	{
		name: "full queue", says: "a queue refused the message",
		set: func(t *testing.T, s *setting) {
			s.dropRetry(t)
			s.exchange(t, "orders.retry", "headers", nil)
			s.full(t)
			s.bind(t, "orders.retry", "full", nil)
		},
		lift: func(t *testing.T, s *setting) {
			s.bind(t, "orders.retry", s.tiers[0], matchCount(1))
			resp, err := s.api.DeleteQueue(s.vhost, "full")
			acctest.Do(t, resp, err)
		},
	},
}

func (s *setting) dropRetry(t *testing.T) {
	t.Helper()
	resp, err := s.api.DeleteExchange(s.vhost, "orders.retry")
	acctest.Do(t, resp, err)
}

// full declares a queue that takes no message. It is classic: a quorum queue
// takes some messages more than its limit.
func (s *setting) full(t *testing.T) {
	t.Helper()
	resp, err := s.api.DeclareQueue(s.vhost, "full", rabbithole.QueueSettings{
		Type: "classic", Durable: true, Arguments: map[string]any{"x-max-length": 1, "x-overflow": "reject-publish"},
	})
	acctest.Do(t, resp, err)
	s.publish(t, "", "full", amqp.Publishing{})
}

// TestAccHolds puts an obstacle in the way. The message stays with the program,
// and in the queue when the program ends, until the obstacle is lifted.
func TestAccHolds(t *testing.T) {
	for _, o := range obstacles {
		t.Run(o.name, func(t *testing.T) {
			each(t, accountDelays[:1], func(t *testing.T, s *setting) {
				o.set(t, s)
				p := s.start(t)
				s.publish(t, "orders.failed", "orders", amqp.Publishing{MessageId: "m"})
				process.Eventually(t, "the program has tried twice", func() bool { return p.Logged(o.says) > 1 })
				if p.Logged(moved) > 0 {
					t.Error("the program says that the message has moved")
				}
				p.Terminate(finishTimeout)
				process.Eventually(t, "the message is back in its queue", func() bool { return s.ready(t, "orders.failed") == 1 })
				p = s.start(t)
				process.Eventually(t, "the second program has tried", func() bool { return p.Logged(o.says) > 0 })
				o.lift(t, s)
				if d := s.get(t, "orders"); d.MessageId != "m" {
					t.Errorf("got message %q", d.MessageId)
				}
				p.Terminate(finishTimeout)
			})
		})
	}
}

// TestAccPrefetch counts what the program takes while nothing can be moved.
func TestAccPrefetch(t *testing.T) {
	each(t, accountDelays[:1], func(t *testing.T, s *setting) {
		obstacles[1].set(t, s)
		for range 3 * prefetch {
			s.publish(t, "orders.failed", "orders", amqp.Publishing{})
		}
		p := s.start(t)
		process.Eventually(t, "the program has tried all it takes twice", func() bool { return p.Logged(obstacles[1].says) >= 2*prefetch })
		if n := s.ready(t, "orders.failed"); n != 2*prefetch {
			t.Errorf("%d messages are left in the queue, want %d", n, 2*prefetch)
		}
		p.Terminate(finishTimeout)
	})
}

// TestAccOtherUser runs the program as a user who may only read the queue of
// failed messages and write to the exchange. The broker would refuse a message
// with the user id of another client.
func TestAccOtherUser(t *testing.T) {
	each(t, accountDelays[:1], func(t *testing.T, s *setting) {
		name, password := s.vhost, "secret-of-"+s.vhost
		resp, err := s.api.PutUser(name, rabbithole.UserSettings{Password: password})
		acctest.Do(t, resp, err)
		t.Cleanup(func() {
			resp, err := s.api.DeleteUser(name)
			acctest.Do(t, resp, err)
		})
		p := start(t, s.program, process.Address(t, s.broker, s.vhost, url.UserPassword(name, password)))
		process.Eventually(t, "the program has no access", func() bool { return p.Logged("session ended") > 0 })
		resp, err = s.api.UpdatePermissionsIn(s.vhost, name, rabbithole.Permissions{
			Configure: "^$", Write: `^orders\.retry$`, Read: `^orders\.failed$`,
		})
		acctest.Do(t, resp, err)
		s.publish(t, "orders.failed", "orders", amqp.Publishing{UserId: s.broker.Username})
		if d := s.get(t, "orders"); d.UserId != "" {
			t.Errorf("user id %q", d.UserId)
		}
		p.Terminate(finishTimeout)
		if strings.Contains(p.Text(), password) {
			t.Error("the log shows the password")
		}
	})
}

// TestAccBrokerRestarted kills a broker with messages under way and starts it
// again.
func TestAccBrokerRestarted(t *testing.T) {
	t.Parallel()
	all := acctest.Brokers(t)
	b := rabbit.Own(t, rabbit.Options{Version: all[len(all)-1].Release()})
	s := &setting{
		topology: declare(t, b, "/", "quorum", accountDelays...), broker: b, worker: acctest.Worker(t, b, "/"),
		program: process.Build(t, "."), amqpURL: process.Address(t, b, "/", nil),
	}
	if err := s.publishAll(t.Context(), "orders.failed", "orders"); err != nil {
		t.Fatal(err)
	}
	p := s.start(t)
	process.Eventually(t, "the program moves messages", func() bool { return p.Logged(moved) > 0 })
	if err := b.Kill(); err != nil {
		t.Fatal(err)
	}
	before := p.Logged(moved)
	if before == messages {
		t.Error("the broker was killed too late: every message had moved")
	}
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.worker = acctest.Worker(t, b, "/")
	a := &accounts{ended: map[string]int{}}
	s.consume(t, "orders", func(d worker.Delivery) worker.Outcome {
		a.note(d, true, "")
		return worker.Ack
	})
	copies := s.account(t, a)
	t.Logf("%d messages moved before the broker was killed, %d copies", before, copies)
	if copies > prefetch {
		t.Errorf("%d copies, want at most %d", copies, prefetch)
	}
	p.Terminate(finishTimeout)
}
