package retrytiers_test

import (
	"encoding/json"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
)

// TestUpgradeOfState: version 0 of the schema had attempts and total_delay, and the name of
// the parking queue alone.
func TestUpgradeOfState(t *testing.T) {
	t.Parallel()
	provider, err := acctest.Providers["rabbitmq"]()
	if err != nil {
		t.Fatal(err)
	}
	before := json.RawMessage(`{"name": "standard", "vhost": "/", "delays": ["5s"],
		"attempts": 2, "total_delay": "5s", "parking_queue": "standard.parking"}`)
	after, problems := protocol.New(t, provider).Upgrade(t, "rabbitmq_retry_tiers", 0, before)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if name := protocol.Go(protocol.At(after, "parking_queue.name")); name != "standard.parking" {
		t.Errorf("the parking queue is %v", name)
	}
}
