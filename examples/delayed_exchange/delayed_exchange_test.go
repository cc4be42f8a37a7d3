package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const (
	// prefetch of the programs under test.
	prefetch = 5
	// moved is what the program logs for each message that it moves.
	moved = "INFO moved"
	// messages of the tests with a failing consumer.
	messages = 100
	// delays of the chain.
	delays = "100ms,200ms,300ms"
)

// setting is a virtual host with a chain.
type setting struct {
	broker  *rabbit.Broker
	vhost   string
	worker  *worker.Worker
	program string // path of the executable
}

// each runs a test on every broker with the plugin, with classic and with quorum
// queues.
func each(t *testing.T, test func(t *testing.T, s *setting)) {
	t.Helper()
	acctest.EachDelayed(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"classic", "quorum"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				s := &setting{broker: b, vhost: acctest.VHost(t, b), program: process.Build(t, ".")}
				acctest.Chain(t, b, s.vhost, map[string]any{
					"strategy": "delayed_exchange", "queue_type": queueType, "delays": []any{"100ms", "200ms", "300ms"},
					"work_queue": map[string]any{"message_ttl": "20s"},
				})
				s.worker = acctest.Worker(t, b, s.vhost)
				test(t, s)
			})
		}
	})
}

func (s *setting) start(t *testing.T) *process.Process {
	t.Helper()
	return process.Start(t, s.program, process.Address(t, s.broker, s.vhost, nil), "-prefetch", strconv.Itoa(prefetch), "-delays", delays)
}

// TestAccDelays rejects one message at every attempt and looks at what each of
// them sees and when, and at what is parked.
func TestAccDelays(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		p := s.start(t)
		sent := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"tenant": "blue"}, Priority: 3, Body: []byte("{}")}
		if err := s.worker.Publish(t.Context(), "orders.redrive", "order.created", sent); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var seen []worker.Delivery
		err := s.worker.Consume(ctx, "orders", 1, func(d worker.Delivery) worker.Outcome {
			if seen = append(seen, d); len(seen) == 4 {
				cancel()
			}
			return worker.Reject
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range seen {
			count, _ := d.Headers["count"].(int64)
			if d.RoutingKey != "order.created" || d.Headers["tenant"] != "blue" || d.Priority != 3 || string(d.Body) != "{}" || count != int64(i) {
				t.Errorf("attempt %d: key %q, headers %v, priority %d", i+1, d.RoutingKey, d.Headers, d.Priority)
			}
			if i == 0 {
				continue
			}
			if wait, least := d.At.Sub(seen[i-1].At), time.Duration(i)*100*time.Millisecond; wait < least || wait > least+5*time.Second {
				t.Errorf("attempt %d came after %s, want %s", i+1, wait, least)
			}
		}
		parked := s.get(t, "orders.parking")
		if parked.RoutingKey != "order.created" || parked.Headers["count"] != int64(4) || parked.Headers["tenant"] != "blue" {
			t.Errorf("parked with key %q and headers %v", parked.RoutingKey, parked.Headers)
		}
		p.Terminate(finishTimeout)
	})
}

// TestAccOtherDeaths lets a message expire in the work queue: it is parked, and
// not retried.
func TestAccOtherDeaths(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		s.start(t)
		if err := s.worker.Publish(t.Context(), "", "orders", amqp.Publishing{Expiration: "50"}); err != nil {
			t.Fatal(err)
		}
		if d := s.get(t, "orders.parking"); d.Headers["count"] != park {
			t.Errorf("parked with headers %v", d.Headers)
		}
	})
}

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

// TestAccKilled kills the program at random moments. No message is lost, and no
// kill doubles more messages than were under way.
func TestAccKilled(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		kills, copies := s.interrupt(t, (*process.Process).Kill)
		t.Logf("%d kills, %d copies", kills, copies)
		if kills < 3 || copies > kills*2*prefetch {
			t.Errorf("%d kills and %d copies, want 3 kills or more and at most %d copies for each", kills, copies, 2*prefetch)
		}
	})
}

// TestAccTerminated ends the program in good order at random moments. No message
// is lost or doubled.
func TestAccTerminated(t *testing.T) {
	each(t, func(t *testing.T, s *setting) {
		ends, copies := s.interrupt(t, func(p *process.Process) { p.Terminate(finishTimeout) })
		if ends < 3 || copies > 0 {
			t.Errorf("%d ends and %d copies, want 3 ends or more and no copies", ends, copies)
		}
	})
}

// interrupt lets consumers fail while the program is ended and started again at
// random moments, accounts for every message, and returns how often the program
// was ended and how many copies there were.
func (s *setting) interrupt(t *testing.T, end func(*process.Process)) (ends, copies int) {
	t.Helper()
	a := &accounts{ended: map[string]int{}}
	s.consume(t, "orders", func(d worker.Delivery) worker.Outcome {
		if rand.IntN(3) > 0 {
			return worker.Reject
		}
		a.end(d)
		return worker.Ack
	})
	s.consume(t, "orders.parking", func(d worker.Delivery) worker.Outcome {
		if d.Headers["count"] != int64(4) {
			t.Errorf("message %s is parked with headers %v", d.MessageId, d.Headers)
		}
		a.end(d)
		return worker.Ack
	})
	p := s.start(t)
	published := make(chan error, 1)
	go func() { published <- s.publishAll(t.Context()) }()
	for {
		enough := p.Logged(moved) + 1 + rand.IntN(60)
		process.Eventually(t, fmt.Sprintf("all %d messages have ended", messages), func() bool { return p.Logged(moved) >= enough || a.all() })
		if a.all() {
			break
		}
		end(p)
		ends++
		p = s.start(t)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	s.comeToRest(t, a)
	return ends, a.copies()
}

// publishAll publishes the messages and waits for the confirm of each.
func (s *setting) publishAll(ctx context.Context) error {
	for i := range messages {
		if err := s.worker.Publish(ctx, "", "orders", amqp.Publishing{MessageId: strconv.Itoa(i)}); err != nil {
			return err
		}
	}
	return nil
}

// comeToRest waits until no copy can be on its way any more: every queue has
// been empty for longer than the longest delay.
func (s *setting) comeToRest(t *testing.T, a *accounts) {
	t.Helper()
	began := time.Now()
	process.Eventually(t, "the queues are empty for longer than the longest delay", func() bool {
		for _, queue := range []string{"orders", "orders.failed", "orders.requeue", "orders.parking"} {
			if n, err := s.worker.Ready(queue); err != nil {
				t.Fatal(err)
			} else if n > 0 {
				began = time.Now()
			}
		}
		if last := a.lastEnd(); last.After(began) {
			began = last
		}
		return time.Since(began) > 2*300*time.Millisecond
	})
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

// accounts notes where messages have ended, by message id.
type accounts struct {
	mu    sync.Mutex
	ended map[string]int
	last  time.Time
}

func (a *accounts) end(d worker.Delivery) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended[d.MessageId]++
	a.last = d.At
}

func (a *accounts) all() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.ended) == messages
}

func (a *accounts) lastEnd() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last
}

func (a *accounts) copies() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, times := range a.ended {
		n += times - 1
	}
	return n
}
