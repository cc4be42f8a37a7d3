package retrychain_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const chainType = "rabbitmq_retry_chain"

// savedInstance is a resource in a state file, as Terraform writes it. Those in
// testdata were written by the provider when its schema had version 0, against
// RabbitMQ 4.0.5 ("headers") and 3.10.8 ("routing_key").
type savedInstance struct {
	SchemaVersion int64           `json:"schema_version"`
	Attributes    json.RawMessage `json:"attributes"`
	Private       string          `json:"private"`
}

func savedVersion0(t *testing.T, strategy, vhost string) savedInstance {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "state_v0_"+strategy+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var instance savedInstance
	replaced := strings.NewReplacer(`"vhost": "shop"`, fmt.Sprintf(`"vhost": %q`, vhost), "orders@shop", "orders@"+vhost).Replace(string(text))
	if err := json.Unmarshal([]byte(replaced), &instance); err != nil {
		t.Fatal(err)
	}
	return instance
}

// upgradedConfigs are the configurations that the states of version 0 came
// from.
var upgradedConfigs = map[string]string{
	"headers": `
  delays     = ["5s", "1m"]
  work_queue = { bindings = [{ exchange = "amq.topic", routing_key = "order.#" }] }
  timeouts   = { update = "20m" }
`,
	"routing_key": `
  strategy   = "routing_key"
  queue_type = "classic"
  delays     = ["5s", "1m", "5s"]
  work_queue = {
    name                   = "work"
    single_active_consumer = true
    arguments              = jsonencode({ "x-max-priority" = 5 })
    bindings               = [{ exchange = "amq.headers", arguments = jsonencode({ "x-match" = "all", type = "order" }) }]
  }
  parking_queue   = { name = "lot", message_ttl = "24h" }
  deletion_policy = "delete"
`,
}

// TestAccUpgradeOfState puts the state of version 0 in place of the one of
// today, for the same chain on the broker: the next plan is empty, a refresh
// writes what the provider writes today, and the chain can be changed.
func TestAccUpgradeOfState(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		strategy := "headers"
		if !acctest.Modern(b) {
			strategy = "routing_key"
		}
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, upgradedConfig(b, vhost, strategy, "1m"))
		apply(t, w)
		today := savedNow(t, w, nil)

		old := savedVersion0(t, strategy, vhost)
		savedNow(t, w, &old)
		expectEmptyPlan(t, w)
		apply(t, w, "-refresh-only")
		upgraded := savedNow(t, w, nil)
		if upgraded.SchemaVersion != today.SchemaVersion {
			t.Errorf("the state has schema version %d after a refresh, expected %d", upgraded.SchemaVersion, today.SchemaVersion)
		}
		compareJSON(t, upgraded.Attributes, today.Attributes)

		savedNow(t, w, &old)
		acctest.Reconfigure(t, w, upgradedConfig(b, vhost, strategy, "2m"))
		expectText(t, apply(t, w), "0 added, 1 changed, 0 destroyed")
		expectEmptyPlan(t, w)
	})
}

// upgradedConfig is a configuration of [upgradedConfigs] with another second
// delay.
func upgradedConfig(b *rabbit.Broker, vhost, strategy, second string) string {
	text := strings.Replace(upgradedConfigs[strategy], `"1m"`, fmt.Sprintf("%q", second), 1)
	return acctest.Config(b, "resource %q \"orders\" {\n  name  = \"orders\"\n  vhost = %q\n%s}\n", chainType, vhost, text)
}

// savedNow returns the only resource in the state file, and puts another one in
// its place if one is given.
func savedNow(t *testing.T, w *cli.Workspace, replacement *savedInstance) savedInstance {
	t.Helper()
	file := filepath.Join(w.Dir, "terraform.tfstate")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var state map[string]any
	if err := json.Unmarshal(text, &state); err != nil {
		t.Fatal(err)
	}
	instances := state["resources"].([]any)[0].(map[string]any)["instances"].([]any)
	var saved savedInstance
	convert(t, instances[0], &saved)
	if replacement != nil {
		instances[0] = replacement
		changed, err := json.Marshal(state)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, changed, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return saved
}

func convert(t *testing.T, from, to any) {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatal(err)
	}
}

func compareJSON(t *testing.T, got, want json.RawMessage) {
	t.Helper()
	var a, b map[string]any
	convert(t, got, &a)
	convert(t, want, &b)
	for name := range b {
		if !reflect.DeepEqual(a[name], b[name]) {
			t.Errorf("%s is %v, expected %v", name, a[name], b[name])
		}
	}
	if len(a) != len(b) {
		t.Errorf("%d attributes, expected %d", len(a), len(b))
	}
}

// TestUpgradeResourceState does the same without a broker: every value stays,
// and what version 0 did not have says that there is nothing.
func TestUpgradeResourceState(t *testing.T) {
	for _, strategy := range []string{"headers", "routing_key"} {
		t.Run(strategy, func(t *testing.T) {
			before := savedVersion0(t, strategy, "shop")
			after, diagnostics := upgrade(t, before.SchemaVersion, before.Attributes)
			if len(diagnostics) > 0 {
				t.Fatal(diagnostics)
			}
			want := map[string]any{}
			convert(t, before.Attributes, &want)
			want["policy"], want["count_header"], want["draining"] = nil, nil, []any{}
			want["topology"].(map[string]any)["policies"] = map[string]any{}
			for _, gone := range []string{"diagram", "attempts", "total_delay"} {
				delete(want, gone)
			}
			want["work_queue_arguments"] = nil
			for i, tier := range want["tiers"].([]any) {
				want["tiers"].([]any)[i] = tier.(map[string]any)["queue"]
			}
			work, parking := want["work_queue"].(map[string]any), want["parking_queue"].(map[string]any)
			for _, queue := range []map[string]any{work, parking} {
				delete(queue, "existing")
				queue["ownership"] = "chain"
			}
			for _, binding := range work["bindings"].([]any) {
				binding := binding.(map[string]any)
				binding["arguments"] = binding["headers"]
				delete(binding, "headers")
			}
			got := protocol.Go(after).(map[string]any)
			for name := range got["work_queue"].(map[string]any) {
				if _, old := work[name]; !old {
					work[name] = nil // it came later
				}
			}
			upgraded, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			expected, err := json.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			compareJSON(t, upgraded, expected)
		})
	}
}

// TestUpgradeOfPartialState: a state that an import or a failed apply left
// without a topology stays without one, and one that is not a state is an error.
func TestUpgradeOfPartialState(t *testing.T) {
	var attributes map[string]json.RawMessage
	convert(t, savedVersion0(t, "headers", "shop").Attributes, &attributes)
	attributes["topology"] = json.RawMessage("null")
	text, err := json.Marshal(attributes)
	if err != nil {
		t.Fatal(err)
	}
	after, diagnostics := upgrade(t, 0, text)
	if len(diagnostics) > 0 {
		t.Fatal(diagnostics)
	}
	if topology := protocol.At(after, "topology"); !topology.IsNull() {
		t.Errorf("the topology is %v, expected null", protocol.Go(topology))
	}
	for _, broken := range []string{`[]`, `"text"`, `{"delays":5}`, `{"unheard_of":true}`} {
		if _, diagnostics := upgrade(t, 0, json.RawMessage(broken)); len(diagnostics.Errors()) == 0 {
			t.Errorf("the state %s was upgraded", broken)
		}
	}
}

// upgrade calls the provider as Terraform does when it reads a state.
func upgrade(t *testing.T, version int64, attributes json.RawMessage) (tftypes.Value, protocol.Diagnostics) {
	t.Helper()
	provider, err := acctest.Providers["rabbitmq"]()
	if err != nil {
		t.Fatal(err)
	}
	return protocol.New(t, provider).Upgrade(t, chainType, version, attributes)
}
