package topology

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// ErrNoExchange says that a message was sent to an exchange that does not
// exist. A publisher's channel is closed then; a dead letter is dropped, or
// held by an at-least-once queue.
var ErrNoExchange = errors.New("no such exchange")

// ErrUnknownExchangeType says that a message met an exchange of a type whose
// routing is not known here, such as one that a plugin adds.
var ErrUnknownExchangeType = errors.New("unknown exchange type")

// Message is what exchanges look at when they route a message.
type Message struct {
	// RoutingKeys are all keys of the message; see [RoutingKeys].
	RoutingKeys []string
	Headers     Arguments
}

// RoutingKeys returns the keys by which a published message is routed: its own
// and those that the lists in its headers CC and BCC name (sender-selected
// distribution, all versions).
func RoutingKeys(key string, headers Arguments) []string {
	keys := []string{key}
	for _, header := range []string{"CC", "BCC"} {
		list, _ := headers[header].([]any)
		for _, element := range list {
			if s, ok := element.(string); ok {
				keys = append(keys, s)
			}
		}
	}
	return keys
}

// Equality is how a headers exchange compares a header with the value of a
// binding. Neither form looks at the AMQP type of an integer.
type Equality int

const (
	// Strict tells 1 from 1.0 (RabbitMQ 3.13 and later, which compare with
	// =:= in rabbit_exchange_type_headers).
	Strict Equality = iota
	// Numeric takes 1 and 1.0 as equal (RabbitMQ 3.12 and earlier, ==).
	Numeric
)

// Route returns the queues that a message reaches that was sent to the
// exchange, in the order of their names and each once. It follows bindings
// between exchanges, visits no exchange twice, and goes on to an exchange's
// alternate exchange when none of its own bindings matched, as
// rabbit_exchange:route does (3.10 to 4.3). The default exchange, "", leads to
// the queues that the routing keys name, if they exist.
//
// The error is [ErrNoExchange] or [ErrUnknownExchangeType]. A binding or an
// alternate exchange that leads to an exchange that does not exist leads
// nowhere, without an error.
func (t *Topology) Route(exchange string, m Message, equality Equality) ([]string, error) {
	return t.route(exchange, m, equality, func(e Exchange) (string, bool) { return e.Type, false })
}

// route asks of every exchange as which type it routes the message, and whether
// it keeps it to itself.
func (t *Topology) route(exchange string, m Message, equality Equality, as func(Exchange) (routedAs string, held bool)) ([]string, error) {
	if exchange == "" {
		return t.existing(m.RoutingKeys), nil
	}
	if _, exists := t.exchanges[exchange]; !exists {
		return nil, fmt.Errorf("%w: %q", ErrNoExchange, exchange)
	}
	queues := map[string]bool{}
	seen := map[string]bool{exchange: true}
	for todo := []string{exchange}; len(todo) > 0; {
		next, err := t.routeOnce(todo[0], m, equality, as, queues)
		if err != nil {
			return nil, err
		}
		todo = todo[1:]
		for _, name := range next {
			if !seen[name] {
				seen[name] = true
				todo = append(todo, name)
			}
		}
	}
	return slices.Sorted(maps.Keys(queues)), nil
}

func (t *Topology) existing(names []string) []string {
	found := map[string]bool{}
	for _, name := range names {
		if _, exists := t.queues[name]; exists {
			found[name] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// routeOnce adds the queues that the bindings of one exchange lead to and
// returns the exchanges they lead to, or the alternate exchange.
func (t *Topology) routeOnce(
	name string, m Message, equality Equality, as func(Exchange) (routedAs string, held bool), queues map[string]bool,
) ([]string, error) {
	e, exists := t.exchanges[name]
	if !exists {
		return nil, nil
	}
	kind, held := as(e)
	if !held && !isKnownType(kind) {
		return nil, fmt.Errorf("exchange %q: %w %q", name, ErrUnknownExchangeType, kind)
	}
	var bindings []Binding
	if !held {
		bindings = t.candidates(name, kind, m)
	}
	var next []string
	matched := false
	for _, b := range bindings {
		matches, err := b.Matches(kind, m, equality)
		switch {
		case err != nil:
			return nil, fmt.Errorf("exchange %q: %w", name, err)
		case !matches:
			continue
		case b.DestinationKind == KindExchange:
			next = append(next, b.Destination)
		default:
			queues[b.Destination] = true
		}
		matched = true
	}
	if alternate := e.Alternate(); !matched && alternate != "" {
		next = append(next, alternate)
	}
	return next, nil
}

// KnownType says whether the routing of the exchange's type is known here.
func (e Exchange) KnownType() bool { return isKnownType(e.Type) }

func isKnownType(exchangeType string) bool {
	return slices.Contains([]string{Direct, Fanout, Topic, Headers}, exchangeType)
}

// Matches says whether the binding takes the message, given the type of its
// source exchange. The error is [ErrUnknownExchangeType].
func (b Binding) Matches(exchangeType string, m Message, equality Equality) (bool, error) {
	switch exchangeType {
	case Fanout:
		return true, nil
	case Direct:
		return slices.Contains(m.RoutingKeys, b.RoutingKey), nil
	case Topic:
		return slices.ContainsFunc(m.RoutingKeys, func(key string) bool { return MatchTopic(b.RoutingKey, key) }), nil
	case Headers:
		return MatchHeaders(b.Arguments, m.Headers, equality), nil
	default:
		return false, fmt.Errorf("%w %q", ErrUnknownExchangeType, exchangeType)
	}
}

// MatchTopic says whether a topic exchange takes a routing key for a binding
// key. "*" stands for exactly one word, which may be empty, and "#" for any
// number of words. Words are separated by dots; the empty key has no word at
// all, so that "*" does not match it (rabbit_db_topic_exchange and its
// predecessors, all versions).
func MatchTopic(bindingKey, routingKey string) bool {
	return matchWords(words(bindingKey), words(routingKey))
}

func words(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// matchWords keeps, for every number of key words consumed, whether the pattern
// read so far can consume that many.
func matchWords(pattern, key []string) bool {
	reach := make([]bool, len(key)+1)
	reach[0] = true
	for _, p := range pattern {
		next := make([]bool, len(key)+1)
		for i := range next {
			switch {
			case p == "#":
				next[i] = reach[i] || i > 0 && next[i-1]
			case i > 0:
				next[i] = reach[i-1] && (p == "*" || p == key[i-1])
			}
		}
		reach = next
	}
	return reach[len(key)]
}

// MatchHeaders says whether a headers exchange takes a message for a binding
// with these arguments. x-match is "all" unless it says otherwise. With "all"
// and "any" every argument that starts with "x-" is skipped, so that a binding
// with no other argument matches every message ("all") or none ("any"); with
// "all-with-x" and "any-with-x" (3.10 and later) only x-match itself is. A nil
// argument, AMQP's void, asks for the header with any value
// (rabbit_exchange_type_headers, 3.10 to 4.3).
func MatchHeaders(binding, headers Arguments, equality Equality) bool {
	kind := binding.String(Match)
	withX := kind == MatchAllWithX || kind == MatchAnyWithX
	wantAny := kind == MatchAny || kind == MatchAnyWithX
	for key, wanted := range binding {
		if key == Match || (!withX && strings.HasPrefix(key, ArgumentPrefix)) {
			continue
		}
		value, present := headers[key]
		if matches := present && (wanted == nil || equal(wanted, value, equality)); matches == wantAny {
			return wantAny
		}
	}
	return !wantAny
}

func equal(a, b any, equality Equality) bool {
	if equality == Strict {
		return reflect.DeepEqual(a, b)
	}
	switch a := a.(type) {
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, func(x, y any) bool { return equal(x, y, equality) })
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, func(x, y any) bool { return equal(x, y, equality) })
	}
	x, isNumber := number(a)
	y, alsoNumber := number(b)
	if isNumber && alsoNumber {
		return x == y
	}
	return a == b
}

func number(value any) (float64, bool) {
	switch v := value.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	default:
		return 0, false
	}
}
