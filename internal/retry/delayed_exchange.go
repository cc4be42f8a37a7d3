package retry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

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

// ExchangeTypeProblems tells why a broker that can declare these types of
// exchanges cannot carry the chain. Without a list nobody knows, and where the
// plugin cannot run [Chain.BrokerProblems] says so.
func (c Chain) ExchangeTypeProblems(types []string, f Features) []Problem {
	var p problems
	if c.Strategy == DelayedExchange && !f.NoMnesia && len(types) > 0 && !slices.Contains(types, topology.DelayedMessage) {
		p.errorf("strategy", "Exchange Type Missing",
			"Strategy \"delayed_exchange\" needs the exchange type %q, which the plugin rabbitmq_delayed_message_exchange brings. This broker has the types %s. "+
				"Enable the plugin on every node, or use strategy = \"headers\" (3.13.3 or later) or \"routing_key\" (3.10 or later), which need none.",
			topology.DelayedMessage, strings.Join(types, ", "))
	}
	return p
}

func (c Chain) checkHeldBack(p *problems) {
	for i, delay := range c.Delays {
		if c.Strategy == DelayedExchange && delay > topology.LongestDelay {
			p.errorf(fmt.Sprintf("delays[%d]", i), "Delay Too Long",
				"An exchange of type %q holds a message back for %s at most.", topology.DelayedMessage, FormatDuration(topology.LongestDelay))
		}
	}
}

func (c Chain) checkDelayedExchange(p *problems, version string, f Features) {
	if f.NoMnesia {
		p.errorf("strategy", "Strategy Not Supported by This Broker",
			"Strategy \"delayed_exchange\" needs the plugin rabbitmq_delayed_message_exchange, which is archived and cannot run on RabbitMQ 4.3 and later: it keeps messages in Mnesia, "+
				"which 4.3 removed. This broker runs %s. Use strategy = \"headers\" or \"routing_key\".", version)
		return
	}
	p.warnf("strategy", "Waiting Messages Are on One Node",
		"The plugin rabbitmq_delayed_message_exchange is archived and does not run on RabbitMQ 4.3 and later. It keeps each waiting message on one node only: they are lost with that node, with the exchange %q "+
			"and when the plugin is disabled, and the last confirmed ones when the node is killed. Strategies \"headers\" and \"routing_key\" keep them in queues.", c.WaitExchange())
}
