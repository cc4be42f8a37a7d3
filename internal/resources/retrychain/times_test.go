package retrychain_test

import (
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccDefaultTimes changes and destroys a chain at work on a broker that renews its
// counts every 5 s, as RabbitMQ does by default. The brokers of all other tests do so
// more often, and the provider waits less there.
func TestAccDefaultTimes(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		b := rabbit.Own(t, rabbit.Options{Version: given.Release()})
		if b.StatisticsInterval != 0 {
			t.Fatalf("the broker renews its counts every %s", b.StatisticsInterval)
		}
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				s := newSession(t, b, acctest.VHost(t, b), defaultVariant(b, queueType), map[string]any{
					"delays": []any{"200ms", "300ms"}, "deletion_policy": "if_empty",
				})
				s.apply()
				l := startTraffic(t, b, s.vhost, func(l *traffic) { l.every = 50 * time.Millisecond })
				l.waitFor(50)
				s.config["delays"] = []any{"300ms"}
				s.apply()
				s.expectPlan(s.plan())
				s.expectOnly()
				l.waitFor(50)
				expectRefused(t, s.destroy(), "Chain Holds Messages", "Nothing was changed.")
				l.finish(30 * time.Second)

				park(t, b, s.vhost)
				expectRefused(t, s.destroy(), "Chain Holds Messages", "orders.parking: ")
				if _, err := acctest.Worker(t, b, s.vhost).Drain("orders.parking"); err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if found := s.destroy(); len(found) > 0 {
					t.Fatal(found)
				}
				if took := time.Since(began); took < 10*time.Second {
					t.Errorf("the queues were taken for empty after %s", took)
				}
			})
		}
	})
}
