package retry

import (
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// headers is the design of strategy "headers".
func headers() *Design {
	return &Design{
		Strategy: Headers,
		Summary: "(RabbitMQ 3.13.3 or later; in 3.13 with the feature flag `message_containers`, which a rolling upgrade leaves " +
			"disabled): by the exchange through which it came back; the routing key stays.",
		Exchanges: func(c Chain) map[string]string {
			return map[string]string{c.RetryExchange(): topology.Headers, c.FirstExchange(): topology.Headers}
		},
		DeadLetterExchange: Chain.RetryExchange,
		Tier: func(c Chain, label string, delay time.Duration) Tier {
			return Tier{Label: label, Delay: delay, Queue: c.tierPrefix() + label, Return: c.returnPrefix() + label}
		},
		Expand: Chain.addHeadersSteps,
		Steps: &Steps{
			Exchange: Chain.RetryExchange,
			Out: func(c Chain, tier Tier, next string) topology.Binding {
				return toQueue(c.RetryExchange(), next, "", headersStep(tier.Return))
			},
			Label: func(c Chain, b topology.Binding) string {
				return cutLabel(b.Arguments.String(topology.LastDeathSource), c.returnPrefix())
			},
		},
		ReadDelays:     Chain.readSteppedDelays,
		BrokerProblems: Chain.checkLastDeath,
		NeedsLastDeath: true,
	}
}

// checkLastDeath refuses brokers that do not write the header that counts.
func (c Chain) checkLastDeath(version string, f Features) []Problem {
	var p problems
	if !f.LastDeathHeaders {
		p.errorf("strategy", "Strategy Not Supported by This Broker",
			"Strategy \"headers\" needs RabbitMQ 3.13.3 or later, because earlier versions do not tell the exchange through which a "+
				"message last entered its queue. This broker runs %s. Use strategy = \"routing_key\", which needs 3.10 or later.", version)
	}
	return p
}

// addHeadersSteps adds the tiers of strategy "headers" and what routes between
// them. Every tier returns through an exchange of its own; the broker writes
// the exchange through which a message entered the queue it died in into
// x-last-death-exchange, and so that header is the attempt number. What no
// step matches is a first failure or a death that must not be retried; the
// first exchange tells the two apart.
func (c Chain) addHeadersSteps(t *topology.Topology, _ Features) {
	t.SetExchange(exchange(c.RetryExchange(), topology.Headers, c.FirstExchange()))
	t.SetExchange(exchange(c.FirstExchange(), topology.Headers, c.ParkingExchange()))
	tiers := c.Tiers()
	for i, tier := range tiers {
		t.SetExchange(exchange(tier.Return, topology.Fanout, c.ParkingExchange()))
		c.addTier(t, tier, "")
		t.Bind(c.back(tier.Return))
		if i == 0 {
			t.Bind(toQueue(c.FirstExchange(), tier.Queue, "", rejected(topology.LastDeathReason)))
		}
		next := c.Parking.Name
		if i+1 < len(tiers) {
			next = tiers[i+1].Queue
		}
		t.Bind(toQueue(c.RetryExchange(), next, "", headersStep(tier.Return)))
	}
}

// headersStep matches a rejected message that came back through the exchange.
func headersStep(returnExchange string) topology.Arguments {
	return topology.Arguments{
		topology.Match:           topology.MatchAllWithX,
		topology.LastDeathReason: reasonRejected,
		topology.LastDeathSource: returnExchange,
	}
}

// rejected matches a message whose death, told by the given header, was a
// rejection. Only rejected messages may go round: the broker drops a message
// that dies back into a queue it already died in, unless a rejection lies in
// the cycle.
func rejected(header string) topology.Arguments {
	return topology.Arguments{topology.Match: topology.MatchAllWithX, header: reasonRejected}
}

const reasonRejected = "rejected"
