package retrychain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestFeatureFlags: RabbitMQ 3.13 writes x-last-death-* only with a feature flag.
// It is tried without a broker, because 3.13 is not in Debian.
func TestFeatureFlags(t *testing.T) {
	t.Parallel()
	disabled := func(api *fake.API) { api.SetFlags("message_containers", "stream_filtering") }
	for name, test := range map[string]struct {
		version, strategy string
		set               func(*fake.API)
		want              string
		asked             int
	}{
		"headers, disabled":     {"3.13.7", "headers", disabled, "ERROR [strategy] Feature Flag Disabled", 1},
		"routing_key, disabled": {"3.13.7", "routing_key", disabled, "ERROR [strategy] Feature Flag Disabled", 1},
		"tiers, disabled":       {"3.13.7", "", disabled, "ERROR [name] Feature Flag Disabled", 1},
		"republish, disabled":   {"3.13.7", "republish", disabled, "", 0},
		"headers, enabled":      {"3.13.7", "headers", func(api *fake.API) { api.SetFlags("stream_filtering") }, "", 1},
		"headers, hidden":       {"3.13.7", "headers", (*fake.API).HideFlags, "WARNING [strategy] Feature Flag Not Checked", 1},
		"headers, 4.0":          {"4.0.5", "headers", disabled, "", 0},
		"routing_key, 3.12":     {"3.12.14", "routing_key", disabled, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.New(t, test.version)
			test.set(api)
			server := acctest.Server(t, &rabbit.Broker{Endpoint: api.URL, AMQP: "amqp://127.0.0.1:5672", Username: "guest", Password: "guest"})
			kind, config := chainType, map[string]any{"name": "orders", "delays": []any{"1s"}, "strategy": test.strategy}
			if test.strategy == "" {
				kind = "rabbitmq_retry_tiers"
				delete(config, "strategy")
			}
			found := server.Plan(t, kind, config, protocol.State{}).Diagnostics
			asked := slices.DeleteFunc(api.Take(), func(r fake.Request) bool { return r.Path != "/api/feature-flags" })
			if len(asked) != test.asked {
				t.Errorf("asked %d times for feature flags, expected %d", len(asked), test.asked)
			}
			if text := found.String(); !strings.Contains(text, test.want) || test.want == "" && len(found) > 0 {
				t.Errorf("the plan says %q, expected %q", text, test.want)
			}
		})
	}
}
