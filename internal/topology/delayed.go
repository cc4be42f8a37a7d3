package topology

import (
	"strconv"
	"time"
)

// DelayedMessage is the type of an exchange that holds messages back. The plugin
// rabbitmq_delayed_message_exchange brings it, up to RabbitMQ 4.2.
const DelayedMessage = "x-delayed-message"

// DelayedType is the argument that says how such an exchange routes a message
// that it does not hold back, or not any more.
const DelayedType = "x-delayed-type"

// DelayHeader is the header with the delay in milliseconds.
const DelayHeader = "x-delay"

// LongestDelay is the longest that such an exchange holds a message back: 2³² - 1
// ms, 49.7 days. One with a longer delay it routes at once.
const LongestDelay = (1<<32 - 1) * time.Millisecond

// Delay is for how long an exchange of type [DelayedMessage] holds the message
// back, and 0 for not at all. A number in a string counts, and of a float its
// integer part (rabbit_delayed_message_utils:get_delay/1).
func (m Message) Delay() time.Duration {
	ms, ok := DelayOf(m.Headers)
	if !ok || ms <= 0 || ms > LongestDelay.Milliseconds() {
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

// DelayOf returns what the header says, in milliseconds, and whether it says
// anything.
func DelayOf(headers Arguments) (ms int64, ok bool) {
	switch v := headers[DelayHeader].(type) {
	case int64:
		return v, true
	case float64:
		return int64(v), true
	case string:
		n, err := strconv.ParseInt(v, 10, 64)
		return n, err == nil
	default:
		return 0, false
	}
}

// RouteDelayed is like [Topology.Route] where exchanges of type [DelayedMessage]
// can be. It also returns those of them that hold the message back, which then
// goes no further there, but to their alternate exchange: it counts as not routed
// (rabbit_exchange_type_delayed_message:route).
func (t *Topology) RouteDelayed(exchange string, m Message, equality Equality) (queues, holding []string, err error) {
	queues, err = t.route(exchange, m, equality, func(e Exchange) (routedAs string, held bool) {
		switch {
		case e.Type != DelayedMessage:
			return e.Type, false
		case m.Delay() > 0:
			holding = append(holding, e.Name)
			return "", true
		default:
			return e.Arguments.String(DelayedType), false
		}
	})
	return queues, holding, err
}
