package retrychain_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccMemoryAlarm changes and destroys an empty chain while RabbitMQ blocks publishers,
// without which no quorum queue can be deleted safely: that is told soon, and works when
// the alarm is over.
func TestAccMemoryAlarm(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		b := rabbit.Own(t, rabbit.Options{Version: given.Release(), FastStatistics: true})
		watermark := func(fraction string, alarm bool) {
			t.Helper()
			if out, err := b.Ctl(t.Context(), "set_vm_memory_high_watermark", fraction); err != nil {
				t.Fatal(out, err)
			}
			if !poll.Until(time.Minute, func() bool {
				nodes, err := acctest.API(t, b).ListNodes()
				return err == nil && len(nodes) == 1 && nodes[0].MemAlarm == alarm
			}) {
				t.Fatalf("the alarm does not become %v", alarm)
			}
		}
		soon := func(what string, do func() string) {
			t.Helper()
			began := time.Now()
			text := do()
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s took %s", what, took)
			}
			if !strings.Contains(text, "memory") {
				t.Errorf("%s says\n%s", what, text)
			}
		}
		s := newSession(t, b, acctest.VHost(t, b), defaultVariant(b, "quorum"), map[string]any{
			"delays": []any{"200ms", "300ms"}, "deletion_policy": "if_empty",
		})
		s.apply()
		watermark("0.000001", true)
		soon("the destroy", func() string { return s.destroy().String() })
		s.config["delays"] = []any{"300ms"}
		soon("the change", func() string { return s.tryApply().String() })
		watermark("0.6", false)
		s.apply()
		s.expectPlan(s.plan())
		if found := s.destroy(); len(found) > 0 {
			t.Fatal(found)
		}
	})
}

// TestAccWithoutStatistics attaches a queue on a broker that collects no statistics.
func TestAccWithoutStatistics(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		b := rabbit.Own(t, rabbit.Options{Version: given.Release(), ExtraConfig: "management_agent.disable_metrics_collector = true\n"})
		v := defaultVariant(b, "quorum")
		vhost := acctest.VHost(t, b)
		newApplication(t, b, vhost, v.queueType, nil)
		s := newSession(t, b, vhost, v, attached(nil))
		s.config["delays"] = []any{"1h"}
		s.apply()
		s.expectPlan(s.plan())
		expectRetried(t, b, vhost, tierName(v, "1h"))
	})
}
