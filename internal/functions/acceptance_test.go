package functions_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// workspace prepares a configuration without a provider block: functions need
// neither an endpoint nor a broker.
func workspace(t *testing.T, config string) *cli.Workspace {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("an acceptance test: set TF_ACC=1, or run make test")
	}
	w := acctest.Terraform(t, config)
	w.Env = append(w.Env, "RABBITMQ_ENDPOINT=", "RABBITMQ_USERNAME=", "RABBITMQ_PASSWORD=")
	return w
}

// TestAccFunctionsWithoutBroker calls every function where no broker is
// configured. A second plan is empty.
func TestAccFunctionsWithoutBroker(t *testing.T) {
	t.Parallel()
	w := workspace(t, `
output "exponential" { value = provider::rabbitmq::exponential_backoff("10s", 1.1, "12s", 4) }
output "linear" { value = provider::rabbitmq::linear_backoff("0s", "90s", "1h", 3) }
output "schedule" { value = provider::rabbitmq::retry_schedule(["60s"]) }
output "key" { value = provider::rabbitmq::delay_key({ unit = "1s", levels = 4 }, "5s", "eu.orders") }
output "diagram" {
  value = provider::rabbitmq::topology_diagram({ exchanges = { e = "fanout" }, queues = {}, bindings = {}, policies = {} })
}
output "none" { value = provider::rabbitmq::retry_schedule([]) }
`)
	acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
	acctest.Run(t, w, "plan", "-detailed-exitcode", "-input=false")
	want := map[string]string{
		"exponential": `["10s", "11s", "12s", "12s"]`,
		"linear":      `["0s", "1m30s", "3m"]`,
		"key":         `"0.1.0.1.eu.orders"`,
		"diagram":     `"flowchart LR\n  n1([\"e\"])\n"`,
		"none":        `[{"attempt": 1, "elapsed": "0s", "wait": "0s"}]`,
		"schedule":    `[{"attempt": 1, "elapsed": "0s", "wait": "0s"}, {"attempt": 2, "elapsed": "1m", "wait": "1m"}]`,
	}
	for name, text := range want {
		wantOutput(t, w, name, text)
	}
}

// wantOutput compares an output with JSON.
func wantOutput(t *testing.T, w *cli.Workspace, name, want string) {
	t.Helper()
	command := w.Command(t.Context(), "output", "-json", name)
	text, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	var got, wanted any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("%s: %s", err, text)
	}
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, wanted) {
		t.Errorf("output %s is %s, expected %s", name, text, want)
	}
}

// TestAccUnknownArguments: with an argument, or an element of one, that is known
// only after apply, so is the result.
func TestAccUnknownArguments(t *testing.T) {
	t.Parallel()
	w := workspace(t, `
resource "terraform_data" "delay" { input = "7s" }
output "backoff" { value = provider::rabbitmq::linear_backoff(terraform_data.delay.output, "1s", "1m", 2) }
output "schedule" { value = provider::rabbitmq::retry_schedule(["5s", terraform_data.delay.output])[2].elapsed }
output "key" { value = provider::rabbitmq::delay_key({ unit = "1s", levels = 4 }, terraform_data.delay.output, "orders") }
output "alerts" { value = provider::rabbitmq::prometheus_alerts([], { age = terraform_data.delay.output }) }
output "unit" { value = provider::rabbitmq::delay_key({ unit = terraform_data.delay.output, levels = 2 }, "21s", "orders") }
`)
	output := acctest.Run(t, w, "plan", "-input=false")
	for _, want := range []string{"+ backoff = (known after apply)", "+ schedule = (known after apply)", "+ key = (known after apply)", "+ unit = (known after apply)", "+ alerts = (known after apply)"} {
		if !strings.Contains(words(output), want) {
			t.Errorf("the plan does not say %q:\n%s", want, output)
		}
	}
	acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
	wantOutput(t, w, "backoff", `["7s", "8s"]`)
	wantOutput(t, w, "schedule", `"12s"`)
	wantOutput(t, w, "key", `"0.1.1.1.orders"`)
	wantOutput(t, w, "unit", `"1.1.orders"`)
}

// words is what a CLI printed without the frame and the line breaks.
func words(output string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
}

// TestAccArgumentErrors: the CLI names the parameter and says what is wrong.
func TestAccArgumentErrors(t *testing.T) {
	t.Parallel()
	for call, want := range map[string]string{
		`exponential_backoff("soon", 2, "10m", 5)`:            `Invalid value for "initial" parameter: "soon" is not a duration: write a number and a unit`,
		`exponential_backoff("5s", 0.5, "10m", 5)`:            `Invalid value for "factor" parameter: 0.5 is less than 1, the smallest factor`,
		`exponential_backoff("5s", 2, "1s", 5)`:               `Invalid value for "maximum" parameter: "1s" is shorter than the initial wait, "5s"`,
		`exponential_backoff("5s", 2, "10m", 1.5)`:            `Invalid value for "retries" parameter: 1.5 is not a whole number from 0 to 50`,
		`exponential_backoff("5s", null, "10m", 5)`:           `Invalid value for "factor" parameter: argument must not be null`,
		`linear_backoff("5s", "-1s", "10m", 5)`:               `Invalid value for "step" parameter: "-1s" is negative`,
		`delay_key({ unit = "1s", levels = 1.5 }, "5s", "a")`: `Invalid value for "network" parameter: levels is 1.5. A network has 1 to 39 levels`,
		`delay_key({ unit = null, levels = 4 }, "5s", "a")`:   `Invalid value for "network" parameter: unit is null`,
		`delay_key({ levels = 4 }, "5s", "a")`:                `Invalid value for "network" parameter: attribute "unit" is required`,
		`delay_key({ unit = "1s", levels = 4 }, "16s", "a")`:  `Invalid value for "delay" parameter: the delay 16s is over 15s`,
		`delay_key({ unit = "1s", levels = 4 }, "5s", "a.#")`: `Invalid value for "destination" parameter: the name of the destination "a.#" holds the word "#"`,
		`exponential_backoff("5s", 0, "10m", 1e308)`:          `Invalid value for "factor" parameter: 0 is less than 1`,
		`linear_backoff("5s", "5s", "10m", 1e308)`:            `Invalid value for "retries" parameter: 1e+308 is not a whole number from 0 to 50`,
		`linear_backoff(null, "5s", "10m", 1)`:                `Invalid value for "initial" parameter: argument must not be null`,
		`retry_schedule(null)`:                                `Invalid value for "delays" parameter: argument must not be null`,
		`retry_schedule(["5s", null])`:                        `Invalid value for "delays" parameter: delays[1] is null`,
		`retry_schedule("5s")`:                                `Invalid value for "delays" parameter: list of string required`,
		`prometheus_alerts([{}])`:                             `Invalid value for "chains" parameter`,
		`prometheus_alerts([], { ages = "1h" })`:              `there is no option "ages", only age, blocked, endpoint, growing, matchers, severity, slack, window`,
		`prometheus_alerts([], { age = "soon" })`:             `age: "soon" is not a duration`,
		`prometheus_alerts([], { window = "0s" })`:            `window: it has to be longer than 0`,
		`prometheus_alerts([], { slack = null })`:             `an option must not be null`,
		`prometheus_alerts([], { endpoint = "/" })`:           `endpoint: "/" is neither "detailed" nor "per-object"`,
		`prometheus_alerts([], { matchers = "x" })`:           `matchers: "x" is no list of label matchers such as job="rabbitmq", cluster!="test"`,
		`prometheus_alerts([], {}, {})`:                       `there is at most one map with options`,
	} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w := workspace(t, "output \"result\" {\n  value = provider::rabbitmq::"+call+"\n}\n")
			if output := acctest.RunError(t, w, "plan", "-input=false"); !strings.Contains(words(output), want) {
				t.Errorf("the error does not say %s:\n%s", want, output)
			}
		})
	}
}

const moduleUnderTest = `
variable "first" { type = string }

output "delays" { value = provider::rabbitmq::exponential_backoff(var.first, 3, "10m", 3) }
output "total" { value = provider::rabbitmq::retry_schedule(provider::rabbitmq::exponential_backoff(var.first, 3, "10m", 3))[3].elapsed }
`

// TestAccTestFile runs "terraform test" on a module that calls functions, once
// with what holds and once with what does not.
func TestAccTestFile(t *testing.T) {
	t.Parallel()
	w := workspace(t, moduleUnderTest)
	writeTestFile(t, w, `output.delays == tolist(["1s", "3s", "9s"]) && output.total == "13s"`)
	acctest.Run(t, w, "test")
	writeTestFile(t, w, `output.total == "14s"`)
	wantNotSo(t, w)
}

// TestAccTestFileCalls calls a function in the test file itself.
func TestAccTestFileCalls(t *testing.T) {
	t.Parallel()
	w := workspace(t, moduleUnderTest)
	if strings.Contains(acctest.Run(t, w, "version"), "OpenTofu") {
		t.Skip("OpenTofu 1.12.6 crashes when a test file calls a function of a provider (opentofu/opentofu#1600)")
	}
	for condition, holds := range map[string]bool{
		`output.delays[1] == provider::rabbitmq::linear_backoff("1s", "2s", "9s", 3)[1]`:                   true,
		`output.delays[2] == provider::rabbitmq::linear_backoff("1s", "2s", "9s", 3)[2]`:                   false,
		`output.total == provider::rabbitmq::retry_schedule(output.delays)[3].elapsed`:                     true,
		`output.total == provider::rabbitmq::retry_schedule(output.delays)[2].elapsed`:                     false,
		`provider::rabbitmq::delay_key({ unit = "1s", levels = 4 }, output.total, "a") == "1.1.0.1.a"`:     true,
		`provider::rabbitmq::delay_key({ unit = "1s", levels = 4 }, output.delays[2], "a") == "1.1.0.1.a"`: false,
	} {
		if writeTestFile(t, w, condition); holds {
			acctest.Run(t, w, "test")
		} else {
			wantNotSo(t, w)
		}
	}
	writeTestFile(t, w, `output.delays == provider::rabbitmq::exponential_backoff("1s", 3, "9s", 3)`)
	acctest.Run(t, w, "test")
	writeTestFile(t, w, `output.delays == provider::rabbitmq::exponential_backoff("1s", 3, "8s", 3)`)
	wantNotSo(t, w)
}

// wantNotSo runs the test file, whose condition does not hold.
func wantNotSo(t *testing.T, w *cli.Workspace) {
	t.Helper()
	if output := acctest.RunError(t, w, "test", "-no-color"); !strings.Contains(output, "not so") {
		t.Errorf("the test failed for another reason:\n%s", output)
	}
}

func writeTestFile(t *testing.T, w *cli.Workspace, condition string) {
	t.Helper()
	text := "run \"delays\" {\n  command = plan\n  variables {\n    first = \"1s\"\n  }\n" +
		"  assert {\n    condition     = " + condition + "\n    error_message = \"not so\"\n  }\n}\n"
	if err := os.WriteFile(filepath.Join(w.Dir, "delays.tftest.hcl"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestAccChainWithBackoff makes a chain whose delays a function returns, and
// looks for them in the queues of the broker.
func TestAccChainWithBackoff(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, acctest.Config(b, `
resource "rabbitmq_retry_chain" "orders" {
  name     = "orders"
  vhost    = %q
  strategy = "routing_key"
  delays   = provider::rabbitmq::exponential_backoff("5s", 3, "10m", 5)
}

output "elapsed" { value = provider::rabbitmq::retry_schedule(rabbitmq_retry_chain.orders.delays)[5].elapsed }
`, vhost))
		acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
		acctest.Run(t, w, "plan", "-detailed-exitcode", "-input=false")
		wantOutput(t, w, "elapsed", `"10m5s"`)
		queues, err := acctest.API(t, b).ListQueuesIn(vhost)
		if err != nil {
			t.Fatal(err)
		}
		var delays []float64
		for _, queue := range queues {
			if delay, waits := queue.Arguments["x-message-ttl"].(float64); waits {
				delays = append(delays, delay)
			}
		}
		slices.Sort(delays)
		if want := []float64{5_000, 15_000, 45_000, 135_000, 405_000}; !slices.Equal(delays, want) {
			t.Errorf("messages wait %v ms in the queues, expected %v", delays, want)
		}
	})
}
