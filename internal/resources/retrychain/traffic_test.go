package retrychain_test

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
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// traffic publishes to a chain and consumes its work queue, with random
// outcomes, until [traffic.finish] accounts for every message.
type traffic struct {
	// exchange and key are where messages are published.
	exchange, key string
	work, parking string
	// rest are further queues that may hold messages in the end.
	rest []string
	// every is the pause between two publishes of one publisher.
	every time.Duration
	// fails decides whether a delivery is rejected; by default 60 % are.
	fails func(worker.Delivery) bool
	// ways are those in which a delivery fails; by default it is rejected, by
	// basic.reject or by basic.nack.
	ways []worker.Outcome

	t          *testing.T
	b          *rabbit.Broker
	vhost      string
	publishing context.CancelFunc
	consuming  context.CancelFunc
	publishers sync.WaitGroup
	consumers  sync.WaitGroup

	mu        sync.Mutex
	next      int
	published map[string]bool // confirmed and not returned
	uncertain map[string]bool // sent, and no confirm came
	delivered map[string]int
	settled   map[string]int
	errors    []error
}

// startTraffic starts two publishers and two consumers on the chain "orders".
// It ends with the test.
func startTraffic(t *testing.T, b *rabbit.Broker, vhost string, change ...func(*traffic)) *traffic {
	t.Helper()
	l := &traffic{
		key: "orders", work: "orders", parking: "orders.parking", every: 5 * time.Millisecond,
		fails: func(worker.Delivery) bool { return rand.IntN(5) < 3 },
		ways:  []worker.Outcome{worker.Reject, worker.Nack},
		t:     t, b: b, vhost: vhost,
		published: map[string]bool{}, uncertain: map[string]bool{}, delivered: map[string]int{}, settled: map[string]int{},
	}
	for _, f := range change {
		f(l)
	}
	l.every *= time.Duration(rabbit.Size(1, 8)) // brokers take most of the processor's time
	publishing, stopPublishing := context.WithCancel(context.Background())
	consuming, stopConsuming := context.WithCancel(context.Background())
	l.publishing, l.consuming = stopPublishing, stopConsuming
	t.Cleanup(func() { stopPublishing(); stopConsuming(); l.publishers.Wait(); l.consumers.Wait() })
	for range 2 {
		l.publishers.Go(func() { l.publish(publishing) })
		l.consumers.Go(func() { l.consume(consuming) })
	}
	return l
}

func (l *traffic) publish(ctx context.Context) {
	w, err := worker.Dial(l.b.AMQP, l.vhost)
	if err != nil {
		l.fail(err)
		return
	}
	defer w.Close()
	for ctx.Err() == nil {
		id := l.nextID()
		// A publish that has begun is waited for, whatever the test does.
		err := w.Publish(context.WithoutCancel(ctx), l.exchange, l.key, amqp.Publishing{MessageId: id, Body: []byte(id), Headers: amqp.Table{"app": "yes"}})
		l.mu.Lock()
		if err != nil {
			l.errors = append(l.errors, err)
			l.uncertain[id] = true
		} else {
			l.published[id] = true
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(l.every):
		}
	}
}

func (l *traffic) nextID() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next++
	return strconv.Itoa(l.next)
}

func (l *traffic) consume(ctx context.Context) {
	w, err := worker.Dial(l.b.AMQP, l.vhost)
	if err != nil {
		l.fail(err)
		return
	}
	defer w.Close()
	if err := w.Consume(ctx, l.work, 20, l.decide); err != nil {
		l.fail(err)
	}
}

func (l *traffic) decide(d worker.Delivery) worker.Outcome {
	fails := l.fails(d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered[d.MessageId]++
	switch {
	case !fails:
		l.settled[d.MessageId]++
		return worker.Ack
	default:
		return l.ways[rand.IntN(len(l.ways))]
	}
}

func (l *traffic) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errors = append(l.errors, err)
}

// confirmed is the number of messages that the broker has taken so far.
func (l *traffic) confirmed() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.published)
}

// waitFor waits until the broker has taken n more messages, or without
// [rabbit.EnvFull] a third of them.
func (l *traffic) waitFor(n int) {
	l.t.Helper()
	want := l.confirmed() + rabbit.Size(n, (n+2)/3)
	for deadline := time.Now().Add(3 * time.Minute); l.confirmed() < want; {
		if time.Now().After(deadline) {
			l.t.Fatalf("only %d of %d messages were taken within a minute: %v", l.confirmed(), want, l.errors)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// outcome is what became of the messages.
type outcome struct {
	published, acknowledged, parked, doubled int
	// deliveries is the largest number of deliveries of one message.
	deliveries int
}

func (o outcome) String() string {
	return fmt.Sprintf("%d published, %d acknowledged by a consumer, %d parked, %d doubled, at most %d deliveries", o.published, o.acknowledged, o.parked, o.doubled, o.deliveries)
}

// resend is longer than the time after which RabbitMQ publishes a dead letter again
// that was not confirmed, with at-least-once dead-lettering:
// dead_letter_worker_publisher_confirm_timeout, 3 min.
const resend = 200 * time.Second

// finish ends the publishers, waits until every message was acknowledged or is
// parked (or in one of rest), and fails the test if one is lost. It gives up when
// nothing has moved for patience, or for [resend] while queues hold messages.
func (l *traffic) finish(patience time.Duration) outcome {
	l.t.Helper()
	l.publishing()
	l.publishers.Wait()
	w := acctest.Worker(l.t, l.b, l.vhost)
	parked := map[string]int{}
	quiet := 0
	least, moved := l.missing(parked), time.Now()
	for l.missing(parked) > 0 || quiet < 5 {
		if still := time.Since(moved); still > resend || still > patience && len(l.held()) == 0 {
			break
		}
		for _, queue := range append([]string{l.parking}, l.rest...) {
			drained, err := w.Drain(queue)
			if err != nil {
				l.t.Fatal(err)
			}
			for _, d := range drained {
				parked[d.MessageId]++
			}
		}
		missing := l.missing(parked)
		if missing == 0 {
			quiet++ // a second copy would still come
		}
		if missing < least {
			least, moved = missing, time.Now()
		}
		time.Sleep(200 * time.Millisecond)
	}
	l.consuming()
	l.consumers.Wait()
	return l.account(parked)
}

// held says which queues hold how many messages, dead letters on their way included.
func (l *traffic) held() []string {
	l.t.Helper()
	queues, err := acctest.API(l.t, l.b).ListQueuesIn(l.vhost)
	if err != nil {
		l.t.Fatal(err)
	}
	var held []string
	for _, q := range queues {
		if q.Messages > 0 {
			held = append(held, fmt.Sprintf("%s: %d", q.Name, q.Messages))
		}
	}
	return held
}

func (l *traffic) missing(parked map[string]int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := 0
	for id := range l.published {
		if l.settled[id]+parked[id] == 0 {
			missing++
		}
	}
	return missing
}

func (l *traffic) account(parked map[string]int) outcome {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.errors) > 0 {
		l.t.Errorf("%d errors of publishers and consumers, the first: %v", len(l.errors), l.errors[0])
	}
	o := outcome{published: len(l.published)}
	var lost []string
	for id := range l.published {
		o.deliveries = max(o.deliveries, l.delivered[id])
		if l.settled[id] > 0 {
			o.acknowledged++
		}
		if parked[id] > 0 {
			o.parked++
		}
		switch ends := l.settled[id] + parked[id]; {
		case ends == 0:
			lost = append(lost, id)
		case ends > 1:
			o.doubled++
		}
	}
	if len(lost) > 0 {
		l.t.Errorf("%d of %d messages are lost, such as %s after %d deliveries; queues hold %v", len(lost), len(l.published), lost[0], l.delivered[lost[0]], l.held())
	}
	l.t.Log(o)
	return o
}
