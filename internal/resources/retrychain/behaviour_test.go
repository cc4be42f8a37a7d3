package retrychain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// behaviours are what people do with any resource in Terraform. It does not
// depend on the broker, and so each one meets one of them.
var behaviours = []struct {
	name string
	test func(t *testing.T, b *rabbit.Broker, vhost string)
}{
	{"for_each, count and modules", testManyInstances},
	{"target and refresh", testTarget},
	{"replace an empty chain", testReplaceEmpty},
	{"replace_triggered_by", testReplaceTriggeredBy},
	{"test with a broker", testTest},
	{"test with a mock", testMock},
	{"show, output and console", testShow},
	{"ignore_changes", testIgnoreChanges},
	{"prevent_destroy", testPreventDestroy},
	{"conditions", testConditions},
	{"removed", testRemoved},
	{"import and moved", testImportAndMoved},
}

// TestAccBehaviour runs them.
func TestAccBehaviour(t *testing.T) {
	spread(t, len(behaviours), func(i int) string { return behaviours[i].name }, func(t *testing.T, b *rabbit.Broker, i int) {
		behaviours[i].test(t, b, acctest.VHost(t, b))
	})
}

func writeFile(t *testing.T, w *cli.Workspace, name, text string) {
	t.Helper()
	path := filepath.Join(w.Dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func expectQueueCount(t *testing.T, b *rabbit.Broker, vhost string, want int) {
	t.Helper()
	if n := queues(t, b, vhost); n != want {
		t.Errorf("%d queues, expected %d", n, want)
	}
}

// testManyInstances: instances come and go alone, and a move into a module
// changes nothing.
func testManyInstances(t *testing.T, b *rabbit.Broker, vhost string) {
	const module = `
terraform {
  required_providers {
    rabbitmq = {
      source = "retrychain/rabbitmq"
    }
  }
}

variable "name" { type = string }
variable "vhost" { type = string }
variable "strategy" { type = string }

resource "rabbitmq_retry_chain" "this" {
  name            = var.name
  vhost           = var.vhost
  strategy        = var.strategy
  delays          = ["1s"]
  deletion_policy = "delete"
}

output "tiers" { value = rabbitmq_retry_chain.this.tiers }
`
	one := settings{}.config(b, vhost)
	_, resource, _ := strings.Cut(one, "resource ")
	resource = "resource " + resource
	each := func(keys string) string {
		return strings.NewReplacer(`"orders" {`, "\"each\" {\n for_each = "+keys, `= "orders"`, "= each.key").Replace(resource)
	}
	counted := strings.NewReplacer(`"orders" {`, "\"counted\" {\n count = 2\n depends_on = [rabbitmq_retry_chain.each]", `= "orders"`, `= "counted-${count.index}"`).Replace(resource)
	strategy := "headers"
	if !acctest.Modern(b) {
		strategy = "routing_key"
	}
	call := fmt.Sprintf("module \"chains\" {\n for_each = toset([\"m1\", \"m2\"])\n source = \"./chain\"\n name = each.key\n vhost = %q\n strategy = %q\n depends_on = [rabbitmq_retry_chain.counted]\n}\n", vhost, strategy)
	head := strings.TrimSuffix(one, resource)

	w := acctest.Terraform(t, head+each(`toset(["a", "b"])`)+counted+call)
	writeFile(t, w, "chain/main.tf", module)
	acctest.Run(t, w, "get")
	apply(t, w)
	expectEmptyPlan(t, w)
	expectQueueCount(t, b, vhost, 4*4+2*3)
	acctest.Reconfigure(t, w, head+each(`toset(["b", "c"])`)+counted+call)
	expectText(t, apply(t, w), "1 added, 0 changed, 1 destroyed", `rabbitmq_retry_chain.each["a"]: Destruction complete`)
	expectEmptyPlan(t, w)

	moved := "moved {\n from = rabbitmq_retry_chain.counted[0]\n to = rabbitmq_retry_chain.kept\n}\n"
	kept := strings.NewReplacer(`"orders" {`, "\"kept\" {\n", `= "orders"`, `= "counted-0"`).Replace(resource)
	acctest.Reconfigure(t, w, head+each(`toset(["b", "c"])`)+kept+strings.ReplaceAll(call, "counted", "kept")+moved)
	expectText(t, apply(t, w), "0 added, 0 changed, 1 destroyed")
	expectEmptyPlan(t, w)
	acctest.Run(t, w, "destroy", "-auto-approve")
	expectQueueCount(t, b, vhost, 0)
}

// testTarget: -target changes one chain, -refresh=false does not see drift, and
// -refresh-only sees it and changes nothing on the broker.
func testTarget(t *testing.T, b *rabbit.Broker, vhost string) {
	_, second, _ := strings.Cut(settings{address: "second", name: "second"}.config(b, vhost), "}\n")
	w := acctest.Terraform(t, settings{}.config(b, vhost)+second)
	expectText(t, apply(t, w, "-target="+address), "1 added")
	expectQueueCount(t, b, vhost, 4)
	expectText(t, apply(t, w), "1 added, 0 changed, 0 destroyed")
	expectEmptyPlan(t, w)

	resp, err := acctest.API(t, b).DeleteExchange(vhost, "orders.redrive")
	acctest.Do(t, resp, err)
	acctest.Run(t, w, "plan", "-detailed-exitcode", "-refresh=false")
	acctest.Run(t, w, "plan", "-detailed-exitcode", "-target=rabbitmq_retry_chain.second")
	expectText(t, acctest.Run(t, w, "plan", "-refresh-only"), "rabbitmq_retry_chain.orders has changed", `- "orders.redrive"`)
	expectText(t, acctest.Run(t, w, "apply", "-refresh-only", "-auto-approve"), "0 added, 0 changed, 0 destroyed")
	expectText(t, acctest.Run(t, w, "plan", "-refresh=false"), `+ "orders.redrive"`, "1 to change")
	apply(t, w, "-refresh=false")
	expectEmptyPlan(t, w)
	acctest.Run(t, w, "destroy", "-auto-approve", "-target="+address)
	expectQueueCount(t, b, vhost, 4)
	expectText(t, acctest.Run(t, w, "plan"), "1 to add, 0 to change, 0 to destroy")
}

// testReplaceEmpty: a chain without messages is replaced on demand; with
// create_before_destroy it cannot be, and stays as it is.
func testReplaceEmpty(t *testing.T, b *rabbit.Broker, vhost string) {
	w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
	apply(t, w)
	expectText(t, apply(t, w, "-replace="+address), "1 added, 0 changed, 1 destroyed")
	expectEmptyPlan(t, w)
	acctest.Reconfigure(t, w, settings{policy: "if_empty", lifecycle: "lifecycle {\n create_before_destroy = true\n }"}.config(b, vhost))
	expectText(t, acctest.RunError(t, w, "apply", "-auto-approve", "-replace="+address), "Object Already Exists")
	expectEmptyPlan(t, w)
	expectQueueCount(t, b, vhost, 4)
}

// testReplaceTriggeredBy: a replacement that another resource asks for keeps
// messages as any other does.
func testReplaceTriggeredBy(t *testing.T, b *rabbit.Broker, vhost string) {
	config := func(policy, revision string) string {
		return settings{
			policy: policy, lifecycle: "lifecycle {\n replace_triggered_by = [terraform_data.revision]\n }",
			rest: fmt.Sprintf("resource \"terraform_data\" \"revision\" {\n input = %q\n}\n", revision),
		}.config(b, vhost)
	}
	w := acctest.Terraform(t, config("if_empty", "1"))
	apply(t, w)
	park(t, b, vhost)
	acctest.Reconfigure(t, w, config("if_empty", "2"))
	expectText(t, acctest.Run(t, w, "plan"), "will be replaced due to changes in replace_triggered_by")
	expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Chain Holds Messages", "orders.parking")
	expectParked(t, b, vhost, 1)
	acctest.Reconfigure(t, w, config("delete", "1"))
	apply(t, w)
	acctest.Reconfigure(t, w, config("delete", "2"))
	expectText(t, apply(t, w), "1 added, 1 changed, 1 destroyed")
	expectParked(t, b, vhost, 0)
}

// testTest: terraform test makes a chain, looks at it and destroys it.
func testTest(t *testing.T, b *rabbit.Broker, vhost string) {
	w := acctest.Terraform(t, settings{}.config(b, vhost))
	writeFile(t, w, "tests/chain.tftest.hcl", `
run "plan" {
  command = plan
  assert {
    condition     = length(rabbitmq_retry_chain.orders.tiers) == 2 && rabbitmq_retry_chain.orders.work_queue.name == "orders"
    error_message = "wrong schedule"
  }
  assert {
    condition     = length(rabbitmq_retry_chain.orders.topology.queues) == 4
    error_message = "the plan does not know the queues"
  }
}

run "apply" {
  assert {
    condition     = rabbitmq_retry_chain.orders.topology.exchanges["orders.parking"] == "fanout"
    error_message = "no parking exchange"
  }
}
`)
	expectText(t, acctest.Run(t, w, "test", "-no-color"), "2 passed, 0 failed")
	expectQueueCount(t, b, vhost, 0)
}

// testMock: with mock_provider no broker is asked. Values that the plan would
// compute are made up, unless the test gives them.
func testMock(t *testing.T, b *rabbit.Broker, vhost string) {
	p := proxy.New(t, b.Endpoint)
	w := acctest.Terraform(t, settings{endpoint: p.URL}.config(b, vhost))
	writeFile(t, w, "tests/mock.tftest.hcl", `
mock_provider "rabbitmq" {
  mock_resource "rabbitmq_retry_chain" {
    defaults = {
      tiers    = ["orders.retry.1s"]
      topology = { exchanges = {}, queues = { "orders" = "a mocked line" }, bindings = {}, policies = {} }
    }
  }
}

run "mocked" {
  assert {
    condition     = rabbitmq_retry_chain.orders.name == "orders" && rabbitmq_retry_chain.orders.tiers[0] == "orders.retry.1s"
    error_message = "the defaults are not used"
  }
  assert {
    condition     = rabbitmq_retry_chain.orders.parking_queue.name != null
    error_message = "a mock makes up the parking queue"
  }
  assert {
    condition     = keys(rabbitmq_retry_chain.orders.topology.queues) == tolist(["orders"]) && length(rabbitmq_retry_chain.orders.topology.exchanges) == 0
    error_message = "the topology is not the mocked one"
  }
}

run "plan_of_a_change" {
  command = plan
  override_resource {
    target = rabbitmq_retry_chain.orders
    values = { retry_exchange = "overridden" }
  }
  assert {
    condition     = rabbitmq_retry_chain.orders.delays[0] == "1s"
    error_message = "the configuration is not there"
  }
}
`)
	expectText(t, acctest.Run(t, w, "test", "-no-color"), "2 passed, 0 failed")
	if requests := p.Take(); len(requests) > 0 {
		t.Errorf("the mocked test asked the broker: %v", requests)
	}
}

// testShow: the computed attributes can be read by people and programs.
func testShow(t *testing.T, b *rabbit.Broker, vhost string) {
	outputs := ""
	for _, name := range []string{"topology", "tiers", "draining"} {
		outputs += fmt.Sprintf("output %q {\n value = rabbitmq_retry_chain.orders.%s\n}\n", name, name)
	}
	w := acctest.Terraform(t, settings{rest: outputs}.config(b, vhost))
	acctest.Run(t, w, "plan", "-out=saved")
	var planned struct {
		Values struct {
			Outputs map[string]struct{ Value any } `json:"outputs"`
		} `json:"planned_values"`
	}
	parse(t, acctest.Run(t, w, "show", "-json", "saved"), &planned)
	apply(t, w)
	var outputsNow map[string]struct{ Value any }
	parse(t, acctest.Run(t, w, "output", "-json"), &outputsNow)
	for name, now := range outputsNow {
		if was := planned.Values.Outputs[name].Value; fmt.Sprint(was) != fmt.Sprint(now.Value) {
			t.Errorf("output %s was planned as %v and is %v", name, was, now.Value)
		}
	}
	if len(outputsNow) != 3 {
		t.Errorf("%d outputs, expected 3", len(outputsNow))
	}
	if empty, is := outputsNow["draining"].Value.([]any); !is || len(empty) != 0 {
		t.Errorf("draining is %v, expected an empty list", outputsNow["draining"].Value)
	}
	var state struct {
		Values struct {
			Root struct {
				Resources []struct {
					Address string
					Values  map[string]any
				}
			} `json:"root_module"`
		}
	}
	parse(t, acctest.Run(t, w, "show", "-json"), &state)
	if all := state.Values.Root.Resources; len(all) != 1 || all[0].Address != address || all[0].Values["retry_exchange"] != "orders.retry" {
		t.Errorf("the state as JSON holds %v", all)
	}
	expectText(t, acctest.Run(t, w, "show", "-no-color"), `retry_exchange = "orders.retry"`, `"orders.parking" = "fanout"`)
	expectText(t, ask(t, w, address+".tiers[1]"), tier(b))
	expectText(t, ask(t, w, "keys("+address+".topology.queues)"), "orders.parking")
}

// parse reads the JSON in a program's output, behind its warnings.
func parse(t *testing.T, output string, into any) {
	t.Helper()
	start := strings.Index(output, "{")
	if start < 0 {
		t.Fatalf("no JSON in %q", output)
	}
	if err := json.NewDecoder(strings.NewReader(output[start:])).Decode(into); err != nil {
		t.Fatalf("%s in %q", err, output)
	}
}

// ask evaluates an expression with terraform console.
func ask(t *testing.T, w *cli.Workspace, expression string) string {
	t.Helper()
	command := w.Command(t.Context(), "console")
	command.Stdin = strings.NewReader(expression + "\n")
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("console: %s\n%s", err, output)
	}
	return string(output)
}

// testIgnoreChanges: ignored are changes of the configuration, never what
// somebody did to the objects on the broker.
func testIgnoreChanges(t *testing.T, b *rabbit.Broker, vhost string) {
	config := func(ignored, delays string) string {
		text := settings{lifecycle: "lifecycle {\n ignore_changes = " + ignored + "\n }"}.config(b, vhost)
		return strings.Replace(text, `["1s", "2s"]`, delays, 1)
	}
	w := acctest.Terraform(t, config("[delays]", `["1s", "2s"]`))
	apply(t, w)
	for _, ignored := range []string{"[delays]", "all"} {
		acctest.Reconfigure(t, w, config(ignored, `["1s", "3s"]`))
		expectEmptyPlan(t, w)
	}
	resp, err := acctest.API(t, b).DeleteExchange(vhost, "orders.redrive")
	acctest.Do(t, resp, err)
	for _, ignored := range []string{"[topology]", "[delays]", "all"} {
		acctest.Reconfigure(t, w, config(ignored, `["1s", "2s"]`))
		output := acctest.Run(t, w, "plan")
		expectText(t, output, `+ "orders.redrive"`, "1 to change")
		if ignored == "[topology]" {
			expectText(t, output, "Redundant ignore_changes element", "Including this attribute in ignore_changes has no effect.")
		}
	}
	apply(t, w)
	expectEmptyPlan(t, w)
}

// testPreventDestroy: nothing that destroys the chain is planned.
func testPreventDestroy(t *testing.T, b *rabbit.Broker, vhost string) {
	s := settings{lifecycle: "lifecycle {\n prevent_destroy = true\n }"}
	w := acctest.Terraform(t, s.config(b, vhost))
	apply(t, w)
	expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "nstance cannot be destroyed")
	expectText(t, acctest.RunError(t, w, "apply", "-auto-approve", "-replace="+address), "nstance cannot be destroyed")
	s.name = "other"
	acctest.Reconfigure(t, w, s.config(b, vhost))
	expectText(t, acctest.RunError(t, w, "plan"), "nstance cannot be destroyed")
	expectQueueCount(t, b, vhost, 4)
}

// testConditions: the topology is known to the plan, and so are conditions on
// it.
func testConditions(t *testing.T, b *rabbit.Broker, vhost string) {
	config := func(n int) string {
		return settings{
			lifecycle: fmt.Sprintf("lifecycle {\n postcondition {\n condition = length(self.topology.queues) == %d\n error_message = \"wrong number of queues\"\n }\n }", n),
			rest: fmt.Sprintf("resource \"terraform_data\" \"after\" {\n lifecycle {\n precondition {\n condition = length(%s.tiers) == %d - 2\n "+
				"error_message = \"wrong number of tiers\"\n }\n }\n}\n", address, n),
		}.config(b, vhost)
	}
	w := acctest.Terraform(t, config(5))
	expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Resource postcondition failed", "wrong number of queues")
	expectQueueCount(t, b, vhost, 0)
	acctest.Reconfigure(t, w, config(4))
	apply(t, w)
	expectEmptyPlan(t, w)
	acctest.Reconfigure(t, w, strings.Replace(config(4), `["1s", "2s"]`, `["1s"]`, 1))
	expectText(t, acctest.RunError(t, w, "plan"), "Resource postcondition failed")
}

// testRemoved takes a chain out of the state and leaves it at work; it can be
// imported again.
func testRemoved(t *testing.T, b *rabbit.Broker, vhost string) {
	s := settings{policy: "if_empty"}
	w := acctest.Terraform(t, s.config(b, vhost))
	apply(t, w)
	park(t, b, vhost)
	provider, _, _ := strings.Cut(s.config(b, vhost), "resource ")
	acctest.Reconfigure(t, w, provider+"removed {\n from = "+address+"\n lifecycle {\n destroy = false\n }\n}\n")
	apply(t, w)
	if state := acctest.Run(t, w, "state", "list"); state != "" {
		t.Errorf("the state still holds %s", state)
	}
	expectParked(t, b, vhost, 1)
	acctest.Reconfigure(t, w, s.config(b, vhost))
	expectText(t, acctest.Run(t, w, "plan"), "Warning: Chain Already Exists", "terraform import")
	expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Object Already Exists", "terraform import")
	acctest.Run(t, w, "import", address, "orders@"+vhost)
	expectEmptyPlan(t, w)
	expectParked(t, b, vhost, 1)
}

// testImportAndMoved imports one chain and moves another in one run, which
// touches no object.
func testImportAndMoved(t *testing.T, b *rabbit.Broker, vhost string) {
	old := settings{policy: "if_empty", name: "old"}
	apply(t, acctest.Terraform(t, old.config(b, vhost)))
	s := settings{policy: "if_empty"}
	w := acctest.Terraform(t, s.config(b, vhost))
	apply(t, w)
	park(t, b, vhost)
	_, second, _ := strings.Cut(settings{policy: "if_empty", address: "old", name: "old"}.config(b, vhost), "}\n")
	s.address = "renamed"
	s.rest = second + fmt.Sprintf("moved {\n from = %s\n to = rabbitmq_retry_chain.renamed\n}\nimport {\n to = rabbitmq_retry_chain.old\n id = \"old@%s\"\n}\n", address, vhost)
	acctest.Reconfigure(t, w, s.config(b, vhost))
	expectText(t, acctest.Run(t, w, "plan"), "1 to import, 0 to add, 0 to change, 0 to destroy", "has moved to rabbitmq_retry_chain.renamed")
	apply(t, w)
	expectEmptyPlan(t, w)
	expectParked(t, b, vhost, 1)
	expectQueueCount(t, b, vhost, 8)
}
