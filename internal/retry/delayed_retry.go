package retry

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// delayedRetry is the design of strategy "delayed_retry".
func delayedRetry() *Design {
	return &Design{
		Strategy: DelayedRetry,
		Summary: "(4.3.1 or later, quorum queues): the work queue itself holds back messages that consumers give back with " +
			"`basic.reject` and `requeue=true`; the delays must be a ramp `d`, `2d`, `3d` up to a maximum.",
		Exchanges:          func(Chain) map[string]string { return nil },
		DeadLetterExchange: Chain.ParkingExchange,
		Expand:             func(Chain, *topology.Topology, Features) {}, // the work queue does it all
		WorkArguments:      Chain.delayedRetryArguments,
		Recognise: func(c Chain, in *topology.Topology, tiers []Tier) bool {
			_, retry := in.Exchange(c.RetryExchange())
			_, first := in.Exchange(c.FirstExchange())
			return !retry && !first && len(tiers) == 0 && c.readDeadLetterExchange(in) == c.ParkingExchange()
		},
		ReadDelays:     Chain.readRamp,
		Problems:       Chain.checkRamp,
		BrokerProblems: Chain.checkDelayedRetry,
	}
}

// delayedRetryAll holds back every message that comes back.
const delayedRetryAll = "all"

// delayedRetryArguments make the queue hold back messages that come back to it:
// the n-th time for min(n × min, max) (rabbit_fifo:calculate_ready_at, 4.3), and
// as often as there are delays. Type "all" holds back a basic.nack as well, which
// RabbitMQ 4.3 does not count: with "failed" such a message would come back at
// once, again and again.
func (c Chain) delayedRetryArguments() topology.Arguments {
	if len(c.Delays) == 0 {
		return topology.Arguments{}
	}
	return topology.Arguments{
		topology.DelayedRetryType: delayedRetryAll,
		topology.DelayedRetryMin:  milliseconds(c.Delays[0]),
		topology.DelayedRetryMax:  milliseconds(c.Delays[len(c.Delays)-1]),
		topology.DeliveryLimit:    int64(len(c.Delays)),
	}
}

// ramp is the linear ramp d, 2d, 3d and so on up to a maximum.
func ramp(d, maximum time.Duration, n int) []time.Duration {
	delays := make([]time.Duration, n)
	for i := range delays {
		delays[i] = min(time.Duration(i+1)*d, maximum)
	}
	return delays
}

// nearestRamp is the ramp that a queue can do and that comes closest: it starts
// and ends as the delays do, as far as a ramp can.
func nearestRamp(delays []time.Duration) []time.Duration {
	first := max(delays[0], time.Millisecond)
	last := max(first, delays[len(delays)-1])
	return ramp(first, min(last, time.Duration(len(delays))*first), len(delays))
}

// checkRamp refuses what the queue cannot do by itself.
func (c Chain) checkRamp() []Problem {
	var p problems
	if c.QueueType == topology.Classic {
		p.errorf("strategy", "Delayed Retry Needs Quorum Queues",
			"Only quorum queues hold back messages by themselves. Set queue_type = \"quorum\", or use another strategy.")
	}
	if len(c.Delays) == 0 {
		return p
	}
	if c.Work.DeliveryLimit != nil {
		p.errorf("work_queue.delivery_limit", "Delivery Limit Follows From the Delays",
			"With strategy \"delayed_retry\" the delivery limit is the number of delays. Leave work_queue.delivery_limit out.")
	}
	wanted := nearestRamp(c.Delays)
	for i, delay := range c.Delays {
		if delay != wanted[i] {
			p.errorf("delays", "Delays Are No Ramp",
				"With strategy \"delayed_retry\" RabbitMQ waits d, 2d, 3d and so on, up to a maximum, and can do nothing else; d is at "+
					"least 1 ms. The nearest delays that it can do are [%s]. Use these, or another strategy.", quoted(wanted))
			break
		}
	}
	return p
}

func quoted(delays []time.Duration) string {
	texts := make([]string, 0, len(delays))
	for _, delay := range delays {
		texts = append(texts, fmt.Sprintf("%q", FormatDuration(delay)))
	}
	return strings.Join(texts, ", ")
}

func (c Chain) checkDelayedRetry(version string, f Features) []Problem {
	var p problems
	if !f.DelayedRetry {
		p.errorf("strategy", "Strategy Not Supported by This Broker",
			"Strategy \"delayed_retry\" needs RabbitMQ 4.3.1 or later: earlier versions take the arguments and ignore them, so that "+
				"messages would come back at once. This broker runs %s. Use strategy = \"headers\" (3.13.3 or later) or \"routing_key\" "+
				"(3.10 or later).", version)
		return p
	}
	p.warnf("strategy", "Consumers Must Use basic.reject",
		"With strategy \"delayed_retry\" a consumer fails a message by basic.reject with requeue=true. RabbitMQ does not count "+
			"basic.nack with requeue=true: such a message comes back after the first delay for ever and is never parked. With "+
			"requeue=false a message is parked at once.")
	return p
}
