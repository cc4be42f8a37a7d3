package retryattachment_test

import (
	"fmt"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// TestAccTwoQueues: messages of two queues go through the same tiers, come back to
// the queue that they came from and to no other, and are parked in the end. A
// message that names the other queue in a CC header goes to both when it is
// published, and never again.
func TestAccTwoQueues(t *testing.T) {
	queues := []string{"orders", "invoices"}
	eachVariant(t, waits{"200ms", "400ms"}, queues, func(t *testing.T, b *rabbit.Broker, vhost string, _ variant, _, _ workspace) {
		t.Helper()
		w := acctest.Worker(t, b, vhost)
		c := consume(t, b, vhost, always(worker.Reject), queues...)
		const n = 20
		for i := range n {
			for _, queue := range queues {
				publish(t, w, "", queue, fmt.Sprintf("%s %d", queue, i))
			}
		}
		err := w.Publish(t.Context(), "", "orders", amqp.Publishing{MessageId: "both", Headers: amqp.Table{"CC": []any{"invoices"}}})
		if err != nil {
			t.Fatal(err)
		}
		expectReady(t, w, "retries.parking", 2*n+2)
		for _, queue := range queues {
			for i := range n {
				expectAttempts(t, c.of(fmt.Sprintf("%s %d", queue, i)), queue, 200*time.Millisecond, 400*time.Millisecond)
			}
		}
		if both := c.of("both"); len(both) != 6 {
			t.Errorf("the message for both queues was delivered %d times, expected 3 times to each", len(both))
		}
		for id, times := range parkedIDs(t, w) {
			if times != 1 && id != "both" {
				t.Errorf("%s is parked %d times", id, times)
			}
		}
	})
}

// expectAttempts looks at the deliveries of a message that always failed.
func expectAttempts(t *testing.T, deliveries []worker.Delivery, queue string, delays ...time.Duration) {
	t.Helper()
	if len(deliveries) != len(delays)+1 {
		t.Errorf("a message of %q was delivered %d times, expected %d", queue, len(deliveries), len(delays)+1)
		return
	}
	for i, d := range deliveries {
		if d.Queue != queue {
			t.Errorf("attempt %d of a message of %q was at %q", i+1, queue, d.Queue)
		}
		if i == 0 {
			continue
		}
		if waited := d.At.Sub(deliveries[i-1].At); waited < delays[i-1]-20*time.Millisecond {
			t.Errorf("attempt %d came after %s, expected %s", i+1, waited, delays[i-1])
		}
		if d.RoutingKey != queue || d.Exchange != "retries.return."+delays[i-1].String() {
			t.Errorf("attempt %d came from exchange %q with key %q", i+1, d.Exchange, d.RoutingKey)
		}
	}
}

// TestAccDiedElsewhere: a message that died in other queues before it reached the
// work queue, once by a time-to-live and once in another attached queue, has all
// its attempts, in the queue that it reached last.
func TestAccDiedElsewhere(t *testing.T) {
	queues := []string{"orders", "invoices"}
	eachVariant(t, waits{"200ms", "300ms"}, queues, func(t *testing.T, b *rabbit.Broker, vhost string, _ variant, _, _ workspace) {
		t.Helper()
		declare(t, b, vhost, "later", rabbithole.QueueSettings{Type: "classic", Durable: true, Arguments: map[string]any{
			"x-message-ttl": 100, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": "orders",
		}})
		w := acctest.Worker(t, b, vhost)
		moved := make(chan error, 1)
		c := consume(t, b, vhost, func(d worker.Delivery) worker.Outcome {
			if d.MessageId != "moved" || d.Queue != "invoices" || d.Deaths("invoices", "rejected") == 0 {
				return worker.Reject
			}
			// A consumer that hands on what has failed once, headers included.
			moved <- w.Publish(t.Context(), "", "orders", amqp.Publishing{MessageId: "moved on", Headers: d.Headers})
			return worker.Ack
		}, queues...)
		publish(t, w, "", "later", "expired")
		publish(t, w, "", "invoices", "moved")
		select {
		case err := <-moved:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(patience):
			t.Fatal("the message has not come back to invoices")
		}
		expectReady(t, w, "retries.parking", 2)
		for _, id := range []string{"expired", "moved on"} {
			expectAttempts(t, c.of(id), "orders", 200*time.Millisecond, 300*time.Millisecond)
		}
	})
}

// TestAccUnattached: 1,000 messages of a queue that is not attached are parked,
// and do not hold up those of another queue in the same tier.
func TestAccUnattached(t *testing.T) {
	eachOf(t, []variant{variants[0], variants[2]}, waits{"1s"}, []string{"orders", "gone"}, func(t *testing.T, b *rabbit.Broker, vhost string, _ variant, _, _ workspace) {
		t.Helper()
		w := acctest.Worker(t, b, vhost)
		api := acctest.API(t, b)
		resp, err := api.DeleteBinding(vhost, rabbithole.BindingInfo{Source: "retries.return", Destination: "gone", DestinationType: "queue", RoutingKey: "gone", PropertiesKey: "gone"})
		acctest.Do(t, resp, err)
		n := rabbit.Size(1000, 200)
		for i := range n {
			publish(t, w, "", "gone", fmt.Sprint(i))
		}
		c := consume(t, b, vhost, always(worker.Reject), "gone")
		eventually(t, "all rejected", func() bool { return c.count() == n })
		publish(t, w, "", "orders", "last")
		at := time.Now()
		rejected := consume(t, b, vhost, func(d worker.Delivery) worker.Outcome {
			if d.Deaths("orders", "rejected") > 0 {
				return worker.Ack
			}
			return worker.Reject
		}, "orders")
		eventually(t, "the message of the attached queue is back", func() bool { return len(rejected.of("last")) == 2 })
		if late := time.Since(at); late > 10*time.Second {
			t.Errorf("it was held up for %s", late)
		}
		expectReady(t, w, "retries.parking", n)
		if ids := parkedIDs(t, w); len(ids) != n {
			t.Errorf("%d different messages are parked, expected %d", len(ids), n)
		}
	})
}
