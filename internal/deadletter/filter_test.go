package deadletter

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func parked() Message {
	return Message{
		Delivery: amqp.Delivery{
			MessageId: "id",
			Headers:   amqp.Table{"n": int32(2), "s": "2", "b": true, "t": amqp.Table{"x": []any{int64(1)}}},
		},
		OriginQueue: "orders",
		Reason:      Rejected, Attempts: 3, Exchange: "events", RoutingKey: "order.eu.created", LastDeath: time.Unix(1000, 0),
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
	keyless := parked()
	keyless.RoutingKey = ""
	for pattern, want := range map[string]bool{"#": true, "#.#": true, "*": false, "*.#": false, "a": false} {
		if got := (Filter{RoutingKey: pattern}).Match(keyless); got != want {
			t.Errorf("%q matches the empty routing key: %t", pattern, got)
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

func TestGroups(t *testing.T) {
	g := Groups{Period: time.Hour}
	add := func(origin, key string, at int64) {
		p := Message{OriginQueue: origin, Reason: Rejected, RoutingKey: key}
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
