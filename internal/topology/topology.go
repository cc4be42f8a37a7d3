package topology

import (
	"maps"
	"slices"
	"strings"
)

// Topology is a set of exchanges, queues, bindings and policies of one virtual
// host, with indexes over the bindings. It is not safe for concurrent writes.
type Topology struct {
	exchanges     map[string]Exchange
	queues        map[string]Queue
	bindings      map[string]placed
	policies      map[policyKey]Policy
	matchers      map[policyKey]matcher
	bySource      map[string][]Binding
	byDestination map[destination][]Binding
	// done ends comparisons of patterns; see [Topology.Until]. It is nil for none.
	done <-chan struct{}
	// indexes are built as they are asked for. They are nil without [Topology.Indexed].
	indexes map[indexKey]*index
}

// Until returns the same topology, not a copy, for a caller that waits for answers
// until done is closed. Afterwards a policy whose pattern takes long to compare counts
// as one that may apply.
func (t *Topology) Until(done <-chan struct{}) *Topology {
	same := *t
	same.done = done
	return &same
}

// placed is a binding, with its positions in the lists of its source and its
// destination: it is removed from them without a search.
type placed struct {
	Binding
	atSource, atDestination int
}

type destination struct {
	kind Kind
	name string
}

// New returns an empty topology.
func New() *Topology {
	return &Topology{
		exchanges:     map[string]Exchange{},
		queues:        map[string]Queue{},
		bindings:      map[string]placed{},
		policies:      map[policyKey]Policy{},
		matchers:      map[policyKey]matcher{},
		bySource:      map[string][]Binding{},
		byDestination: map[destination][]Binding{},
	}
}

// Clone returns an independent copy.
func (t *Topology) Clone() *Topology {
	c := New()
	c.Add(t)
	return c
}

// Empty says whether the topology holds nothing at all.
func (t *Topology) Empty() bool {
	return len(t.exchanges) == 0 && len(t.queues) == 0 && len(t.bindings) == 0 && len(t.policies) == 0
}

// SetExchange adds the exchange, or replaces the one of its name.
func (t *Topology) SetExchange(e Exchange) {
	e.Arguments = e.Arguments.Clone()
	t.exchanges[e.Name] = e
}

// SetQueue adds the queue, or replaces the one of its name.
func (t *Topology) SetQueue(q Queue) {
	q.Arguments = q.Arguments.Clone()
	t.queues[q.Name] = q
}

// SetPolicy adds the policy, or replaces the one of its name. A policy and an
// operator policy can have the same name.
func (t *Topology) SetPolicy(p Policy) {
	p.Definition = p.Definition.Clone()
	if before, exists := t.policies[p.key()]; !exists || before.Pattern != p.Pattern {
		t.matchers[p.key()] = newMatcher(p.Pattern)
	}
	t.policies[p.key()] = p
}

// RemovePolicy removes the policy, or the operator policy, of the same name.
func (t *Topology) RemovePolicy(p Policy) {
	delete(t.policies, p.key())
	delete(t.matchers, p.key())
}

// Bind adds the binding. Adding it twice changes nothing.
func (t *Topology) Bind(b Binding) {
	t.bind(b.ID(), b)
}

func (t *Topology) bind(id string, b Binding) {
	if _, exists := t.bindings[id]; exists {
		return
	}
	b.Arguments = b.Arguments.Clone()
	to := b.to()
	t.bindings[id] = placed{b, len(t.bySource[b.Source]), len(t.byDestination[to])}
	t.bySource[b.Source] = append(t.bySource[b.Source], b)
	t.byDestination[to] = append(t.byDestination[to], b)
}

func (b Binding) to() destination { return destination{b.DestinationKind, b.Destination} }

// Unbind removes the binding. Removing one that is not there changes nothing.
func (t *Topology) Unbind(b Binding) {
	id := b.ID()
	p, exists := t.bindings[id]
	if !exists {
		return
	}
	delete(t.bindings, id)
	if moved, isMoved := removeAt(t.bySource, b.Source, p.atSource); isMoved {
		id := moved.ID()
		other := t.bindings[id]
		other.atSource = p.atSource
		t.bindings[id] = other
	}
	if moved, isMoved := removeAt(t.byDestination, b.to(), p.atDestination); isMoved {
		id := moved.ID()
		other := t.bindings[id]
		other.atDestination = p.atDestination
		t.bindings[id] = other
	}
}

// removeAt removes the binding at the position from the list of that key. The
// last of the list takes its place; removeAt returns it if it is another one.
func removeAt[K comparable](lists map[K][]Binding, key K, at int) (moved Binding, isMoved bool) {
	list := lists[key]
	last := len(list) - 1
	list[at], list[last] = list[last], Binding{}
	if last == 0 {
		delete(lists, key)
		return Binding{}, false
	}
	lists[key] = list[:last]
	return list[at], at < last
}

// RemoveExchange removes the exchange and, as RabbitMQ does, every binding
// that starts or ends at it.
func (t *Topology) RemoveExchange(name string) {
	delete(t.exchanges, name)
	for _, b := range slices.Concat(t.bySource[name], t.byDestination[destination{KindExchange, name}]) {
		t.Unbind(b)
	}
}

// RemoveQueue removes the queue and every binding that ends at it.
func (t *Topology) RemoveQueue(name string) {
	delete(t.queues, name)
	for _, b := range slices.Clone(t.byDestination[destination{KindQueue, name}]) {
		t.Unbind(b)
	}
}

// Exchange returns the exchange of that name and whether there is one. The
// caller must not change its arguments.
func (t *Topology) Exchange(name string) (Exchange, bool) {
	e, ok := t.exchanges[name]
	return e, ok
}

// Queue returns the queue of that name and whether there is one. The caller
// must not change its arguments.
func (t *Topology) Queue(name string) (Queue, bool) {
	q, ok := t.queues[name]
	return q, ok
}

// Policy returns the policy of that name, no operator policy, and whether there
// is one. The caller must not change its definition.
func (t *Topology) Policy(name string) (Policy, bool) {
	p, ok := t.policies[policyKey{name: name}]
	return p, ok
}

// Policies returns all policies in the order of their names, operator policies
// last.
func (t *Topology) Policies() []Policy {
	policies := slices.Collect(maps.Values(t.policies))
	slices.SortFunc(policies, func(a, b Policy) int {
		if a.Operator != b.Operator {
			return rank(!a.Operator) - rank(!b.Operator)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return policies
}

// Has says whether exactly this binding exists.
func (t *Topology) Has(b Binding) bool {
	_, ok := t.bindings[b.ID()]
	return ok
}

// Exchanges returns all exchanges in the order of their names.
func (t *Topology) Exchanges() []Exchange { return sortedValues(t.exchanges) }

// Queues returns all queues in the order of their names.
func (t *Topology) Queues() []Queue { return sortedValues(t.queues) }

// Bindings returns all bindings in the order of their identities.
func (t *Topology) Bindings() []Binding {
	bindings := make([]Binding, 0, len(t.bindings))
	for _, p := range sortedValues(t.bindings) {
		bindings = append(bindings, p.Binding)
	}
	return bindings
}

// From returns the bindings whose source is the exchange, in no given order.
// The caller must not change the result.
func (t *Topology) From(exchange string) []Binding { return t.bySource[exchange] }

// To returns the bindings that lead to the object, in no given order. The
// caller must not change the result.
func (t *Topology) To(kind Kind, name string) []Binding {
	return t.byDestination[destination{kind, name}]
}

// Add adds everything that other holds.
func (t *Topology) Add(other *Topology) {
	for _, e := range other.exchanges {
		t.SetExchange(e)
	}
	for _, q := range other.queues {
		t.SetQueue(q)
	}
	for id, p := range other.bindings {
		t.bind(id, p.Binding)
	}
	for key, p := range other.policies {
		t.policies[key], t.matchers[key] = p, other.matchers[key]
	}
}

func sortedValues[V any](m map[string]V) []V {
	values := make([]V, 0, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		values = append(values, m[key])
	}
	return values
}

// Lines is a topology as text: a map from each object's name to one line that
// describes it, per kind of object.
type Lines struct {
	Exchanges map[string]string
	Queues    map[string]string
	Bindings  map[string]string
	// Policies holds the policies, no operator policies.
	Policies map[string]string
}

// Lines describes the topology. Two bindings can share a label; then the one
// that expected holds keeps the short label and the others carry their
// arguments as well, so that an unexpected binding never renames an expected
// one. Pass nil when nothing is expected.
func (t *Topology) Lines(expected *Topology) Lines {
	lines := Lines{
		Exchanges: map[string]string{}, Queues: map[string]string{}, Bindings: map[string]string{}, Policies: map[string]string{},
	}
	for name, e := range t.exchanges {
		lines.Exchanges[name] = e.Line()
	}
	for name, q := range t.queues {
		lines.Queues[name] = q.Line()
	}
	for _, p := range t.policies {
		if !p.Operator {
			lines.Policies[p.Name] = p.Line()
		}
	}
	for _, b := range t.expectedFirst(expected) {
		label := b.Label()
		if _, taken := lines.Bindings[label]; taken {
			label += " [" + b.Arguments.Text() + "]"
		}
		lines.Bindings[label] = b.Line()
	}
	return lines
}

func (t *Topology) expectedFirst(expected *Topology) []Binding {
	bindings := t.Bindings()
	if expected == nil {
		return bindings
	}
	slices.SortStableFunc(bindings, func(a, b Binding) int {
		return rank(expected.Has(a)) - rank(expected.Has(b))
	})
	return bindings
}

func rank(expected bool) int {
	if expected {
		return 0
	}
	return 1
}

// MaxNameBytes is the longest name of an object and the longest routing key, in bytes of
// UTF-8 (an AMQP 0-9-1 short string).
const MaxNameBytes = 255

// IsReserved says whether RabbitMQ keeps the name for itself: "amq." names
// cannot be declared.
func IsReserved(name string) bool { return strings.HasPrefix(name, "amq.") }

// ExchangesWithPrefix returns the names of all exchanges that start with the
// prefix, in order.
func (t *Topology) ExchangesWithPrefix(prefix string) []string {
	return namesWithPrefix(t.exchanges, prefix)
}

// QueuesWithPrefix returns the names of all queues that start with the prefix,
// in order.
func (t *Topology) QueuesWithPrefix(prefix string) []string {
	return namesWithPrefix(t.queues, prefix)
}

func namesWithPrefix[V any](m map[string]V, prefix string) []string {
	var names []string
	for name := range m {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
