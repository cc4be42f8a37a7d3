package topology_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestMatchTopic(t *testing.T) {
	tests := []struct {
		binding, key string
		want         bool
	}{
		{"a.b", "a.b", true},
		{"a.b", "a.b.c", false},
		{"*", "a", true},
		{"*", "", false}, // the empty key has no word
		{"", "", true},
		{"", "a", false},
		{"#", "", true},
		{"#", "a.b.c", true},
		{"*.*", ".", true}, // two empty words
		{"a.*", "a.", true},
		{"a.#", "a", true},
		{"a.#", "ab", false},
		{"#.b", "b", true},
		{"#.b", "a.a.b", true},
		{"#.b.#", "a.b.c", true},
		{"#.b.#", "a.c", false},
		{"*.#", "", false},
		{"#.*", "a", true},
		{"#.#.#", "", true},
		{"a.*.#.c", "a.b.c", true},
		{"a.*.#.c", "a.c", false},
		{"a*", "ab", false}, // a star is a word, not a wildcard inside one
		{"A", "a", false},
	}
	for _, test := range tests {
		if got := topology.MatchTopic(test.binding, test.key); got != test.want {
			t.Errorf("MatchTopic(%q, %q) = %v", test.binding, test.key, got)
		}
	}
}

// A slow matcher that follows the definition finds the same.
func TestPropertyMatchTopicFollowsItsDefinition(t *testing.T) {
	words := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "", "*", "#"}), 0, 6)
	rapid.Check(t, func(t *rapid.T) {
		binding := strings.Join(words.Draw(t, "binding"), ".")
		key := strings.Join(words.Draw(t, "key"), ".")
		if got, want := topology.MatchTopic(binding, key), slowTopic(split(binding), split(key)); got != want {
			t.Fatalf("MatchTopic(%q, %q) = %v", binding, key, got)
		}
	})
}

func split(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

func slowTopic(binding, key []string) bool {
	switch {
	case len(binding) == 0:
		return len(key) == 0
	case binding[0] == "#":
		return slowTopic(binding[1:], key) || len(key) > 0 && slowTopic(binding, key[1:])
	case len(key) == 0:
		return false
	default:
		return (binding[0] == "*" || binding[0] == key[0]) && slowTopic(binding[1:], key[1:])
	}
}

func TestMatchHeaders(t *testing.T) {
	type args = topology.Arguments
	const match = topology.Match
	list := func(values ...any) []any { return values }
	tests := []struct {
		name             string
		binding, headers args
		strict, numeric  bool
	}{
		{"no argument matches everything", args{}, args{"a": "1"}, true, true},
		{"all is the default", args{"a": "1", "b": "2"}, args{"a": "1"}, false, false},
		{"all", args{match: "all", "a": "1"}, args{"a": "1", "c": "3"}, true, true},
		{"any", args{match: "any", "a": "1", "b": "2"}, args{"b": "2"}, true, true},
		{"any of nothing", args{match: "any"}, args{"a": "1"}, false, false},
		{"any with x of nothing", args{match: "any-with-x"}, args{"a": "1"}, false, false},
		{"all skips x-, so that it matches every message", args{match: "all", "x-last-death-reason": "rejected"}, args{}, true, true},
		{"any skips x-, so that it matches none", args{match: "any", "x-a": "1"}, args{"x-a": "1"}, false, false},
		{"all with x", args{match: "all-with-x", "x-a": "1"}, args{"x-a": "1"}, true, true},
		{"all with x, missing", args{match: "all-with-x", "x-a": "1"}, args{}, false, false},
		{"any with x", args{match: "any-with-x", "x-a": "1", "b": "2"}, args{"x-a": "1"}, true, true},
		{"number and text differ", args{"a": int64(1)}, args{"a": "1"}, false, false},
		{"truth and text differ", args{"a": true}, args{"a": "true"}, false, false},
		{"integer and float", args{"a": int64(1)}, args{"a": 1.0}, false, true},
		{"integer and float in a list", args{"a": list(int64(1), "x")}, args{"a": list(1.0, "x")}, false, true},
		{"in a table", args{"a": map[string]any{"n": 2.0}}, args{"a": map[string]any{"n": int64(2)}}, false, true},
		{"lists of other lengths", args{"a": list(int64(1))}, args{"a": list()}, false, false},
		{"void asks for presence", args{"a": nil}, args{"a": "anything"}, true, true},
		{"void, absent", args{"a": nil}, args{}, false, false},
		{"an unknown x-match is all", args{match: "none", "a": "1"}, args{}, false, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := topology.MatchHeaders(test.binding, test.headers, topology.Strict); got != test.strict {
				t.Errorf("strict: %v", got)
			}
			if got := topology.MatchHeaders(test.binding, test.headers, topology.Numeric); got != test.numeric {
				t.Errorf("numeric: %v", got)
			}
		})
	}
}

func TestRoutingKeys(t *testing.T) {
	headers := topology.Arguments{"CC": []any{"c1", "c2", int64(3)}, "BCC": []any{"b"}, "cc": []any{"no"}}
	if got, want := topology.RoutingKeys("k", headers), []string{"k", "c1", "c2", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// graph builds a topology of bindings written as "x -> q" or "x -> @y", with an
// optional key after a colon; names that start with "@" are exchanges.
func graph(exchanges map[string]string, alternates map[string]string, bindings ...string) *topology.Topology {
	in := topology.New()
	for name, kind := range exchanges {
		e := topology.Exchange{Name: name, Type: kind, Durable: true}
		if alternate, set := alternates[name]; set {
			e.Arguments = topology.Arguments{topology.AlternateExchange: alternate}
		}
		in.SetExchange(e)
	}
	for _, text := range bindings {
		text, key, _ := strings.Cut(text, ":")
		source, to, _ := strings.Cut(text, " -> ")
		b := topology.Binding{Source: source, Destination: to, DestinationKind: topology.KindQueue, RoutingKey: key}
		if name, isExchange := strings.CutPrefix(to, "@"); isExchange {
			b.Destination, b.DestinationKind = name, topology.KindExchange
		} else {
			in.SetQueue(topology.Queue{Name: to, Type: topology.Classic, Durable: true})
		}
		in.Bind(b)
	}
	return in
}

func TestRoute(t *testing.T) {
	kinds := map[string]string{"d": topology.Direct, "f": topology.Fanout, "t": topology.Topic, "h": topology.Headers, "g": topology.Fanout}
	tests := []struct {
		name string
		in   *topology.Topology
		to   string
		keys []string
		want []string
	}{
		{"default exchange", graph(kinds, nil, "d -> q"), "", []string{"q", "no queue"}, []string{"q"}},
		{"direct", graph(kinds, nil, "d -> a:k", "d -> b:l", "d -> c:m"), "d", []string{"k", "m"}, []string{"a", "c"}},
		{"fanout", graph(kinds, nil, "f -> a:k", "f -> b"), "f", []string{"x"}, []string{"a", "b"}},
		{"topic", graph(kinds, nil, "t -> a:*.b", "t -> b:#", "t -> c:b"), "t", []string{"a.b"}, []string{"a", "b"}},
		{"a queue once", graph(kinds, nil, "d -> a:k", "d -> a:l"), "d", []string{"k", "l"}, []string{"a"}},
		{"exchange to exchange", graph(kinds, nil, "d -> @f:k", "f -> a"), "d", []string{"k"}, []string{"a"}},
		{"a ring of exchanges", graph(kinds, nil, "f -> @g", "g -> @f", "g -> a"), "f", []string{""}, []string{"a"}},
		{"alternate", graph(kinds, map[string]string{"d": "f"}, "d -> a:k", "f -> b"), "d", []string{"l"}, []string{"b"}},
		{"no alternate when something matched", graph(kinds, map[string]string{"d": "f"}, "d -> a:k", "f -> b"), "d", []string{"k"}, []string{"a"}},
		{"alternates in a row", graph(kinds, map[string]string{"d": "t", "t": "f"}, "f -> b"), "d", []string{"k"}, []string{"b"}},
		{"alternates in a ring", graph(kinds, map[string]string{"d": "t", "t": "d"}), "d", []string{"k"}, nil},
		{"a match that leads nowhere is a match", graph(kinds, map[string]string{"d": "f"}, "d -> @t:k", "f -> b"), "d", []string{"k"}, nil},
		{"alternate of the exchange behind", graph(kinds, map[string]string{"t": "f"}, "d -> @t:k", "f -> b"), "d", []string{"k"}, []string{"b"}},
		{"alternate that is missing", graph(kinds, map[string]string{"d": "gone"}), "d", []string{"k"}, nil},
		{"headers without arguments", graph(kinds, nil, "h -> a"), "h", []string{"k"}, []string{"a"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := test.in.Route(test.to, topology.Message{RoutingKeys: test.keys}, topology.Strict)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestRouteErrors(t *testing.T) {
	in := graph(map[string]string{"d": topology.Direct, "odd": "x-modulus-hash"}, nil, "d -> @odd:k")
	for exchange, want := range map[string]error{"gone": topology.ErrNoExchange, "odd": topology.ErrUnknownExchangeType, "d": topology.ErrUnknownExchangeType} {
		if _, err := in.Route(exchange, topology.Message{RoutingKeys: []string{"k"}}, topology.Strict); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", exchange, err, want)
		}
	}
}
