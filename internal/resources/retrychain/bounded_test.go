package retrychain_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// counts says whether the broker counts what a consumer gives back that way: 4.3
// does not count basic.nack.
func counts(b *rabbit.Broker, how worker.Outcome) bool {
	return how != worker.Requeue || !acctest.AtLeast(b, 4, 3)
}

// runLimited is [eachVariant] on one broker for those with a delivery limit, which
// classic queues do not have.
func runLimited(t *testing.T, b *rabbit.Broker, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant)) {
	t.Helper()
	limited := slices.DeleteFunc(variants(b), func(v variant) bool { return v.queueType != "quorum" })
	runVariants(t, b, rabbit.Half(t.Name(), limited), test)
}

// TestAccBounded: without delays and with delivery_limit = n a message that is
// given back at each delivery is delivered n + 1 times, and then parked. A
// rejected one is parked at once.
func TestAccBounded(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		runLimited(t, b, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
			const limit = 3
			w := acctest.Terraform(t, v.chainConfig(b, vhost, "[]", fmt.Sprintf("work_queue = { delivery_limit = %d }", limit)))
			apply(t, w)
			expectEmptyPlan(t, w)
			expectLimit(t, b, vhost, limit)
			for name, how := range map[string]worker.Outcome{"reject": worker.RejectRequeue, "nack": worker.Requeue, "crash": worker.Keep} {
				want := limit + 1
				if !counts(b, how) {
					want = 5 * limit // it is never parked
				}
				if n := returnUntilParked(t, b, vhost, how, want); n != want {
					t.Errorf("%s: %d deliveries, expected %d", name, n, want)
				}
			}
			for name, how := range map[string]worker.Outcome{"rejected": worker.Reject, "nacked": worker.Nack} {
				if n := returnUntilParked(t, b, vhost, how, limit); n != 1 {
					t.Errorf("%s: %d deliveries, expected 1", name, n)
				}
			}
		})
	})
}

// returnUntilParked publishes one message and gives it back at each delivery,
// until it is parked, takes it from there and returns the number of deliveries.
// What is delivered for the last time, and would come back indefinitely, is rejected.
// [worker.Keep] stands for a consumer whose connection ends.
func returnUntilParked(t *testing.T, b *rabbit.Broker, vhost string, how worker.Outcome, last int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	w := acctest.Worker(t, b, vhost)
	if err := w.Publish(ctx, "", "orders", amqp.Publishing{MessageId: "one"}); err != nil {
		t.Fatal(err)
	}
	parked := make(chan error, 1)
	go func() {
		_, err := w.Get(ctx, "orders.parking")
		parked <- err
	}()
	n := 0
	for {
		consumer, deliveries := consume(t, b, vhost)
		for crashed := false; !crashed; {
			select {
			case err := <-parked:
				if err = errors.Join(err, consumer.Close()); err != nil {
					t.Fatalf("after %d deliveries: %s", n, err)
				}
				return n
			case d := <-deliveries:
				n++
				if crashed = how == worker.Keep; crashed {
					break
				}
				giveBack := how
				if n == last && !counts(b, how) {
					giveBack = worker.Reject
				}
				settle(t, d, giveBack)
			}
		}
		if err := consumer.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func consume(t *testing.T, b *rabbit.Broker, vhost string) (*worker.Worker, <-chan amqp.Delivery) {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	ch, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w, deliveries
}

func settle(t *testing.T, d amqp.Delivery, how worker.Outcome) {
	t.Helper()
	var err error
	switch how {
	case worker.Reject:
		err = d.Reject(false)
	case worker.Nack:
		err = d.Nack(false, false)
	case worker.Requeue:
		err = d.Nack(false, true)
	case worker.RejectRequeue:
		err = d.Reject(true)
	case worker.Ack, worker.Keep:
	}
	if err != nil {
		t.Fatal(err)
	}
}

// expectLimit compares the delivery limit of the work queue on the broker.
func expectLimit(t *testing.T, b *rabbit.Broker, vhost string, want int) {
	t.Helper()
	q, err := acctest.API(t, b).GetQueue(vhost, "orders")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(q.Arguments["x-delivery-limit"]); got != fmt.Sprint(want) {
		t.Errorf("the delivery limit of the work queue is %s, expected %d", got, want)
	}
}

// TestAccBoundedChanges: the limit with which the work queue was declared stays,
// whatever the delays become, and a new chain of the same name is another one.
func TestAccBoundedChanges(t *testing.T) {
	// Before 3.13 a chain with delays has no delivery limit.
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		runLimited(t, b, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
			const limit = "work_queue = { delivery_limit = 3 }"
			bounded, delayed := v.chainConfig(b, vhost, "[]", limit), v.chainConfig(b, vhost, `["200ms"]`, limit)
			w := acctest.Terraform(t, bounded)
			apply(t, w)
			expectLimit(t, b, vhost, 3)
			acctest.Reconfigure(t, w, delayed)
			expectText(t, acctest.Run(t, w, "plan"), "Retries Count Towards the Delivery Limit")
			apply(t, w)
			expectEmptyPlan(t, w)
			expectLimit(t, b, vhost, 3)
			acctest.Reconfigure(t, w, bounded)
			apply(t, w)
			applyUntilDrained(t, w)
			expectEmptyPlan(t, w)
			expectLimit(t, b, vhost, 3)
			acctest.Run(t, w, "destroy", "-auto-approve")
			acctest.Reconfigure(t, w, delayed)
			apply(t, w)
			expectLimit(t, b, vhost, 53)
			acctest.Reconfigure(t, w, bounded)
			apply(t, w)
			applyUntilDrained(t, w)
			expectEmptyPlan(t, w)
			expectLimit(t, b, vhost, 53)
		})
	})
}

// TestAccBoundedImport: a chain without delays is read back with its exact limit.
func TestAccBoundedImport(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, limit := range []int{3, 60} {
			vhost := acctest.VHost(t, b)
			config := defaultVariant(b, "quorum").chainConfig(b, vhost, "[]", fmt.Sprintf("work_queue = { delivery_limit = %d }", limit))
			apply(t, acctest.Terraform(t, config))
			w := acctest.Terraform(t, config)
			acctest.Run(t, w, "import", "rabbitmq_retry_chain.orders", "orders@"+vhost)
			apply(t, w) // deletion_policy is not on the broker
			expectEmptyPlan(t, w)
		}
	})
}
