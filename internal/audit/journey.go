package audit

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// journey is the way of one message from a queue on, after it died there. It
// goes on by itself through the queues in which messages wait; where it comes
// to rest it dies again, if the first death was a rejection, because a consumer
// that fails once may fail each time.
type journey struct {
	start  *queue
	reason string
	// steps are in the order in which they were found; branches mix.
	steps []step
	// loop are the queues of a part that repeats indefinitely, and wait the shortest
	// time for one round.
	loop []string
	wait time.Duration
}

// step is one death on a journey.
type step struct {
	queue  *queue
	reason string
	out    simulator.DeathOutcome
	// certain says that nothing decides where the message goes but what is known
	// of it; example is its routing key.
	certain bool
	// alone says that the message has no other routing key, such as those that
	// publishers put into the headers CC and BCC.
	alone   bool
	example string
	// path are the queues on the way here, this one included.
	path []string
	// wait is the time since the start.
	wait time.Duration
}

// entry is a message as it can come into a queue.
type entry struct {
	publishing simulator.Publishing
	// certain says that messages do come with this routing key.
	certain bool
}

// steps are those of all journeys.
func (g *graph) steps() []step {
	var all []step
	for _, j := range g.journeys {
		all = append(all, j.steps...)
	}
	return all
}

// maxSteps bounds a journey. The longest chain has 50 tiers and takes 101.
const maxSteps = 500

// follow sends messages on their way from every queue: first from those in which
// they do not wait, so that it is known then where dead letters wait.
func (g *graph) follow(ctx context.Context) error {
	if err := g.sendAll(ctx, func(q *queue) bool { return !q.waits() }, nil); err != nil {
		return err
	}
	return g.sendAll(ctx, (*queue).waits, maps.Clone(g.fed))
}

// sendAll sends messages on their way from the queues for which want says yes.
// What no binding and no dead letter reaches is published to through the default
// exchange, if at all. In the queues of rooms dead letters wait and nobody
// rejects them.
func (g *graph) sendAll(ctx context.Context, want func(*queue) bool, rooms map[string]bool) error {
	var unbound []*queue
	for i := range g.queues {
		q := &g.queues[i]
		if !q.deadLetters() || !want(q) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		entries := g.entries(q)
		if len(entries) == 0 {
			unbound = append(unbound, q)
		}
		g.send(q, entries, rooms[q.Name])
	}
	for _, q := range unbound {
		g.send(q, []entry{{simulator.Publishing{RoutingKey: q.Name}, !g.fed[q.Name]}}, rooms[q.Name])
	}
	return nil
}

func (g *graph) send(q *queue, entries []entry, isRoom bool) {
	for _, e := range entries {
		for _, reason := range g.deaths(q) {
			if reason != simulator.Rejected || !isRoom {
				g.journeys = append(g.journeys, g.travel(q, reason, e))
			}
		}
	}
}

// deaths are the reasons for which messages can die in the queue.
func (g *graph) deaths(q *queue) []string {
	reasons := []string{simulator.Rejected}
	if q.TTL != nil {
		reasons = append(reasons, simulator.Expired)
	}
	if q.dropsHead() {
		reasons = append(reasons, simulator.MaxLen)
	}
	if q.DeliveryLimit != nil {
		reasons = append(reasons, simulator.DeliveryLimit)
	}
	return reasons
}

// maxEntries is how many kinds of message are followed from one queue.
const maxEntries = 20

// entries are the messages that the bindings let into the queue, one for each.
func (g *graph) entries(q *queue) []entry {
	var found []entry
	g.collect(target{topology.KindQueue, q.Name}, nil, map[string]bool{}, &found)
	return found
}

// target is an object that bindings lead to.
type target struct {
	kind topology.Kind
	name string
}

// bound is a binding with its identity.
type bound struct {
	id string
	topology.Binding
}

// into returns the bindings that lead to the object, in the order of their identities.
func (g *graph) into(to target) []bound {
	if known, isKnown := g.sorted[to]; isKnown {
		return known
	}
	var list []bound
	for _, b := range g.To(to.kind, to.name) {
		list = append(list, bound{b.ID(), b})
	}
	slices.SortFunc(list, func(a, b bound) int { return strings.Compare(a.id, b.id) })
	g.sorted[to] = list
	return list
}

// collect goes up through bindings between exchanges until it has enough. A message
// that passes two of them must match both, and so it is certain only on one.
func (g *graph) collect(to target, below *entry, seen map[string]bool, found *[]entry) {
	for _, b := range g.into(to) {
		source, exists := g.Exchange(b.Source)
		if !exists || seen[b.id] {
			continue
		}
		if len(*found) == maxEntries {
			return
		}
		seen[b.id] = true
		e := entryOf(source, b.Binding)
		if below != nil {
			e = entry{publishing: below.publishing, certain: false}
		}
		*found = append(*found, e)
		g.collect(target{topology.KindExchange, b.Source}, &e, seen, found)
	}
}

// entryOf is a message that the binding takes.
func entryOf(source topology.Exchange, b topology.Binding) entry {
	e := entry{publishing: simulator.Publishing{Exchange: source.Name, Headers: topology.Arguments{}}}
	switch source.Type {
	case topology.Direct:
		e.publishing.RoutingKey, e.certain = b.RoutingKey, true
	case topology.Topic:
		e.publishing.RoutingKey = sampleKey(b.RoutingKey)
		e.certain = e.publishing.RoutingKey == b.RoutingKey
	case topology.Headers:
		for key, value := range b.Arguments {
			if key != topology.Match && value != nil {
				e.publishing.Headers[key] = value
			}
		}
	}
	return e
}

// sampleKey is a routing key that a binding of a topic exchange takes.
func sampleKey(pattern string) string {
	words := strings.Split(pattern, ".")
	for i, word := range words {
		if word == "*" || word == "#" {
			words[i] = "any"
		}
	}
	return strings.Join(words, ".")
}

// trip is a letter on a journey, with how it came there.
type trip struct {
	letter  simulator.Letter
	certain bool
	alone   bool
	path    []string
	visits  []visit
	wait    time.Duration
}

// visit is a letter on the trip before.
type visit struct {
	letter simulator.Letter
	wait   time.Duration
}

func (g *graph) travel(start *queue, reason string, e entry) journey {
	j := journey{start: start, reason: reason}
	todo := []trip{{letter: g.follower.Put(start.Name, e.publishing), certain: e.certain, path: []string{start.Name}}}
	for ; len(todo) > 0 && len(j.steps) < maxSteps; todo = todo[1:] {
		todo = append(todo, g.advance(&j, todo[0])...)
	}
	return j
}

// advance lets the message die where it is and returns the trips that follow.
func (g *graph) advance(j *journey, t trip) []trip {
	q := g.byName[t.letter.Queue]
	reason, goesOn := j.nextDeath(q, g.allWait(t.path), len(t.path) == 1)
	if !goesOn {
		return nil
	}
	if j.repeats(t) {
		return nil
	}
	t.visits = append(slices.Clone(t.visits), visit{t.letter, t.wait})
	if reason == simulator.Expired && q.TTL != nil {
		t.wait += *q.TTL
	}
	s := step{
		queue: q, reason: reason, out: g.follower.Die(t.letter, reason), path: t.path, example: t.letter.RoutingKey(), wait: t.wait,
		certain: (t.certain || q.Key != nil) && !g.asksForHeaders(*q.DeadLetterExchange), alone: t.alone || q.Key != nil,
	}
	if q.Key != nil {
		s.example = *q.Key
	}
	j.steps = append(j.steps, s)
	var next []trip
	for _, letter := range s.out.Letters {
		g.fed[letter.Queue] = true
		next = append(next, trip{
			letter: letter, certain: t.certain || q.Key != nil, alone: s.alone,
			path: append(slices.Clone(t.path), letter.Queue), visits: t.visits, wait: t.wait,
		})
	}
	return next
}

// nextDeath says by what a message dies next in a queue that it came to. A queue
// with a time-to-live has consumers that reject only if the journey has seen no
// other queue that could have some.
func (j *journey) nextDeath(q *queue, allWait, first bool) (reason string, dies bool) {
	switch {
	case q == nil || !q.deadLetters():
		return "", false
	case first || allWait && q == j.start && j.reason == simulator.Rejected:
		return j.reason, true
	case q.waits():
		return simulator.Expired, true
	default:
		return simulator.Rejected, j.reason == simulator.Rejected
	}
}

// allWait says whether messages leave all of the queues by themselves.
func (g *graph) allWait(queues []string) bool {
	return !slices.ContainsFunc(queues, func(name string) bool { q := g.byName[name]; return q == nil || !q.waits() })
}

// repeats notes a loop when the trip was in the same state before.
func (j *journey) repeats(t trip) bool {
	i := slices.IndexFunc(t.visits, func(v visit) bool { return v.letter.SameState(t.letter) })
	if i < 0 {
		return false
	}
	if wait := t.wait - t.visits[i].wait; j.loop == nil || wait < j.wait {
		j.loop, j.wait = t.path[i:], wait
	}
	return true
}

// asksForHeaders says whether headers that publishers set decide where a message
// goes from the exchange on. They are not known.
func (g *graph) asksForHeaders(exchange string) bool {
	return remember(g.asking, exchange, func() bool {
		found := false
		g.reach(exchange, func(e topology.Exchange) {
			if e.Type != topology.Headers {
				return
			}
			for _, b := range g.From(e.Name) {
				for key := range b.Arguments {
					found = found || !strings.HasPrefix(key, topology.ArgumentPrefix)
				}
			}
		})
		return found
	})
}

// remember returns what is known of the name, and finds it out once.
func remember(known map[string]bool, name string, find func() bool) bool {
	answer, isKnown := known[name]
	if !isKnown {
		answer = find()
		known[name] = answer
	}
	return answer
}

// reach visits the exchange and those that messages can get to from it.
func (g *graph) reach(exchange string, visit func(topology.Exchange)) {
	seen := map[string]bool{}
	for todo := []string{exchange}; len(todo) > 0; todo = todo[1:] {
		e, exists := g.Exchange(todo[0])
		if !exists || seen[e.Name] {
			continue
		}
		seen[e.Name] = true
		visit(e)
		todo = append(todo, e.Alternate())
		for _, b := range g.From(e.Name) {
			if b.DestinationKind == topology.KindExchange {
				todo = append(todo, b.Destination)
			}
		}
	}
}

// leadsToQueues says whether any message may get from the exchange to a queue.
// What exchanges of types do that are not known here, nobody can say.
func (g *graph) leadsToQueues(exchange string) bool {
	return remember(g.leading, exchange, func() bool {
		found := false
		g.reach(exchange, func(e topology.Exchange) {
			found = found || !e.KnownType()
			for _, b := range g.From(e.Name) {
				found = found || b.DestinationKind == topology.KindQueue
			}
		})
		return found
	})
}
