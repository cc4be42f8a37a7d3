package examples_test

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

const (
	messages = 20
	attempts = 3
)

var consumerChainQueues = []string{"orders", "orders.retry.200ms", "orders.retry.300ms"}

// TestAccConsumerExample runs the example of a worker against a chain. Every
// message ends acknowledged, or parked after it failed at every attempt.
func TestAccConsumerExample(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		config := acctest.Config(b,
			"resource \"rabbitmq_retry_chain\" \"orders\" {\n  name   = \"orders\"\n  vhost  = %q\n  delays = [\"200ms\", \"300ms\"]\n}\n", vhost)
		acctest.Run(t, acctest.Terraform(t, config), "apply", "-auto-approve")
		w := acctest.Worker(t, b, vhost)
		for i := range messages {
			message := amqp.Publishing{MessageId: fmt.Sprintf("<%d>", i), Body: []byte("work")}
			if err := w.Publish(t.Context(), "", "orders", message); err != nil {
				t.Fatal(err)
			}
		}
		log := runConsumer(t, b, vhost, func() { waitUntilQuiet(t, w) })
		parked, err := w.Drain("orders.parking")
		if err != nil {
			t.Fatal(err)
		}
		checkAccounts(t, log, parked)
	})
}

// runConsumer builds and starts the example, ends it with an interrupt after
// wait, and returns what it logged.
func runConsumer(t *testing.T, b *rabbit.Broker, vhost string, wait func()) string {
	t.Helper()
	var log bytes.Buffer
	consumer := exec.Command(process.Build(t, "./consumer"), "-amqp", b.AMQP+"/"+url.PathEscape(vhost), "-queue", "orders")
	consumer.Stderr = &log
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	wait()
	if err := consumer.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := consumer.Wait(); err != nil {
		t.Errorf("the consumer ended with %s:\n%s", err, log.String())
	}
	return log.String()
}

// waitUntilQuiet waits until the work queue and the tiers were empty for a time
// in which every waiting message would have moved on.
func waitUntilQuiet(t *testing.T, w *worker.Worker) {
	t.Helper()
	deadline := time.Now().Add(2 * time.Minute)
	for quiet := 0; quiet < 20; {
		if time.Now().After(deadline) {
			t.Error("the queues are not empty after 30 s")
			return
		}
		quiet++
		for _, queue := range consumerChainQueues {
			if n, err := w.Ready(queue); err != nil || n > 0 {
				quiet = 0
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// checkAccounts compares the failures in the consumer's log with what is
// parked: exactly the messages that failed at every attempt.
func checkAccounts(t *testing.T, log string, parked []worker.Delivery) {
	t.Helper()
	isParked := map[string]bool{}
	for _, d := range parked {
		isParked[d.MessageId] = true
	}
	for i := range messages {
		id := fmt.Sprintf("<%d>", i)
		failures := strings.Count(log, "message "+id+" failed")
		if failures > attempts || isParked[id] != (failures == attempts) {
			t.Errorf("message %s failed %d times of %d, parked: %t", id, failures, attempts, isParked[id])
		}
	}
	if len(isParked) != len(parked) {
		t.Errorf("%d messages are parked, %d different ones", len(parked), len(isParked))
	}
}
