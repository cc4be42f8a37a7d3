package retry

import "github.com/retrychain/terraform-provider-rabbitmq/internal/topology"

// addRoutingKeySteps adds the tiers of strategy "routing_key" and what routes
// between them. A tier dead-letters with its own name as routing key; when the
// message fails again, that key leads to the next tier. The retry exchange
// stays a headers exchange, as in strategy "headers", so that a change of
// strategy never has to delete it while messages pass through it.
func (c Chain) addRoutingKeySteps(t *topology.Topology, f Features) {
	t.SetExchange(exchange(c.RetryExchange(), topology.Headers, c.FirstExchange()))
	t.SetExchange(exchange(c.KeysExchange(), topology.Direct, c.FirstExchange()))
	t.SetExchange(exchange(c.FirstExchange(), topology.Headers, c.ParkingExchange()))
	t.SetExchange(exchange(c.ReturnExchange(), topology.Fanout, c.ParkingExchange()))
	t.Bind(topology.Binding{
		Source: c.RetryExchange(), Destination: c.KeysExchange(), DestinationKind: topology.KindExchange,
		Arguments: keysCondition(f),
	})
	t.Bind(toQueue(c.ReturnExchange(), c.Work.Name, "", nil))
	tiers := c.Tiers()
	for i, tier := range tiers {
		c.addTier(t, tier, tier.Queue)
		if i == 0 {
			t.Bind(toQueue(c.FirstExchange(), tier.Queue, "", rejected(reasonHeader(f))))
		}
		next := c.Parking.Name
		if i+1 < len(tiers) {
			next = tiers[i+1].Queue
		}
		t.Bind(toQueue(c.KeysExchange(), next, tier.Queue, nil))
	}
}

// keysCondition lets only rejected messages reach the keys exchange, which
// cannot see why a message died: one that comes back with a tier's key and then
// dies over the delivery limit would be sent to the next tier and be dropped
// on its way back. Before 3.13 there is nothing to match on, and so
// [Chain.BrokerProblems] refuses every setting that makes such deaths possible.
func keysCondition(f Features) topology.Arguments {
	if f.LastDeathHeaders {
		return rejected(topology.LastDeathReason)
	}
	return nil
}

// reasonHeader is the header that tells a rejection from another death. Before
// 3.13 brokers write the first death only: a message that died elsewhere
// before, for another reason, then parks at its first failure. That is the
// price; without the header a message that expired would be dropped.
func reasonHeader(f Features) string {
	if f.LastDeathHeaders {
		return topology.LastDeathReason
	}
	return topology.FirstDeathReason
}
