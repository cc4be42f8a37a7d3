package deadletter

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Filter selects messages. Every condition that is given must hold.
type Filter struct {
	// OriginQueue, Reason and Exchange are those of [Message].
	OriginQueue, Reason, Exchange string
	// RoutingKey is a pattern as topic exchanges have it: * is one word, # any
	// number of words.
	RoutingKey string
	// Headers are headers of the application with their exact values, as
	// [Message.Headers] gives them.
	Headers map[string]any
	// Before and After compare with the last death. A message without a known
	// one is selected by neither.
	Before, After time.Time
	// MessageIDs are the ids to select.
	MessageIDs []string
	// MinAttempts is the least number of attempts.
	MinAttempts int64
}

// FilterError says what is wrong with a filter.
type FilterError struct {
	// Attribute is the name of the condition in snake case.
	Attribute string
	Problem   string
}

func (e *FilterError) Error() string { return e.Attribute + ": " + e.Problem }

// Check returns what is wrong with the filter.
func (f Filter) Check() []*FilterError {
	var wrong []*FilterError
	add := func(attribute, format string, args ...any) {
		wrong = append(wrong, &FilterError{attribute, fmt.Sprintf(format, args...)})
	}
	names := []struct{ attribute, value string }{
		{"origin_queue", f.OriginQueue}, {"exchange", f.Exchange}, {"routing_key", f.RoutingKey},
	}
	for _, n := range names {
		if len(n.value) > topology.MaxNameBytes {
			add(n.attribute, "it is %d bytes long, and AMQP allows %d", len(n.value), topology.MaxNameBytes)
		}
	}
	if reasons := []string{Rejected, Expired, MaxLength, DeliveryLimit}; f.Reason != "" && !slices.Contains(reasons, f.Reason) {
		add("reason", "RabbitMQ has no reason %q: it has %s", f.Reason, strings.Join(reasons, ", "))
	}
	for name := range f.Headers {
		if BrokerHeader(name) {
			add("headers", "%s is written by the broker: filter by origin_queue, reason, exchange or min_attempts", name)
		}
	}
	if f.MessageIDs != nil && (len(f.MessageIDs) == 0 || slices.Contains(f.MessageIDs, "")) {
		add("message_ids", "it must list ids that are not empty")
	}
	if f.MinAttempts < 0 {
		add("min_attempts", "it must not be negative")
	}
	if !f.Before.IsZero() && !f.After.IsZero() && !f.After.Before(f.Before) {
		add("newer_than", "no message is both newer and older than that")
	}
	return wrong
}

// oldest is a time before any message: the first release of RabbitMQ was in 2007.
var oldest = time.Date(2007, 1, 1, 0, 0, 0, 0, time.UTC)

// Everything says whether the filter selects every dead letter that there is now,
// although it may have conditions.
func (f Filter) Everything(now time.Time) bool {
	anyTime := (f.Before.IsZero() || f.Before.After(now.Add(-time.Second))) && (f.After.IsZero() || f.After.Before(oldest))
	return f.OriginQueue == "" && f.Reason == "" && f.Exchange == "" && anyKey(f.RoutingKey) &&
		len(f.Headers) == 0 && anyTime && f.MessageIDs == nil && f.MinAttempts <= 0
}

// anyKey says whether the pattern matches every routing key, or every one but the
// empty key, which has no word.
func anyKey(pattern string) bool {
	words := strings.Split(pattern, ".")
	stars := 0
	for _, word := range words {
		switch word {
		case "#":
		case "*":
			stars++
		default:
			return pattern == ""
		}
	}
	return stars < len(words) && stars <= 1
}

// Match says whether the filter selects the message.
func (f Filter) Match(m Message) bool {
	same := func(want, is string) bool { return want == "" || want == is }
	return same(f.OriginQueue, m.OriginQueue) && same(f.Reason, m.Reason) && same(f.Exchange, m.Exchange) &&
		(f.RoutingKey == "" || topology.MatchTopic(f.RoutingKey, m.RoutingKey)) &&
		m.Attempts >= f.MinAttempts &&
		(f.MessageIDs == nil || slices.Contains(f.MessageIDs, m.ID())) &&
		f.matchTime(m.LastDeath) && f.matchHeaders(m)
}

func (f Filter) matchTime(at time.Time) bool {
	if f.Before.IsZero() && f.After.IsZero() {
		return true
	}
	return !at.IsZero() && (f.Before.IsZero() || at.Before(f.Before)) && (f.After.IsZero() || at.After(f.After))
}

func (f Filter) matchHeaders(m Message) bool {
	if len(f.Headers) == 0 {
		return true
	}
	headers := m.Headers()
	for name, want := range f.Headers {
		is, exists := headers[name]
		if !exists || !reflect.DeepEqual(whole(want), whole(is)) {
			return false
		}
	}
	return true
}

// whole makes integers of numbers without a fraction, so that JSON's 2 equals
// AMQP's, whatever either was decoded to.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v)
		}
	case map[string]any:
		table := make(map[string]any, len(v))
		for name := range v {
			table[name] = whole(v[name])
		}
		return table
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = whole(v[i])
		}
		return list
	}
	if n, is := Integer(value); is {
		return n
	}
	return value
}
