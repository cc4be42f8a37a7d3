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
	bindings      map[string]Binding
	policies      map[policyKey]Policy
	matchers      map[policyKey]matcher
	bySource      map[string][]Binding
	byDestination map[destination][]Binding
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
		bindings:      map[string]Binding{},
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
	t.bindings[id] = b
	t.bySource[b.Source] = append(t.bySource[b.Source], b)
	to := destination{b.DestinationKind, b.Destination}
	t.byDestination[to] = append(t.byDestination[to], b)
}

// Unbind removes the binding. Removing one that is not there changes nothing.
func (t *Topology) Unbind(b Binding) {
	id := b.ID()
	if _, exists := t.bindings[id]; !exists {
		return
	}
	delete(t.bindings, id)
	same := func(other Binding) bool { return other.ID() == id }
	t.bySource[b.Source] = slices.DeleteFunc(t.bySource[b.Source], same)
	to := destination{b.DestinationKind, b.Destination}
	t.byDestination[to] = slices.DeleteFunc(t.byDestination[to], same)
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
func (t *Topology) Bindings() []Binding { return sortedValues(t.bindings) }

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
	for id, b := range other.bindings {
		t.bind(id, b)
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
	lines := Lines{Exchanges: map[string]string{}, Queues: map[string]string{}, Bindings: map[string]string{}, Policies: map[string]string{}}
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
