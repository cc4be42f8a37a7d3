package delaynetwork_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// writes is how many requests make the network of [config]: 8 exchanges, 6
// queues and 17 bindings.
const writes = 31

// throughProxy is the broker behind a proxy.
func throughProxy(t *testing.T, b *rabbit.Broker) (*rabbit.Broker, *proxy.Proxy) {
	t.Helper()
	p := proxy.New(t, b.Endpoint)
	through := *b
	through.Endpoint = p.URL
	return &through, p
}

// expectWorks sends a message that waits at every level.
func expectWorks(t *testing.T, b *rabbit.Broker, vhost string) {
	t.Helper()
	got := collect(t, acctest.Worker(t, b, vhost), "orders")
	at := send(t, acctest.Worker(t, b, vhost), 31*unit, "orders", amqp.Publishing{MessageId: "all levels"})
	found := got.wait(t, "all levels", 31*unit+tolerance)
	for _, d := range found {
		if waited := d.At.Sub(at); waited < 31*unit {
			t.Errorf("the message arrived after %s, expected %s", waited, 31*unit)
		}
	}
}

// TestAccKilledCreate kills Terraform and the provider in a create: after the
// first exchange, among exchanges, queues and bindings, and before the last
// binding. An import of what is there and an apply finish it, whatever the
// import could not read.
func TestAccKilledCreate(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, at := range []int64{2, 3, 6, 9, 10, 13, 15, 24, writes} {
			if !acctest.Sampled(t, i) {
				continue
			}
			more := []string{`queue_type = "classic"`, "", `dead_letter_strategy = "at-most-once"`}[i%3]
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				declare(t, b, vhost, "orders")
				through, p := throughProxy(t, b)
				w := acctest.Terraform(t, config(through, vhost, more, ""))
				acctest.KillAtWrite(t, p, w, at, "apply", "-auto-approve")
				if q, e := count(t, b, vhost); q+e > 0 { // else not even the first write got through
					acctest.Run(t, w, "import", address, "delays@"+vhost)
				}
				acctest.Reconfigure(t, w, config(through, vhost, more, destination(vhost, "orders")))
				apply(t, w)
				expectEmptyPlan(t, w)
				if q, e := count(t, b, vhost); q != 6 || e != 8 {
					t.Errorf("%d queues and %d exchanges, expected 6 and 8", q, e)
				}
				expectWorks(t, b, vhost)
			})
		}
	})
}

// failOnce lets the n-th write fail for good.
func failOnce(p *proxy.Proxy, n int64) {
	var count atomic.Int64
	p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || count.Add(1) != n {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"bad_request","reason":"broken on purpose"}`))
		return true
	})
}

// TestAccFailedCreate breaks a write of a create: what was made is taken away
// again, and the next apply succeeds.
func TestAccFailedCreate(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, at := range []int64{1, 8, 12, 20, writes} {
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				through, p := throughProxy(t, b)
				w := acctest.Terraform(t, config(through, vhost, "", ""))
				failOnce(p, at)
				expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Delay Network Not Created", "broken on purpose")
				if q, e := count(t, b, vhost); q != 0 || e != 0 {
					t.Errorf("%d queues and %d exchanges are left", q, e)
				}
				apply(t, w)
				expectEmptyPlan(t, w)
			})
		}
	})
}

// TestAccKilledDestroy kills Terraform and the provider in a destroy. The next
// destroy removes the rest; or an apply makes the network whole again.
func TestAccKilledDestroy(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, at := range []int64{2, 5, 8, 11} {
			if !acctest.Sampled(t, i) {
				continue
			}
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				declare(t, b, vhost, "orders")
				through, p := throughProxy(t, b)
				w := acctest.Terraform(t, config(through, vhost, `deletion_policy = "delete"`, ""))
				apply(t, w)
				acctest.KillAtWrite(t, p, w, at, "destroy", "-auto-approve")
				if i%2 == 0 {
					acctest.RunAfterKill(t, b, vhost, w, "destroy", "-auto-approve")
					if q, e := count(t, b, vhost); q != 0 || e != 0 {
						t.Errorf("%d queues and %d exchanges are left", q, e)
					}
					return
				}
				acctest.Reconfigure(t, w, config(through, vhost, `deletion_policy = "delete"`, destination(vhost, "orders")))
				acctest.RunAfterKill(t, b, vhost, w, "apply", "-auto-approve")
				expectEmptyPlan(t, w)
				expectWorks(t, b, vhost)
			})
		}
	})
}

// TestAccImportByIdentity imports with an import block that holds the identity.
func TestAccImportByIdentity(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		if output, err := acctest.Terraform(t, "").Run(t.Context(), "version"); err != nil || strings.Contains(output, "Terraform v1.11") {
			t.Skipf("import by identity needs Terraform 1.12 or OpenTofu 1.12: %v", strings.SplitN(output, "\n", 2)[0])
		}
		w := acctest.Terraform(t, config(b, vhost, "", destination(vhost, "orders")))
		apply(t, w)
		acctest.Run(t, w, "state", "rm", address, "rabbitmq_delay_destination.orders")
		blocks := fmt.Sprintf("import {\n to = %s\n identity = {\n vhost = %q\n name = \"delays\"\n }\n}\n", address, vhost) +
			fmt.Sprintf("import {\n to = rabbitmq_delay_destination.orders\n identity = {\n vhost = %q\n network = \"delays\"\n name = \"orders\"\n queue = \"orders\"\n }\n}\n", vhost)
		acctest.Reconfigure(t, w, config(b, vhost, "", destination(vhost, "orders")+blocks))
		expectText(t, apply(t, w), "2 imported, 0 added, 0 changed")
		expectEmptyPlan(t, w)
	})
}

// TestAccBurst publishes 1,000 messages at once, for two destinations and with
// delays of every length: each arrives once, where it should, and none early.
func TestAccBurst(t *testing.T) {
	queues := []string{"orders", "eu.orders"}
	eachAttached(t, queues, func(t *testing.T, b *rabbit.Broker, vhost string) {
		n := rabbit.Size(1000, 200)
		got := collect(t, acctest.Worker(t, b, vhost), append(queues, network.Unrouted())...)
		ch, err := acctest.Worker(t, b, vhost).Connection().Channel()
		if err == nil {
			err = ch.Confirm(false)
		}
		if err != nil {
			t.Fatal(err)
		}
		sent := make([]time.Time, n)
		confirms := make([]*amqp.DeferredConfirmation, n)
		delayOf := func(i int) time.Duration { return time.Duration(i*7%32) * unit }
		for i := range n {
			key, err := network.Key(delayOf(i), queues[i%2])
			if err != nil {
				t.Fatal(err)
			}
			sent[i] = time.Now()
			confirms[i], err = ch.PublishWithDeferredConfirm(network.EntryExchange(), key, false, false,
				amqp.Publishing{MessageId: fmt.Sprint(i), DeliveryMode: amqp.Persistent})
			if err != nil {
				t.Fatal(err)
			}
		}
		for i, confirm := range confirms {
			if taken, err := confirm.WaitContext(t.Context()); err != nil || !taken {
				t.Fatalf("message %d: confirmed %t, %v", i, taken, err)
			}
		}
		eventually(t, network.Maximum()+20*time.Second, func() error {
			if arrived := got.count(); arrived < n {
				return fmt.Errorf("%d of %d messages have arrived", arrived, n)
			}
			return nil
		})
		var latest time.Duration
		for i := range n {
			found := got.of(fmt.Sprint(i))
			if len(found) != 1 {
				t.Errorf("message %d arrived %d times", i, len(found))
				continue
			}
			late := found[0].At.Sub(sent[i]) - delayOf(i)
			latest = max(latest, late)
			if late < 0 || found[0].Queue != queues[i%2] {
				t.Errorf("message %d for %q arrived at %q %s after its delay", i, queues[i%2], found[0].Queue, late)
			}
		}
		t.Logf("published within %s, latest arrival %s after the end of the delay", sent[n-1].Sub(sent[0]).Round(time.Millisecond), latest.Round(time.Millisecond))
	})
}
