package retry

import (
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// routingKey is the design of strategy "routing_key".
func routingKey() *Design {
	return &Design{
		Strategy: RoutingKey,
		Family:   Headers,
		Summary:  "(3.10 or later): by a routing key that names the tier, which consumers see on retries.",
		Exchanges: func(c Chain) map[string]string {
			return map[string]string{
				c.RetryExchange(): topology.Headers, c.FirstExchange(): topology.Headers,
				c.KeysExchange(): topology.Direct, c.ReturnExchange(): topology.Fanout,
			}
		},
		Leftovers: func(c Chain) []topology.Exchange {
			return []topology.Exchange{
				exchange(c.KeysExchange(), topology.Direct, c.FirstExchange()),
				exchange(c.ReturnExchange(), topology.Fanout, c.ParkingExchange()),
			}
		},
		DeadLetterExchange: Chain.RetryExchange,
		Tier: func(c Chain, label string, delay time.Duration) Tier {
			return Tier{Label: label, Delay: delay, Queue: c.attemptPrefix() + label, Return: c.ReturnExchange()}
		},
		Expand: Chain.addRoutingKeySteps,
		Steps: &Steps{
			Exchange: Chain.KeysExchange,
			Out: func(c Chain, tier Tier, next string) topology.Binding {
				return toQueue(c.KeysExchange(), next, tier.Queue, nil)
			},
			Label: func(c Chain, b topology.Binding) string { return cutLabel(b.RoutingKey, c.attemptPrefix()) },
		},
		Recognise: func(c Chain, in *topology.Topology, _ []Tier) bool {
			_, exists := in.Exchange(c.KeysExchange())
			return exists
		},
		ReadDelays:      Chain.readSteppedDelays,
		BrokerProblems:  Chain.checkOtherDeaths,
		ConfusesDeaths:  func(f Features) bool { return !f.LastDeathHeaders },
		DependsOnBroker: true,
		NeedsLastDeath:  true,
		KeyCounts:       true,
	}
}

// addRoutingKeySteps adds the tiers of strategy "routing_key" and what routes
// between them. A tier dead-letters with its own name as routing key; when the
// message fails again, that key leads to the next tier. The retry exchange
// stays a headers exchange, as in strategy "headers", so that a change of
// strategy must never delete it while messages pass through it.
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

// checkOtherDeaths refuses what lets a message of the work queue die otherwise
// than by a rejection, on brokers where such a death cannot be told apart.
func (c Chain) checkOtherDeaths(version string, f Features) []Problem {
	var p problems
	if !c.confusesDeaths(f) {
		return p
	}
	const detail = "On RabbitMQ %s strategy \"routing_key\" cannot tell a message that died for this reason from a rejected one: it " +
		"would be sent through a tier, and the broker would drop it later. Leave the attribute out, or use RabbitMQ 3.13.3 or later."
	w := c.Work
	if w.DeliveryLimit != nil && *w.DeliveryLimit != Unlimited {
		p.errorf("work_queue.delivery_limit", "Delivery Limit Would Lose Messages", detail, version)
	}
	if w.MessageTTL != nil {
		p.errorf("work_queue.message_ttl", "Message TTL Would Lose Messages", detail, version)
	}
	if c.limited() && c.overflow() == topology.DropHead {
		p.errorf("work_queue.max_length", "Length Limit Would Lose Messages", detail, version)
	}
	return p
}
