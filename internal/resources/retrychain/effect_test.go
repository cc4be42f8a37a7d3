package retrychain_test

import (
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccPolicyWithoutEffect: RabbitMQ lists the chain's policy and the queue does not
// obey it, as a request that was broken off leaves it. A plan shows that, after an
// import as well, and an apply puts the policy into effect.
func TestAccPolicyWithoutEffect(t *testing.T) {
	for _, c := range []struct {
		name, policy, queue string
		config              map[string]any
		imported            bool
	}{
		{"attached", "orders.retry", "orders", attached(nil), false},
		{"imported", "orders.retry", "orders", attached(nil), true},
		{"shield", "orders.shield", "orders.parking", map[string]any{"policy": map[string]any{"shield": true}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
				if c.policy == "orders.retry" {
					newApplication(t, b, vhost, v.queueType, nil)
				}
				s := newSession(t, b, vhost, v, c.config)
				s.config["delays"] = []any{"1h"}
				s.apply()
				acctest.StorePolicy(t, b, vhost, c.policy, c.queue)
				if c.imported {
					s.config["deletion_policy"] = protocol.Go(protocol.At(s.state.Value, "deletion_policy"))
					s.importChain()
				}
				line := s.line("policies", c.policy)
				s.refresh()
				if got, want := s.line("policies", c.policy), line+", without effect on "; !c.imported && got[:min(len(got), len(want))] != want {
					t.Errorf("the refresh shows the policy %q, expected %q", got, want)
				}
				if plan := s.plan(); plan.Planned.Equal(plan.Prior) {
					t.Error("the plan changes nothing")
				}
				s.apply()
				if !s.isRight() {
					t.Error("a second plan is not empty")
				}
				if c.policy == "orders.retry" {
					expectRetried(t, b, vhost, tierName(v, "1h"))
				}
			})
		})
	}
}

// expectRetried rejects a message of the work queue, which must arrive in the tier.
func expectRetried(t *testing.T, b *rabbit.Broker, vhost, tier string) {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	before, err := w.Ready(tier)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Publish(t.Context(), "", "orders", amqp.Publishing{}); err != nil {
		t.Fatal(err)
	}
	ch, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	d, ok, err := ch.Get("orders", false)
	if err != nil || !ok {
		t.Fatalf("got %t, %v", ok, err)
	}
	if err := d.Reject(false); err != nil {
		t.Fatal(err)
	}
	if !poll.Until(30*time.Second, func() bool {
		n, err := w.Ready(tier)
		return err == nil && n == before+1
	}) {
		t.Errorf("a rejected message has not arrived in %q", tier)
	}
}

// isRight says whether a plan changes nothing on the broker.
func (s *session) isRight() bool {
	s.t.Helper()
	plan := s.plan()
	if len(plan.Diagnostics.Errors()) > 0 {
		s.t.Fatal(plan.Diagnostics)
	}
	return protocol.At(plan.Prior, "topology").Equal(protocol.At(plan.Planned, "topology"))
}
