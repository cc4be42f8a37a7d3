package retrychain_test

import (
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

var update = flag.Bool("update", false, "write the golden files of plans instead of comparing them")

// TestAccPlanText compares what a person reads: the plan of a new chain, and of
// a chain of which somebody changed one thing by hand. After each change the
// apply repairs it.
func TestAccPlanText(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		do := func(resp *http.Response, err error) { t.Helper(); acctest.Do(t, resp, err) }
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		golden(t, "new_chain", vhost, acctest.Run(t, w, "plan"))
		apply(t, w)

		do(api.DeleteBinding(vhost, rabbithole.BindingInfo{
			Source: "orders.return.1s", Destination: "orders", DestinationType: "queue", PropertiesKey: "~",
		}))
		golden(t, "deleted_binding", vhost, acctest.Run(t, w, "plan"))
		apply(t, w)
		expectEmptyPlan(t, w)

		do(api.DeclareQueue(vhost, "spy", rabbithole.QueueSettings{Durable: true}))
		do(api.DeclareBinding(vhost, rabbithole.BindingInfo{
			Source: "orders.parking", Destination: "spy", DestinationType: "queue", RoutingKey: "everything",
		}))
		golden(t, "foreign_binding", vhost, acctest.Run(t, w, "plan"))
		apply(t, w)
		expectEmptyPlan(t, w)

		redeclareTier(t, api, vhost)
		golden(t, "changed_argument", vhost, acctest.Run(t, w, "plan"))
		apply(t, w)
		expectEmptyPlan(t, w)

		acctest.Reconfigure(t, w, strings.Replace(settings{}.config(b, vhost), `["1s", "2s"]`, `["1s", "1h", "1d"]`, 1))
		golden(t, "changed_delays", vhost, acctest.Run(t, w, "plan"))
	})
}

// redeclareTier gives the second tier another time-to-live, as a person with
// the management interface would: delete, declare, bind.
func redeclareTier(t *testing.T, api *rabbithole.Client, vhost string) {
	t.Helper()
	tier, err := api.GetQueue(vhost, "orders.retry.2s")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := api.DeleteQueue(vhost, "orders.retry.2s")
	acctest.Do(t, resp, err)
	arguments := tier.Arguments
	arguments["x-message-ttl"] = 9000
	resp, err = api.DeclareQueue(vhost, "orders.retry.2s", rabbithole.QueueSettings{Durable: true, Arguments: arguments})
	acctest.Do(t, resp, err)
	resp, err = api.DeclareBinding(vhost, rabbithole.BindingInfo{
		Source: "orders.retry", Destination: "orders.retry.2s", DestinationType: "queue",
		Arguments: map[string]any{"x-match": "all-with-x", "x-last-death-exchange": "orders.return.1s", "x-last-death-reason": "rejected"},
	})
	acctest.Do(t, resp, err)
}

// golden compares the part of a plan that describes the chain with a file.
func golden(t *testing.T, name, vhost, output string) {
	t.Helper()
	start, end := strings.Index(output, "  # rabbitmq_retry_chain"), strings.Index(output, "\nPlan:")
	if start < 0 || end < start {
		t.Fatalf("no plan of a chain in:\n%s", output)
	}
	got := strings.ReplaceAll(output[start:end], vhost, "shop")
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the plan %q reads\n%s\nexpected\n%s", name, got, want)
	}
}

// TestAccPlanOfDelays: a plan that changes delays fits on a screen and says how many
// messages are in each tier that retires.
func TestAccPlanOfDelays(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		chain := func(delays string) string { return defaultVariant(b, "quorum").chainConfig(b, vhost, delays, "") }
		w := acctest.Terraform(t, chain(`["1h", "2h"]`))
		apply(t, w)
		queues, err := api.ListQueuesIn(vhost)
		if err != nil {
			t.Fatal(err)
		}
		tier := ""
		for _, q := range queues {
			if strings.HasSuffix(q.Name, ".2h") {
				tier = q.Name
			}
		}
		worker := acctest.Worker(t, b, vhost)
		for range 3 {
			if err := worker.Publish(t.Context(), "", tier, amqp.Publishing{}); err != nil {
				t.Fatal(err)
			}
		}
		if !poll.Until(30*time.Second, func() bool {
			q, err := api.GetQueue(vhost, tier)
			return err == nil && q.Messages == 3
		}) {
			t.Fatal("the broker does not count the messages")
		}
		acctest.Reconfigure(t, w, chain(`["1h", "3h"]`))
		output := acctest.Run(t, w, "plan")
		expectText(t, output, "Warning: Tiers Retire",
			"No message enters these tiers of the chain \"orders\" any more:", tier+": 3 messages (3 ready)")
		const screen = 60
		start, end := strings.Index(output, "  # rabbitmq_retry_chain"), strings.Index(output, "\nPlan:")
		if start < 0 || end < start || strings.Count(output[start:end], "\n") > screen {
			t.Errorf("the plan has more than %d lines:\n%s", screen, output)
		}
	})
}
