package retrychain_test

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccImport imports a chain that uses every attribute; the state is the
// one that the create wrote, but for what no broker stores.
func TestAccImport(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, map[string]any{
			"delays": []any{"10s", "1m", "10s", "500ms"},
			"work_queue": map[string]any{
				"name": "work", "single_active_consumer": true, "arguments": `{"x-custom":5}`,
				"bindings": []any{
					map[string]any{"exchange": "amq.headers", "arguments": `{"type":"order","version":2,"x-match":"all"}`},
					map[string]any{"exchange": "amq.topic", "routing_key": "order.#"},
				},
			},
			"parking_queue": map[string]any{"name": "lot", "message_ttl": "24h"},
		})
		s.apply()
		s.expectPlan(s.plan())
		created := protocol.Go(s.state.Value).(map[string]any)
		s.importChain()
		imported := protocol.Go(s.state.Value).(map[string]any)
		for _, stored := range []map[string]any{created, imported} {
			delete(stored, "deletion_policy")
			delete(stored, "timeouts")
		}
		if !reflect.DeepEqual(imported, created) {
			t.Errorf("imported:\n%v\ncreated:\n%v", imported, created)
		}
	})
}

// TestAccImportOfRespelledDelays: what is written differently is not a change.
func TestAccImportOfRespelledDelays(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := variants(b)[0]
		resource.Test(t, resource.TestCase{
			ProtoV6ProviderFactories: acctest.Providers,
			Steps: []resource.TestStep{
				{Config: v.chainConfig(b, vhost, `["1m", "90s"]`, `parking_queue = { message_ttl = "1h" }`), ConfigPlanChecks: emptyPlan()},
				{Config: v.chainConfig(b, vhost, `["60s", "1m30s"]`, `parking_queue = { message_ttl = "60m" }`), PlanOnly: true},
			},
		})
	})
}

// TestAccImportOfNothing says what is missing.
func TestAccImportOfNothing(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		expectText(t, acctest.RunError(t, w, "import", address, "orders@"+vhost), "Nothing to Import", "create a chain with work_queue = { ownership = \"application\" }")
		expectText(t, acctest.RunError(t, w, "import", address, "orders"), "Invalid Import Identifier", "name@vhost")
		expectText(t, acctest.RunError(t, w, "import", address, "orders@no-such-vhost"), "Virtual Host Not Found")
	})
}

// TestAccImportOfHalf imports a chain of which only some objects exist: the
// plan completes it and replaces nothing.
func TestAccImportOfHalf(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		api := acctest.API(t, b)
		do := func(resp *http.Response, err error) { acctest.Do(t, resp, err) }
		do(api.DeclareExchange(vhost, "orders.parking", rabbithole.ExchangeSettings{Type: "fanout", Durable: true}))
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		acctest.Run(t, w, "import", address, "orders@"+vhost)
		apply(t, w)
		expectEmptyPlan(t, w)
	})
}

// TestAccImportByIdentity imports with an import block that holds the identity.
func TestAccImportByIdentity(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		if output, err := acctest.Terraform(t, "").Run(t.Context(), "version"); err != nil || strings.Contains(output, "Terraform v1.11") {
			t.Skipf("import by identity needs Terraform 1.12 or OpenTofu 1.12: %v", strings.SplitN(output, "\n", 2)[0])
		}
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		apply(t, w)
		acctest.Run(t, w, "state", "rm", address)
		block := fmt.Sprintf("import {\n to = %s\n identity = {\n vhost = %q\n name = \"orders\"\n }\n}\n", address, vhost)
		acctest.Reconfigure(t, w, settings{rest: block}.config(b, vhost))
		expectText(t, apply(t, w), "1 imported, 0 added")
		expectEmptyPlan(t, w)
	})
}

// TestImportResourceStateByIdentity does the same without a CLI, which may be
// too old for it.
func TestImportResourceStateByIdentity(t *testing.T) {
	server, err := acctest.Providers["rabbitmq"]()
	if err != nil {
		t.Fatal(err)
	}
	kind := tftypes.Object{AttributeTypes: map[string]tftypes.Type{"vhost": tftypes.String, "name": tftypes.String}}
	for _, test := range []struct{ vhost, want any }{{"shop", "shop"}, {nil, "/"}} {
		identity, err := tfprotov6.NewDynamicValue(kind, tftypes.NewValue(kind, map[string]tftypes.Value{
			"vhost": tftypes.NewValue(tftypes.String, test.vhost), "name": tftypes.NewValue(tftypes.String, "orders"),
		}))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.ImportResourceState(t.Context(), &tfprotov6.ImportResourceStateRequest{
			TypeName: "rabbitmq_retry_chain", Identity: &tfprotov6.ResourceIdentityData{IdentityData: &identity},
		})
		if err != nil || len(resp.Diagnostics) > 0 {
			t.Fatal(err, resp)
		}
		value, err := resp.ImportedResources[0].Identity.IdentityData.Unmarshal(kind)
		if err != nil {
			t.Fatal(err)
		}
		var parts map[string]tftypes.Value
		if err := value.As(&parts); err != nil {
			t.Fatal(err)
		}
		var vhost string
		if err := parts["vhost"].As(&vhost); err != nil || vhost != test.want {
			t.Errorf("virtual host %q, expected %q (%v)", vhost, test.want, err)
		}
	}
}
