package delaynetwork_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
)

const unit = 100 * time.Millisecond

// network is the network of [config], for its keys.
var network = delay.Network{Name: "delays", Unit: unit, Levels: 5}

// tolerance is the latest arrival after the end of a delay that passes, on a
// machine that runs other tests at the same time. What a quiet machine needs is
// in the guide.
const tolerance = 5 * time.Second

// variant is a form of the networks under test.
type variant struct{ name, attributes string }

var variants = []variant{
	{"quorum at-least-once", ""},
	{"classic", `queue_type = "classic"`},
	{"quorum at-most-once", `dead_letter_strategy = "at-most-once"`},
}

// eachVariant runs the test for every variant, or without [rabbit.EnvFull] for those of
// one type of queue.
func eachVariant(t *testing.T, test func(t *testing.T, b *rabbit.Broker, v variant)) {
	t.Helper()
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range rabbit.Half(t.Name(), variants) {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				test(t, b, v)
			})
		}
	})
}

// eachAttached is [eachVariant] with the queues attached as destinations of their names.
func eachAttached(t *testing.T, queues []string, test func(t *testing.T, b *rabbit.Broker, vhost string)) {
	t.Helper()
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, v variant) {
		test(t, b, attached(t, b, v.attributes, queues))
	})
}

// attached makes a network with destinations in a virtual host of its own.
func attached(t *testing.T, b *rabbit.Broker, more string, queues []string) (vhost string) {
	t.Helper()
	vhost = acctest.VHost(t, b)
	rest := ""
	for _, queue := range queues {
		declare(t, b, vhost, queue)
		rest += destination(vhost, queue)
	}
	apply(t, acctest.Terraform(t, config(b, vhost, more, rest)))
	return vhost
}

func declare(t *testing.T, b *rabbit.Broker, vhost, queue string) {
	t.Helper()
	resp, err := acctest.API(t, b).DeclareQueue(vhost, queue, rabbithole.QueueSettings{Type: "quorum", Durable: true})
	acctest.Do(t, resp, err)
}

// arrivals collects what arrives at queues.
type arrivals struct {
	mu  sync.Mutex
	all []worker.Delivery
}

func collect(t *testing.T, w *worker.Worker, queues ...string) *arrivals {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	a := &arrivals{}
	for _, queue := range queues {
		go func() {
			err := w.Consume(ctx, queue, 100, func(d worker.Delivery) worker.Outcome {
				a.mu.Lock()
				defer a.mu.Unlock()
				a.all = append(a.all, d)
				return worker.Ack
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}()
	}
	return a
}

// of returns the deliveries of one message, up to now.
func (a *arrivals) of(id string) []worker.Delivery {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []worker.Delivery
	for _, d := range a.all {
		if d.MessageId == id {
			found = append(found, d)
		}
	}
	return found
}

// count counts the deliveries up to now.
func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.all)
}

// wait waits until the message has arrived.
func (a *arrivals) wait(t *testing.T, id string, patience time.Duration) []worker.Delivery {
	t.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(10 * time.Millisecond) {
		if found := a.of(id); len(found) > 0 {
			return found
		}
	}
	t.Errorf("message %s has not arrived within %s", id, patience)
	return nil
}

func send(t *testing.T, w *worker.Worker, d time.Duration, to string, message amqp.Publishing) time.Time {
	t.Helper()
	key, err := network.Key(d, to)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	if err := w.Publish(t.Context(), network.EntryExchange(), key, message); err != nil {
		t.Fatal(err)
	}
	return at
}

// TestAccDelays sends messages with delays of every shape: each arrives once,
// at its destination only, and not before its delay is over.
func TestAccDelays(t *testing.T) {
	queues := []string{"orders", "eu.orders"}
	eachAttached(t, queues, func(t *testing.T, b *rabbit.Broker, vhost string) {
		w := acctest.Worker(t, b, vhost)
		got := collect(t, acctest.Worker(t, b, vhost), append(queues, network.Unrouted())...)
		delays := []time.Duration{0, 1, unit, unit + 1, 3 * unit, 4 * unit, 7 * unit, 8 * unit, 15 * unit, 16 * unit, network.Maximum()}
		for range 10 {
			delays = append(delays, rand.N(network.Maximum()))
		}
		sent := map[string]time.Time{}
		for i, d := range delays {
			for _, to := range queues {
				id := fmt.Sprintf("%d to %s", i, to)
				sent[id] = send(t, w, d, to, amqp.Publishing{MessageId: id})
			}
		}
		var latest time.Duration
		for i, d := range delays {
			rounded := d
			if rest := d % unit; rest > 0 {
				rounded += unit - rest
			}
			for _, to := range queues {
				id := fmt.Sprintf("%d to %s", i, to)
				for _, arrived := range got.wait(t, id, rounded+tolerance) {
					late := arrived.At.Sub(sent[id]) - rounded
					latest = max(latest, late)
					if late < 0 {
						t.Errorf("message %s arrived %s before its delay %s was over", id, -late, rounded)
					}
					if arrived.Queue != to {
						t.Errorf("message %s arrived at %q", id, arrived.Queue)
					}
				}
			}
		}
		for id := range sent {
			if n := len(got.of(id)); n != 1 {
				t.Errorf("message %s arrived %d times", id, n)
			}
		}
		t.Logf("latest arrival %s after the end of the delay", latest.Round(time.Millisecond))
	})
}

// TestAccMissingDestination sends 1,000 messages to a destination that nobody
// attached, and others with keys that are none: all of them are in the queue for
// unrouted messages, and hold up nobody.
func TestAccMissingDestination(t *testing.T) {
	eachAttached(t, []string{"orders"}, func(t *testing.T, b *rabbit.Broker, vhost string) {
		n := rabbit.Size(1000, 200)
		w := acctest.Worker(t, b, vhost)
		got := collect(t, acctest.Worker(t, b, vhost), "orders")
		for i := range n {
			send(t, w, time.Duration(i%32)*unit, "nobody", amqp.Publishing{})
		}
		malformed := []string{"", "orders", "1", "0.0.0.0.0", "1.2.0.0.0.orders", "1.0.0.0.orders", "0.1.1.1.1.1.orders"}
		for _, key := range malformed {
			if err := w.Publish(t.Context(), network.EntryExchange(), key, amqp.Publishing{}); err != nil {
				t.Fatalf("key %q: %s", key, err)
			}
		}
		at := send(t, w, 5*unit, "orders", amqp.Publishing{MessageId: "after"})
		for _, arrived := range got.wait(t, "after", 5*unit+tolerance) {
			t.Logf("a message after them arrived %s after its delay was over", (arrived.At.Sub(at) - 5*unit).Round(time.Millisecond))
		}
		eventually(t, 30*time.Second, func() error {
			ready, err := w.Ready(network.Unrouted())
			if err == nil && ready != n+len(malformed) {
				err = fmt.Errorf("%d messages are unrouted, expected %d", ready, n+len(malformed))
			}
			return err
		})
	})
}

// eventually polls a condition.
func eventually(t *testing.T, patience time.Duration, condition func() error) {
	t.Helper()
	var err error
	if !poll.Until(patience, func() bool { err = condition(); return err == nil }) {
		t.Errorf("after %s: %s", patience, err)
	}
}

// TestAccSecondPassage sends what came out of the network through it again.
// RabbitMQ before 4.0 trusts the x-death headers of a publisher and drops the
// message as one that goes round, if they are not stripped.
func TestAccSecondPassage(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := attached(t, b, "", []string{"orders"})
		w := acctest.Worker(t, b, vhost)
		got := collect(t, acctest.Worker(t, b, vhost), "orders")
		send(t, w, 3*unit, "orders", amqp.Publishing{MessageId: "first", Headers: amqp.Table{"mine": "kept"}})
		first := got.wait(t, "first", 3*unit+tolerance)
		if len(first) == 0 {
			return
		}
		if first[0].Headers["x-death"] == nil {
			t.Fatal("the message has no x-death header")
		}
		stripped := amqp.Table{}
		for name, value := range first[0].Headers {
			switch name {
			case "x-death", "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-last-death-exchange", "x-delivery-count":
			default:
				stripped[name] = value
			}
		}
		send(t, w, 3*unit, "orders", amqp.Publishing{MessageId: "stripped", Headers: stripped})
		for _, second := range got.wait(t, "stripped", 3*unit+tolerance) {
			if second.Headers["mine"] != "kept" {
				t.Errorf("the headers are %v", second.Headers)
			}
		}
		send(t, w, 3*unit, "orders", amqp.Publishing{MessageId: "unstripped", Headers: amqp.Table{"x-death": first[0].Headers["x-death"]}})
		send(t, w, 9*unit, "orders", amqp.Publishing{MessageId: "later"})
		got.wait(t, "later", 9*unit+tolerance)
		if arrived := len(got.of("unstripped")) > 0; arrived != acctest.AtLeast(b, 4, 0) {
			t.Errorf("a message with old x-death headers arrived: %t", arrived)
		}
	})
}
