package retrychain_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// delayedRetryConfig is a chain of strategy "delayed_retry".
func delayedRetryConfig(b *rabbit.Broker, vhost, delays, more string) string {
	return acctest.Config(b, `
resource "rabbitmq_retry_chain" "orders" {
  name            = "orders"
  vhost           = %q
  strategy        = "delayed_retry"
  delays          = %s
  deletion_policy = "delete"
  %s
}
`, vhost, delays, more)
}

const needsDelayedRetry = "strategy delayed_retry needs RabbitMQ 4.3.1"

// hasDelayedRetry says whether the broker can hold back returned messages.
func hasDelayedRetry(b *rabbit.Broker) bool { return acctest.AtLeast(b, 4, 3) }

// TestAccDelayedRetry observes when a message comes back that its consumer
// rejects with requeue=true, and that it is parked after the last attempt; and
// what a consumer gets that uses basic.nack.
func TestAccDelayedRetry(t *testing.T) {
	acctest.EachWith(t, needsDelayedRetry, hasDelayedRetry, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, delayedRetryConfig(b, vhost, `["400ms", "800ms", "1s"]`, ""))
		expectText(t, acctest.Run(t, w, "plan"), "Consumers Must Use basic.reject")
		apply(t, w)
		expectEmptyPlan(t, w)
		t.Run("reject", func(t *testing.T) {
			seen := giveBack(t, b, vhost, 10, 12*time.Second, worker.RejectRequeue)
			wantWaits(t, seen, 400*time.Millisecond, 800*time.Millisecond, time.Second)
			expectParked(t, b, vhost, 1)
		})
		t.Run("nack", func(t *testing.T) {
			seen := giveBack(t, b, vhost, 6, 30*time.Second, worker.Requeue)
			wantWaits(t, seen, 400*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond, 400*time.Millisecond)
			expectParked(t, b, vhost, 1)
		})
		t.Run("nacks between rejections", func(t *testing.T) { // a nack waits as long as the failures before it, and uses up no attempt
			ways := []worker.Outcome{worker.RejectRequeue, worker.RejectRequeue, worker.Requeue, worker.RejectRequeue, worker.Requeue, worker.RejectRequeue}
			seen := giveBack(t, b, vhost, 10, 14*time.Second, ways...)
			wantWaits(t, seen, 400*time.Millisecond, 800*time.Millisecond, 800*time.Millisecond, time.Second, time.Second)
			expectParked(t, b, vhost, 2)
		})
		t.Run("requeue=false", func(t *testing.T) {
			wantWaits(t, giveBack(t, b, vhost, 10, 5*time.Second, worker.Reject))
			wantWaits(t, giveBack(t, b, vhost, 10, 5*time.Second, worker.Nack))
			expectParked(t, b, vhost, 4)
		})
		t.Run("crash", func(t *testing.T) {
			wantWaits(t, crash(t, b, vhost, 4), 400*time.Millisecond, 800*time.Millisecond, time.Second)
			eventuallyParked(t, b, vhost, 5)
		})
	})
}

// crash publishes one message and closes the connection of its consumer at every
// delivery, so many times.
func crash(t *testing.T, b *rabbit.Broker, vhost string, times int) []time.Time {
	t.Helper()
	if err := acctest.Worker(t, b, vhost).Publish(t.Context(), "", "orders", amqp.Publishing{MessageId: "one"}); err != nil {
		t.Fatal(err)
	}
	var seen []time.Time
	for range times {
		w, err := worker.Dial(b.AMQP, vhost)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		err = w.Consume(ctx, "orders", 1, func(d worker.Delivery) worker.Outcome {
			seen = append(seen, d.At)
			cancel()
			return worker.Keep
		})
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// eventuallyParked fails the test unless the parking queue comes to hold n
// messages.
func eventuallyParked(t *testing.T, b *rabbit.Broker, vhost string, n int) {
	t.Helper()
	w, got := acctest.Worker(t, b, vhost), 0
	if !poll.Until(60*time.Second, func() bool {
		var err error
		got, err = w.Ready("orders.parking")
		return err == nil && got == n
	}) {
		t.Errorf("%d messages are parked, expected %d", got, n)
	}
}

// giveBack publishes one message and gives the deliveries back in these ways, in
// turn, until there were so many or the time is over. The message is taken away
// in the end.
func giveBack(t *testing.T, b *rabbit.Broker, vhost string, most int, patience time.Duration, ways ...worker.Outcome) []time.Time {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	if err := w.Publish(t.Context(), "", "orders", amqp.Publishing{MessageId: "one"}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var seen []time.Time
	err := w.Consume(ctx, "orders", 1, func(d worker.Delivery) worker.Outcome {
		seen = append(seen, d.At)
		if len(seen) == most {
			cancel()
			return worker.Ack
		}
		return ways[(len(seen)-1)%len(ways)]
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen
}

func wantWaits(t *testing.T, seen []time.Time, waits ...time.Duration) {
	t.Helper()
	if len(seen) != len(waits)+1 {
		t.Fatalf("%d deliveries, expected %d", len(seen), len(waits)+1)
	}
	for i, wait := range waits {
		if got := seen[i+1].Sub(seen[i]); got < wait-20*time.Millisecond || got > wait+10*time.Second {
			t.Errorf("delivery %d came after %s, expected %s", i+2, got, wait)
		}
	}
}

// TestAccDelayedRetryRefused: older brokers would take the arguments and ignore
// them, and so the plan refuses.
func TestAccDelayedRetryRefused(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		if !hasDelayedRetry(b) {
			w := acctest.Terraform(t, delayedRetryConfig(b, vhost, `["1s", "2s"]`, ""))
			expectText(t, acctest.RunError(t, w, "plan"), "needs RabbitMQ 4.3.1 or later", "This broker runs "+b.Version)
			return
		}
		w := acctest.Terraform(t, delayedRetryConfig(b, vhost, `["1s", "5s", "30s"]`, ""))
		expectText(t, acctest.RunError(t, w, "plan"), "Delays Are No Ramp", `["1s", "2s", "3s"]`)
		acctest.Reconfigure(t, w, delayedRetryConfig(b, vhost, `["1s", "2s"]`, `queue_type = "classic"`))
		expectText(t, acctest.RunError(t, w, "plan"), "Delayed Retry Needs Quorum Queues")
		acctest.Reconfigure(t, w, delayedRetryConfig(b, vhost, `["1s", "2s"]`, ""))
		apply(t, w)
		acctest.Reconfigure(t, w, delayedRetryConfig(b, vhost, `["1s", "2s", "3s"]`, ""))
		expectText(t, acctest.RunError(t, w, "plan"), "Change Not Possible in Place", "delays of the living chain")
		acctest.Reconfigure(t, w, variant{"headers", "quorum", "at-least-once"}.chainConfig(b, vhost, `["1s", "2s"]`, ""))
		expectText(t, acctest.RunError(t, w, "plan"), "Change Not Possible in Place", "strategy of the living chain")
	})
}

// republishVariants are the kinds of queue with which strategy "republish" is
// tried.
var republishVariants = []variant{
	{"republish", "quorum", "at-least-once"},
	{"republish", "quorum", "at-most-once"},
	{"republish", "classic", "at-most-once"},
}

// TestAccRepublish has a process count in a header: consumers reject at random,
// the delays change in the middle, and every message is accounted for.
func TestAccRepublish(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range republishVariants {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				w := acctest.Terraform(t, v.chainConfig(b, vhost, `["200ms", "400ms"]`, ""))
				apply(t, w)
				expectEmptyPlan(t, w)
				stop := startRepublisher(t, b, vhost, "orders")
				l := startTraffic(t, b, vhost)
				l.waitFor(100)
				acctest.Reconfigure(t, w, v.chainConfig(b, vhost, `["200ms", "300ms", "400ms"]`, ""))
				apply(t, w)
				expectEmptyPlan(t, w)
				l.waitFor(100)
				l.finish(30 * time.Second)
				stop()
			})
		}
	})
}

// startRepublisher starts the simplest process that a chain of strategy
// "republish" needs.
func startRepublisher(t *testing.T, b *rabbit.Broker, vhost, chain string) (stop func()) {
	t.Helper()
	consumer, publisher := acctest.Worker(t, b, vhost), acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- consumer.Consume(ctx, chain+".failed", 20, func(d worker.Delivery) worker.Outcome {
			count, _ := d.Headers["count"].(int64)
			message := amqp.Publishing{MessageId: d.MessageId, Body: d.Body, Headers: amqp.Table{"count": count + 1}}
			if err := publisher.Publish(context.WithoutCancel(ctx), chain+".retry", d.RoutingKey, message); err != nil {
				return worker.Requeue
			}
			return worker.Ack
		})
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the republisher: %v", err)
		}
	}
}

// TestAccStrategiesImport: chains of these strategies are read back whole.
func TestAccStrategiesImport(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		configs := map[string]func(string) string{
			"republish": func(vhost string) string {
				return republishVariants[0].chainConfig(b, vhost, `["1s", "2s"]`, `count_header = "tries"`)
			},
		}
		if hasDelayedRetry(b) {
			configs["delayed_retry"] = func(vhost string) string { return delayedRetryConfig(b, vhost, `["1s", "2s"]`, "") }
		}
		for name, config := range configs {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				apply(t, acctest.Terraform(t, config(vhost)))
				w := acctest.Terraform(t, config(vhost))
				acctest.Run(t, w, "import", "rabbitmq_retry_chain.orders", fmt.Sprintf("orders@%s", vhost))
				apply(t, w) // deletion_policy is not on the broker
				expectEmptyPlan(t, w)
			})
		}
	})
}
