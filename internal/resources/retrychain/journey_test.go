package retrychain_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

const address = "rabbitmq_retry_chain.orders"

// variant is one combination of the settings that decide the form of a chain.
type variant struct {
	strategy, queueType, deadLetterStrategy string
}

func (v variant) String() string {
	return v.strategy + "/" + v.queueType + "/" + v.deadLetterStrategy
}

// variants returns all combinations that the broker supports.
func variants(b *rabbit.Broker) []variant {
	strategies := []string{"routing_key"}
	if acctest.Modern(b) {
		strategies = append(strategies, "headers")
	}
	var all []variant
	for _, strategy := range strategies {
		all = append(all,
			variant{strategy, "quorum", "at-least-once"},
			variant{strategy, "quorum", "at-most-once"},
			variant{strategy, "classic", "at-most-once"})
	}
	return all
}

// chainConfig writes a chain named "orders" with further attributes.
func (v variant) chainConfig(b *rabbit.Broker, vhost, delays, more string) string {
	return acctest.Config(b, `
resource "rabbitmq_retry_chain" "orders" {
  name                 = "orders"
  vhost                = %q
  strategy             = %q
  queue_type           = %q
  dead_letter_strategy = %q
  delays               = %s
  deletion_policy      = "delete"
  %s
}
`, vhost, v.strategy, v.queueType, v.deadLetterStrategy, delays, more)
}

// eachVariant runs the test for every combination of settings, or without
// [rabbit.EnvFull] for half of them, in which each setting has each of its values.
func eachVariant(t *testing.T, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		runVariants(t, b, rabbit.Half(t.Name(), variants(b)), test)
	})
}

func runVariants(t *testing.T, b *rabbit.Broker, all []variant, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant)) {
	t.Helper()
	for _, v := range all {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			test(t, b, acctest.VHost(t, b), v)
		})
	}
}

// emptyPlan expects that nothing is left to do.
func emptyPlan() resource.ConfigPlanChecks {
	return resource.ConfigPlanChecks{PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()}}
}

// TestAccJourney rejects a message at every attempt and looks at each stage:
// its time, its headers and its count.
func TestAccJourney(t *testing.T) {
	acctest.EveryVersion(t, func(t *testing.T, b *rabbit.Broker) {
		runVariants(t, b, variants(b), func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
			s := newSession(t, b, vhost, v, map[string]any{
				"delays":     []any{"300ms", "600ms", "0s"},
				"work_queue": map[string]any{"bindings": []any{map[string]any{"exchange": "amq.topic", "routing_key": "order.#"}}},
			})
			s.apply()
			s.expectPlan(s.plan())
			if err := followOne(t, b, vhost, v, []time.Duration{300 * time.Millisecond, 600 * time.Millisecond, 0}); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func followOne(t *testing.T, b *rabbit.Broker, vhost string, v variant, delays []time.Duration) error {
	w := acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	message := amqp.Publishing{MessageId: "one", Body: []byte("body"), Headers: amqp.Table{"customer": "acme"}}
	if err := w.Publish(ctx, "amq.topic", "order.created", message); err != nil {
		return err
	}
	var seen []worker.Delivery
	consumeCtx, stop := context.WithCancel(ctx)
	err := w.Consume(consumeCtx, "orders", 1, func(d worker.Delivery) worker.Outcome {
		seen = append(seen, d)
		if len(seen) > len(delays) {
			stop()
		}
		return worker.Reject
	})
	stop()
	if err != nil {
		return err
	}
	parked, err := w.Get(ctx, "orders.parking")
	if err != nil {
		return fmt.Errorf("after %d deliveries: %w", len(seen), err)
	}
	if err := checkAttempts(v, seen, delays); err != nil {
		return err
	}
	return checkParked(v, parked, len(delays)+1)
}

func checkAttempts(v variant, seen []worker.Delivery, delays []time.Duration) error {
	if len(seen) != len(delays)+1 {
		return fmt.Errorf("%d attempts, expected %d", len(seen), len(delays)+1)
	}
	for i, delay := range delays {
		waited := seen[i+1].At.Sub(seen[i].At)
		if waited < delay {
			return fmt.Errorf("attempt %d came after %s, before its delay of %s was over", i+2, waited, delay)
		}
		if count := seen[i+1].Deaths("orders", "rejected"); count != int64(i+1) {
			return fmt.Errorf("attempt %d counts %d rejections", i+2, count)
		}
		if v.strategy == "headers" && seen[i+1].RoutingKey != "order.created" {
			return fmt.Errorf("attempt %d has routing key %q", i+2, seen[i+1].RoutingKey)
		}
	}
	return nil
}

func checkParked(v variant, d worker.Delivery, rejections int) error {
	switch {
	case string(d.Body) != "body" || d.MessageId != "one" || d.Headers["customer"] != "acme":
		return fmt.Errorf("the parked message changed: %q, id %q, headers %v", d.Body, d.MessageId, d.Headers)
	case d.Deaths("orders", "rejected") != int64(rejections):
		return fmt.Errorf("the parked message counts %d rejections, expected %d", d.Deaths("orders", "rejected"), rejections)
	case v.strategy == "headers" && d.RoutingKey != "order.created":
		return fmt.Errorf("the parked message has routing key %q", d.RoutingKey)
	}
	return nil
}
