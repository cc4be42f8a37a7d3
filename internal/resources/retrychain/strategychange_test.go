package retrychain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// strategies are all strategies, and which of them the broker supports.
func strategies(b *rabbit.Broker) map[string]bool {
	return map[string]bool{
		"headers": acctest.Modern(b), "routing_key": true, "republish": true, "delayed_retry": hasDelayedRetry(b),
	}
}

// inPlace says whether a living chain can change between the two strategies.
func inPlace(from, to string) bool {
	return slices.Contains([]string{"headers", "routing_key"}, from) && slices.Contains([]string{"headers", "routing_key"}, to)
}

// startWorkOn starts traffic on a chain of that strategy, with the process that
// it may need.
func startWorkOn(t *testing.T, b *rabbit.Broker, vhost, chain, strategy string) (l *traffic, stop func()) {
	t.Helper()
	stop = func() {}
	if strategy == "republish" {
		stop = startRepublisher(t, b, vhost, chain)
	}
	return startTraffic(t, b, vhost, func(l *traffic) {
		l.every = 20 * time.Millisecond
		l.key, l.work, l.parking = chain, chain, chain+".parking"
		if strategy == "delayed_retry" {
			l.ways = []worker.Outcome{worker.RejectRequeue}
		}
	}), stop
}

// TestAccChangeOfStrategy changes the strategy of a chain at work from each that
// the broker supports to each other one. Either that is made in place, or the
// plan refuses it, says why and how it can be done by hand, and changes nothing.
// Every message is accounted for.
func TestAccChangeOfStrategy(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for from, supported := range strategies(b) {
			for to := range strategies(b) {
				if !supported || from == to {
					continue
				}
				for _, existing := range rabbit.Half(from+to, []bool{false, true}) {
					t.Run(fmt.Sprintf("%s to %s existing=%t", from, to, existing), func(t *testing.T) {
						t.Parallel()
						changeStrategy(t, b, from, to, existing)
					})
				}
			}
		}
	})
}

func changeStrategy(t *testing.T, b *rabbit.Broker, from, to string, existing bool) {
	vhost := acctest.VHost(t, b)
	more := map[string]any{"delays": []any{"200ms", "400ms"}}
	if existing {
		newApplication(t, b, vhost, "quorum", nil)
		more = attached(more)
	}
	s := newSession(t, b, vhost, variant{from, "quorum", "at-least-once"}, more)
	s.apply()
	l, stop := startWorkOn(t, b, vhost, "orders", from)
	l.waitFor(30)
	before := objectsOf(t, b, vhost)
	s.config["strategy"] = to
	if inPlace(from, to) && strategies(b)[to] {
		s.apply()
	} else {
		found := s.tryApply()
		if strategies(b)[to] {
			expectRefused(t, found, "strategy Change Not Possible in Place", `strategy of the living chain "orders"`, "which RabbitMQ fixes when",
				"Undo the change", "add a chain of another name with the new value, move publishers and then consumers to")
		} else {
			expectRefused(t, found, "Strategy Not Supported by This Broker", "This broker runs "+b.Version)
		}
		if len(found.Errors()) != 1 {
			t.Errorf("more than one error: %v", found.Errors())
		}
		if after := objectsOf(t, b, vhost); after != before {
			t.Errorf("the refused change has made of\n%s\n\nthis:\n%s", before, after)
		}
		s.config["strategy"] = from
	}
	s.expectPlan(s.plan())
	if !existing {
		s.expectOnly()
	}
	l.waitFor(30)
	l.finish(30 * time.Second)
	stop()
}

// objectsOf lists the exchanges, queues, bindings and policies of the virtual
// host.
func objectsOf(t *testing.T, b *rabbit.Broker, vhost string) string {
	t.Helper()
	api := acctest.API(t, b)
	exchanges, err1 := api.ListExchangesIn(vhost)
	queues, err2 := api.ListQueuesIn(vhost)
	bindings, err3 := api.ListBindingsIn(vhost)
	policies, err4 := api.ListPoliciesIn(vhost)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	for _, e := range exchanges {
		lines = append(lines, fmt.Sprint("exchange ", e.Name, e.Type, e.Arguments))
	}
	for _, q := range queues {
		lines = append(lines, fmt.Sprint("queue ", q.Name, q.Type, q.Arguments))
	}
	for _, b := range bindings {
		lines = append(lines, fmt.Sprint("binding ", b.Source, b.Destination, b.RoutingKey, b.Arguments))
	}
	for _, p := range policies {
		lines = append(lines, fmt.Sprint("policy ", p.Name, p.Pattern, p.Priority, p.Definition))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// TestAccChangeOfStrategyByHand goes the way that the refusal tells: a chain of
// another name with the new strategy, then the publishers and the consumers, and
// the old chain goes when it is empty. Every message is accounted for.
func TestAccChangeOfStrategyByHand(t *testing.T) {
	ways := [][2]string{
		{"routing_key", "republish"}, {"republish", "routing_key"}, {"headers", "delayed_retry"}, {"delayed_retry", "republish"},
	}
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, way := range ways {
			from, to := way[0], way[1]
			if !strategies(b)[from] || !strategies(b)[to] {
				continue
			}
			t.Run(from+" to "+to, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				chain := func(name, strategy string) *session {
					s := newSession(t, b, vhost, variant{strategy, "quorum", "at-least-once"}, map[string]any{
						"name": name, "delays": []any{"200ms", "400ms"}, "deletion_policy": "if_empty",
					})
					s.apply()
					return s
				}
				first := chain("orders", from)
				old, stopOld := startWorkOn(t, b, vhost, "orders", from)
				old.waitFor(30)
				second := chain("orders.v2", to)
				l, stop := startWorkOn(t, b, vhost, "orders.v2", to)
				l.waitFor(30)
				old.finish(30 * time.Second) // ends its publishers, and its consumers when nothing is left
				stopOld()
				if found := first.destroy(); len(found.Errors()) > 0 {
					t.Errorf("the old chain cannot be removed: %v", found)
				}
				l.waitFor(30)
				second.expectPlan(second.plan())
				l.finish(30 * time.Second)
				stop()
			})
		}
	})
}
