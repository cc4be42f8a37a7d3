package retrychain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/knownvalue"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/tfjsonpath"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// unknownValue is a configuration with one value that is known only after
// apply.
type unknownValue struct {
	// name is the attribute that the value belongs to.
	name string
	// value is what it turns out to be, and other what it is changed to; an
	// empty one means that it is not changed.
	value, other string
	// attributes replace those that the chain has otherwise; %s stands for the
	// value.
	attributes map[string]string
	// unknown are the attributes that the plan of a new chain cannot tell, and
	// known some of those that it can.
	unknown []string
	known   map[string]knownvalue.Check
}

var unknownValues = []unknownValue{
	{
		name: "name", value: `"orders"`,
		attributes: map[string]string{"name": "%s"},
		unknown:    []string{"name", "id", "tiers", "topology", "retry_exchange", "redrive_exchange", "work_queue.name", "parking_queue.name"},
		known: map[string]knownvalue.Check{
			"work_queue.ownership": knownvalue.StringExact("chain"),
		},
	},
	{
		name: "delay", value: `"1s"`, other: `"1500ms"`,
		attributes: map[string]string{"delays": `["200ms", %s]`},
		unknown:    []string{"delays.1", "tiers", "topology"},
		known: map[string]knownvalue.Check{
			"delays.0": knownvalue.StringExact("200ms"), "work_queue.name": knownvalue.StringExact("orders"),
		},
	},
	{
		name: "delays", value: `["200ms", "1s"]`, other: `["1s", "200ms", "300ms"]`,
		attributes: map[string]string{"delays": `%s`},
		unknown:    []string{"delays", "tiers", "topology"},
		known:      map[string]knownvalue.Check{"retry_exchange": knownvalue.StringExact("orders.retry"), "parking_queue.name": knownvalue.StringExact("orders.parking")},
	},
	{
		name: "queue_type", value: `"classic"`,
		attributes: map[string]string{"queue_type": "%s"},
		unknown:    []string{"queue_type", "dead_letter_strategy", "work_queue.delivery_limit", "topology"},
		known:      map[string]knownvalue.Check{"tiers": knownvalue.ListSizeExact(2), "work_queue.name": knownvalue.StringExact("orders")},
	},
	{
		name: "strategy", value: `"routing_key"`,
		attributes: map[string]string{"strategy": "%s"},
		unknown:    []string{"strategy", "tiers", "topology", "work_queue.delivery_limit", "retry_exchange"},
		known:      map[string]knownvalue.Check{"redrive_exchange": knownvalue.StringExact("orders.redrive")},
	},
	{
		name: "dead_letter_strategy", value: `"at-most-once"`,
		attributes: map[string]string{"dead_letter_strategy": "%s"},
		unknown:    []string{"dead_letter_strategy", "work_queue.overflow", "topology"},
		known:      map[string]knownvalue.Check{"tiers": knownvalue.ListSizeExact(2)},
	},
	{
		name: "work_queue.name", value: `"jobs"`,
		attributes: map[string]string{"work_queue": "{ name = %s }"},
		unknown:    []string{"work_queue.name", "topology"},
		known:      map[string]knownvalue.Check{"tiers": knownvalue.ListSizeExact(2), "work_queue.ownership": knownvalue.StringExact("chain"), "parking_queue.name": knownvalue.StringExact("orders.parking")},
	},
	{
		name: "work_queue", value: `{ name = "jobs" }`,
		attributes: map[string]string{"work_queue": "{ name = %s.name, bindings = [] }"},
		unknown:    []string{"work_queue.name", "topology"},
		known:      map[string]knownvalue.Check{},
	},
	{
		name: "work_queue.ownership", value: `"application"`,
		attributes: map[string]string{"work_queue": `{ name = "application", ownership = %s }`},
		unknown:    []string{"work_queue.ownership", "topology"},
		known:      map[string]knownvalue.Check{"work_queue.name": knownvalue.StringExact("application"), "tiers": knownvalue.ListSizeExact(2)},
	},
	{
		name: "source exchange", value: `"amq.topic"`, other: `"amq.fanout"`,
		attributes: map[string]string{"work_queue": `{ bindings = [{ exchange = %s, routing_key = "order.#" }] }`},
		unknown:    []string{"work_queue.bindings.0.exchange", "topology"},
		known:      map[string]knownvalue.Check{"work_queue.bindings.0.routing_key": knownvalue.StringExact("order.#"), "tiers": knownvalue.ListSizeExact(2)},
	},
	{
		name: "arguments of a binding", value: `jsonencode({ kind = "order" })`, other: `jsonencode({ kind = "order", "x-match" = "any" })`,
		attributes: map[string]string{"work_queue": `{ bindings = [{ exchange = "amq.headers", arguments = %s }] }`},
		unknown:    []string{"work_queue.bindings.0.arguments", "topology"},
	},
	{
		name: "deletion_policy", value: `"delete"`, other: `"retain"`,
		attributes: map[string]string{"deletion_policy": "%s"},
		unknown:    []string{"deletion_policy"},
		known:      map[string]knownvalue.Check{"tiers": knownvalue.ListSizeExact(2), "topology": knownvalue.NotNull()},
	},
	{
		name: "timeouts", value: `"4m"`, other: `"5m"`,
		attributes: map[string]string{"timeouts": "{ update = %s }"},
		unknown:    []string{"timeouts.update"},
		known:      map[string]knownvalue.Check{"topology": knownvalue.NotNull()},
	},
	{
		name: "policy", value: "7", other: "8",
		attributes: map[string]string{"policy": "{ shield = true, priority = %s }"},
		unknown:    []string{"policy.priority", "topology"},
		known:      map[string]knownvalue.Check{"policy.shield": knownvalue.Bool(true)},
	},
	{
		name: "parking_queue", value: `"24h"`,
		attributes: map[string]string{"parking_queue": "{ message_ttl = %s }"},
		unknown:    []string{"parking_queue.message_ttl", "topology"},
		known:      map[string]knownvalue.Check{"parking_queue.name": knownvalue.StringExact("orders.parking")},
	},
	{
		name:       "vhost",
		attributes: map[string]string{"vhost": "%s"},
		unknown:    []string{"vhost", "id", "topology"},
		known:      map[string]knownvalue.Check{"tiers": knownvalue.ListSizeExact(2), "work_queue.name": knownvalue.StringExact("orders")},
	},
}

// config is the chain with the value out of a resource, which makes it known
// only after apply.
func (u unknownValue) config(b *rabbit.Broker, vhost, value string) string {
	attributes := map[string]string{
		"name": `"orders"`, "vhost": fmt.Sprintf("%q", vhost), "delays": `["200ms", "1s"]`, "deletion_policy": `"delete"`, "strategy": `"headers"`,
	}
	if !acctest.Modern(b) {
		attributes["strategy"] = `"routing_key"`
	}
	for name, text := range u.attributes {
		attributes[name] = fmt.Sprintf(text, "terraform_data.late.output")
	}
	var lines strings.Builder
	for name, text := range attributes {
		fmt.Fprintf(&lines, "  %s = %s\n", name, text)
	}
	return acctest.Config(b, `
resource "terraform_data" "late" {
  input = %s
}

resource "rabbitmq_retry_chain" "orders" {
%s}
`, value, lines.String())
}

// pathTo reads a path such as "work_queue.bindings.0.exchange".
func pathTo(text string) tfjsonpath.Path {
	steps := strings.Split(text, ".")
	at := tfjsonpath.New(steps[0])
	for _, step := range steps[1:] {
		if step == "0" || step == "1" {
			at = at.AtSliceIndex(int(step[0] - '0'))
			continue
		}
		at = at.AtMapKey(step)
	}
	return at
}

// TestAccUnknownValue gives every attribute a value that is known only after
// apply: for a new chain, and for a change of it where it can change. The plan
// tells what it can, the apply works, and nothing is left to do. Without
// [rabbit.EnvFull] it tries every fourth attribute: each takes twenty runs of the CLI.
func TestAccUnknownValue(t *testing.T) {
	var tried []unknownValue
	for i, u := range unknownValues {
		if acctest.Sampled(t, i) {
			tried = append(tried, u)
		}
	}
	spread(t, len(tried), func(i int) string { return tried[i].name }, func(t *testing.T, b *rabbit.Broker, i int) {
		u, vhost := tried[i], acctest.VHost(t, b)
		resp, err := acctest.API(t, b).DeclareQueue(vhost, "application", rabbithole.QueueSettings{Durable: true})
		acctest.Do(t, resp, err)
		if u.value == "" {
			u.value = fmt.Sprintf("%q", vhost)
		}
		var checks []plancheck.PlanCheck
		for _, unknown := range u.unknown {
			checks = append(checks, plancheck.ExpectUnknownValue(address, pathTo(unknown)))
		}
		for known, check := range u.known {
			checks = append(checks, plancheck.ExpectKnownValue(address, pathTo(known), check))
		}
		steps := []resource.TestStep{{
			Config:           u.config(b, vhost, u.value),
			ConfigPlanChecks: resource.ConfigPlanChecks{PreApply: checks, PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}},
		}}
		if u.other != "" {
			steps = append(steps, resource.TestStep{
				Config: u.config(b, vhost, u.other),
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PreApply: []plancheck.PlanCheck{
						plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate), plancheck.ExpectUnknownValue(address, pathTo(u.unknown[0])),
					},
					PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
				},
			})
		}
		resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: acctest.Providers, Steps: steps})
	})
}

// TestAccUnknownProvider: a broker whose address is known only after apply is
// asked nothing by the plan.
func TestAccUnknownProvider(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		config := settings{rest: fmt.Sprintf("resource \"terraform_data\" \"broker\" {\n input = %q\n}\n", b.Endpoint)}.config(b, vhost)
		config = strings.Replace(config, fmt.Sprintf("endpoint = %q", b.Endpoint), "endpoint = terraform_data.broker.output", 1)
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: acctest.Providers,
			Steps: []resource.TestStep{{
				Config: config,
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PreApply: []plancheck.PlanCheck{
						plancheck.ExpectKnownValue(address, tfjsonpath.New("id"), knownvalue.StringExact("orders@"+vhost)),
						plancheck.ExpectKnownValue(address, tfjsonpath.New("tiers"), knownvalue.ListSizeExact(2)),
						plancheck.ExpectUnknownValue(address, tfjsonpath.New("topology")),
					},
					PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
				},
			}},
		})
	})
}

// TestAccWrongUnknownValue: a value that turns out to be wrong is an error that
// names it, and nothing is made or changed.
func TestAccWrongUnknownValue(t *testing.T) {
	wrong := []struct {
		unknownValue
		words []string
	}{
		{unknownValue{name: "delay", value: `"soon"`, attributes: map[string]string{"delays": `["1s", %s]`}}, []string{`"soon" is not a duration`, "delays[1]"}},
		{unknownValue{name: "name", value: `"amq.orders"`, attributes: map[string]string{"name": "%s"}}, []string{"Reserved Name"}},
		{unknownValue{name: "vhost", value: `"no-such-vhost"`, attributes: map[string]string{"vhost": "%s"}}, []string{"Virtual Host Not Found", `no-such-vhost`}},
		{
			unknownValue{name: "ownership", value: `"application"`, attributes: map[string]string{"work_queue": `{ name = "nowhere", ownership = %s }`}},
			[]string{"Existing Queue Not Found", `Queue "nowhere" does not exist`},
		},
		{
			unknownValue{name: "exchange", value: `"nowhere"`, attributes: map[string]string{"work_queue": `{ bindings = [{ exchange = %s }] }`}},
			[]string{"Source Exchange Not Found", `Exchange "nowhere" does not exist`, "work_queue.bindings[0].exchange"},
		},
	}
	spread(t, len(wrong), func(i int) string { return wrong[i].name }, func(t *testing.T, b *rabbit.Broker, i int) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, wrong[i].config(b, vhost, wrong[i].value))
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), wrong[i].words...)
		if n := queues(t, b, vhost) + exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d objects are left", n)
		}
		if state := acctest.Run(t, w, "state", "list"); strings.Contains(state, "rabbitmq") {
			t.Errorf("the state holds %s", state)
		}
	})
}

// TestAccNameBecomesUnknown: a name that a plan cannot tell replaces the chain,
// even if it turns out to be the same. What holds a message is not replaced.
func TestAccNameBecomesUnknown(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		config := func(revision string) string {
			text := settings{policy: "if_empty", rest: fmt.Sprintf("resource \"terraform_data\" \"late\" {\n input = \"orders\"\n triggers_replace = %q\n}\n", revision)}.config(b, vhost)
			return strings.Replace(text, `"orders"
  vhost`, "terraform_data.late.output\n  vhost", 1)
		}
		w := acctest.Terraform(t, config("1"))
		apply(t, w)
		park(t, b, vhost)
		acctest.Reconfigure(t, w, config("2"))
		expectText(t, acctest.Run(t, w, "plan"), "must be replaced", "-> (known after apply) # forces replacement")
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Chain Holds Messages", "orders.parking")
		expectParked(t, b, vhost, 1)
		acctest.Reconfigure(t, w, config("1"))
		expectEmptyPlan(t, w)
	})
}
