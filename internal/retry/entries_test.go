package retry_test

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// TestEntries: whatever queue of a chain a message failed in, its way back is
// the chain's redrive exchange, without the header that a process counts in.
func TestEntries(t *testing.T) {
	for strategy, want := range map[retry.Strategy]struct {
		header string
		queues []string
	}{
		retry.Headers:         {"", []string{"orders", "orders.retry.5s"}},
		retry.RoutingKey:      {"", []string{"orders", "orders.attempt.5s"}},
		retry.DelayedRetry:    {"", []string{"orders"}},
		retry.Republish:       {"failures", []string{"orders", "orders.wait.5s", "orders.failed"}},
		retry.DelayedExchange: {"count", []string{"orders", "orders.failed", "orders.requeue"}},
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			c := orders(func(c *retry.Chain) { c.Strategy = strategy })
			if strategy == retry.Republish {
				c.CountHeader = want.header
			}
			entries := retry.FindEntries(c.Topology(featuresOf("4.3.6")))
			expect := retry.Entry{Exchange: "orders.redrive", Queue: "orders", CountHeader: want.header}
			for _, queue := range want.queues {
				if got, found := entries.For(queue, "elsewhere"); !found || got != expect {
					t.Errorf("failed in %s: %+v, expected %+v", queue, got, expect)
				}
			}
			if got, found := entries.For("", "orders.parking"); !found || got != expect {
				t.Errorf("parked through orders.parking: %+v, expected %+v", got, expect)
			}
			if got, found := entries.For("elsewhere", "orders.parking"); found {
				t.Errorf("failed in a queue of nobody: %+v", got)
			}
		})
	}
}
