package retrychain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// everyResource uses each resource that lives in a virtual host, an exchange
// and another queue. The virtual host is known at plan.
const everyResource = `
resource "rabbitmq_retry_chain" "orders" {
  name       = "orders"
  vhost      = %[1]q
  delays     = ["1s"]
  work_queue = { bindings = [{ exchange = "events", routing_key = "order.#" }] }
  %[2]s
}

resource "rabbitmq_retry_chain" "invoices" {
  name       = "invoices"
  vhost      = %[1]q
  delays     = ["1s"]
  work_queue = { ownership = "application" }
  policy     = { inherit = true }
  %[2]s
}

resource "rabbitmq_retry_tiers" "retries" {
  name   = "retries"
  vhost  = %[1]q
  delays = ["1s"]
  %[2]s
}

resource "rabbitmq_retry_attachment" "billing" {
  tiers    = rabbitmq_retry_tiers.retries.name
  queue    = "billing"
  ownership = "application"
  vhost    = %[1]q
  %[2]s
}

resource "rabbitmq_delay_network" "delays" {
  name   = "delays"
  vhost  = %[1]q
  levels = 2
  %[2]s
}

resource "rabbitmq_delay_destination" "orders" {
  network = rabbitmq_delay_network.delays.name
  queue   = rabbitmq_retry_chain.orders.work_queue.name
  vhost   = %[1]q
  %[2]s
}
`

// laterVHost is a virtual host that the test creates and fills when it
// likes, and the name that it will have.
func laterVHost(t *testing.T, b *rabbit.Broker) (vhost string, create func()) {
	t.Helper()
	vhost = acctest.VHost(t, b)
	api := acctest.API(t, b)
	resp, err := api.DeleteVhost(vhost)
	acctest.Do(t, resp, err)
	empty := func() {
		resp, err := api.PutVhost(vhost, rabbithole.VhostSettings{})
		acctest.Do(t, resp, err)
		permit(t, b, vhost, b.Username, everything)
	}
	created := false
	t.Cleanup(func() {
		if !created {
			empty() // for the end of the test
		}
	})
	return vhost, func() {
		created = true
		empty()
		fill(t, b, vhost)
	}
}

// fill declares what everyResource expects to exist.
func fill(t *testing.T, b *rabbit.Broker, vhost string) {
	t.Helper()
	api := acctest.API(t, b)
	resp, err := api.DeclareExchange(vhost, "events", rabbithole.ExchangeSettings{Type: "topic", Durable: true})
	acctest.Do(t, resp, err)
	for _, queue := range []string{"invoices", "billing"} {
		resp, err := api.DeclareQueue(vhost, queue, rabbithole.QueueSettings{Type: "quorum", Durable: true})
		acctest.Do(t, resp, err)
	}
	resp, err = api.PutPolicy(vhost, "limits", rabbithole.Policy{
		Pattern: "^invoices$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"delivery-limit": 50},
	})
	acctest.Do(t, resp, err)
}

// TestAccVHostOfSameRun: between plan and apply, and during an apply, something else creates the
// virtual host and what is in it.
func TestAccVHostOfSameRun(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		t.Run("saved plan", func(t *testing.T) {
			t.Parallel()
			vhost, create := laterVHost(t, b)
			w := acctest.Terraform(t, acctest.Config(b, everyResource, vhost, ""))
			output := acctest.Run(t, w, "plan", "-out=saved")
			expectText(t, output, "Plan: 6 to add", "Warning: Virtual Host Not Found", `There is no virtual host "`+vhost+`"`, "The apply fails unless the same run creates the virtual host first")
			create()
			acctest.Run(t, w, "apply", "saved")
			expectEmptyPlan(t, w)
		})
		t.Run("one run", func(t *testing.T) {
			t.Parallel()
			vhost, create := laterVHost(t, b)
			// terraform_data stands for the resource of another provider.
			const other = "resource \"terraform_data\" \"vhost\" {\n  provisioner \"local-exec\" {\n    command = \"touch wanted; while ! test -e created; do sleep 0.1; done\"\n  }\n}\n"
			w := acctest.Terraform(t, acctest.Config(b, everyResource, vhost, "depends_on = [terraform_data.vhost]")+other)
			done := make(chan struct{})
			go func() {
				defer close(done)
				wanted := func() bool { _, err := os.Stat(filepath.Join(w.Dir, "wanted")); return err == nil }
				if poll.Until(5*time.Minute, wanted) {
					create()
				}
				_ = os.WriteFile(filepath.Join(w.Dir, "created"), nil, 0o600)
			}()
			apply(t, w)
			<-done
			expectEmptyPlan(t, w)
		})
	})
}

// TestAccMissingVHost: nothing creates the virtual host. The apply fails and
// creates nothing.
func TestAccMissingVHost(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, _ := laterVHost(t, b)
		w := acctest.Terraform(t, acctest.Config(b, everyResource, vhost, ""))
		output := acctest.RunError(t, w, "apply", "-auto-approve")
		expectText(t, output, "Error: Virtual Host Not Found", "so that Terraform creates it first")
		// The attachment and the destination wait for resources that fail.
		if n := strings.Count(output, "Error: "); n != 4 || strings.Count(output, "Error: Virtual Host Not Found") != n {
			t.Errorf("%d errors:\n%s", n, output)
		}
		if state := acctest.Run(t, w, "state", "list"); state != "" {
			t.Errorf("the state holds %s", state)
		}
	})
}

// TestAccHiddenVHost: a virtual host that this user cannot read is an
// error of the plan.
func TestAccHiddenVHost(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		for tag, words := range map[string][]string{
			"administrator": {"Permission Missing"}, // who can read every virtual host
			"monitoring":    {"No Access to the Virtual Host"},
			"management":    {"Virtual Host Not Found", "or the user", "known only after apply"},
		} {
			user := asUser(t, b, vhost, tag, everything)
			resp, err := acctest.API(t, b).ClearPermissionsIn(vhost, user.Username)
			acctest.Do(t, resp, err)
			plan := acctest.Server(t, user).Plan(t, "rabbitmq_delay_network", map[string]any{"name": "delays", "vhost": vhost, "queue_type": "classic"}, protocol.State{})
			if len(plan.Diagnostics.Errors()) != 1 {
				t.Errorf("%s: %s", tag, plan.Diagnostics)
				continue
			}
			expectText(t, plan.Diagnostics.Errors().String(), words...)
		}
	})
}

// TestAccMissingNeeds: the plan warns of objects that must be created elsewhere, and not of what
// this provider creates in the same run.
func TestAccMissingNeeds(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, server := acctest.VHost(t, b), acctest.Server(t, b)
		expect := func(kind string, config map[string]any, wanted ...string) {
			t.Helper()
			config["vhost"] = vhost
			plan := server.Plan(t, kind, config, protocol.State{})
			var found []string
			for _, d := range plan.Diagnostics {
				found = append(found, fmt.Sprintf("%s: %s", protocol.PathOf(d), d.Summary))
			}
			slices.Sort(found)
			if !slices.Equal(found, wanted) || len(plan.Diagnostics.Errors()) > 0 {
				t.Errorf("%s: %q, expected the warnings %q", kind, found, wanted)
			}
		}
		destination := map[string]any{"network": "delays", "queue": "orders"}
		expect("rabbitmq_delay_destination", destination, "network: Delay Network Not Found", "queue: Queue Not Found")
		attachment := map[string]any{"tiers": "retries", "queue": "orders", "ownership": "application"}
		expect("rabbitmq_retry_attachment", attachment, "queue: Existing Queue Not Found", "tiers: Retry Tiers Not Found")
		expect("rabbitmq_retry_chain", map[string]any{
			"name": "invoices", "delays": []any{"1s"}, "work_queue": map[string]any{"ownership": "application"}, "parking_queue": map[string]any{"name": "shared", "ownership": "application"},
		}, "parking_queue.name: Existing Queue Not Found", "work_queue.name: Existing Queue Not Found")
		expect("rabbitmq_retry_chain", map[string]any{
			"name": "orders", "delays": []any{"1s"}, "work_queue": map[string]any{"bindings": []any{
				map[string]any{"exchange": "amq.topic"}, map[string]any{"exchange": "events"},
			}},
		}, "work_queue.bindings[1].exchange: Source Exchange Not Found")
		expect("rabbitmq_delay_network", map[string]any{"name": "delays"})
		expect("rabbitmq_delay_destination", destination)
		expect("rabbitmq_retry_tiers", map[string]any{"name": "retries", "delays": []any{"1s"}})
		expect("rabbitmq_retry_attachment", attachment)
	})
}

// TestAccLostSource: the source exchange of a chain at work is deleted. The plan
// warns that the repair needs it.
func TestAccLostSource(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		fill(t, b, vhost)
		s := newSession(t, b, vhost, turn(b, 0), map[string]any{"work_queue": map[string]any{"bindings": []any{map[string]any{"exchange": "events"}}}})
		s.apply()
		resp, err := acctest.API(t, b).DeleteExchange(vhost, "events")
		acctest.Do(t, resp, err)
		expectWarned(t, s.plan().Diagnostics, "Source Exchange Not Found", "work_queue.bindings[0].exchange", "The apply fails unless the same run creates it first")
		expectRefused(t, s.tryApply(), "work_queue", "Source Exchange Not Found")
		fill(t, b, vhost)
		s.apply()
		s.expectPlan(s.plan())
	})
}
