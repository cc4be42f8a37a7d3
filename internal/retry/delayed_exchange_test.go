package retry_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func heldBack(change ...func(*retry.Chain)) retry.Chain {
	return orders(append([]func(*retry.Chain){func(c *retry.Chain) { c.Strategy = retry.DelayedExchange }}, change...)...)
}

func TestTopologyOfDelayedExchange(t *testing.T) {
	const want = `exchange orders.failed = fanout
exchange orders.parking = fanout
exchange orders.redrive = fanout
exchange orders.return = fanout, alternate-exchange=orders.parking
exchange orders.wait = x-delayed-message, x-delayed-type=fanout
queue orders = quorum, x-dead-letter-exchange=orders.failed, x-dead-letter-strategy=at-least-once, x-delivery-limit=70, x-overflow=reject-publish
queue orders.failed = quorum, x-delivery-limit=-1
queue orders.parking = quorum, x-delivery-limit=-1
queue orders.requeue = quorum, x-delivery-limit=-1
binding orders.failed -> orders.failed
binding orders.parking -> orders.parking
binding orders.redrive -> orders
binding orders.return -> orders
binding orders.wait -> orders.requeue
`
	compare(t, text(heldBack().Topology(featuresOf("4.0.5"))), want)
}

// The chain is read back but for its delays, which the broker does not know.
func TestDelayedExchangeIsReadBack(t *testing.T) {
	c := heldBack()
	in := c.Topology(featuresOf("4.0.5"))
	got, f, err := retry.Read(c.Name, in, abilities.MustParse("4.0.5"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Strategy != retry.DelayedExchange || len(got.Delays) != 0 || *got.Work.DeliveryLimit != 20 {
		t.Errorf("got %+v", got)
	}
	compare(t, text(got.Topology(f)), text(in))
	compare(t, text(c.Actual(in, f)), text(in))
}

func TestDelayedExchangeProblems(t *testing.T) {
	texts := func(problems []retry.Problem) string {
		var all []string
		for _, p := range problems {
			all = append(all, p.Attribute+": "+p.Summary+": "+p.Detail)
		}
		return strings.Join(all, "\n")
	}
	core := []string{"direct", "fanout", "headers", "topic"}
	for name, test := range map[string]struct {
		problems []retry.Problem
		want     string
	}{
		"no plugin": {heldBack().ExchangeTypeProblems(core, featuresOf("4.2.9")), `needs the exchange type "x-delayed-message"`},
		"the types": {heldBack().ExchangeTypeProblems(core, featuresOf("4.2.9")), "This broker has the types direct, fanout, headers, topic."},
		"4.3":       {heldBack().BrokerProblems("4.3.6", featuresOf("4.3.6")), "is archived and cannot run on RabbitMQ 4.3 and later"},
		"4.2":       {heldBack().BrokerProblems("4.2.9", featuresOf("4.2.9")), "Waiting Messages Are on One Node"},
		"too long":  {heldBack(func(c *retry.Chain) { c.Delays[1] = 1 << 32 * time.Millisecond }).Problems(), "delays[1]: Delay Too Long"},
		"work queue": {
			heldBack(func(c *retry.Chain) { c.Work.Name = "orders.requeue" }).Problems(), "work_queue.name: Two Queues of One Name",
		},
		"parking queue": {
			heldBack(func(c *retry.Chain) { c.Parking.Name = "orders.failed" }).Problems(), "parking_queue.name: Two Queues of One Name",
		},
		"own source": {
			heldBack(func(c *retry.Chain) { c.Work.Bindings = []retry.SourceBinding{{Exchange: "orders.wait"}} }).Problems(), "is an exchange of this chain",
		},
	} {
		if got := texts(test.problems); !strings.Contains(got, test.want) {
			t.Errorf("%s: the problems lack %q:\n%s", name, test.want, got)
		}
	}
	for name, problems := range map[string][]retry.Problem{
		"with the plugin":   heldBack().ExchangeTypeProblems(append(slices.Clone(core), "x-delayed-message"), featuresOf("4.2.9")),
		"4.3 has another":   heldBack().ExchangeTypeProblems(core, featuresOf("4.3.6")),
		"nobody knows":      heldBack().ExchangeTypeProblems(nil, featuresOf("4.2.9")),
		"another strategy":  orders().ExchangeTypeProblems(core, featuresOf("4.2.9")),
		"the longest delay": heldBack(func(c *retry.Chain) { c.Delays[1] = (1<<32 - 1) * time.Millisecond }).Problems(),
	} {
		if len(problems) > 0 {
			t.Errorf("%s: %s", name, texts(problems))
		}
	}
}

// Policies that endanger messages are found on the queues of the processes, and
// the shield covers them.
func TestDelayedExchangePolicies(t *testing.T) {
	c := heldBack(func(c *retry.Chain) { c.Policy.Shield = true })
	ttl := foreign("ttl", `^orders\.(failed|requeue)$`, 2000, topology.KeyMessageTTL, 1000)
	in := c.Topology(featuresOf("4.0.5"))
	in.SetPolicy(ttl)
	var attributes []string
	for _, p := range c.PolicyProblems(in, featuresOf("4.0.5")) {
		attributes = append(attributes, p.Summary)
	}
	if !slices.Equal(attributes, []string{"Policy Hidden by Another", "Policy Hidden by Another"}) {
		t.Errorf("problems %v", attributes)
	}
	c.Policy.Shield = false
	var details []string
	for _, p := range c.PolicyProblems(in, featuresOf("4.0.5")) {
		details = append(details, p.Detail)
	}
	if all := strings.Join(details, "\n"); !strings.Contains(all, `queue "orders.failed"`) || !strings.Contains(all, `queue "orders.requeue"`) {
		t.Errorf("problems:\n%s", all)
	}
}
