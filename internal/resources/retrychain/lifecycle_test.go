package retrychain_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// settings are the parts of a configuration that the tests of this file vary.
type settings struct {
	address   string // the resource's name, "orders" by default
	name      string // the chain's name, "orders" by default
	endpoint  string // in place of the broker's
	policy    string // deletion_policy, "delete" by default
	lifecycle string
	more      string
	rest      string // after the resource
}

func (s settings) config(b *rabbit.Broker, vhost string) string {
	pick := func(value, byDefault string) string {
		if value == "" {
			return byDefault
		}
		return value
	}
	broker := *b
	broker.Endpoint = pick(s.endpoint, b.Endpoint)
	strategy := "headers"
	if !acctest.Modern(b) {
		strategy = "routing_key"
	}
	return acctest.Config(&broker, `
resource "rabbitmq_retry_chain" %q {
  name            = %q
  vhost           = %q
  strategy        = %q
  delays          = ["1s", "2s"]
  deletion_policy = %q
  %s
  %s
}
%s
`, pick(s.address, "orders"), pick(s.name, "orders"), vhost, strategy, pick(s.policy, "delete"), s.lifecycle, s.more, s.rest)
}

// expectEmptyPlan fails the test unless a plan has nothing to do.
func expectEmptyPlan(t *testing.T, w *cli.Workspace) {
	t.Helper()
	if output, err := w.Run(t.Context(), "plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the plan is not empty: %s", output)
	}
}

func expectText(t *testing.T, output string, wanted ...string) {
	t.Helper()
	// Terraform wraps the text of errors; compare words only.
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
	for _, text := range wanted {
		if !strings.Contains(flat, text) {
			t.Errorf("the output lacks %q:\n%s", text, output)
		}
	}
}

func apply(t *testing.T, w *cli.Workspace, args ...string) string {
	t.Helper()
	return acctest.Run(t, w, append([]string{"apply", "-auto-approve"}, args...)...)
}

// park puts one message into the parking queue.
func park(t *testing.T, b *rabbit.Broker, vhost string) {
	t.Helper()
	err := acctest.Worker(t, b, vhost).Publish(t.Context(), "orders.parking", "", amqp.Publishing{Body: []byte("parked")})
	if err != nil {
		t.Fatal(err)
	}
}

// expectParked fails the test unless the parking queue holds n messages.
func expectParked(t *testing.T, b *rabbit.Broker, vhost string, n int) {
	t.Helper()
	got, err := acctest.Worker(t, b, vhost).Ready("orders.parking")
	if err != nil || got != n {
		t.Errorf("%d messages are parked, expected %d (%v)", got, n, err)
	}
}

// queues counts the queues of the virtual host.
func queues(t *testing.T, b *rabbit.Broker, vhost string) int {
	t.Helper()
	list, err := acctest.API(t, b).ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// exchanges counts the chain's exchanges in the virtual host.
func exchanges(t *testing.T, b *rabbit.Broker, vhost string) int {
	t.Helper()
	list, err := acctest.API(t, b).ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, e := range list {
		if strings.HasPrefix(e.Name, "orders.") {
			n++
		}
	}
	return n
}

// TestAccReplace replaces a chain on demand and after a taint.
func TestAccReplace(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		apply(t, w)
		apply(t, w, "-replace="+address)
		expectEmptyPlan(t, w)
		acctest.Run(t, w, "taint", address)
		apply(t, w)
		expectEmptyPlan(t, w)
		if n := queues(t, b, vhost); n != 4 {
			t.Errorf("%d queues, expected 4", n)
		}
	})
}

// TestAccReplaceKeepsMessages refuses to replace a chain that holds a message,
// and keeps the tainted one as it is.
func TestAccReplaceKeepsMessages(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		park(t, b, vhost)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve", "-replace="+address), "Chain Holds Messages", "orders.parking", `set deletion_policy = "delete", apply, and then destroy`)
		expectParked(t, b, vhost, 1)
		expectEmptyPlan(t, w)
	})
}

// TestAccCreateBeforeDestroy: a create never takes over what exists, even if it
// is identical, because the destroy that follows would remove it.
func TestAccCreateBeforeDestroy(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{lifecycle: "lifecycle {\n create_before_destroy = true\n }"}.config(b, vhost))
		apply(t, w)
		park(t, b, vhost)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve", "-replace="+address), "Object Already Exists")
		expectParked(t, b, vhost, 1)
		expectEmptyPlan(t, w)
	})
}

// TestAccRenamedAddress renames the resource in the configuration.
func TestAccRenamedAddress(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		park(t, b, vhost)
		renamed := settings{policy: "if_empty", address: "renamed"}
		acctest.Reconfigure(t, w, renamed.config(b, vhost))
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Already Exists", "moved block")
		expectParked(t, b, vhost, 1)

		renamed.rest = "moved {\n from = rabbitmq_retry_chain.orders\n to = rabbitmq_retry_chain.renamed\n}"
		acctest.Reconfigure(t, w, renamed.config(b, vhost))
		apply(t, w)
		expectParked(t, b, vhost, 1)
		expectEmptyPlan(t, w)
	})
}

// TestAccTwoAddresses gives one chain to two resources: the second one fails,
// the first one works.
func TestAccTwoAddresses(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		both := settings{}.config(b, vhost)
		_, second, _ := strings.Cut(settings{address: "second"}.config(b, vhost), "}\n")
		w := acctest.Terraform(t, both+second)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Object Claimed Twice", `which the chain "orders@`)
		if n := queues(t, b, vhost); n != 4 {
			t.Errorf("%d queues, expected those of the first address, 4", n)
		}
		state := acctest.Run(t, w, "state", "list")
		if n := strings.Count(state, "rabbitmq_retry_chain."); n != 1 {
			t.Errorf("the state holds %q, expected one chain", state)
		}
	})
}

// TestAccTwoChainsOneObject: two chains of different names that need the same
// object never share it silently.
func TestAccTwoChainsOneObject(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		_, second, _ := strings.Cut(settings{address: "second", name: "orders.parking"}.config(b, vhost), "}\n")
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		apply(t, w)
		acctest.Reconfigure(t, w, settings{}.config(b, vhost)+second)
		expectText(t, acctest.RunError(t, w, "plan"), "Object Already Exists", `queue "orders.parking" (of the retry chain "orders")`)
	})
}

// TestAccFailedCreate breaks every single write of a create: what was made is
// taken away again, and the next apply succeeds.
func TestAccFailedCreate(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, at := range []int64{1, 4, 7, 11, 15} {
			if !acctest.Sampled(t, i) {
				continue
			}
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				p := proxy.New(t, b.Endpoint)
				w := acctest.Terraform(t, settings{endpoint: p.URL}.config(b, vhost))
				var writes atomic.Int64
				p.OnRequest(func(rw http.ResponseWriter, r *http.Request) bool {
					if (r.Method != http.MethodPut && r.Method != http.MethodPost) || writes.Add(1) != at {
						return false
					}
					rw.Header().Set("Content-Type", "application/json")
					rw.WriteHeader(http.StatusBadRequest)
					_, _ = rw.Write([]byte(`{"error":"bad_request","reason":"broken on purpose"}`))
					return true
				})
				expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "broken on purpose")
				if n := queues(t, b, vhost); n != 0 {
					t.Errorf("%d queues are left", n)
				}
				apply(t, w)
				expectEmptyPlan(t, w)
			})
		}
	})
}

// TestAccKilledCreate kills Terraform and the provider in a create. The state
// knows nothing then; an import of the half-made chain and an apply finish it.
func TestAccKilledCreate(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, at := range []int64{2, 6, 9, 12, 16} {
			if !acctest.Sampled(t, i) {
				continue
			}
			t.Run(fmt.Sprint(at), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				p := proxy.New(t, b.Endpoint)
				w := acctest.Terraform(t, settings{endpoint: p.URL}.config(b, vhost))
				acctest.KillAtWrite(t, p, w, at, "apply", "-auto-approve")
				if exchanges(t, b, vhost) > 0 { // else not even the first write got through
					acctest.Run(t, w, "import", address, "orders@"+vhost)
				}
				apply(t, w)
				expectEmptyPlan(t, w)
				if n := queues(t, b, vhost); n != 4 {
					t.Errorf("%d queues, expected 4", n)
				}
			})
		}
	})
}
