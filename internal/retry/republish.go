package retry

import (
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// republish is the design of strategy "republish".
func republish() *Design {
	return &Design{
		Strategy: Republish,
		Summary: "(3.10 or later): by an integer header that a process of yours writes, which takes failed messages from the queue named " +
			"after the chain and `.failed` and publishes them to the retry exchange.",
		Exchanges: func(c Chain) map[string]string {
			return map[string]string{
				c.RetryExchange(): topology.Headers, c.FailedExchange(): topology.Fanout, c.ReturnExchange(): topology.Fanout,
			}
		},
		Leftovers: func(c Chain) []topology.Exchange {
			return []topology.Exchange{exchange(c.ReturnExchange(), topology.Fanout, c.ParkingExchange())}
		},
		DeadLetterExchange: Chain.FailedExchange,
		Stores:             func(c Chain) []string { return []string{c.FailedQueue()} },
		Tier: func(c Chain, label string, delay time.Duration) Tier {
			return Tier{Label: label, Delay: delay, Queue: c.waitPrefix() + label, Return: c.ReturnExchange()}
		},
		Expand:      Chain.addRepublishSteps,
		NamesHeader: true,
		CountHeader: Chain.readCountHeader,
		Recognise: func(c Chain, in *topology.Topology, _ []Tier) bool {
			_, failed := in.Exchange(c.FailedExchange())
			_, waits := in.Exchange(c.WaitExchange()) // strategy "delayed_exchange" has both
			return failed && !waits
		},
		ReadDelays: Chain.readCountedDelays,
	}
}

// DefaultCountHeader is the header in which a chain of strategy "republish"
// counts, if it sets none.
const DefaultCountHeader = "count"

// addRepublishSteps adds the tiers of strategy "republish" and what leads to
// them. Dead letters of the work queue collect in a queue of failed messages. A
// process of the user takes them from there, counts in a header and publishes
// them to the retry exchange, which knows nothing but that number. What it does
// not know is parked, and so is -1.
func (c Chain) addRepublishSteps(t *topology.Topology, f Features) {
	c.addFailed(t, f)
	t.SetExchange(exchange(c.RetryExchange(), topology.Headers, c.ParkingExchange()))
	for i, tier := range c.Tiers() {
		c.addTier(t, tier, "")
		t.Bind(toQueue(c.RetryExchange(), tier.Queue, "", c.countStep(int64(i+1))))
	}
	t.Bind(toQueue(c.RetryExchange(), c.Parking.Name, "", c.countStep(-1)))
}

// addFailed adds the queue of failed messages, and the exchange through which
// they come back.
func (c Chain) addFailed(t *topology.Topology, f Features) {
	t.SetExchange(exchange(c.FailedExchange(), topology.Fanout, ""))
	t.SetQueue(c.queue(c.FailedQueue(), c.storeArguments(f)))
	t.Bind(toQueue(c.FailedExchange(), c.FailedQueue(), "", nil))
	t.SetExchange(exchange(c.ReturnExchange(), topology.Fanout, c.ParkingExchange()))
	t.Bind(toQueue(c.ReturnExchange(), c.Work.Name, "", nil))
}

// countStep matches a message by its count. RabbitMQ tells the integer 1 from
// the string "1".
func (c Chain) countStep(count int64) topology.Arguments {
	return topology.Arguments{topology.Match: topology.MatchAll, c.CountHeader: count}
}
