package retryattachment_test

import (
	"encoding/json"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
)

// TestUpgradeOfState: version 0 of the schema had existing, policy_priority and
// policy_inherit.
func TestUpgradeOfState(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, ownership string
		policy            any
	}{
		"declared": {`"existing": false, "policy_priority": 1000, "policy_inherit": false`, "attachment", nil},
		"existing": {
			`"existing": true, "policy_priority": 7, "policy_inherit": true`, "application", map[string]any{"priority": int64(7), "inherit": true},
		},
		"import": {`"existing": null, "policy_priority": null, "policy_inherit": null`, "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider, err := acctest.Providers["rabbitmq"]()
			if err != nil {
				t.Fatal(err)
			}
			before := json.RawMessage(`{"tiers": "standard", "queue": "orders", "vhost": "/", "topology": null, ` + test.before + `}`)
			after, problems := protocol.New(t, provider).Upgrade(t, "rabbitmq_retry_attachment", 0, before)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			got, _ := protocol.Go(protocol.At(after, "ownership")).(string)
			if policy := protocol.Go(protocol.At(after, "policy")); got != test.ownership || !equalJSON(t, policy, test.policy) {
				t.Errorf("ownership %q, policy %v, expected %q and %v", got, policy, test.ownership, test.policy)
			}
		})
	}
}

func equalJSON(t *testing.T, a, b any) bool {
	t.Helper()
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(x) == string(y)
}
