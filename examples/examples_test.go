package examples_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// applied are the examples that are applied, planned again and destroyed.
var applied = []string{
	"actions/rabbitmq_discard", "actions/rabbitmq_redrive", "alerts", "audit", "data-sources/rabbitmq_parked_messages",
	"ephemeral-resources/rabbitmq_parked_messages", "existing_queue", "for_each", "full", "parked_messages",
	"redrive", "resources/rabbitmq_delay_destination", "resources/rabbitmq_delay_network", "resources/rabbitmq_discard",
	"resources/rabbitmq_redrive",
	"resources/rabbitmq_retry_attachment", "resources/rabbitmq_retry_chain", "resources/rabbitmq_retry_tiers", "shared_tiers/platform",
}

// existing are the queues that an example expects to be there.
var existing = map[string][]string{
	"existing_queue":                               {"billing", "invoices", "parking"},
	"resources/rabbitmq_discard":                   {"orders.parking"},
	"resources/rabbitmq_redrive":                   {"orders.parking"},
	"ephemeral-resources/rabbitmq_parked_messages": {"orders.parking"},
}

// TestAccExamples validates and plans every example.
func TestAccExamples(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		all := folders(t)
		for _, folder := range applied {
			if !slices.Contains(all, folder) {
				t.Errorf("there is no example %s, only %q", folder, all)
			}
		}
		for _, folder := range all {
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				tryExample(t, b, folder)
			})
		}
	})
}

func tryExample(t *testing.T, b *rabbit.Broker, folder string) {
	t.Helper()
	vhost := acctest.VHost(t, b)
	files := configuration(t, folder)
	if actionBlock.MatchString(all(files)) {
		acctest.NeedActions(t)
	}
	w := workspace(t, b, vhost, files)
	for _, name := range existing[folder] {
		resp, err := acctest.API(t, b).DeclareQueue(vhost, name, rabbithole.QueueSettings{
			Type: "quorum", Durable: true, Arguments: map[string]any{"x-delivery-limit": -1},
		})
		acctest.Do(t, resp, err)
	}
	command := []string{"plan", "-input=false"}
	if slices.Contains(applied, folder) {
		command = []string{"apply", "-auto-approve", "-input=false"} // which shows a plan first
	}
	if output := acctest.Run(t, w, command...); strings.Contains(output, "Warning: Argument") || strings.Contains(output, "Warning: Chain") {
		t.Errorf("the plan warns:\n%s", output)
	}
	if !slices.Contains(applied, folder) {
		return
	}
	acctest.Run(t, w, "plan", "-detailed-exitcode", "-input=false")
	acctest.Run(t, w, "destroy", "-auto-approve", "-input=false")
}

// TestAccAuditFinds breaks what the example "audit" watches: the check warns and
// the postcondition fails, both with what happens and how to mend it.
func TestAccAuditFinds(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := workspace(t, b, vhost, configuration(t, "audit"))
		if output := acctest.Run(t, w, "apply", "-auto-approve", "-input=false"); strings.Contains(output, "Check block assertion failed") {
			t.Errorf("the check of a sound virtual host fails:\n%s", output)
		}
		api := acctest.API(t, b)
		resp, err := api.DeclareQueue(vhost, "billing", rabbithole.QueueSettings{
			Type: "classic", Durable: true, Arguments: map[string]any{"x-dead-letter-exchange": "nowhere"},
		})
		acctest.Do(t, resp, err)
		output := acctest.Run(t, w, "plan", "-detailed-exitcode", "-input=false")
		for _, text := range []string{
			"Warning: Check block assertion failed", "queue billing", `"nowhere" does not exist`, "Declare the exchange",
		} {
			if !strings.Contains(flat(output), text) {
				t.Errorf("the plan lacks %q:\n%s", text, output)
			}
		}
		resp, err = api.DeclareQueue(vhost, "orders.old", rabbithole.QueueSettings{
			Type: "classic", Durable: true, Arguments: map[string]any{"x-message-ttl": 1000},
		})
		acctest.Do(t, resp, err)
		output = acctest.RunError(t, w, "plan", "-input=false")
		for _, text := range []string{"Resource postcondition failed", "queue orders.old", "its messages are deleted after 1s"} {
			if !strings.Contains(flat(output), text) {
				t.Errorf("the error lacks %q:\n%s", text, output)
			}
		}
	})
}

// flat takes away how Terraform wraps and frames a text.
func flat(output string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
}

// snippets are folders with parts of configurations, which the documentation shows
// beside a resource. They name no provider.
var snippets = []string{"actions", "data-sources", "ephemeral-resources", "functions", "resources"}

// TestExamplesAreComplete: whoever copies a folder can apply it. Without
// required_providers Terraform looks for a provider of HashiCorp's.
func TestExamplesAreComplete(t *testing.T) {
	t.Parallel()
	for _, folder := range folders(t) {
		group, _, _ := strings.Cut(folder, "/")
		if slices.Contains(snippets, group) {
			continue
		}
		paths, err := filepath.Glob(filepath.Join(folder, "*.tf"))
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		for _, path := range paths {
			text.WriteString(read(t, path))
		}
		for _, want := range []string{"required_providers", `"retrychain/rabbitmq"`} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("%s lacks %s", folder, want)
			}
		}
	}
}
