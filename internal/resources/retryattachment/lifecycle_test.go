package retryattachment_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// TestAccLifecycle makes, plans again, imports and destroys tiers and an
// attachment, in states of their own. Neither changes the plan of the other.
func TestAccLifecycle(t *testing.T) {
	byCLI := variants[0]
	byCLI.name, byCLI.cli = "Terraform itself", true
	eachOf(t, append(slices.Clone(variants), byCLI), waits{"1s", "1m"}, []string{"orders"}, func(t *testing.T, b *rabbit.Broker, vhost string, _ variant, platform, appTeam workspace) {
		t.Helper()
		platform.expectEmptyPlan(t)
		appTeam.expectEmptyPlan(t)
		platform.forget(t, tiersAddress)
		expectText(t, platform.refused(t, "apply"), "Object Already Exists", "terraform import")
		platform.adopt(t, tiersAddress, "retries@"+vhost)
		platform.expectEmptyPlan(t)
		appTeam.forget(t, "rabbitmq_retry_attachment.orders")
		expectText(t, appTeam.refused(t, "apply"), "Object Already Exists", "retries/orders@"+vhost)
		appTeam.adopt(t, "rabbitmq_retry_attachment.orders", "retries/orders@"+vhost)
		appTeam.apply(t) // on_detach and the like
		appTeam.expectEmptyPlan(t)
		expectText(t, platform.refused(t, "destroy"), "Retry Tiers in Use", `queue "orders"`)
		platform.expectEmptyPlan(t)
		appTeam.destroy(t)
		platform.expectEmptyPlan(t)
		platform.destroy(t)
		exchanges, err := acctest.API(t, b).ListExchangesIn(vhost)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range exchanges {
			if strings.HasPrefix(e.Name, "retries") {
				t.Errorf("exchange %q is left", e.Name)
			}
		}
	})
}

// TestAccTiersKeepMessages: neither waiting nor parked messages are destroyed by
// default, and the tiers are not while a queue is attached, by whatever means.
func TestAccTiersKeepMessages(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		platform, appTeam := variants[0].attach(t, b, vhost, waits{longWait}, []string{"orders"})
		fill(t, b, vhost, "orders", longWait, 1)
		appTeam.configure(t, attachment(vhost, "orders", attributes{"on_detach": "park"}))
		appTeam.apply(t)
		appTeam.destroy(t)
		expectText(t, platform.refused(t, "destroy"), "Retry Tiers Hold Messages", "retries.retry."+longWait)
		platform.expectEmptyPlan(t)
		platform.configure(t, tiers(vhost, waits{longWait}, attributes{"deletion_policy": "delete"}))
		platform.apply(t)
		api := acctest.API(t, b)
		resp, err := api.PutPolicy(vhost, "by hand", rabbithole.Policy{Pattern: "^x$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"dead-letter-exchange": "retries.retry"}})
		acctest.Do(t, resp, err)
		expectText(t, platform.refused(t, "destroy"), "Retry Tiers in Use", `policy "by hand"`)
		resp, err = api.DeletePolicy(vhost, "by hand")
		acctest.Do(t, resp, err)
		platform.destroy(t)
	})
}

// TestAccDelaysChange: delays change while messages are under way, without a
// change of the attachment. Every message has its attempts and is parked once.
func TestAccDelaysChange(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range variants[:3] {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				platform, appTeam := v.attach(t, b, vhost, waits{"500ms", "1s"}, []string{"orders"})
				w := acctest.Worker(t, b, vhost)
				c := consume(t, b, vhost, always(worker.Reject), "orders")
				stop := make(chan struct{})
				published := make(chan int, 1)
				go func() {
					i := 0
					defer func() { published <- i }()
					for ; ; i++ {
						select {
						case <-stop:
							return
						case <-time.After(20 * time.Millisecond):
						}
						publish(t, w, "", "orders", fmt.Sprint(i))
					}
				}()
				for _, delays := range []waits{{"500ms", "700ms", "1s"}, {"1s", "500ms"}, {"300ms"}} {
					platform.configure(t, tiers(vhost, delays, v.tiers))
					platform.apply(t)
					appTeam.expectEmptyPlan(t)
				}
				close(stop)
				total := <-published
				platform.expectEmptyPlan(t)
				other := acctest.Worker(t, b, vhost)
				parked := map[string]int{}
				// A message that fails for the first time while the first tier changes can
				// be doubled.
				eventually(t, fmt.Sprintf("all of %d messages are parked", total), func() bool {
					for id, times := range parkedIDs(t, other) {
						parked[id] += times
					}
					return len(parked) == total
				})
				for id, times := range parked {
					if attempts := len(c.of(id)); times > 2 || attempts < 2 {
						t.Errorf("message %s is parked %d times after %d attempts", id, times, attempts)
					}
				}
				queues, err := acctest.API(t, b).ListQueuesIn(vhost)
				if err != nil || len(queues) != 3 {
					t.Errorf("%d queues are left, %v; expected orders, a tier and the parking queue", len(queues), err)
				}
			})
		}
	})
}

// TestAccDrift: the plan shows what somebody changed by hand in the state that it
// belongs to, and an apply repairs it.
func TestAccDrift(t *testing.T) {
	binding := rabbithole.BindingInfo{Source: "retries.return", Destination: "orders", DestinationType: "queue", RoutingKey: "orders", PropertiesKey: "orders"}
	drifts := []struct {
		name   string
		ofTeam bool
		do     func(api *rabbithole.Client, vhost string) error
		want   string
		plan   string
	}{
		{"way back", true, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteBinding(vhost, binding)
			return err
		}, `+ "retries.return -> orders (orders)"`, "1 to change, 0 to destroy"},
		{"stolen key", true, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeclareBinding(vhost, rabbithole.BindingInfo{Source: "retries.return", Destination: "thief", DestinationType: "queue", RoutingKey: "orders"})
			return err
		}, `- "retries.return -> thief (orders)"`, "1 to change, 0 to destroy"},
		{"queue", true, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteQueue(vhost, "orders")
			return err
		}, `+ "orders" = "quorum, `, "1 to add, 0 to change"},
		{"tier", false, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteQueue(vhost, "retries.retry.200ms")
			return err
		}, `+ "retries.retry.200ms" = "quorum, `, "1 to change, 0 to destroy"},
		{"return exchange", false, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteExchange(vhost, "retries.return.200ms")
			return err
		}, `+ "retries.return.200ms -> exchange retries.return"`, "1 to change, 0 to destroy"},
		{"foreign binding", false, func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeclareBinding(vhost, rabbithole.BindingInfo{Source: "retries.retry.first", Destination: "thief", DestinationType: "queue", Arguments: map[string]any{"x-match": "all"}})
			return err
		}, `- "retries.retry.first -> thief`, "1 to change, 0 to destroy"},
	}
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, d := range drifts {
			t.Run(d.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				declare(t, b, vhost, "thief", rabbithole.QueueSettings{Type: "classic", Durable: true})
				platform, appTeam := variants[0].attach(t, b, vhost, waits{"200ms"}, []string{"orders"})
				if err := d.do(acctest.API(t, b), vhost); err != nil {
					t.Fatal(err)
				}
				drifted, other := platform, appTeam
				if d.ofTeam {
					drifted, other = appTeam, platform
				}
				other.expectEmptyPlan(t)
				expectText(t, drifted.plan(t), d.want, d.plan)
				drifted.apply(t)
				drifted.expectEmptyPlan(t)
				w := acctest.Worker(t, b, vhost)
				publish(t, w, "", "orders", "one")
				c := consume(t, b, vhost, always(worker.Reject), "orders")
				expectReady(t, w, "retries.parking", 1)
				expectAttempts(t, c.of("one"), "orders", 200*time.Millisecond)
			})
		}
	})
}

// TestAccRefused: what cannot work is an error of the plan, with the reason.
func TestAccRefused(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "bound", rabbithole.QueueSettings{Type: "quorum", Durable: true, Arguments: map[string]any{"x-dead-letter-exchange": "elsewhere"}})
		platform, appTeam := variants[0].attach(t, b, vhost, waits{"1m"}, []string{"orders"})
		for _, refused := range []struct {
			attachment declared
			want       []string
		}{
			{attachment(vhost, "bound", attributes{"ownership": "application"}), []string{"Argument Overrides", "x-dead-letter-exchange=elsewhere"}},
			{attachment(vhost, "bound", attributes{"ownership": "application", "queue_type": "quorum"}), []string{"Queue Belongs to Others"}},
			{attachment(vhost, "new", attributes{"arguments": `{"x-max-length":5}`}), []string{"Argument Not Possible Here", "hold up the tiers for all other queues"}},
			{attachment(vhost, "retries.parking", nil), []string{"Queue of the Tiers"}},
			{attachment(vhost, "orders", attributes{"queue_type": "classic"}), []string{"Change Not Possible in Place", "queue_type of the living attachment"}},
			{attachment(vhost, "orders", attributes{"ownership": "application"}), []string{"Change Not Possible in Place", "ownership of the living attachment"}},
			{attachment(vhost, "orders", attributes{"tiers": "others"}), []string{"Change Not Possible in Place", "tiers of the living attachment", `the tiers "others"`}},
		} {
			appTeam.configure(t, refused.attachment)
			expectText(t, appTeam.refused(t, "plan"), refused.want...)
		}
		platform.configure(t, tiers(vhost, waits{"1m"}, attributes{"queue_type": "classic"}))
		expectText(t, platform.refused(t, "plan"), "Change Not Possible in Place", "queue_type of the living retry tiers")
		platform.configure(t, tiers(vhost, waits{"60s"}, nil))
		platform.expectEmptyPlan(t) // another spelling is not a change
		_, found := acctest.Server(t, b).Import(t, "rabbitmq_retry_attachment", "retries/none@"+vhost, nil)
		expectText(t, found.String(), "Nothing to Import", "a binding of the exchange retries.return")
		missing := newInProcess(b, attachment(vhost, "new", attributes{"tiers": "nowhere"}))
		expectText(t, missing.refused(t, "apply"), "Retry Tiers Not Found", `Exchange "nowhere.return"`)
		resp, err := acctest.API(t, b).PutPolicy(vhost, "all", rabbithole.Policy{Pattern: ".*", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"dead-letter-routing-key": "x", "message-ttl": 60}})
		acctest.Do(t, resp, err)
		expectText(t, platform.refused(t, "plan"), "Policy Endangers Messages", "dead-letter-routing-key=x", "message-ttl=60")
	})
}

// TestAccOldBroker: brokers that do not tell the last death are refused by the
// plan, with their version.
func TestAccOldBroker(t *testing.T) {
	old := func(b *rabbit.Broker) bool { return !acctest.Modern(b) }
	acctest.EachWith(t, "RabbitMQ 3.13 and later support shared tiers", old, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		for _, config := range []declared{tiers(vhost, waits{"1s"}, nil), attachment(vhost, "orders", nil)} {
			expectText(t, newCLI(t, b, config).refused(t, "plan"), "Shared Tiers Not Supported by This Broker", "3.13.3 or later", "This broker runs "+b.Version)
		}
	})
}

// refreshCalls are the requests of a refresh: the broker's facts, and the
// queues, exchanges, bindings, policies and operator policies of the virtual
// host.
const refreshCalls = 6

// TestAccCallsDoNotGrow counts the requests of a refresh with 1 attachment and
// with 200.
func TestAccCallsDoNotGrow(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		p := proxy.New(t, b.Endpoint)
		through := *b
		through.Endpoint = p.URL
		for _, n := range []int{1, rabbit.Size(200, 20)} {
			w := acctest.Terraform(t, configuration(t, &through, []declared{tiers(vhost, waits{"1s", "1m"}, nil)})+fmt.Sprintf(`
resource "rabbitmq_retry_attachment" "many" {
  count           = %d
  tiers           = rabbitmq_retry_tiers.retries.name
  vhost           = %q
  queue           = "work-${count.index}"
  queue_type      = "classic"
  deletion_policy = "delete"
}
`, n, vhost))
			acctest.Run(t, w, "apply", "-auto-approve")
			p.Take()
			acctest.Run(t, w, "plan", "-detailed-exitcode")
			if requests := p.Take(); len(requests) != refreshCalls {
				t.Errorf("a plan of %d attachments made %d requests, expected %d: %v", n, len(requests), refreshCalls, requests)
			}
			acctest.Run(t, w, "destroy", "-auto-approve")
		}
	})
}

// TestAccKilledCreate: creates that are killed leave what an import and an apply
// complete.
func TestAccKilledCreate(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		platform := acctest.Terraform(t, configuration(t, b, []declared{tiers(vhost, waits{"200ms", "300ms"}, nil)}))
		killWhen(t, platform, func() bool {
			_, err := acctest.API(t, b).GetExchange(vhost, "retries.return")
			return err == nil
		})
		recover(t, platform, tiersAddress, "retries@"+vhost)
		appTeam := acctest.Terraform(t, configuration(t, b, []declared{attachment(vhost, "orders", nil)}))
		killWhen(t, appTeam, func() bool {
			_, err := acctest.API(t, b).GetQueue(vhost, "orders")
			return err == nil
		})
		// The queue may be there and not bound yet: then nothing says that it is an
		// attachment but its arguments.
		recover(t, appTeam, "rabbitmq_retry_attachment.orders", "retries/orders@"+vhost)
		w := acctest.Worker(t, b, vhost)
		publish(t, w, "", "orders", "one")
		c := consume(t, b, vhost, always(worker.Reject), "orders")
		expectReady(t, w, "retries.parking", 1)
		expectAttempts(t, c.of("one"), "orders", 200*time.Millisecond, 300*time.Millisecond)
	})
}

// killWhen kills an apply as soon as something is there.
func killWhen(t *testing.T, w *cli.Workspace, there func() bool) {
	t.Helper()
	run := acctest.Start(t, w, "apply", "-auto-approve")
	eventually(t, "the first object is there", there)
	run.Kill()
	run.Wait()
}

// recover imports what a killed create has left, unless that was quick enough
// to write its state, and completes it.
func recover(t *testing.T, w *cli.Workspace, address, id string) {
	t.Helper()
	if _, err := w.Run(t.Context(), "state", "show", address); err != nil {
		acctest.Run(t, w, "import", address, id)
	}
	acctest.Run(t, w, "apply", "-auto-approve")
	acctest.Run(t, w, "plan", "-detailed-exitcode")
}
