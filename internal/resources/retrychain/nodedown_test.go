package retrychain_test

import (
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccNodeDown destroys a chain of classic queues through one node of a cluster
// while the node of the queues is down: RabbitMQ then answers 404 to requests for them,
// 4.0 after more than a minute. Nothing may be deleted, and the error names queue and
// node. RabbitMQ 4.3 keeps its metadata in a majority, which two nodes do not have
// then.
func TestAccNodeDown(t *testing.T) {
	for _, version := range []string{"3.10", "4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			if version == "4.0" && !rabbit.Full() {
				t.Skip("RabbitMQ 3.10 is the one that lies; make test-full tries both")
			}
			c := rabbit.StartCluster(t, version, 2)
			other, home, ctx := c.Nodes[0], c.Nodes[1], t.Context()
			vhost := acctest.VHost(t, home)
			s := settings{policy: "if_empty", more: `queue_type = "classic"`}
			w := acctest.Terraform(t, s.config(home, vhost))
			apply(t, w)
			const kept = 5
			messages := acctest.Worker(t, home, vhost)
			for range kept {
				publish(t, messages, "orders")
			}
			count := queues(t, home, vhost)
			if err := c.Kill(ctx, 1); err != nil {
				t.Fatal(err)
			}
			acctest.Reconfigure(t, w, s.config(other, vhost))
			began := time.Now()
			output := acctest.RunError(t, w, "destroy", "-auto-approve")
			if took := time.Since(began); took > time.Minute {
				t.Errorf("the destroy took %s to fail", took)
			}
			expectText(t, output, `"orders`, "nodes down: "+c.Names[1])
			if err := c.Start(ctx, 1); err != nil {
				t.Fatal(err)
			}
			if n := queues(t, home, vhost); n != count {
				t.Errorf("%d queues of %d are left", n, count)
			}
			expectEmptyPlan(t, w)
			again := acctest.Worker(t, home, vhost)
			for n := range kept {
				if _, err := again.Get(ctx, "orders"); err != nil {
					t.Fatalf("%d of %d messages are there: %s", n, kept, err)
				}
			}
		})
	}
}
