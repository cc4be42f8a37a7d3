package retry

import "github.com/retrychain/terraform-provider-rabbitmq/internal/topology"

// addHeadersSteps adds the tiers of strategy "headers" and what routes between
// them. Every tier returns through an exchange of its own; the broker writes
// the exchange through which a message entered the queue it died in into
// x-last-death-exchange, and so that header is the attempt number. What no
// step matches is a first failure or a death that must not be retried; the
// first exchange tells the two apart.
func (c Chain) addHeadersSteps(t *topology.Topology) {
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
