package retrychain_test

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccConsumerTimeout: an argument of the chain's queue and a key of the policy of an
// application's, where the broker knows it. Elsewhere the plan refuses it.
func TestAccConsumerTimeout(t *testing.T) {
	acctest.EveryVersion(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				known := acctest.AtLeast(b, 3, 12) && (queueType == "quorum" || !acctest.AtLeast(b, 4, 3))
				vhost, v := acctest.VHost(t, b), defaultVariant(b, queueType)
				own := newSession(t, b, vhost, v, withTimeout("chain", "90m"))
				theirs := newSession(t, b, acctest.VHost(t, b), v, withTimeout("application", "90m"))
				newApplication(t, b, theirs.vhost, queueType, nil)
				if !known {
					for _, s := range []*session{own, theirs} {
						expectRefused(t, s.plan().Diagnostics, "work_queue.consumer_timeout", "Setting Not Supported by This Broker", "3.12")
					}
					return
				}
				own.apply()
				if got := own.arguments("orders")["x-consumer-timeout"]; got != 5_400_000.0 {
					t.Errorf("the queue has the timeout %v", got)
				}
				own.config["work_queue"] = withTimeout("chain", "1h30m")["work_queue"]
				own.expectPlan(own.plan())
				own.expectPlan(own.importChain())
				own.config["work_queue"] = withTimeout("chain", "1h")["work_queue"]
				expectRefused(t, own.plan().Diagnostics, "work_queue.consumer_timeout", "Change Not Possible in Place")

				theirs.apply()
				theirs.config["work_queue"] = withTimeout("application", "2h")["work_queue"]
				theirs.apply()
				policy, err := acctest.API(t, b).GetPolicy(theirs.vhost, "orders.retry")
				if err != nil || policy.Definition["consumer-timeout"] != 7_200_000.0 {
					t.Errorf("the policy is %v, %v", policy, err)
				}
				theirs.expectPlan(theirs.plan())
				theirs.expectPlan(theirs.importChain())
			})
		}
	})
}

func withTimeout(ownership, timeout string) map[string]any {
	return map[string]any{"work_queue": map[string]any{"ownership": ownership, "consumer_timeout": timeout}, "deletion_policy": "if_empty"}
}
