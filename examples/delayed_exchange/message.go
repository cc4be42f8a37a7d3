package main

import (
	"maps"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	// park is the count of a message that is not to be retried.
	park int64 = -1
	// delayHeader tells an exchange of type x-delayed-message for how many
	// milliseconds to hold a message back.
	delayHeader = "x-delay"
	// rejected is how a message died that is to be retried.
	rejected = "rejected"
)

// successor is the message that takes the place of a delivery, and the exchange
// that it is published to.
type successor struct {
	exchange string
	message  amqp.Publishing
	delay    time.Duration // for which the exchange holds the message back
}

// failed returns the successor of a failed message: held back for the next delay,
// or parked.
func (c *config) failed(d amqp.Delivery) successor {
	message := c.again(d)
	n := count(d.Headers, c.header)
	if lastDeath(d.Headers) != rejected {
		n = park
	}
	message.Headers[c.header] = n
	if n == park || n > int64(len(c.delays)) {
		return successor{exchange: c.chain + ".parking", message: message}
	}
	delay := c.delays[n-1]
	message.Headers[delayHeader] = delay.Milliseconds()
	return successor{exchange: c.chain + ".wait", message: message, delay: delay}
}

// due returns the successor of a message whose delay is over. It goes to the work
// queue.
func (c *config) due(d amqp.Delivery) successor {
	return successor{exchange: c.chain + ".return", message: c.again(d)}
}

// lastDeath is why the message died last: the broker puts the latest death first.
func lastDeath(headers amqp.Table) string {
	deaths, _ := headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ""
	}
	latest, _ := deaths[0].(amqp.Table)
	reason, _ := latest["reason"].(string)
	return reason
}

// again returns a copy of a message to publish. It differs from the delivery in
// three things and in nothing else:
//
//   - The headers that belong to the broker are gone. See [brokersOwn].
//   - The expiration is gone: the message would expire while it waits for a
//     consumer, and be parked.
//   - The user id is gone unless it is that of this connection: the broker closes
//     the channel on a message that claims to be another user's.
func (c *config) again(d amqp.Delivery) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return brokersOwn(name) })
	if d.UserId != c.user {
		d.UserId = ""
	}
	return amqp.Publishing{
		Headers:         headers,
		ContentType:     d.ContentType,
		ContentEncoding: d.ContentEncoding,
		DeliveryMode:    d.DeliveryMode,
		Priority:        d.Priority,
		CorrelationId:   d.CorrelationId,
		ReplyTo:         d.ReplyTo,
		MessageId:       d.MessageId,
		Timestamp:       d.Timestamp,
		Type:            d.Type,
		UserId:          d.UserId,
		AppId:           d.AppId,
		Body:            d.Body,
	}
}

// count returns how often the message has failed, this time included: the
// header plus one, and 1 without the header. It is [park] where the header is
// negative or no integer.
func count(headers amqp.Table, header string) int64 {
	value, present := headers[header]
	if !present {
		return 1
	}
	before, ok := integer(value)
	if !ok || before < 0 || before == math.MaxInt64 {
		return park
	}
	return before + 1
}

// integer reads every integer type of an AMQP 0-9-1 table.
func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}

// brokersOwn says whether a header is the broker's and does not belong on a
// message that is published again.
//
// Death headers: up to RabbitMQ 3.13 a client's x-death counts as true, and a
// message that seems to come back to a queue where it expired is dropped as a
// cycle.
//
// Delivery counts are those of the failed queue.
//
// x-delay: the plugin leaves it on the message with its sign turned.
//
// CC and BCC: the message has been routed to their keys when it was first
// published. Exchanges that route by key would send copies there again.
func brokersOwn(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", delayHeader, "CC", "BCC":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
