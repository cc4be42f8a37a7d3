package retrychain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccChangeOfDelays adds, removes, reorders and replaces delays of a chain
// at work. Nothing is lost, and nothing is doubled as long as the first delay
// stays.
func TestAccChangeOfDelays(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms", "500ms"}})
		s.apply()
		l := startTraffic(t, b, vhost, func(l *traffic) { l.every = 10 * time.Millisecond })
		l.waitFor(100)
		for _, delays := range [][]any{{"200ms", "300ms", "500ms"}, {"200ms", "500ms", "300ms"}, {"200ms", "400ms"}} {
			s.config["delays"] = delays
			s.apply()
			s.expectPlan(s.plan())
			s.expectOnly()
			l.waitFor(100)
		}
		if o := l.finish(30 * time.Second); o.doubled > 0 {
			t.Errorf("%d messages were doubled", o.doubled)
		}
	})
}

// liveChange is a row of changes of one chain at work.
type liveChange struct {
	name string
	// first are the attributes of the new chain, and steps what each update
	// changes of them.
	first map[string]any
	steps []map[string]any
	// exchange and key are where messages are published; by default at the work
	// queue itself.
	exchange, key string
	// doubles: a message may come twice, because the first delay or the strategy
	// changes.
	doubles bool
	// headers: the change needs strategy "headers".
	headers bool
}

var liveChanges = []liveChange{
	{
		name:    "all delays",
		first:   map[string]any{"delays": []any{"200ms", "500ms"}},
		steps:   []map[string]any{{"delays": []any{"100ms", "300ms", "700ms"}}, {"delays": []any{"400ms"}}},
		doubles: true,
	},
	{
		name:    "no delays and back",
		first:   map[string]any{"delays": []any{"200ms", "500ms"}},
		steps:   []map[string]any{{"delays": []any{}}, {"delays": []any{"200ms", "500ms"}}},
		doubles: true,
	},
	{
		name:  "repeated delays",
		first: map[string]any{"delays": []any{"200ms"}},
		steps: []map[string]any{{"delays": []any{"200ms", "200ms", "200ms"}}, {"delays": []any{"200ms", "200ms"}}},
	},
	{
		name:    "delays of nothing",
		first:   map[string]any{"delays": []any{"0s", "300ms"}},
		steps:   []map[string]any{{"delays": []any{"0s", "0s", "300ms", "0s"}}, {"delays": []any{"300ms", "0s"}}},
		doubles: true,
	},
	{
		name:    "strategy",
		first:   map[string]any{"delays": []any{"200ms", "400ms"}},
		steps:   []map[string]any{{"strategy": "routing_key"}, {"strategy": "headers"}},
		doubles: true,
		headers: true,
	},
	{
		name:     "source bindings",
		first:    map[string]any{"work_queue": sources("amq.topic order.#")},
		steps:    []map[string]any{{"work_queue": sources("amq.topic order.#", "amq.topic order.*", "amq.fanout")}, {"work_queue": sources("amq.topic order.*")}},
		exchange: "amq.topic",
		key:      "order.created",
	},
	{
		name:  "deletion policy and timeouts",
		first: map[string]any{},
		steps: []map[string]any{
			{"deletion_policy": "if_empty", "timeouts": map[string]any{"update": "5m"}},
			{"deletion_policy": "retain", "timeouts": map[string]any{"update": "5m", "delete": "1m"}},
			{"deletion_policy": "delete", "timeouts": nil},
		},
	},
	{
		name:  "several attributes",
		first: map[string]any{"delays": []any{"200ms", "500ms"}, "work_queue": sources("amq.topic order.#")},
		steps: []map[string]any{{
			"delays": []any{"200ms", "300ms"}, "work_queue": sources("amq.topic order.*"), "deletion_policy": "if_empty",
			"timeouts": map[string]any{"update": "3m"},
		}},
		exchange: "amq.topic",
		key:      "order.created",
	},
}

// sources are the bindings of a work queue, written "exchange" or
// "exchange key".
func sources(all ...string) map[string]any {
	var bindings []any
	for _, source := range all {
		exchange, key, _ := strings.Cut(source, " ")
		binding := map[string]any{"exchange": exchange}
		if key != "" {
			binding["routing_key"] = key
		}
		bindings = append(bindings, binding)
	}
	return map[string]any{"bindings": bindings}
}

// TestAccChangeAtWork changes chains while messages are published, rejected and
// retried. Each kind of change meets each broker, in turn with other queue types
// and strategies. After it the plan is empty, nothing is left of what was
// before, and every message is accounted for.
func TestAccChangeAtWork(t *testing.T) {
	eachChange(t, func(t *testing.T, b *rabbit.Broker, v variant, change liveChange) {
		vhost := acctest.VHost(t, b)
		s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms"}})
		maps.Copy(s.config, change.first)
		s.apply()
		l := startTraffic(t, b, vhost, func(l *traffic) {
			l.every = 10 * time.Millisecond
			if change.exchange != "" {
				l.exchange, l.key = change.exchange, change.key
			}
		})
		l.waitFor(100)
		for _, step := range change.steps {
			maps.Copy(s.config, step)
			s.apply()
			s.expectPlan(s.plan())
			s.expectOnly()
			l.waitFor(100)
		}
		if o := l.finish(30 * time.Second); o.doubled > 0 && !change.doubles {
			t.Errorf("%d messages were doubled", o.doubled)
		}
	})
}

// eachChange runs the test for every change, each on one of the brokers.
func eachChange(t *testing.T, test func(t *testing.T, b *rabbit.Broker, v variant, change liveChange)) {
	t.Parallel()
	for i, change := range liveChanges {
		t.Run(change.name, func(t *testing.T) {
			able := func(b *rabbit.Broker) bool { return !change.headers || acctest.Modern(b) }
			acctest.EachWith(t, "strategy headers needs RabbitMQ 3.13.3", able, func(t *testing.T, b *rabbit.Broker) {
				v := turn(b, i)
				if change.headers {
					v.strategy = "headers"
				}
				t.Log(v)
				test(t, b, v, change)
			})
		})
	}
}

// turn chooses one of the broker's variants, so that a long list of cases meets
// all of them.
func turn(b *rabbit.Broker, i int) variant {
	all := variants(b)
	return all[(i+len(b.Version)+int(b.Version[len(b.Version)-1]))%len(all)]
}

// expectOnly fails the test unless the broker holds exactly the exchanges and
// queues that the state tells of, and no bindings but those and the steps out of
// tiers that are gone.
func (s *session) expectOnly() {
	s.t.Helper()
	api := acctest.API(s.t, s.b)
	exchanges, err := api.ListExchangesIn(s.vhost)
	if err != nil {
		s.t.Fatal(err)
	}
	known := s.lines("exchanges")
	for _, e := range exchanges {
		if _, is := known[e.Name]; !is && e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
			s.t.Errorf("exchange %q is left", e.Name)
		}
		delete(known, e.Name)
	}
	if len(known) > 0 {
		s.t.Errorf("the state tells of exchanges that do not exist: %v", known)
	}
	expectQueues(s.t, s.b, s.vhost, slices.Sorted(maps.Keys(s.lines("queues")))...)
	s.expectOnlyBindings()
	if draining := protocol.Go(protocol.At(s.state.Value, "draining")); fmt.Sprint(draining) != "[]" {
		s.t.Errorf("the state has draining = %v", draining)
	}
}

func (s *session) expectOnlyBindings() {
	s.t.Helper()
	bindings, err := acctest.API(s.t, s.b).ListBindingsIn(s.vhost)
	if err != nil {
		s.t.Fatal(err)
	}
	queues, count := s.lines("queues"), 0
	for _, b := range bindings {
		if b.Source == "" {
			continue
		}
		count++
		last, _ := b.Arguments["x-last-death-exchange"].(string)
		tier := strings.Replace(last, "orders.return.", "orders.retry.", 1)
		if b.Source == "orders.retry.keys" {
			tier = b.RoutingKey
		}
		if _, exists := queues[tier]; tier != "" && !exists {
			count-- // the step out of a tier that is gone
		}
	}
	if known := s.lines("bindings"); count != len(known) {
		s.t.Errorf("the broker has %d bindings beside those that lead out of removed tiers, and the state tells of %d: %v", count, len(known), known)
	}
}

// lines is a part of the topology in the state.
func (s *session) lines(kind string) map[string]any {
	lines, _ := protocol.Go(protocol.At(s.state.Value, "topology."+kind)).(map[string]any)
	return lines
}

// TestAccRefusedChange changes each attribute that the queues of a chain were
// declared with. The plan refuses it, says why, and how it can be done by hand;
// the chain stays as it is.
func TestAccRefusedChange(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range variants(b) {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				s := newSession(t, b, acctest.VHost(t, b), v, nil)
				s.apply()
				before := maps.Clone(s.config)
				for attribute, refused := range refusedChanges(b, v) {
					s.config = maps.Clone(before)
					maps.Copy(s.config, refused.change)
					expectRefused(t, s.tryApply(), attribute+" Change Not Possible in Place", attribute+" of the living chain \"orders\"", refused.reason,
						"add a chain of another name with the new value, move publishers and then consumers to its work queue, and remove this chain when its queues are empty")
				}
				s.config = before
				s.expectPlan(s.plan())
				s.expectOnly()
			})
		}
	})
}

// refusedChange is a change that the plan refuses, for a reason.
type refusedChange struct {
	change map[string]any
	reason string
}

// refusedChanges are those that a chain of this form can be asked for.
func refusedChanges(b *rabbit.Broker, v variant) map[string]refusedChange {
	const everyQueue, argument = "RabbitMQ fixes it when a queue is declared, and every queue of the chain has it", "RabbitMQ fixes when the queue is declared"
	work := func(name string, value any) refusedChange {
		return refusedChange{map[string]any{"work_queue": map[string]any{name: value}}, "it is an argument of the work queue, which " + argument}
	}
	all := map[string]refusedChange{
		"queue_type":                        {map[string]any{"queue_type": "classic", "dead_letter_strategy": "at-most-once"}, everyQueue},
		"work_queue.single_active_consumer": work("single_active_consumer", true),
		"work_queue.arguments":              work("arguments", `{"x-max-in-memory-length": 5}`),
		"work_queue.name": {
			map[string]any{"work_queue": map[string]any{"name": "other"}}, "messages that wait in a tier come back to the queue of the old name",
		},
		"parking_queue.name": {
			map[string]any{"parking_queue": map[string]any{"name": "other"}}, "parked messages stay in the queue of the old name",
		},
	}
	if v.queueType == "classic" {
		all["queue_type"] = refusedChange{map[string]any{"queue_type": "quorum"}, everyQueue}
		all["work_queue.arguments"] = work("arguments", `{"x-max-priority": 5}`)
	} else {
		all["dead_letter_strategy"] = refusedChange{map[string]any{"dead_letter_strategy": otherDeadLetterStrategy(v)}, everyQueue}
	}
	// Before 3.13 these would lose messages, which is another error.
	if acctest.Modern(b) {
		all["work_queue.message_ttl"] = work("message_ttl", "1h")
		all["work_queue.max_length"] = work("max_length", 10)
		all["work_queue.max_length_bytes"] = work("max_length_bytes", 1000)
		if v.queueType == "quorum" {
			all["work_queue.delivery_limit"] = work("delivery_limit", 7)
		}
	}
	// The other combinations cannot have another overflow behaviour than their
	// default: nothing would keep their messages.
	if v.queueType == "quorum" && v.deadLetterStrategy == "at-most-once" {
		all["work_queue.overflow"] = work("overflow", "reject-publish")
	}
	all["parking_queue.message_ttl"] = refusedChange{
		map[string]any{"parking_queue": map[string]any{"message_ttl": "1h"}}, "it is an argument of the parking queue, which " + argument,
	}
	return all
}

func otherDeadLetterStrategy(v variant) string {
	if v.deadLetterStrategy == "at-least-once" {
		return "at-most-once"
	}
	return "at-least-once"
}

func tierName(v variant, label string) string {
	if v.strategy == "routing_key" {
		return "orders.attempt." + label
	}
	return "orders.retry." + label
}

// expectQueues fails the test unless the virtual host has exactly these queues.
func expectQueues(t *testing.T, b *rabbit.Broker, vhost string, want ...string) {
	t.Helper()
	list, err := acctest.API(t, b).ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, q := range list {
		have[q.Name] = true
	}
	for _, name := range want {
		if !have[name] {
			t.Errorf("queue %q is missing", name)
		}
		delete(have, name)
	}
	for name := range have {
		t.Errorf("queue %q is left", name)
	}
}
