package messages

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func parked() Parked {
	return Parked{
		Message: Message{amqp.Delivery{MessageId: "id", Headers: amqp.Table{"n": int32(2), "s": "2", "b": true, "t": amqp.Table{"x": []any{int64(1)}}}}}, OriginQueue: "orders",
		Reason: Rejected, Attempts: 3, Exchange: "events", RoutingKey: "order.eu.created", LastDeath: time.Unix(1000, 0),
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{OriginQueue: "orders", Reason: Rejected, Exchange: "events", RoutingKey: "order.#", MinAttempts: 3, MessageIDs: []string{"x", "id"}}, true},
		{Filter{OriginQueue: "order"}, false},
		{Filter{Reason: Expired}, false},
		{Filter{Exchange: "event"}, false},
		{Filter{MinAttempts: 4}, false},
		{Filter{MessageIDs: []string{"x"}}, false},
		{Filter{Before: time.Unix(1001, 0), After: time.Unix(999, 0)}, true},
		{Filter{Before: time.Unix(1000, 0)}, false},
		{Filter{After: time.Unix(1000, 0)}, false},
		{Filter{Headers: map[string]any{"n": int64(2), "s": "2", "b": true}}, true},
		{Filter{Headers: map[string]any{"n": float64(2)}}, true},
		{Filter{Headers: map[string]any{"n": "2"}}, false},
		{Filter{Headers: map[string]any{"s": int64(2)}}, false},
		{Filter{Headers: map[string]any{"missing": nil}}, false},
		{Filter{Headers: map[string]any{"t": map[string]any{"x": []any{float64(1)}}}}, true},
		{Filter{Headers: map[string]any{"t": map[string]any{"x": []any{float64(2)}}}}, false},
	} {
		if got := c.filter.Match(parked()); got != c.want {
			t.Errorf("%+v matches: %t", c.filter, got)
		}
	}
	unknown := parked()
	unknown.LastDeath = time.Time{}
	if (Filter{Before: time.Now()}).Match(unknown) || (Filter{After: time.Unix(1, 0)}).Match(unknown) {
		t.Error("a message of unknown age was selected by its age")
	}
}

func TestCheck(t *testing.T) {
	for attribute, f := range map[string]Filter{
		"origin_queue": {OriginQueue: strings.Repeat("q", 256)},
		"exchange":     {Exchange: strings.Repeat("q", 256)},
		"routing_key":  {RoutingKey: strings.Repeat("q", 256)},
		"reason":       {Reason: "bored"},
		"headers":      {Headers: map[string]any{"x-death": 1}},
		"message_ids":  {MessageIDs: []string{"a", ""}},
		"min_attempts": {MinAttempts: -1},
		"newer_than":   {Before: time.Unix(1, 0), After: time.Unix(1, 0)},
	} {
		if wrong := f.Check(); len(wrong) != 1 || wrong[0].Attribute != attribute {
			t.Errorf("%s: %v", attribute, wrong)
		}
	}
	if wrong := (Filter{OriginQueue: "q", Reason: MaxLength, MessageIDs: []string{"a"}, MinAttempts: 1}).Check(); len(wrong) > 0 {
		t.Error(wrong)
	}
}

// A filter that selects everything is none, however it is written: a discard
// needs all = true for it.
func TestEverything(t *testing.T) {
	now := time.Unix(2_000_000_000, 0)
	for _, c := range []struct {
		filter Filter
		want   bool
	}{
		{Filter{}, true},
		{Filter{Headers: map[string]any{}}, true},
		{Filter{RoutingKey: "#"}, true},
		{Filter{RoutingKey: "#.#"}, true},
		{Filter{RoutingKey: "*.#"}, true},
		{Filter{RoutingKey: "#.*"}, true},
		{Filter{MinAttempts: 0, Before: now}, true},
		{Filter{After: time.Unix(1, 0)}, true},
		{Filter{RoutingKey: "*"}, false},
		{Filter{RoutingKey: "*.*.#"}, false},
		{Filter{RoutingKey: "a.#"}, false},
		{Filter{Headers: map[string]any{"a": nil}}, false},
		{Filter{MinAttempts: 1}, false},
		{Filter{MessageIDs: []string{"1"}}, false},
		{Filter{OriginQueue: "q"}, false},
		{Filter{Reason: Expired}, false},
		{Filter{Exchange: "x"}, false},
		{Filter{Before: now.Add(-time.Hour)}, false},
		{Filter{After: now.Add(-time.Hour)}, false},
	} {
		if got := c.filter.Everything(now); got != c.want {
			t.Errorf("%+v selects everything: %t", c.filter, got)
		}
	}
}

// slowMatch is the rule of topic exchanges as one would say it.
func slowMatch(pattern, key []string) bool {
	switch {
	case len(pattern) == 0:
		return len(key) == 0
	case pattern[0] == "#":
		return slowMatch(pattern[1:], key) || len(key) > 0 && slowMatch(pattern, key[1:])
	case len(key) == 0:
		return false
	}
	return (pattern[0] == "*" || pattern[0] == key[0]) && slowMatch(pattern[1:], key[1:])
}

func TestPropertyTopicMatch(t *testing.T) {
	word := func(from ...string) string { return from[rand.IntN(len(from))] }
	matched := 0
	for range 20_000 {
		pattern := make([]string, rand.IntN(5))
		key := make([]string, rand.IntN(6))
		for i := range pattern {
			pattern[i] = word("a", "b", "", "*", "#")
		}
		for i := range key {
			key[i] = word("a", "b", "")
		}
		want := slowMatch(pattern, key)
		if topicMatch(pattern, key) != want {
			t.Fatalf("%q, %q: expected %t", pattern, key, want)
		}
		if want {
			matched++
		}
	}
	if matched < 1000 {
		t.Errorf("only %d matched", matched)
	}
	many := strings.Split(strings.Repeat("#.", 100)+"end", ".")
	if topicMatch(many, strings.Split(strings.Repeat("w.", 100)+"x", ".")) {
		t.Error("matched")
	}
}

func TestUnsafe(t *testing.T) {
	type arguments = topology.Arguments
	for _, c := range []struct {
		queue  topology.Queue
		modern bool
		reason string
	}{
		{topology.Queue{Type: topology.Classic}, true, ""},
		{topology.Queue{Type: topology.Classic, Arguments: arguments{"x-delivery-limit": int64(3)}}, true, ""},
		{topology.Queue{Type: topology.Quorum}, false, ""},
		{topology.Queue{Type: topology.Quorum}, true, "limit of 20"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1)}}, true, ""},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1)}}, false, "limit of -1"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(1000)}}, false, "limit of 1000"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-delayed-retry-type": "all"}}, true, "delayed retries (all)"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-delayed-retry-type": "disabled"}}, true, ""},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-single-active-consumer": true}}, true, "single active consumer"},
		{topology.Queue{Type: topology.Stream}, true, "type stream"},
		{topology.Queue{Type: topology.Classic, Exclusive: true}, true, "exclusive"},
		{topology.Queue{Type: topology.Classic, AutoDelete: true}, true, "auto-delete"},
	} {
		unsafe := Unsafe(c.queue, c.queue.Arguments, c.modern)
		if (unsafe == nil) != (c.reason == "") || unsafe != nil && !strings.Contains(unsafe.Error(), c.reason) {
			t.Errorf("%+v: %v, expected %q", c.queue, unsafe, c.reason)
		}
	}
}

func TestGroups(t *testing.T) {
	g := Groups{Period: time.Hour}
	add := func(origin, key string, at int64) {
		p := Parked{OriginQueue: origin, Reason: Rejected, RoutingKey: key}
		if at > 0 {
			p.LastDeath = time.Unix(at, 0)
		}
		g.Add(p)
	}
	if len(g.ByReason()) != 0 || g.All().Count != 0 {
		t.Error("not empty")
	}
	add("b", "k1", 7300)
	add("a", "k2", 3700)
	add("b", "k3", 3600)
	add("", "k3", 0)
	names := func(groups []Group) string {
		var text []string
		for _, group := range groups {
			text = append(text, fmt.Sprintf("%s=%d", group.Name, group.Count))
		}
		return strings.Join(text, " ")
	}
	got := []string{names(g.ByOrigin()), names(g.ByReason()), names(g.ByRoutingKey()), names(g.ByPeriod())}
	want := []string{"b=2 =1 a=1", "rejected=4", "k3=2 k1=1 k2=1", "=1 1970-01-01T01:00:00Z=2 1970-01-01T02:00:00Z=1"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%q", got)
	}
	if all := g.All(); all.Count != 4 || all.First.Unix() != 3600 || all.Last.Unix() != 7300 {
		t.Errorf("%+v", all)
	}
}
