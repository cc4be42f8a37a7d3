package retry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// orders is the chain of the design's example.
func orders(change ...func(*retry.Chain)) retry.Chain {
	limit := int64(retry.DefaultDeliveryLimit)
	c := retry.Chain{
		Name: "orders", Delays: []time.Duration{5 * time.Second, 30 * time.Second},
		Strategy: retry.Headers, QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce,
		Work:    retry.WorkQueue{Name: "orders", DeliveryLimit: &limit, Overflow: topology.RejectPublish},
		Parking: retry.ParkingQueue{Name: "orders.parking"},
		Policy:  retry.PolicySettings{Priority: retry.DefaultPriority},
	}
	for _, f := range change {
		f(&c)
	}
	return c
}

func text(t *topology.Topology) string {
	var b strings.Builder
	lines := t.Lines(nil)
	for _, e := range t.Exchanges() {
		b.WriteString("exchange " + e.Name + " = " + lines.Exchanges[e.Name] + "\n")
	}
	for _, q := range t.Queues() {
		b.WriteString("queue " + q.Name + " = " + lines.Queues[q.Name] + "\n")
	}
	for _, binding := range t.Bindings() {
		b.WriteString(strings.TrimSuffix("binding "+binding.Label()+" = "+binding.Line(), " = ") + "\n")
	}
	return b.String()
}

var (
	rabbit310 = retry.FeaturesOf(abilities.MustParse("3.10.8"))
	rabbit40  = retry.FeaturesOf(abilities.MustParse("4.3.6"))
)

func TestTopologyOfHeaders(t *testing.T) {
	const want = `exchange orders.parking = fanout
exchange orders.redrive = fanout
exchange orders.retry = headers, alternate-exchange=orders.retry.first
exchange orders.retry.first = headers, alternate-exchange=orders.parking
exchange orders.return.30s = fanout, alternate-exchange=orders.parking
exchange orders.return.5s = fanout, alternate-exchange=orders.parking
queue orders = quorum, x-dead-letter-exchange=orders.retry, x-dead-letter-strategy=at-least-once, x-delivery-limit=70, x-overflow=reject-publish
queue orders.parking = quorum, x-delivery-limit=-1
queue orders.retry.30s = quorum, x-dead-letter-exchange=orders.return.30s, x-dead-letter-strategy=at-least-once, x-message-ttl=30000, x-overflow=reject-publish
queue orders.retry.5s = quorum, x-dead-letter-exchange=orders.return.5s, x-dead-letter-strategy=at-least-once, x-message-ttl=5000, x-overflow=reject-publish
binding orders.parking -> orders.parking
binding orders.redrive -> orders
binding orders.retry -> orders.parking = x-last-death-exchange=orders.return.30s, x-last-death-reason=rejected, x-match=all-with-x
binding orders.retry -> orders.retry.30s = x-last-death-exchange=orders.return.5s, x-last-death-reason=rejected, x-match=all-with-x
binding orders.retry.first -> orders.retry.5s = x-last-death-reason=rejected, x-match=all-with-x
binding orders.return.30s -> orders
binding orders.return.5s -> orders
`
	compare(t, text(orders().Topology(rabbit40)), want)
}

func TestTopologyOfRoutingKey(t *testing.T) {
	c := orders(func(c *retry.Chain) { c.Strategy = retry.RoutingKey; c.Work.DeliveryLimit = nil })
	const want = `exchange orders.parking = fanout
exchange orders.redrive = fanout
exchange orders.retry = headers, alternate-exchange=orders.retry.first
exchange orders.retry.first = headers, alternate-exchange=orders.parking
exchange orders.retry.keys = direct, alternate-exchange=orders.retry.first
exchange orders.return = fanout, alternate-exchange=orders.parking
queue orders = quorum, x-dead-letter-exchange=orders.retry, x-dead-letter-strategy=at-least-once, x-overflow=reject-publish
queue orders.attempt.30s = quorum, x-dead-letter-exchange=orders.return, x-dead-letter-routing-key=orders.attempt.30s, x-dead-letter-strategy=at-least-once, x-message-ttl=30000, x-overflow=reject-publish
queue orders.attempt.5s = quorum, x-dead-letter-exchange=orders.return, x-dead-letter-routing-key=orders.attempt.5s, x-dead-letter-strategy=at-least-once, x-message-ttl=5000, x-overflow=reject-publish
queue orders.parking = quorum
binding orders.parking -> orders.parking
binding orders.redrive -> orders
binding orders.retry -> exchange orders.retry.keys
binding orders.retry.first -> orders.attempt.5s = x-first-death-reason=rejected, x-match=all-with-x
binding orders.retry.keys -> orders.attempt.30s (orders.attempt.5s)
binding orders.retry.keys -> orders.parking (orders.attempt.30s)
binding orders.return -> orders
`
	compare(t, text(c.Topology(rabbit310)), want)
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestReadGivesTheChainBack(t *testing.T) {
	ttl := time.Hour
	length := int64(1000)
	chains := map[string]retry.Chain{
		"headers":     orders(),
		"routing key": orders(func(c *retry.Chain) { c.Strategy = retry.RoutingKey }),
		"classic": orders(func(c *retry.Chain) {
			c.QueueType, c.DeadLetterStrategy, c.Work.Overflow, c.Work.DeliveryLimit = topology.Classic, retry.AtMostOnce, "", nil
		}),
		"everything": orders(func(c *retry.Chain) {
			c.Delays = []time.Duration{time.Minute, time.Second, time.Minute, 0}
			c.Work = retry.WorkQueue{
				Name: "work", MessageTTL: &ttl, MaxLength: &length, MaxLengthBytes: &length, DeliveryLimit: c.Work.DeliveryLimit,
				Overflow: topology.RejectPublish, SingleActiveConsumer: true, Arguments: topology.Arguments{"x-queue-leader-locator": "balanced"},
				Bindings: []retry.SourceBinding{{Exchange: "events", RoutingKey: "order.#"}},
			}
			c.Parking = retry.ParkingQueue{Name: "lot", MessageTTL: &ttl}
		}),
		"no delays": orders(func(c *retry.Chain) { c.Delays = nil }),
	}
	for name, c := range chains {
		t.Run(name, func(t *testing.T) {
			expanded := c.Topology(rabbit40)
			read, features, err := retry.Read(c.Name, expanded, abilities.MustParse("4.3.6"))
			if err != nil {
				t.Fatal(err)
			}
			compare(t, text(read.Topology(features)), text(expanded))
			compare(t, text(c.Actual(expanded, rabbit40)), text(expanded))
		})
	}
}
