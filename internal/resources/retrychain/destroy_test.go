package retrychain_test

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// eachQueueType runs the test for every broker and both queue types, with an
// applied chain of the given deletion policy.
func eachQueueType(t *testing.T, policy string, test func(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				w := acctest.Terraform(t, settings{policy: policy, more: fmt.Sprintf("queue_type = %q", queueType)}.config(b, vhost))
				apply(t, w)
				test(t, b, vhost, w)
			})
		}
	})
}

// tier is the name of the chain's second tier.
func tier(b *rabbit.Broker) string {
	if acctest.Modern(b) {
		return "orders.retry.2s"
	}
	return "orders.attempt.2s"
}

// TestAccDestroyKeepsMessages publishes and destroys at once: a message in any
// queue keeps the whole chain.
func TestAccDestroyKeepsMessages(t *testing.T) {
	eachQueueType(t, "if_empty", func(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace) {
		messages := acctest.Worker(t, b, vhost)
		for _, queue := range []string{"orders", "orders.parking"} {
			publish(t, messages, queue)
			output := acctest.RunError(t, w, "destroy", "-auto-approve")
			expectText(t, output, "Chain Holds Messages", queue+": ", "1 ready", "Nothing was changed.", `set deletion_policy = "delete", apply, and then destroy`)
			if _, err := messages.Get(t.Context(), queue); err != nil {
				t.Errorf("the message is gone: %s", err)
			}
		}
		publish(t, messages, "orders")
		unacknowledged(t, messages)
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "Chain Holds Messages", "orders:")
		expectEmptyPlan(t, w)
	})
}

func publish(t *testing.T, w *worker.Worker, queue string) {
	t.Helper()
	if err := w.Publish(t.Context(), "", queue, amqp.Publishing{Body: []byte("keep me")}); err != nil {
		t.Fatal(err)
	}
}

// unacknowledged takes the next message of the work queue and keeps it until
// the test ends.
func unacknowledged(t *testing.T, w *worker.Worker) {
	t.Helper()
	ch, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_, ok, err := ch.Get("orders", false)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Fatal("no message to take")
}

// TestAccDestroyWithConsumer: a consumer may be about to give a message back.
// Nothing is deleted while it is there.
func TestAccDestroyWithConsumer(t *testing.T) {
	eachQueueType(t, "if_empty", func(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- acctest.Worker(t, b, vhost).Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome { return worker.Ack })
		}()
		time.Sleep(500 * time.Millisecond)
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "orders:", "consumer")
		expectEmptyPlan(t, w)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		acctest.Run(t, w, "destroy", "-auto-approve")
		if n := queues(t, b, vhost); n != 0 {
			t.Errorf("%d queues are left", n)
		}
	})
}

// TestAccDestroyDeletes: with "delete" the messages are given up, and what is
// gone already is not an error.
func TestAccDestroyDeletes(t *testing.T) {
	eachQueueType(t, "delete", func(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace) {
		publish(t, acctest.Worker(t, b, vhost), "orders")
		resp, err := acctest.API(t, b).DeleteQueue(vhost, tier(b))
		acctest.Do(t, resp, err)
		resp, err = acctest.API(t, b).DeleteExchange(vhost, "orders.redrive")
		acctest.Do(t, resp, err)
		acctest.Run(t, w, "destroy", "-auto-approve")
		if n := queues(t, b, vhost) + exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// TestAccDestroyRetains: with "retain" the chain goes on working.
func TestAccDestroyRetains(t *testing.T) {
	eachQueueType(t, "retain", func(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace) {
		messages := acctest.Worker(t, b, vhost)
		publish(t, messages, "orders")
		expectText(t, acctest.Run(t, w, "destroy", "-auto-approve"), "Chain Left on the Broker",
			"Its queues are orders, ", tier(b), "orders.parking")
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for range 3 {
			rejectOne(ctx, t, messages)
		}
		if _, err := messages.Get(ctx, "orders.parking"); err != nil {
			t.Errorf("the message was not parked after its last attempt: %s", err)
		}
	})
}

func rejectOne(ctx context.Context, t *testing.T, w *worker.Worker) {
	t.Helper()
	one, stop := context.WithCancel(ctx)
	defer stop()
	err := w.Consume(one, "orders", 1, func(worker.Delivery) worker.Outcome {
		stop()
		return worker.Reject
	})
	if err != nil || ctx.Err() != nil {
		t.Fatal("no attempt came", err, ctx.Err())
	}
}

// TestAccDestroyUsesAppliedPolicy: a policy that is only in the configuration
// does not count.
func TestAccDestroyUsesAppliedPolicy(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		park(t, b, vhost)
		acctest.Reconfigure(t, w, settings{policy: "delete"}.config(b, vhost))
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve", "-refresh=false"), "Chain Holds Messages", "policy that was applied last")
		expectParked(t, b, vhost, 1)
		apply(t, w)
		acctest.Run(t, w, "destroy", "-auto-approve")
	})
}

// TestAccRefusedChanges: what this version cannot change without risk is an
// error of the plan, and the chain stays as it is.
func TestAccRefusedChanges(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := variant{"headers", "quorum", "at-least-once"}
		w := acctest.Terraform(t, v.chainConfig(b, vhost, `["1s", "2s"]`, ""))
		apply(t, w)
		for attribute, config := range map[string]string{
			"queue_type":                variant{"headers", "classic", "at-most-once"}.chainConfig(b, vhost, `["1s", "2s"]`, ""),
			"dead_letter_strategy":      variant{"headers", "quorum", "at-most-once"}.chainConfig(b, vhost, `["1s", "2s"]`, ""),
			"work_queue.name":           v.chainConfig(b, vhost, `["1s", "2s"]`, `work_queue = { name = "other" }`),
			"work_queue.delivery_limit": v.chainConfig(b, vhost, `["1s", "2s"]`, `work_queue = { delivery_limit = 3 }`),
			"parking_queue.message_ttl": v.chainConfig(b, vhost, `["1s", "2s"]`, `parking_queue = { message_ttl = "1h" }`),
		} {
			acctest.Reconfigure(t, w, config)
			expectText(t, acctest.RunError(t, w, "plan"), "Change Not Possible in Place", attribute+" of the living chain")
		}
		acctest.Reconfigure(t, w, v.chainConfig(b, vhost, `["1000ms", "2s"]`, ""))
		expectEmptyPlan(t, w)
	})
}

// TestAccConnectionErrors: each way of not reaching a broker has its own error,
// and none shows the password.
func TestAccConnectionErrors(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, test := range []struct {
			name   string
			change func(*rabbit.Broker)
			want   string
		}{
			{"wrong password", func(b *rabbit.Broker) { b.Password = "t0p-secret" }, "Login Refused"},
			{"nothing listens", func(b *rabbit.Broker) { b.Endpoint, b.Password = "http://127.0.0.1:1", "t0p-secret" }, "Broker Not Reached"},
			{"AMQP port", func(b *rabbit.Broker) { b.Endpoint, b.Password = "http://"+amqpHost(b), "t0p-secret" }, "Not a RabbitMQ Management API"},
			{"wrong prefix", func(b *rabbit.Broker) { b.Endpoint += "/elsewhere" }, "Not a RabbitMQ Management API"},
			{"TLS where there is none", func(b *rabbit.Broker) { b.Endpoint = "https" + b.Endpoint[len("http"):] }, "Error:"},
		} {
			changed := *b
			test.change(&changed)
			w := acctest.Terraform(t, settings{}.config(&changed, "/"))
			output := acctest.RunError(t, w, "plan")
			expectText(t, output, test.want)
			expectNoText(t, output, "t0p-secret")
		}
	})
}

func amqpHost(b *rabbit.Broker) string {
	u, err := url.Parse(b.AMQP)
	if err != nil {
		return b.AMQP
	}
	return u.Host
}

func expectNoText(t *testing.T, output, secret string) {
	t.Helper()
	if strings.Contains(output, secret) {
		t.Errorf("the output shows %q:\n%s", secret, output)
	}
}
