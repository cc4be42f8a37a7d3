package topology

import "strings"

// Indexed returns the same topology, not a copy, for a caller that routes many
// messages and is the only one to use it: bindings are looked up by what they ask for
// instead of being tried one after the other. It must not change any more.
func (t *Topology) Indexed() *Topology {
	same := *t
	same.indexes = map[indexKey]*index{}
	return &same
}

// indexKey is an exchange and the type as which it routes.
type indexKey struct{ exchange, kind string }

// index are the bindings of one exchange, each in one place. A message can match only
// those under the keys that it has, and those of rest.
type index struct {
	byKey map[string][]Binding
	rest  []Binding
}

// indexedFrom is how many bindings an exchange has at least that gets an index.
const indexedFrom = 16

// candidates are the bindings of the exchange that may take the message.
func (t *Topology) candidates(exchange, kind string, m Message) []Binding {
	bindings := t.bySource[exchange]
	if t.indexes == nil || len(bindings) < indexedFrom || kind == Fanout {
		return bindings
	}
	key := indexKey{exchange, kind}
	i := t.indexes[key]
	if i == nil {
		i = newIndex(bindings, kind)
		t.indexes[key] = i
	}
	found := i.rest[:len(i.rest):len(i.rest)]
	if kind == Headers {
		for header, value := range m.Headers {
			found = append(found, i.byKey[Arguments{header: value}.Text()]...)
		}
		return found
	}
	for _, key := range m.RoutingKeys {
		found = append(found, i.byKey[key]...)
	}
	return found
}

func newIndex(bindings []Binding, kind string) *index {
	i := &index{byKey: map[string][]Binding{}}
	keys := bindingKey
	if kind == Headers {
		keys = rarestHeader(bindings)
	}
	for _, b := range bindings {
		if key, only := keys(b, kind); only {
			i.byKey[key] = append(i.byKey[key], b)
		} else {
			i.rest = append(i.rest, b)
		}
	}
	return i
}

// bindingKey is the only routing key that the binding takes, if it takes only one.
func bindingKey(b Binding, kind string) (key string, only bool) {
	return b.RoutingKey, kind == Direct || kind == Topic && !strings.ContainsAny(b.RoutingKey, "*#")
}

// rarestHeader returns, of the headers without which a binding takes no message, that
// which the fewest bindings ask for.
func rarestHeader(bindings []Binding) func(b Binding, kind string) (key string, only bool) {
	uses := map[string]int{}
	for _, b := range bindings {
		for _, header := range b.demands() {
			uses[header]++
		}
	}
	return func(b Binding, _ string) (key string, only bool) {
		for _, header := range b.demands() {
			if !only || uses[header] < uses[key] {
				key, only = header, true
			}
		}
		return key, only
	}
}

// demands are headers, with their values, that a message must have for a headers
// exchange to take it for the binding. Only texts and truth values are among them: how
// numbers compare depends on the version.
func (b Binding) demands() []string {
	var headers []string
	match := b.Arguments.String(Match)
	if match == MatchAny || match == MatchAnyWithX {
		return nil
	}
	for header, value := range b.Arguments {
		switch value.(type) {
		case string, bool:
			if header != Match && (match == MatchAllWithX || !strings.HasPrefix(header, ArgumentPrefix)) {
				headers = append(headers, Arguments{header: value}.Text())
			}
		}
	}
	return headers
}
