package main

import (
	"maps"
	"math"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// park is the count of a message that is not to be retried.
const park int64 = -1

// retry returns the message to publish for a failed one. It differs from the
// failed one in four things and in nothing else:
//
//   - The header that counts the failures is one higher, or [park]. See [count].
//   - The headers that belong to the broker are gone. See [brokersOwn].
//   - The expiration is gone: a queue applies the shorter of its own TTL and the
//     message's, so that a tier would end its delay early.
//   - The user id is gone unless it is user, the one of this connection: the broker
//     closes the channel on a message that claims to be another user's.
func retry(d amqp.Delivery, header, user string) amqp.Publishing {
	headers := maps.Clone(d.Headers)
	if headers == nil {
		headers = amqp.Table{}
	}
	maps.DeleteFunc(headers, func(name string, _ any) bool { return brokersOwn(name) })
	headers[header] = count(d.Headers, header)
	if d.UserId != user {
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
// CC and BCC: the message has been routed to their keys when it was first
// published. Exchanges that route by key would send copies there again.
func brokersOwn(name string) bool {
	switch name {
	case "x-death", "x-delivery-count", "x-acquired-count", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}
