package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestFormTextSparesMessages: a parked message is not under way, and whoever
// deletes a queue without moving it loses it.
func TestFormTextSparesMessages(t *testing.T) {
	have := topology.Lines{Queues: map[string]string{"orders.parking": "classic"}, Exchanges: map[string]string{"orders.retry": "fanout"}}
	want := topology.Lines{Queues: map[string]string{"orders.parking": "quorum"}, Exchanges: map[string]string{"orders.retry": "headers"}}
	var diags diag.Diagnostics
	lifecycle.CheckForms(have, want, func(string) bool { return true }, "the chain", &diags)
	for i, words := range []string{"wait until every queue that leads to it is empty", "move all messages to another queue, parked ones included, then delete it"} {
		if len(diags) != 2 || !strings.Contains(diags[i].Detail(), words) {
			t.Errorf("%q is missing in %v", words, diags)
		}
	}
}
