package retry

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

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

func (c Chain) checkRamp(p *problems) {
	if c.Strategy != DelayedRetry || len(c.Delays) == 0 {
		return
	}
	wanted := nearestRamp(c.Delays)
	for i, delay := range c.Delays {
		if delay != wanted[i] {
			p.errorf("delays", "Delays Are No Ramp",
				"With strategy \"delayed_retry\" RabbitMQ waits d, 2d, 3d and so on, up to a maximum, and can do nothing else; d is at least 1 ms. The nearest delays that it can do are [%s]. "+
					"Use these, or another strategy.", quoted(wanted))
			return
		}
	}
}

func quoted(delays []time.Duration) string {
	texts := make([]string, 0, len(delays))
	for _, delay := range delays {
		texts = append(texts, fmt.Sprintf("%q", FormatDuration(delay)))
	}
	return strings.Join(texts, ", ")
}
