package retryattachment_test

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// TestAccPolicyWithoutEffect: RabbitMQ lists the policy of an attachment and the queue
// does not obey it. A plan shows that, and an apply puts the policy into effect.
func TestAccPolicyWithoutEffect(t *testing.T) {
	existing := []variant{variants[4], variants[5]}
	eachOf(t, existing, waits{"1h"}, []string{"orders"}, func(t *testing.T, b *rabbit.Broker, vhost string, _ variant, _, team workspace) {
		t.Helper()
		acctest.StorePolicy(t, b, vhost, "retries.attach.orders", "orders")
		expectText(t, team.plan(t), "without effect on")
		team.apply(t)
		team.expectEmptyPlan(t)
		w := acctest.Worker(t, b, vhost)
		publish(t, w, "", "orders", "one")
		consume(t, b, vhost, always(worker.Reject), "orders")
		expectReady(t, w, "retries.retry.1h", 1)
	})
}
