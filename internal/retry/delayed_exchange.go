package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// delayedExchange is the design of strategy "delayed_exchange".
func delayedExchange() *Design {
	return &Design{
		Strategy: DelayedExchange,
		Summary: "(before 4.3, with the plugin `rabbitmq_delayed_message_exchange`): processes of yours count, publish to an exchange " +
			"that holds messages back, and move them to the work queue when their delay is over; the delays are theirs, the broker " +
			"does not know them.",
		Exchanges: func(c Chain) map[string]string {
			return map[string]string{
				c.FailedExchange(): topology.Fanout, c.ReturnExchange(): topology.Fanout, c.WaitExchange(): topology.DelayedMessage,
			}
		},
		Leftovers:          func(c Chain) []topology.Exchange { return []topology.Exchange{c.waitExchange()} },
		DeadLetterExchange: Chain.FailedExchange,
		Stores:             func(c Chain) []string { return []string{c.FailedQueue(), c.RequeueQueue()} },
		Expand:             Chain.addDelayedExchangeSteps,
		CountHeader:        func(Chain, *topology.Topology) string { return DefaultCountHeader },
		Recognise: func(c Chain, in *topology.Topology, _ []Tier) bool {
			_, exists := in.Exchange(c.WaitExchange())
			return exists
		},
		// Only the process of the user knows the delays.
		ReadDelays:           func(Chain, *topology.Topology, []Tier) []time.Duration { return []time.Duration{} },
		Problems:             Chain.checkHeldBack,
		BrokerProblems:       Chain.checkDelayedExchange,
		ExchangeTypeProblems: Chain.checkExchangeType,
	}
}

// addDelayedExchangeSteps adds what strategy "delayed_exchange" needs. Dead
// letters of the work queue collect in a queue of failed messages. A process of
// the user takes them from there, counts in a header and publishes them to the
// wait exchange with the delay, or to the parking exchange after the last one.
// When the delay is over they go to the requeue queue, from which a process moves
// them to the return exchange. The plugin drops what it cannot deliver then, and
// so they go to a queue that refuses nothing, and not to the work queue.
//
// The plugin confirms a message before it is safe on the disk: of 200 that were held
// back and confirmed, 18 were gone after a kill -9 of the node (3.10.8).
//
// The wait exchange has no alternate exchange: a message that it holds back
// counts as not routed, and would go there at once.
func (c Chain) addDelayedExchangeSteps(t *topology.Topology, f Features) {
	c.addFailed(t, f)
	t.SetExchange(c.waitExchange())
	t.SetQueue(c.queue(c.RequeueQueue(), c.storeArguments(f)))
	t.Bind(toQueue(c.WaitExchange(), c.RequeueQueue(), "", nil))
}

func (c Chain) waitExchange() topology.Exchange {
	e := exchange(c.WaitExchange(), topology.DelayedMessage, "")
	e.Arguments[topology.DelayedType] = topology.Fanout
	return e
}

// checkExchangeType looks for the plugin. Without a list nobody knows, and where the
// plugin cannot run [Chain.BrokerProblems] says so.
func (c Chain) checkExchangeType(types []string, f Features) []Problem {
	var p problems
	if !f.NoMnesia && len(types) > 0 && !slices.Contains(types, topology.DelayedMessage) {
		p.errorf("strategy", "Exchange Type Missing",
			"Strategy \"delayed_exchange\" needs the exchange type %q, which the plugin rabbitmq_delayed_message_exchange brings. This "+
				"broker has the types %s. Enable the plugin on every node, or use strategy = \"headers\" (3.13.3 or later) or "+
				"\"routing_key\" (3.10 or later), which need none.",
			topology.DelayedMessage, strings.Join(types, ", "))
	}
	return p
}

func (c Chain) checkHeldBack() []Problem {
	var p problems
	for i, delay := range c.Delays {
		if delay > topology.LongestDelay {
			p.errorf(fmt.Sprintf("delays[%d]", i), "Delay Too Long",
				"An exchange of type %q holds a message back for %s at most.",
				topology.DelayedMessage, FormatDuration(topology.LongestDelay))
		}
	}
	return p
}

func (c Chain) checkDelayedExchange(version string, f Features) []Problem {
	var p problems
	if f.NoMnesia {
		p.errorf("strategy", "Strategy Not Supported by This Broker",
			"Strategy \"delayed_exchange\" needs the plugin rabbitmq_delayed_message_exchange, which is archived and cannot run on "+
				"RabbitMQ 4.3 and later: it keeps messages in Mnesia, which 4.3 removed. This broker runs %s. Use strategy = \"headers\" "+
				"or \"routing_key\".", version)
		return p
	}
	p.warnf("strategy", "Waiting Messages Are on One Node",
		"The plugin rabbitmq_delayed_message_exchange is archived and does not run on RabbitMQ 4.3 and later. It keeps each waiting "+
			"message on one node only: they are lost with that node, with the exchange %q and when the plugin is disabled, and the last "+
			"confirmed ones when the node is killed. Strategies \"headers\" and \"routing_key\" keep them in queues.", c.WaitExchange())
	return p
}
