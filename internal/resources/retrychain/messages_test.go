package retrychain_test

import (
	"context"
	"crypto/sha256"
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

// messages is how many messages TestAccEveryMessage publishes.
var messages = rabbit.Size(1000, 200)

// TestAccEveryMessage publishes messages with confirms through a chain whose
// consumers decide at random, and accounts for every one of them.
func TestAccEveryMessage(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms", "500ms"}}).apply()
		if err := accountForAll(t, b, vhost, v); err != nil {
			t.Error(err)
		}
	})
}

// ledger notes what happened to each message.
type ledger struct {
	mu        sync.Mutex
	sums      map[string][sha256.Size]byte
	delivered map[string]int
	done      map[string]int
	wrong     []string
}

func (l *ledger) deliver(d worker.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delivered[d.MessageId]++
	if sha256.Sum256(d.Body) != l.sums[d.MessageId] {
		l.wrong = append(l.wrong, "message "+d.MessageId+" has another body")
	}
}

func (l *ledger) settle(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done[id]++
}

func (l *ledger) settled() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.done)
}

func accountForAll(t *testing.T, b *rabbit.Broker, vhost string, v variant) error {
	w := acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	l := &ledger{sums: map[string][sha256.Size]byte{}, delivered: map[string]int{}, done: map[string]int{}}
	failed := make(chan error, 4)
	for range 2 {
		go func() {
			failed <- w.Consume(ctx, "orders", 50, func(d worker.Delivery) worker.Outcome { return l.decide(d) })
		}()
		go func() {
			failed <- w.Consume(ctx, "orders.parking", 50, func(d worker.Delivery) worker.Outcome {
				l.deliver(d)
				l.settle(d.MessageId)
				return worker.Ack
			})
		}()
	}
	if err := publishMany(ctx, t, b, vhost, l); err != nil {
		return err
	}
	for l.settled() < messages && ctx.Err() == nil {
		select {
		case err := <-failed:
			return err
		case <-time.After(50 * time.Millisecond):
		}
	}
	time.Sleep(time.Second) // a second copy of a message would still come
	return l.check(v)
}

// decide succeeds or fails at random; it rejects with both methods that the
// protocol has for it.
func (l *ledger) decide(d worker.Delivery) worker.Outcome {
	l.deliver(d)
	switch rand.IntN(5) {
	case 0, 1:
		l.settle(d.MessageId)
		return worker.Ack
	case 2, 3:
		return worker.Reject
	default:
		return worker.Nack
	}
}

func publishMany(ctx context.Context, t *testing.T, b *rabbit.Broker, vhost string, l *ledger) error {
	var group sync.WaitGroup
	const publishers = 8
	errs := make(chan error, publishers)
	for p := range publishers {
		w := acctest.Worker(t, b, vhost)
		group.Go(func() {
			for i := p; i < messages; i += publishers {
				id := strconv.Itoa(i)
				body := []byte(fmt.Sprintf("message %d %d", i, rand.Uint64()))
				l.mu.Lock()
				l.sums[id] = sha256.Sum256(body)
				l.mu.Unlock()
				if err := w.Publish(ctx, "", "orders", amqp.Publishing{MessageId: id, Body: body}); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

func (l *ledger) check(v variant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.wrong) > 0 {
		return fmt.Errorf("%d messages are wrong: %s", len(l.wrong), l.wrong[0])
	}
	for i := range messages {
		id := strconv.Itoa(i)
		switch n := l.done[id]; {
		case n == 0:
			return fmt.Errorf("message %s is lost after %d deliveries; %d of %d arrived", id, l.delivered[id], len(l.done), messages)
		case n > 1 && v.deadLetterStrategy == "at-most-once":
			return fmt.Errorf("message %s was settled %d times", id, n)
		}
		// Three attempts and a look at the parked message.
		if l.delivered[id] > 4 && v.deadLetterStrategy == "at-most-once" {
			return fmt.Errorf("message %s was delivered %d times", id, l.delivered[id])
		}
	}
	return nil
}
