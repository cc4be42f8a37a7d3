package messages

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

// Parked is a message of a [Pass] and what its death headers tell. What they do
// not tell is the zero value.
type Parked struct {
	Message
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
	// and those that went over the delivery limit once. A redrive starts anew.
	Attempts int64
	// FirstDeath and LastDeath have seconds. RabbitMQ writes only the time of
	// the first death for each queue and reason, and so the message may have
	// died again after LastDeath: in a retry chain, as late as it took the last
	// attempt.
	FirstDeath, LastDeath time.Time
	// Exchange and RoutingKey are those that the message had when it first
	// died.
	Exchange, RoutingKey string

	reader *reader
}

// Illegible says that the message has headers that cannot be read. What they would
// tell is not known.
func (p Parked) Illegible() bool { return p.delivery.Headers[Illegible] == true }

// ContentType is that of the publisher.
func (p Parked) ContentType() string { return p.delivery.ContentType }

// ContentEncoding is that of the publisher.
func (p Parked) ContentEncoding() string { return p.delivery.ContentEncoding }

// Body is the payload.
func (p Parked) Body() []byte { return p.delivery.Body }

// Published is the publisher's own timestamp, zero when it gave none.
func (p Parked) Published() time.Time { return p.delivery.Timestamp }

// death is one entry of x-death: the deaths in one queue for one reason.
type death struct {
	queue, reason, exchange string
	key                     string
	count                   int64
	time                    time.Time
}

// newParked reads the death headers. What they hold by version, seen on 3.10.8,
// 4.0.5 and 4.3.6: the first entry of x-death is the latest death; the others
// follow by recency, but on 3.10 each death turns their order round. Every entry
// keeps exchange, routing keys and time of its first death. x-first-death-*
// names the entry of the first death, and so that entry has the key that the
// message was published with.
func newParked(m Message, position int, workQueue func(string) string) Parked {
	h := m.delivery.Headers
	p := Parked{Message: m, Position: position, Exchange: m.delivery.Exchange, RoutingKey: m.delivery.RoutingKey}
	deaths := deathsOf(h)
	if len(deaths) == 0 {
		return p
	}
	first := firstDeath(h, deaths)
	if text(h, "x-last-death-queue") == "" {
		// No order but by time before 3.13.
		slices.SortStableFunc(deaths[1:], func(a, b death) int { return b.time.Compare(a.time) })
	}
	origin := originOf(deaths, first, workQueue)
	p.OriginQueue, p.Reason = origin.queue, origin.reason
	p.Exchange, p.RoutingKey = first.exchange, first.key
	p.FirstDeath, p.LastDeath = first.time, first.time
	for _, d := range deaths {
		if d.queue == origin.queue && (d.reason == Rejected || d.reason == DeliveryLimit) {
			p.Attempts += d.count
		}
		if d.time.Before(p.FirstDeath) {
			p.FirstDeath = d.time
		}
		if d.time.After(p.LastDeath) {
			p.LastDeath = d.time
		}
	}
	return p
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
		d.count, _ = integer(table["count"])
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

// brokerHeader says whether RabbitMQ writes the header. The counts of
// deliveries change with every look.
func brokerHeader(name string) bool {
	return name == "x-death" || name == "x-delivery-count" || name == "x-acquired-count" ||
		strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-")
}

// Headers are those of the application, without what the broker adds when a
// message dies or is delivered, as values that JSON has: integers are int64,
// timestamps RFC 3339 text, byte arrays and text that is not UTF-8 base64.
func (p Parked) Headers() map[string]any {
	own := maps.Clone(p.delivery.Headers)
	maps.DeleteFunc(own, func(name string, _ any) bool { return brokerHeader(name) })
	return plainTable(own)
}

// HeadersJSON is [Parked.Headers] as text, with the keys in order.
func (p Parked) HeadersJSON() string {
	data, err := json.Marshal(p.Headers())
	if err != nil {
		// A number that JSON has no word for, such as NaN.
		data, _ = json.Marshal(fmt.Sprint(p.Headers()))
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
	if n, is := integer(value); is {
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

func integer(value any) (int64, bool) {
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
