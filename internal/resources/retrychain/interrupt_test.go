package retrychain_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// interruptLimit is how long a run may take to end after SIGINT on a busy machine. The
// waits that it ends would take minutes.
const interruptLimit = 10 * time.Second

// TestAccInterrupt interrupts Terraform once while the provider waits: for the management
// API, for AMQP, and for messages that leave a tier. The run ends soon, nothing is lost, and
// the next apply does the rest.
func TestAccInterrupt(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		config := func(b *rabbit.Broker, vhost, delay string) string {
			return acctest.Config(b, `
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  vhost  = %q
  delays = [%q]
}
`, vhost, delay)
		}
		t.Run("create", func(t *testing.T) {
			t.Parallel()
			vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
			through := *b
			through.Endpoint = p.URL
			w := acctest.Terraform(t, config(&through, vhost, "1m"))
			const answered = 5
			ctx, cancel := context.WithCancel(t.Context())
			var writes atomic.Int64
			p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet || writes.Add(1) <= answered {
					return false
				}
				<-ctx.Done()
				return true
			})
			run := acctest.Start(t, w, "apply", "-auto-approve")
			interrupt(t, run, func() bool { return writes.Load() > answered })
			cancel()
			p.OnRequest(nil)
			expectText(t, acctest.Run(t, w, "plan"), "is tainted, so ") // the CLIs word the rest differently
			apply(t, w)
			expectEmptyPlan(t, w)
		})
		t.Run("destroy", func(t *testing.T) {
			t.Parallel()
			vhost := acctest.VHost(t, b)
			w := acctest.Terraform(t, config(b, vhost, "1m"))
			apply(t, w)
			messages := acctest.Worker(t, b, vhost)
			through := *b
			address, asked := mute(t)
			through.AMQP = "amqp://" + address
			acctest.Reconfigure(t, w, config(&through, vhost, "1m"))
			count := queues(t, b, vhost)
			run := acctest.Start(t, w, "destroy", "-auto-approve")
			interrupt(t, run, asked)
			if n := queues(t, b, vhost); n != count {
				t.Errorf("%d queues of %d are left", n, count)
			}
			acctest.Reconfigure(t, w, config(b, vhost, "1m"))
			publish(t, messages, "orders")
			expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), `"orders"`)
			apply(t, w)
			expectEmptyPlan(t, w)
			if _, err := messages.Get(t.Context(), "orders"); err != nil {
				t.Error(err)
			}
		})
		t.Run("drain", func(t *testing.T) {
			t.Parallel()
			const delay = 45 * time.Second
			vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
			w := acctest.Terraform(t, config(b, vhost, delay.String()))
			apply(t, w)
			messages := acctest.Worker(t, b, vhost)
			publish(t, messages, "orders")
			rejectOne(t.Context(), t, messages)
			tier := fmt.Sprintf("orders.retry.%s", delay)
			if !poll.Until(time.Minute, func() bool { n, err := messages.Ready(tier); return err == nil && n == 1 }) {
				t.Fatalf("no message waits in %s", tier)
			}
			through := *b
			through.Endpoint = p.URL
			acctest.Reconfigure(t, w, config(&through, vhost, "1m"))
			run := acctest.Start(t, w, "apply", "-auto-approve")
			unbound := false // nothing leads into the tier any more
			interrupt(t, run, func() bool {
				for _, r := range p.Take() {
					unbound = unbound || r.Method == http.MethodDelete && strings.Contains(r.Path, tier)
				}
				return unbound
			})
			apply(t, w)
			if _, err := messages.Get(t.Context(), "orders"); err != nil {
				t.Error(err)
			}
			applyUntilDrained(t, w)
			expectEmptyPlan(t, w)
		})
	})
}

// interrupt sends SIGINT when the run waits. The run and the provider must end soon.
func interrupt(t *testing.T, run *acctest.Killable, waits func() bool) {
	t.Helper()
	if !poll.Until(2*time.Minute, waits) {
		t.Fatal("the run does not wait")
	}
	time.Sleep(time.Second) // for what it does right before
	if !run.Living() {
		t.Fatal("the run does not wait any more")
	}
	began := time.Now()
	run.Interrupt()
	ended := make(chan bool, 1)
	go func() { ended <- run.Wait() }()
	select {
	case succeeded := <-ended:
		if succeeded {
			t.Error("the run succeeded")
		}
		t.Logf("ended %s after SIGINT", time.Since(began))
	case <-time.After(interruptLimit):
		t.Fatalf("the run goes on %s after SIGINT", interruptLimit)
	}
	if !poll.Until(interruptLimit, func() bool { return !run.Living() }) {
		t.Error("the provider outlives the run")
	}
}

// mute is the address of a server that never says anything, and whether it was connected to.
func mute(t *testing.T) (address string, asked func() bool) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	var count atomic.Int64
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			count.Add(1)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	return listener.Addr().String(), func() bool { return count.Load() > 0 }
}
