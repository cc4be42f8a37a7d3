package retrychain_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// handMade is a topology that a person wrote down for another tool. Nothing in
// it comes from the provider.
type handMade struct {
	// exchanges holds "type" or "type alternate-exchange" by name.
	exchanges map[string]string
	// queues holds the arguments by name.
	queues   map[string]map[string]any
	bindings []rabbithole.BindingInfo
}

// handMadeChain is the chain "orders" with the delays 1s and 2s.
func handMadeChain(b *rabbit.Broker, v variant) *handMade {
	h := &handMade{
		exchanges: map[string]string{
			"orders.retry":       "headers orders.retry.first",
			"orders.retry.first": "headers orders.parking",
			"orders.parking":     "fanout",
			"orders.redrive":     "fanout",
		},
		queues: map[string]map[string]any{
			"orders":         {"x-dead-letter-exchange": "orders.retry"},
			"orders.parking": {},
		},
	}
	h.bind("orders.parking", "orders.parking", nil)
	h.bind("orders.redrive", "orders", nil)
	if v.strategy == "headers" {
		h.addHeadersSteps()
	} else {
		h.addRoutingKeySteps(b)
	}
	for name, arguments := range h.queues {
		h.complete(b, v, name, arguments)
	}
	return h
}

func (h *handMade) addHeadersSteps() {
	h.exchanges["orders.return.1s"] = "fanout orders.parking"
	h.exchanges["orders.return.2s"] = "fanout orders.parking"
	h.queues["orders.retry.1s"] = map[string]any{"x-message-ttl": 1000, "x-dead-letter-exchange": "orders.return.1s"}
	h.queues["orders.retry.2s"] = map[string]any{"x-message-ttl": 2000, "x-dead-letter-exchange": "orders.return.2s"}
	after := func(exchange string) map[string]any {
		return map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected", "x-last-death-exchange": exchange}
	}
	h.bind("orders.retry.first", "orders.retry.1s", map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected"})
	h.bind("orders.retry", "orders.retry.2s", after("orders.return.1s"))
	h.bind("orders.retry", "orders.parking", after("orders.return.2s"))
	h.bind("orders.return.1s", "orders", nil)
	h.bind("orders.return.2s", "orders", nil)
}

func (h *handMade) addRoutingKeySteps(b *rabbit.Broker) {
	h.exchanges["orders.retry.keys"] = "direct orders.retry.first"
	h.exchanges["orders.return"] = "fanout orders.parking"
	for ttl, name := range map[int]string{1000: "orders.attempt.1s", 2000: "orders.attempt.2s"} {
		h.queues[name] = map[string]any{"x-message-ttl": ttl, "x-dead-letter-exchange": "orders.return", "x-dead-letter-routing-key": name}
	}
	rejected, all := map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected"}, map[string]any(nil)
	if acctest.Modern(b) {
		all = rejected
	} else {
		rejected = map[string]any{"x-match": "all-with-x", "x-first-death-reason": "rejected"}
	}
	h.bindings = append(h.bindings,
		rabbithole.BindingInfo{Source: "orders.retry", Destination: "orders.retry.keys", DestinationType: "exchange", Arguments: all},
		rabbithole.BindingInfo{Source: "orders.retry.keys", Destination: "orders.attempt.2s", DestinationType: "queue", RoutingKey: "orders.attempt.1s"},
		rabbithole.BindingInfo{Source: "orders.retry.keys", Destination: "orders.parking", DestinationType: "queue", RoutingKey: "orders.attempt.2s"})
	h.bind("orders.retry.first", "orders.attempt.1s", rejected)
	h.bind("orders.return", "orders", nil)
}

// complete adds what depends on the type of the queues and on the broker.
func (h *handMade) complete(b *rabbit.Broker, v variant, name string, arguments map[string]any) {
	if v.queueType == "classic" {
		return // no x-queue-type: classic is what a queue is by default
	}
	arguments["x-queue-type"] = "quorum"
	if name == "orders.parking" {
		if strings.HasPrefix(b.Version, "4.") {
			arguments["x-delivery-limit"] = -1
		}
		return
	}
	arguments["x-dead-letter-strategy"] = v.deadLetterStrategy
	if v.deadLetterStrategy == "at-least-once" {
		arguments["x-overflow"] = "reject-publish"
	}
	if name == "orders" && acctest.Modern(b) {
		arguments["x-delivery-limit"] = 70
	}
}

func (h *handMade) bind(source, queue string, arguments map[string]any) {
	h.bindings = append(h.bindings, rabbithole.BindingInfo{Source: source, Destination: queue, DestinationType: "queue", Arguments: arguments})
}

// unbind drops the bindings between the two.
func (h *handMade) unbind(source, destination string) {
	h.bindings = slices.DeleteFunc(h.bindings, func(b rabbithole.BindingInfo) bool {
		return b.Source == source && b.Destination == destination
	})
}

// rename gives a queue another name.
func (h *handMade) rename(queue, name string) {
	h.queues[name] = h.queues[queue]
	delete(h.queues, queue)
	for i := range h.bindings {
		if b := &h.bindings[i]; b.DestinationType == "queue" && b.Destination == queue {
			b.Destination = name
		}
	}
}

// make declares everything.
func (h *handMade) make(t *testing.T, b *rabbit.Broker, vhost string) {
	t.Helper()
	api := acctest.API(t, b)
	do := func(resp *http.Response, err error) { t.Helper(); acctest.Do(t, resp, err) }
	for name, line := range h.exchanges {
		kind, alternate, found := strings.Cut(line, " ")
		settings := rabbithole.ExchangeSettings{Type: kind, Durable: true}
		if found {
			settings.Arguments = map[string]any{"alternate-exchange": alternate}
		}
		do(api.DeclareExchange(vhost, name, settings))
	}
	for name, arguments := range h.queues {
		do(api.DeclareQueue(vhost, name, rabbithole.QueueSettings{Durable: true, Arguments: arguments}))
	}
	for _, binding := range h.bindings {
		do(api.DeclareBinding(vhost, binding))
	}
}

// TestAccAdopt imports a chain that was made by hand: the plan is empty, and an
// apply makes no difference to the broker either.
func TestAccAdopt(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		handMadeChain(b, v).make(t, b, vhost)
		s := newSession(t, b, vhost, v, map[string]any{"deletion_policy": "if_empty"})
		s.expectPlan(s.importChain())
		s.expectPlan(s.plan())
		s.config["deletion_policy"] = "delete"
		s.expectPlan(s.plan(), "deletion_policy")
		s.apply()
		s.expectPlan(s.plan())
	})
}

// difference is a chain made by hand that is not what the configuration says.
type difference struct {
	change func(h *handMade)
	// config are further attributes of the configuration.
	config map[string]any
	// plan is what the plan after the import changes.
	plan []string
	// refused are words of the error of that plan, when it cannot be carried out.
	refused []string
}

func differences() map[string]difference {
	return map[string]difference{
		"one delay more": {
			change: func(h *handMade) { h.addTier("orders.retry.2s", "3s", 3000) },
			plan: []string{
				"delays", "draining", "tiers",
				"bindings ~ orders.retry -> orders.parking",
				"bindings - orders.retry -> orders.retry.3s", "bindings - orders.return.3s -> orders",
				"exchanges - orders.return.3s", "queues - orders.retry.3s",
			},
		},
		"one delay less": {
			config: map[string]any{"delays": []any{"1s", "2s", "3s"}},
			plan: []string{
				"delays", "tiers",
				"bindings ~ orders.retry -> orders.parking",
				"bindings + orders.retry -> orders.retry.3s", "bindings + orders.return.3s -> orders",
				"exchanges + orders.return.3s", "queues + orders.retry.3s",
			},
		},
		"another time-to-live": {
			change: func(h *handMade) { h.queues["orders.retry.2s"]["x-message-ttl"] = 2500 },
			plan:   []string{"queues ~ orders.retry.2s"},
		},
		"a return binding missing": {
			change: func(h *handMade) { h.unbind("orders.return.2s", "orders") },
			plan:   []string{"bindings + orders.return.2s -> orders"},
		},
		"the first binding missing": {
			change: func(h *handMade) { h.unbind("orders.retry.first", "orders.retry.1s") },
			plan:   []string{"bindings + orders.retry.first -> orders.retry.1s"},
		},
		"a step missing": {
			change: func(h *handMade) { h.unbind("orders.retry", "orders.retry.2s") },
			plan:   []string{"bindings + orders.retry -> orders.retry.2s"},
		},
		"no redrive": {
			change: func(h *handMade) { h.unbind("orders.redrive", "orders"); delete(h.exchanges, "orders.redrive") },
			plan:   []string{"exchanges + orders.redrive", "bindings + orders.redrive -> orders"},
		},
		"another binding to an exchange of the chain": {
			change: func(h *handMade) { h.queues["spy"] = nil; h.bind("orders.retry.first", "spy", nil) },
			plan:   []string{"bindings - orders.retry.first -> spy"},
		},
		"a source": {
			change: func(h *handMade) { h.bind("amq.fanout", "orders", nil) },
			plan:   []string{"work_queue", "bindings - amq.fanout -> orders"},
		},
		"a parking queue that others share": {
			change: func(h *handMade) {
				h.exchanges["bills.parking"] = "fanout"
				h.bind("bills.parking", "orders.parking", nil)
			},
			config: map[string]any{"parking_queue": map[string]any{"ownership": "application"}},
		},
		"no delivery limits": {
			change: func(h *handMade) {
				delete(h.queues["orders"], "x-delivery-limit")
				delete(h.queues["orders.parking"], "x-delivery-limit")
			},
		},
		"limits that are configured": {
			change: func(h *handMade) {
				h.queues["orders"]["x-max-length"] = 1000
				h.queues["orders"]["x-message-ttl"] = 3600000
			},
			config: map[string]any{"work_queue": map[string]any{"max_length": 1000, "message_ttl": "60m"}},
		},
		"another parking queue": {
			change:  func(h *handMade) { h.rename("orders.parking", "lot") },
			refused: []string{"parking_queue.name", "Change Not Possible in Place"},
		},
		"a time-to-live of parked messages": {
			change:  func(h *handMade) { h.queues["orders.parking"]["x-message-ttl"] = 3600000 },
			refused: []string{"parking_queue.message_ttl", "Change Not Possible in Place"},
		},
		"another work queue": {
			change:  func(h *handMade) { h.rename("orders", "work") },
			refused: []string{"work_queue.name", "Change Not Possible in Place"},
		},
		"a length limit": {
			change:  func(h *handMade) { h.queues["orders"]["x-max-length"] = 1000 },
			refused: []string{"work_queue.max_length", "Change Not Possible in Place"},
		},
		"an argument of the work queue": {
			change:  func(h *handMade) { h.queues["orders"]["x-custom"] = "yes" },
			refused: []string{"work_queue.arguments", "Change Not Possible in Place"},
		},
		"an exchange without a way out": {
			change:  func(h *handMade) { h.exchanges["orders.return.1s"] = "fanout" },
			refused: []string{"topology Exchange Exists in Another Form", `Exchange "orders.return.1s" is on the broker as fanout and the chain needs fanout, alternate-exchange=orders.parking`},
		},
		"dead letters at most once": {
			change: func(h *handMade) {
				for _, arguments := range h.queues {
					delete(arguments, "x-dead-letter-strategy")
				}
			},
			refused: []string{"dead_letter_strategy", "Change Not Possible in Place"},
		},
	}
}

// keyDifferences are some of the same for strategy "routing_key".
func keyDifferences() map[string]difference {
	return map[string]difference{
		"another time-to-live": {
			change: func(h *handMade) { h.queues["orders.attempt.2s"]["x-message-ttl"] = 2500 },
			plan:   []string{"queues ~ orders.attempt.2s"},
		},
		"the return binding missing": {
			change: func(h *handMade) { h.unbind("orders.return", "orders") },
			plan:   []string{"bindings + orders.return -> orders"},
		},
		"a step missing": {
			change: func(h *handMade) { h.unbind("orders.retry.keys", "orders.attempt.2s") },
			plan:   []string{"bindings + orders.retry.keys -> orders.attempt.2s (orders.attempt.1s)"},
		},
		"no way to the keys": {
			change: func(h *handMade) { h.unbind("orders.retry", "orders.retry.keys") },
			plan:   []string{"bindings + orders.retry -> exchange orders.retry.keys"},
		},
		"one delay less": {
			config: map[string]any{"delays": []any{"1s", "2s", "2s"}},
			plan: []string{
				"delays", "tiers",
				"bindings + orders.retry.keys -> orders.attempt.2s.2 (orders.attempt.2s)",
				"bindings + orders.retry.keys -> orders.parking (orders.attempt.2s.2)",
				"bindings - orders.retry.keys -> orders.parking (orders.attempt.2s)",
				"queues + orders.attempt.2s.2",
			},
		},
		"an exchange without a way out": {
			change:  func(h *handMade) { h.exchanges["orders.return"] = "fanout" },
			refused: []string{"topology Exchange Exists in Another Form", `Exchange "orders.return" is on the broker as fanout and the chain needs fanout, alternate-exchange=orders.parking`},
		},
		"a dead-letter routing key": {
			change:  func(h *handMade) { h.queues["orders"]["x-dead-letter-routing-key"] = "failed" },
			refused: []string{"topology Queue Exists in Another Form", "x-dead-letter-routing-key=failed"},
		},
	}
}

// addTier adds a tier behind the last one.
func (h *handMade) addTier(last, label string, ttl int) {
	arguments := maps.Clone(h.queues[last])
	arguments["x-message-ttl"], arguments["x-dead-letter-exchange"] = ttl, "orders.return."+label
	h.queues["orders.retry."+label] = arguments
	h.exchanges["orders.return."+label] = "fanout orders.parking"
	h.bind("orders.return."+label, "orders", nil)
	step := func(from string) map[string]any {
		return map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected", "x-last-death-exchange": from}
	}
	h.unbind("orders.retry", "orders.parking")
	h.bind("orders.retry", "orders.retry."+label, step("orders.return.2s"))
	h.bind("orders.retry", "orders.parking", step("orders.return."+label))
}

// TestAccAdoptDifferent imports a chain that was made by hand and differs: the
// plan shows exactly the difference, or is refused because of it, and the apply
// of a plan leaves the chain that is configured.
func TestAccAdoptDifferent(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for v, all := range map[variant]map[string]difference{
			{"headers", "quorum", "at-least-once"}:     differences(),
			{"routing_key", "classic", "at-most-once"}: keyDifferences(),
		} {
			if v.strategy == "headers" && !acctest.Modern(b) {
				continue // the broker does not write the headers
			}
			for name, d := range all {
				t.Run(v.strategy+"/"+name, func(t *testing.T) {
					t.Parallel()
					adoptDifferent(t, b, v, d)
				})
			}
		}
	})
}

func adoptDifferent(t *testing.T, b *rabbit.Broker, v variant, d difference) {
	vhost := acctest.VHost(t, b)
	h := handMadeChain(b, v)
	if d.change != nil {
		d.change(h)
	}
	h.make(t, b, vhost)
	s := newSession(t, b, vhost, v, map[string]any{"deletion_policy": "if_empty"})
	maps.Copy(s.config, d.config)
	plan := s.importChain()
	if d.refused != nil {
		expectRefused(t, plan.Diagnostics, d.refused...)
		return
	}
	s.expectPlan(plan, d.plan...)
	s.apply()
	s.expectPlan(s.plan())
}

// TestAccAdoptNoChain: what has the names of a chain and cannot be one is not
// imported, and the error says why.
func TestAccAdoptNoChain(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		v := variant{"headers", "classic", "at-most-once"}
		for name, test := range map[string]struct {
			change func(h *handMade)
			want   string
		}{
			"type of the retry exchange": {
				func(h *handMade) { h.exchanges["orders.retry"] = "direct orders.retry.first" },
				`exchange "orders.retry" is a direct exchange; a chain needs a headers exchange of this name`,
			},
			"type of the first exchange": {
				func(h *handMade) { h.exchanges["orders.retry.first"] = "topic orders.parking" },
				`exchange "orders.retry.first" is a topic exchange; a chain needs a headers exchange of this name`,
			},
			"type of the parking exchange": {
				func(h *handMade) { h.exchanges["orders.parking"] = "direct" },
				`exchange "orders.parking" is a direct exchange; a chain needs a fanout exchange of this name`,
			},
			"two work queues": {
				func(h *handMade) {
					h.queues["second"] = nil
					h.unbind("orders.return.2s", "orders")
					h.bind("orders.return.2s", "second", nil)
				},
				"a chain has one work queue",
			},
			"a return exchange with two queues": {
				func(h *handMade) { h.queues["second"] = nil; h.bind("orders.return.1s", "second", nil) },
				"a chain has one work queue",
			},
			"an exchange in place of the work queue": {
				func(h *handMade) {
					h.bindings = append(h.bindings, rabbithole.BindingInfo{Source: "orders.return.1s", Destination: "amq.topic", DestinationType: "exchange"})
				},
				`exchange "orders.return.1s" leads to the exchange "amq.topic"`,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				h := handMadeChain(b, v)
				test.change(h)
				h.make(t, b, vhost)
				s := newSession(t, b, vhost, v, nil)
				_, found := s.provider().Import(t, chainType, "orders@"+vhost, nil)
				expectRefused(t, found, "Not a Retry Chain", test.want)
			})
		}
	})
}

// TestAccAdoptDraining imports a chain with a tier into which nothing leads any
// more. It is not taken for a delay; it stays while it holds a message, and goes
// when the message came back.
func TestAccAdoptDraining(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost, api := acctest.VHost(t, b), acctest.API(t, b)
				v := defaultVariant(b, queueType)
				h := handMadeChain(b, v)
				name := h.addRetiredTier(v, "8s", 8000)
				h.make(t, b, vhost)
				w := acctest.Worker(t, b, vhost)
				publish(t, w, name)
				waitForCount(t, api, vhost, name, 1)

				s := newSession(t, b, vhost, v, map[string]any{"deletion_policy": "if_empty"})
				plan := s.importChain()
				s.expectPlan(plan)
				if draining := protocol.Go(protocol.At(plan.Prior, "draining")); !reflect.DeepEqual(draining, []any{name}) {
					t.Errorf("draining is %v, expected %q", draining, name)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := w.Get(ctx, "orders"); err != nil {
					t.Errorf("the message in the retired tier did not come back: %s", err)
				}
				waitForCount(t, api, vhost, name, 0)
				s.expectPlan(s.plan(), "draining")
				s.apply()
				s.expectPlan(s.plan())
				expectQueues(t, b, vhost, "orders", "orders.parking", tierName(v, "1s"), tierName(v, "2s"))
			})
		}
	})
}

// TestAccDrainingDelayReturns configures the delay of a tier again that is still
// draining: it is a tier like the others again.
func TestAccDrainingDelayReturns(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := defaultVariant(b, "quorum")
		h := handMadeChain(b, v)
		name := h.addRetiredTier(v, "1h", 3600000)
		h.make(t, b, vhost)
		w := acctest.Worker(t, b, vhost)
		publish(t, w, name)
		waitForCount(t, acctest.API(t, b), vhost, name, 1)
		s := newSession(t, b, vhost, v, map[string]any{"deletion_policy": "if_empty"})
		s.expectPlan(s.importChain())

		s.config["delays"] = []any{"1s", "2s", "1h"}
		s.apply()
		s.expectPlan(s.plan())
		if draining := protocol.Go(protocol.At(s.state.Value, "draining")); !reflect.DeepEqual(draining, []any{}) {
			t.Errorf("draining is %v, expected none", draining)
		}
		if n, err := w.Ready(name); err != nil || n != 1 {
			t.Errorf("the tier holds %d messages, expected 1 (%v)", n, err)
		}
	})
}

// defaultVariant is a variant that the broker supports, with the guarantee that
// the queue type has by default.
func defaultVariant(b *rabbit.Broker, queueType string) variant {
	v := variant{"routing_key", queueType, "at-least-once"}
	if acctest.Modern(b) {
		v.strategy = "headers"
	}
	if queueType == "classic" {
		v.deadLetterStrategy = "at-most-once"
	}
	return v
}

// addRetiredTier adds a tier into which nothing leads, as an update that
// removed its delay leaves it.
func (h *handMade) addRetiredTier(v variant, label string, ttl int) (name string) {
	name = tierName(v, label)
	arguments := maps.Clone(h.queues[tierName(v, "2s")])
	arguments["x-message-ttl"] = ttl
	h.queues[name] = arguments
	if v.strategy == "routing_key" {
		arguments["x-dead-letter-routing-key"] = name
		h.bindings = append(h.bindings, rabbithole.BindingInfo{Source: "orders.retry.keys", Destination: "orders.parking", DestinationType: "queue", RoutingKey: name})
		return name
	}
	arguments["x-dead-letter-exchange"] = "orders.return." + label
	h.exchanges["orders.return."+label] = "fanout orders.parking"
	h.bind("orders.return."+label, "orders", nil)
	h.bind("orders.retry", "orders.parking", map[string]any{"x-match": "all-with-x", "x-last-death-reason": "rejected", "x-last-death-exchange": "orders.return." + label})
	return name
}

// waitForCount waits until the management API counts n messages in the queue.
// It is behind by seconds.
func waitForCount(t *testing.T, api *rabbithole.Client, vhost, queue string, n int) {
	t.Helper()
	counted := -1
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		q, err := api.GetQueue(vhost, queue)
		if err != nil {
			t.Fatal(err)
		}
		if q.MessagesDetails != nil || q.Messages > 0 {
			counted = q.Messages
		}
		if counted == n {
			return
		}
	}
	t.Fatalf("the management API counts %d messages in %q, expected %d", counted, queue, n)
}

// TestAccAdoptAttached imports a chain that was attached by hand to a queue of
// an application, with a policy.
func TestAccAdoptAttached(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				v := defaultVariant(b, queueType)
				h := handMadeChain(b, v)
				h.queues["orders"] = map[string]any{"x-queue-type": queueType}
				h.make(t, b, vhost)
				policy := rabbithole.Policy{Pattern: "^orders$", ApplyTo: "queues", Priority: 7, Definition: rabbithole.PolicyDefinition{"dead-letter-exchange": "orders.retry"}}
				if queueType == "quorum" {
					policy.Definition["dead-letter-strategy"], policy.Definition["overflow"] = "at-least-once", "reject-publish"
				}
				resp, err := acctest.API(t, b).PutPolicy(vhost, "orders.retry", policy)
				acctest.Do(t, resp, err)

				s := newSession(t, b, vhost, v, map[string]any{
					"deletion_policy": "if_empty", "work_queue": map[string]any{"ownership": "application"}, "policy": map[string]any{"priority": 7},
				})
				s.expectPlan(s.importChain())
				s.expectPlan(s.plan())
			})
		}
	})
}

// TestAccAdoptByIdentity imports by virtual host and name; the virtual host can
// be left out.
func TestAccAdoptByIdentity(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := defaultVariant(b, "classic")
		handMadeChain(b, v).make(t, b, vhost)
		s := newSession(t, b, vhost, v, map[string]any{"deletion_policy": "if_empty"})
		server := s.provider()
		state, found := server.Import(t, chainType, "", map[string]any{"vhost": vhost, "name": "orders"})
		if len(found) > 0 {
			t.Fatal(found)
		}
		s.expectPlan(server.Plan(t, chainType, s.config, state))
		_, found = server.Import(t, chainType, "", map[string]any{"name": "no-such-chain"})
		expectRefused(t, found, "Nothing to Import", `Virtual host "/"`)
	})
}

// TestAccGeneratedConfiguration lets Terraform write the configuration of a
// chain that was made by hand: it is valid, and imports with no change.
func TestAccGeneratedConfiguration(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				h := handMadeChain(b, defaultVariant(b, queueType))
				h.bind("amq.topic", "orders", nil)
				h.make(t, b, vhost)
				config := acctest.Config(b, "import {\n  to = %s\n  id = %q\n}\n", address, "orders@"+vhost)
				w := acctest.Terraform(t, config)
				output := acctest.Run(t, w, "plan", "-generate-config-out=generated.tf")
				expectText(t, output, "1 to import, 0 to add, 0 to change, 0 to destroy")
				acctest.Run(t, w, "validate")
				expectText(t, apply(t, w), "1 imported, 0 added, 0 changed, 0 destroyed")
				expectEmptyPlan(t, w)
			})
		}
	})
}

// TestAccMoved moves a chain with messages to another address, into a module, to
// a key of for_each and back: nothing changes.
func TestAccMoved(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		park(t, b, vhost)
		module := filepath.Join(w.Dir, "queues")
		if err := os.Mkdir(module, 0o750); err != nil {
			t.Fatal(err)
		}
		whole := settings{policy: "if_empty", lifecycle: "for_each = toset([\"one\"])"}.config(b, vhost)
		start := strings.Index(whole, "resource ")
		source := "terraform {\n  required_providers {\n    rabbitmq = {\n      source = \"retrychain/rabbitmq\"\n    }\n  }\n}\n"
		if err := os.WriteFile(filepath.Join(module, "main.tf"), []byte(source+whole[start:]), 0o600); err != nil {
			t.Fatal(err)
		}
		inModule := whole[:start] + "module \"queues\" {\n  source = \"./queues\"\n}\n"
		for _, step := range []struct{ config, from, to string }{
			{settings{policy: "if_empty", address: "renamed"}.config(b, vhost), "rabbitmq_retry_chain.orders", "rabbitmq_retry_chain.renamed"},
			{inModule, "rabbitmq_retry_chain.renamed", `module.queues.rabbitmq_retry_chain.orders["one"]`},
			{settings{policy: "if_empty", address: "back"}.config(b, vhost), `module.queues.rabbitmq_retry_chain.orders["one"]`, "rabbitmq_retry_chain.back"},
		} {
			acctest.Reconfigure(t, w, fmt.Sprintf("%s\nmoved {\n  from = %s\n  to   = %s\n}\n", step.config, step.from, step.to))
			acctest.Run(t, w, "get") // notes where the module is
			expectText(t, apply(t, w), "0 added, 0 changed, 0 destroyed")
			expectEmptyPlan(t, w)
			expectText(t, acctest.Run(t, w, "state", "list"), step.to)
		}
		expectParked(t, b, vhost, 1)
	})
}
