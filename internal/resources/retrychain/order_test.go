package retrychain_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// orderOf publishes the messages a, b and c, lets every attempt at a fail until it
// is parked, and returns the messages in the order of their deliveries. After 12
// deliveries a is handled.
func orderOf(t *testing.T, b *rabbit.Broker, vhost string, failing worker.Outcome) string {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, id := range []string{"a", "b", "c"} {
		if err := w.Publish(ctx, "", "orders", amqp.Publishing{MessageId: id}); err != nil {
			t.Fatal(err)
		}
	}
	consuming, stop := context.WithCancel(ctx)
	defer stop()
	var left atomic.Int32
	left.Store(3)
	done := func() {
		if left.Add(-1) == 0 {
			stop()
		}
	}
	go func() {
		if _, err := w.Get(consuming, "orders.parking"); err == nil {
			done()
		}
	}()
	var seen []string
	err := w.Consume(consuming, "orders", 1, func(d worker.Delivery) worker.Outcome {
		seen = append(seen, d.MessageId)
		switch {
		case d.MessageId != "a":
			done()
			return worker.Ack
		case len(seen) >= 12:
			stop()
			return worker.Ack
		}
		return failing
	})
	if err != nil || ctx.Err() != nil {
		t.Fatalf("after %v: %v %v", seen, err, ctx.Err())
	}
	return strings.Join(seen, "")
}

// TestAccTail: with delays of nothing a failing message comes back behind the
// others, as often as there are delays, and is parked.
func TestAccTail(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range slices.Concat(variants(b), republishVariants) {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				w := acctest.Terraform(t, v.chainConfig(b, vhost, `["0s", "0s", "0s"]`, ""))
				apply(t, w)
				expectEmptyPlan(t, w)
				if v.strategy == "republish" {
					t.Cleanup(startRepublisher(t, b, vhost, "orders"))
				}
				if got := orderOf(t, b, vhost, worker.Reject); got != "abcaaa" {
					t.Errorf("the deliveries were %s, expected abcaaa", got)
				}
			})
		}
	})
}

// TestAccHead: a message that is given back to a queue with a delivery limit comes
// back before the others; without a limit it does from 4.3 on only.
func TestAccHead(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for limit, want := range map[string]string{"3": "aaaabc", "-1": "abcaaaaaaaaa"} {
			t.Run("limit "+limit, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				if limit == "-1" && acctest.AtLeast(b, 4, 3) {
					want = "aaaaaaaaaaaa"
				}
				apply(t, acctest.Terraform(t, defaultVariant(b, "quorum").chainConfig(b, vhost, "[]", "work_queue = { delivery_limit = "+limit+" }")))
				if got := orderOf(t, b, vhost, worker.RejectRequeue); got != want {
					t.Errorf("the deliveries were %s, expected %s", got, want)
				}
			})
		}
	})
}

// TestAccTailRefused: a queue that holds messages back itself cannot do so for no
// time.
func TestAccTailRefused(t *testing.T) {
	acctest.EachWith(t, needsDelayedRetry, hasDelayedRetry, func(t *testing.T, b *rabbit.Broker) {
		w := acctest.Terraform(t, delayedRetryConfig(b, acctest.VHost(t, b), `["0s", "0s"]`, ""))
		expectText(t, acctest.RunError(t, w, "plan"), "Delays Are No Ramp", "d is at least 1 ms")
	})
}
