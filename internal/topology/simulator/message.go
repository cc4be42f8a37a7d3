package simulator

import (
	"slices"
	"strconv"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ID identifies a published message. All copies that the broker makes of it
// share the ID.
type ID int

// Reasons for which a message dies.
const (
	Rejected      = "rejected"
	Expired       = "expired"
	MaxLen        = "maxlen"
	DeliveryLimit = "delivery_limit"
)

// Death is one entry of a message's history: that it died in a queue for a
// reason, once or more.
type Death struct {
	Queue  string
	Reason string
	Count  int64
	// Exchange and RoutingKeys are those with which the message came to the
	// queue before its first death of this kind; BCC keys are left out.
	Exchange    string
	RoutingKeys []string
	// Time is when it first died so.
	Time time.Duration
	// Expiration is the message's own time-to-live, which its first death
	// removed; empty when it had none.
	Expiration string
}

// message is a copy of a published message. It is never changed once it was
// put into a queue.
type message struct {
	id         ID
	body       string
	exchange   string
	keys       []string // the routing key, then CC and BCC
	bcc        []string
	headers    topology.Arguments
	expiration *time.Duration
	deaths     []Death
	// count is the delivery count that a quorum queue gave it on.
	count int64
}

func (m *message) routed() topology.Message {
	return topology.Message{RoutingKeys: m.keys, Headers: m.headers}
}

// died returns the message as it is after a death in a queue, on its way to
// the dead-letter exchange (mc:record_death and rabbit_dead_letter:publish;
// until 3.12 rabbit_dead_letter:update_x_death_header).
func (m *message) died(b *Broker, queue, reason string, to deadLetterTarget) *message {
	next := *m
	next.headers = m.headers.Clone()
	first := m.recordDeath(&next, b, queue, reason)
	if first {
		setDeathHeaders(next.headers, "x-first-death-", queue, reason, m.exchange)
	}
	if b.rules.lastDeath {
		setDeathHeaders(next.headers, "x-last-death-", queue, reason, m.exchange)
	}
	next.headers["x-death"] = deathTable(next.deaths)
	next.exchange = to.exchange
	next.expiration = nil
	if to.key != nil {
		next.keys, next.bcc = []string{*to.key}, nil
		if b.rules.keyRemovesCC {
			delete(next.headers, "CC")
		}
	}
	return &next
}

// recordDeath writes the history of next and says whether this was its first
// death. An entry that exists counts up and moves to the front, as it is.
func (m *message) recordDeath(next *message, b *Broker, queue, reason string) bool {
	same := func(d Death) bool { return d.Queue == queue && d.Reason == reason }
	before := slices.Clone(m.deaths)
	if b.rules.shufflesDeaths {
		slices.Reverse(before)
	}
	if i := slices.IndexFunc(before, same); i >= 0 {
		d := before[i]
		d.Count++
		next.deaths = append([]Death{d}, slices.DeleteFunc(before, same)...)
		return false
	}
	d := Death{
		Queue: queue, Reason: reason, Count: 1, Exchange: m.exchange, Time: b.now,
		RoutingKeys: slices.DeleteFunc(slices.Clone(m.keys), func(key string) bool { return slices.Contains(m.bcc, key) }),
	}
	if m.expiration != nil {
		d.Expiration = strconv.FormatInt(m.expiration.Milliseconds(), 10)
	}
	next.deaths = append([]Death{d}, before...)
	if len(before) > 0 {
		return false
	}
	// Until 3.12 a header x-death that is not an array is replaced, but those of the
	// first death are left alone (update_x_death_header).
	_, spoofed := m.headers["x-death"]
	return b.rules.lastDeath || !spoofed
}

func setDeathHeaders(headers topology.Arguments, prefix, queue, reason, exchange string) {
	headers[prefix+"queue"] = queue
	headers[prefix+"reason"] = reason
	headers[prefix+"exchange"] = exchange
}

// cycles says whether the broker would refuse to take the message back into the
// queue: since it last died there, for whatever reason, and at that death, it
// was never rejected (mc:is_death_cycle, rabbit_dead_letter:is_cycle).
func (m *message) cycles(queue string) bool {
	for _, d := range m.deaths {
		switch {
		case d.Reason == Rejected:
			return false
		case d.Queue == queue:
			return true
		}
	}
	return false
}

// deathTable writes the history as the header x-death.
func deathTable(deaths []Death) []any {
	table := make([]any, len(deaths))
	for i, d := range deaths {
		keys := make([]any, len(d.RoutingKeys))
		for j, key := range d.RoutingKeys {
			keys[j] = key
		}
		entry := map[string]any{
			"count": d.Count, "reason": d.Reason, "queue": d.Queue, "time": int64(d.Time / time.Second),
			"exchange": d.Exchange, "routing-keys": keys,
		}
		if d.Expiration != "" {
			entry["original-expiration"] = d.Expiration
		}
		table[i] = entry
	}
	return table
}

// readDeaths reads an x-death header that a publisher sent along. What is no
// table in it is left out.
func readDeaths(header any) []Death {
	list, _ := header.([]any)
	var deaths []Death
	for _, element := range list {
		table, ok := element.(map[string]any)
		if !ok {
			continue
		}
		entry := topology.Arguments(table)
		d := Death{
			Queue: entry.String("queue"), Reason: entry.String("reason"), Exchange: entry.String("exchange"),
			Expiration: entry.String("original-expiration"),
		}
		d.Count, _ = entry.Int("count")
		seconds, _ := entry.Int("time")
		d.Time = time.Duration(seconds) * time.Second
		keys, _ := entry["routing-keys"].([]any)
		for _, key := range keys {
			if s, ok := key.(string); ok {
				d.RoutingKeys = append(d.RoutingKeys, s)
			}
		}
		deaths = append(deaths, d)
	}
	return deaths
}
