// Package deadletter knows what the headers of a dead-lettered message tell: where it failed, why, how
// often and when. It selects messages and groups them. It has no connection: package messages reads them.
package deadletter

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"
)

// The reasons for which RabbitMQ dead-letters a message
// (rabbit_dead_letter:reason(), 3.10 to 4.3).
const (
	Rejected      = "rejected"
	Expired       = "expired"
	MaxLength     = "maxlen"
	DeliveryLimit = "delivery_limit"
)

// Message is a message of a queue and what its death headers tell. What they do
// not tell is the zero value.
type Message struct {
	// Delivery is the message as it came.
	Delivery amqp.Delivery
	// Position is the place in the queue, from 1 at the head.
	Position int
	// OriginQueue is where the message failed: the queue of its latest death
	// that was not an expiry, because waiting queues come after those that fail.
	// When it only ever expired it is the queue of its first death. When its latest
	// death was in a retry chain it is the work queue of that chain.
	OriginQueue string
	// Reason is that of its latest death, if that was in OriginQueue, and else
	// of its latest one there.
	Reason string
	// Attempts counts the deliveries from OriginQueue that a consumer rejected,
	// and those that went over the delivery limit once. A redrive starts again.
	Attempts int64
	// FirstDeath and LastDeath have seconds. RabbitMQ writes only the time of
	// the first death for each queue and reason, and so the message may have
	// died again after LastDeath: in a retry chain, as late as it took the last
	// attempt.
	FirstDeath, LastDeath time.Time
	// Exchange and RoutingKey are those that the message had when it first
	// died.
	Exchange, RoutingKey string
}

// Illegible is the header that stands for all headers of a message whose headers
// cannot be read.
const Illegible = "x-headers-not-readable"

// ID is the message's id, "" when its publisher gave none.
func (m Message) ID() string { return m.Delivery.MessageId }

// Illegible says that the message has headers that cannot be read. What they would
// tell is not known.
func (m Message) Illegible() bool { return m.Delivery.Headers[Illegible] == true }

// ContentType is that of the publisher.
func (m Message) ContentType() string { return m.Delivery.ContentType }

// ContentEncoding is that of the publisher.
func (m Message) ContentEncoding() string { return m.Delivery.ContentEncoding }

// Body is the payload.
func (m Message) Body() []byte { return m.Delivery.Body }

// Published is the publisher's own timestamp, zero when it gave none.
func (m Message) Published() time.Time { return m.Delivery.Timestamp }

// Through is the exchange through which the message came to the queue in which
// it is.
func (m Message) Through() string { return m.Delivery.Exchange }

// EnteredWith is the routing key with which the message first came to the queue
// that it failed in: tiers and shared tiers can give it another one.
func (m Message) EnteredWith() string {
	h := m.Delivery.Headers
	var origin []death
	for _, d := range deathsOf(h) {
		if d.queue == m.OriginQueue {
			origin = append(origin, d)
		}
	}
	if len(origin) == 0 {
		return m.Delivery.RoutingKey
	}
	earliest := origin[0]
	for _, d := range origin[1:] {
		// Times have seconds, and what is retried was rejected first.
		if d.time.Before(earliest.time) || d.time.Equal(earliest.time) && d.reason == Rejected {
			earliest = d
		}
	}
	if first := firstDeath(h, origin); text(h, "x-first-death-queue") == m.OriginQueue {
		earliest = first
	}
	return earliest.key
}

// death is one entry of x-death: the deaths in one queue for one reason.
type death struct {
	queue, reason, exchange string
	key                     string
	count                   int64
	time                    time.Time
}

// Read reads the death headers of the message at a position of its queue. workQueue
// returns the work queue of the retry chain that a queue belongs to, or ""; it may be nil.
//
//	What they hold by version, seen on 3.10.8,
//
// 4.0.5 and 4.3.6: the first entry of x-death is the latest death; the others
// follow by recency, but on 3.10 each death turns their order round. Every entry
// keeps exchange, routing keys and time of its first death. x-first-death-*
// names the entry of the first death, and so that entry has the key that the
// message was published with.
func Read(d amqp.Delivery, position int, workQueue func(string) string) Message {
	h := d.Headers
	m := Message{Delivery: d, Position: position, Exchange: d.Exchange, RoutingKey: d.RoutingKey}
	deaths := deathsOf(h)
	if len(deaths) == 0 {
		return m
	}
	first := firstDeath(h, deaths)
	if text(h, "x-last-death-queue") == "" {
		// No order but by time before 3.13.
		slices.SortStableFunc(deaths[1:], func(a, b death) int { return b.time.Compare(a.time) })
	}
	origin := originOf(deaths, first, workQueue)
	m.OriginQueue, m.Reason = origin.queue, origin.reason
	m.Exchange, m.RoutingKey = first.exchange, first.key
	m.FirstDeath, m.LastDeath = first.time, first.time
	for _, d := range deaths {
		if d.queue == origin.queue && (d.reason == Rejected || d.reason == DeliveryLimit) {
			m.Attempts += d.count
		}
		if d.time.Before(m.FirstDeath) {
			m.FirstDeath = d.time
		}
		if d.time.After(m.LastDeath) {
			m.LastDeath = d.time
		}
	}
	return m
}

// originOf returns the death that tells where the message failed.
func originOf(deaths []death, first death, workQueue func(string) string) death {
	origin, latest := first, deaths[0]
	if i := slices.IndexFunc(deaths, func(d death) bool { return d.reason != Expired }); i >= 0 {
		origin = deaths[i]
	}
	if workQueue != nil {
		work := workQueue(latest.queue)
		if i := slices.IndexFunc(deaths, func(d death) bool { return d.queue == work }); i >= 0 {
			origin = deaths[i]
		}
	}
	if latest.queue == origin.queue {
		return latest
	}
	return origin
}

func firstDeath(h amqp.Table, deaths []death) death {
	queue, reason := text(h, "x-first-death-queue"), text(h, "x-first-death-reason")
	if i := slices.IndexFunc(deaths, func(d death) bool { return d.queue == queue && d.reason == reason }); i >= 0 {
		return deaths[i]
	}
	return slices.MinFunc(deaths, func(a, b death) int { return a.time.Compare(b.time) })
}

// deathsOf leaves out what is not an entry as the broker writes it: before 3.13
// and after a publish by a client the header can hold anything.
func deathsOf(h amqp.Table) []death {
	list, _ := h["x-death"].([]any)
	var deaths []death
	for _, entry := range list {
		table, _ := entry.(amqp.Table)
		d := death{queue: text(table, "queue"), reason: text(table, "reason"), exchange: text(table, "exchange")}
		if d.queue == "" {
			continue
		}
		d.count, _ = Integer(table["count"])
		d.time, _ = table["time"].(time.Time)
		if keys, _ := table["routing-keys"].([]any); len(keys) > 0 {
			d.key, _ = keys[0].(string)
		}
		deaths = append(deaths, d)
	}
	return deaths
}

func text(table amqp.Table, key string) string {
	s, _ := table[key].(string)
	return s
}

// BrokerHeader says whether RabbitMQ writes the header. The counts of
// deliveries change with every look.
func BrokerHeader(name string) bool {
	return name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// Headers are those of the application, without what the broker adds when a
// message dies or is delivered, as values that JSON has: integers are int64,
// timestamps RFC 3339 text, byte arrays and text that is not UTF-8 base64.
func (m Message) Headers() map[string]any {
	own := maps.Clone(m.Delivery.Headers)
	maps.DeleteFunc(own, func(name string, _ any) bool { return BrokerHeader(name) })
	return plainTable(own)
}

// HeadersJSON is [Message.Headers] as text, with the keys in order.
func (m Message) HeadersJSON() string {
	data, err := json.Marshal(m.Headers())
	if err != nil {
		// A number that JSON has no word for, such as NaN.
		data, _ = json.Marshal(fmt.Sprint(m.Headers()))
	}
	return string(data)
}

func plainTable(table amqp.Table) map[string]any {
	plain := make(map[string]any, len(table))
	for name, value := range table {
		plain[plainText(name)] = plainValue(value)
	}
	return plain
}

func plainValue(value any) any {
	if n, is := Integer(value); is {
		return n
	}
	switch v := value.(type) {
	case float32:
		return float64(v)
	case string:
		return plainText(v)
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.UTC().Format(time.RFC3339)
	case amqp.Decimal:
		return decimal(v)
	case amqp.Table:
		return plainTable(v)
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = plainValue(v[i])
		}
		return list
	default:
		return v // nil, bool, float64
	}
}

func plainText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return base64.StdEncoding.EncodeToString([]byte(s))
}

// decimal writes the value as text: JSON's numbers are read as binary ones.
func decimal(d amqp.Decimal) string {
	digits := fmt.Sprintf("%0*d", int(d.Scale)+1, d.Value)
	if d.Scale == 0 {
		return digits
	}
	point := len(digits) - int(d.Scale)
	return digits[:point] + "." + digits[point:]
}

// Integer returns the value of a header of any integer type.
func Integer(value any) (int64, bool) {
	switch n := value.(type) {
	case int:
		return int64(n), true
	case int8:
		return int64(n), true
	case int16:
		return int64(n), true
	case int32:
		return int64(n), true
	case int64:
		return n, true
	case uint8:
		return int64(n), true
	case uint16:
		return int64(n), true
	case uint32:
		return int64(n), true
	default:
		return 0, false
	}
}
