package retrychain_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// run carries out a plan that was made before, or one that destroys the chain,
// and keeps the state as Terraform does.
func (s *session) run(plan protocol.Plan) protocol.Diagnostics {
	after, found := s.provider().Apply(s.t, chainType, plan)
	s.state = after
	return found
}

// atOnce runs both at the same time.
func atOnce(a, b func() protocol.Diagnostics) (first, second protocol.Diagnostics) {
	var both sync.WaitGroup
	both.Go(func() { first = a() })
	both.Go(func() { second = b() })
	both.Wait()
	return first, second
}

// expectNamed fails the test unless every error names an object of the chain.
func expectNamed(t *testing.T, found protocol.Diagnostics) {
	t.Helper()
	for _, d := range found.Errors() {
		if !strings.Contains(d.Detail, `"orders`) && !strings.Contains(d.Detail, "orders.") {
			t.Errorf("the error names no object: %s: %s", d.Summary, d.Detail)
		}
	}
}

// eachBrokerAndType runs the test on every broker with both queue types.
func eachBrokerAndType(t *testing.T, test func(t *testing.T, b *rabbit.Broker, v variant)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				test(t, b, defaultVariant(b, queueType))
			})
		}
	})
}

// TestAccTwoCreates: two states create one chain at once. Nobody takes away what
// the one that succeeds has made. If none does, nothing is left. Seldom RabbitMQ
// tells two requests that arrive at once both that an object is new. Then both can
// succeed, or one takes back what both made, and the next apply makes it again.
func TestAccTwoCreates(t *testing.T) {
	eachBrokerAndType(t, func(t *testing.T, b *rabbit.Broker, v variant) {
		var pairs sync.WaitGroup
		winners := make([]int, 4)
		for i := range winners {
			vhost := acctest.VHost(t, b)
			pairs.Go(func() { winners[i] = createTwice(t, b, vhost, v) })
		}
		pairs.Wait()
		t.Logf("successful creates of %d pairs: %v", len(winners), winners)
	})
}

// createTwice returns how many of two creates succeeded.
func createTwice(t *testing.T, b *rabbit.Broker, vhost string, v variant) (winners int) {
	p, q := proxy.New(t, b.Endpoint), proxy.New(t, b.Endpoint)
	one, other := newSession(t, behind(b, p), vhost, v, nil), newSession(t, behind(b, q), vhost, v, nil)
	onePlan, otherPlan := one.plan(), other.plan()
	first, second := atOnce(func() protocol.Diagnostics { return one.run(onePlan) }, func() protocol.Diagnostics { return other.run(otherPlan) })
	madeTwice := slices.DeleteFunc(p.Created(), func(path string) bool { return !slices.Contains(q.Created(), path) })
	for s, found := range map[*session]protocol.Diagnostics{one: first, other: second} {
		expectNamed(t, found)
		if failed := len(found.Errors()) > 0; failed != s.state.Value.IsNull() {
			t.Errorf("the create leaves the state %v\n%s", protocol.Go(s.state.Value), found)
		}
		if s.state.Value.IsNull() {
			s.state = protocol.State{}
			continue
		}
		winners++
		if len(madeTwice) > 0 {
			t.Logf("RabbitMQ told both that these are new: %v", madeTwice)
			s.expectMissing(madeTwice)
			s.settleOther()
			continue
		}
		s.expectPlan(s.plan())
		s.expectOnly()
	}
	if winners == 0 {
		expectQueues(t, b, vhost)
		one.apply()
		one.expectOnly()
	}
	return winners
}

// expectMissing fails the test if the plan changes any exchange or queue but for
// making those again that have these paths in the management API. Bindings go with
// them.
func (s *session) expectMissing(paths []string) {
	s.t.Helper()
	plan := s.plan()
	for _, line := range topologyChanges(protocol.Go(plan.Prior), protocol.Go(plan.Planned)) {
		kind, rest, _ := strings.Cut(line, " ")
		name, made := strings.CutPrefix(rest, "+ ")
		if !made || kind != "bindings" && !slices.ContainsFunc(paths, func(path string) bool { return strings.HasSuffix(path, "/"+name) }) {
			s.t.Errorf("the plan has %q, and only %v were made twice", line, paths)
		}
	}
}

// TestAccTwoUpdates: two states change one chain at work to different delays at
// once. Whatever becomes of it, no message is lost, and an apply of one of them
// ends with exactly its chain. Until then messages may come more than once, and
// through the tiers of both.
func TestAccTwoUpdates(t *testing.T) {
	eachBrokerAndType(t, func(t *testing.T, b *rabbit.Broker, v variant) {
		delays := [][2][]any{
			{{"100ms", "300ms"}, {"100ms", "400ms"}},
			{{"200ms", "100ms"}, {"100ms", "200ms", "300ms"}},
			{{"500ms"}, {}},
		}[(len(v.queueType)+int(b.Version[len(b.Version)-1]))%3]
		vhost := acctest.VHost(t, b)
		one := newSession(t, b, vhost, v, map[string]any{"delays": []any{"100ms", "200ms"}, "timeouts": map[string]any{"update": "40s"}})
		one.apply()
		other := newSession(t, b, vhost, v, maps.Clone(one.config))
		other.state = one.state
		l := startTraffic(t, b, vhost, func(l *traffic) { l.every = 20 * time.Millisecond })
		l.waitFor(50)
		one.config["delays"], other.config["delays"] = delays[0], delays[1]
		onePlan, otherPlan := one.plan(), other.plan()
		first, second := atOnce(func() protocol.Diagnostics { return one.run(onePlan) }, func() protocol.Diagnostics { return other.run(otherPlan) })
		expectNamed(t, first)
		expectNamed(t, second)
		l.waitFor(50)
		one.settleOther()
		l.waitFor(50)
		l.finish(time.Minute)
	})
}

// settleOther applies until nothing is left to do: tiers of the other state may
// must drain first.
func (s *session) settleOther() {
	s.t.Helper()
	s.settle()
	s.expectPlan(s.plan())
	s.expectOnly()
}

// TestAccUpdateAndDestroy: one state changes the chain while another one
// destroys it. A parked message keeps the chain; without one, what is left can
// be applied and destroyed.
func TestAccUpdateAndDestroy(t *testing.T) {
	eachBrokerAndType(t, func(t *testing.T, b *rabbit.Broker, v variant) {
		for _, parked := range []bool{true, false} {
			t.Run(map[bool]string{true: "message", false: "empty"}[parked], func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				one := newSession(t, b, vhost, v, map[string]any{"delays": []any{"100ms", "200ms"}, "deletion_policy": "if_empty"})
				one.apply()
				other := newSession(t, b, vhost, v, one.config)
				other.state = one.state
				if parked {
					park(t, b, vhost)
				}
				one.config = maps.Clone(one.config)
				one.config["delays"] = []any{"100ms", "300ms"}
				plan := one.plan()
				first, second := atOnce(func() protocol.Diagnostics { return one.run(plan) }, other.destroy)
				expectNamed(t, first)
				expectNamed(t, second)
				t.Logf("the update says:\n%sand the destroy:\n%s", first, second)
				if parked {
					expectRefused(t, second, "Chain Holds Messages", "orders.parking")
					expectParked(t, b, vhost, 1)
				}
				if one.state.Value.IsNull() {
					one.state = protocol.State{}
				}
				one.settleOther()
				if parked {
					expectParked(t, b, vhost, 1)
					return
				}
				if found := one.destroy(); len(found.Errors()) > 0 {
					t.Error(found)
				}
				expectQueues(t, b, vhost)
			})
		}
	})
}

// manyAtOnce is the number of chains of [TestAccManyAtOnce].
var manyAtOnce = rabbit.Size(50, 12)

// TestAccManyAtOnce creates, changes and destroys many chains in parallel
// through one provider, with few connections to a slow broker. It is meant to be
// run with the race detector as well.
func TestAccManyAtOnce(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
		p.OnRequest(func(http.ResponseWriter, *http.Request) bool {
			time.Sleep(2 * time.Millisecond)
			return false
		})
		config := func(i int, delays ...any) map[string]any {
			v := variants(b)[i%len(variants(b))]
			return map[string]any{
				"name": fmt.Sprintf("chain-%d", i), "vhost": vhost, "delays": delays, "deletion_policy": []string{"delete", "if_empty"}[i%2],
				"strategy": v.strategy, "queue_type": v.queueType, "dead_letter_strategy": v.deadLetterStrategy,
			}
		}
		states := make([]protocol.State, manyAtOnce)
		phase := func(name string, config func(i int) map[string]any) {
			began := time.Now()
			planner, applier := newProvider(t, behind(b, p)), newProvider(t, behind(b, p))
			var all sync.WaitGroup
			for i := range states {
				all.Go(func() {
					plan := planner.Plan(t, chainType, config(i), readIf(t, planner, states[i]))
					found := plan.Diagnostics
					if len(found.Errors()) == 0 {
						states[i], found = applier.Apply(t, chainType, plan)
					}
					if len(found.Errors()) > 0 {
						t.Errorf("%s of chain %d:\n%s", name, i, found)
					}
				})
			}
			all.Wait()
			t.Logf("%s of %d chains: %s, %d requests", name, manyAtOnce, time.Since(began).Round(time.Millisecond), len(p.Take()))
		}
		phase("create", func(i int) map[string]any { return config(i, "100ms") })
		expectQueueCount(t, b, vhost, manyAtOnce*3)
		phase("change", func(i int) map[string]any { return config(i, "200ms", "300ms") })
		expectQueueCount(t, b, vhost, manyAtOnce*4)
		phase("destroy", func(int) map[string]any { return nil })
		expectQueues(t, b, vhost)
		if left := chainExchanges(t, b, vhost); len(left) > 0 {
			t.Errorf("the exchanges %q are left", left)
		}
	})
}

func readIf(t *testing.T, server *protocol.Server, state protocol.State) protocol.State {
	if state.Value.Type() == nil {
		return state
	}
	read, found := server.Read(t, chainType, state)
	if len(found.Errors()) > 0 {
		t.Error(found)
	}
	return read
}

// newProvider is a provider with few connections.
func newProvider(t *testing.T, b *rabbit.Broker) *protocol.Server {
	t.Helper()
	server := protocol.New(t, acctest.NewProvider(b))
	found := server.Configure(t, map[string]any{
		"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "amqp_endpoint": "amqp://" + amqpHost(b), "max_parallel_requests": 4,
	})
	if len(found) > 0 {
		t.Fatal(found)
	}
	return server
}

// chainExchanges are the exchanges that RabbitMQ did not make itself.
func chainExchanges(t *testing.T, b *rabbit.Broker, vhost string) []string {
	t.Helper()
	all, err := acctest.API(t, b).ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range all {
		if e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
			names = append(names, e.Name)
		}
	}
	return names
}

// TestAccTwoNewChainsOneObject: two chains that need one object, both new in
// one configuration. One is made whole, and the other one not at all.
func TestAccTwoNewChainsOneObject(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		_, second, _ := strings.Cut(settings{address: "second", name: "orders.parking"}.config(b, vhost), "}\n")
		w := acctest.Terraform(t, settings{}.config(b, vhost)+second)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Object Claimed Twice", `queue "orders.parking"`)
		expectQueueCount(t, b, vhost, 4)
		if n := strings.Count(acctest.Run(t, w, "state", "list"), "rabbitmq_retry_chain."); n != 1 {
			t.Errorf("the state holds %d chains, expected 1", n)
		}
	})
}

// TestAccClaimBeforeSecondPlan: Terraform plans each resource again when it applies
// it, and another one of the run may have made the object by then. The create tells
// which, and does not advise to import it.
func TestAccClaimBeforeSecondPlan(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := defaultVariant(b, "quorum")
		config := func(name string) map[string]any {
			return map[string]any{"name": name, "vhost": vhost, "delays": []any{"1s"}, "strategy": v.strategy, "deletion_policy": "delete"}
		}
		applier := acctest.Server(t, b)
		first := applier.Plan(t, chainType, config("orders.parking"), protocol.State{})
		if _, found := applier.Apply(t, chainType, first); len(found.Errors()) > 0 {
			t.Fatal(found)
		}
		second := applier.Plan(t, chainType, config("orders"), protocol.State{})
		if len(second.Diagnostics.Errors()) > 0 {
			t.Fatal("the second plan tells of it: ", second.Diagnostics)
		}
		_, found := applier.Apply(t, chainType, second)
		expectRefused(t, found, "Object Claimed Twice", `queue "orders.parking"`, `the chain "orders.parking@`+vhost+`" of this run has`)
		expectQueueCount(t, b, vhost, 3)
	})
}

// neighbours are chains whose names or queues look like parts of the chain
// "orders" with the delays 1s and 2s.
var neighbours = []map[string]any{
	{"name": "orders.retry"},
	{"name": "orders.retry.5s"},
	{"name": "orders.return"},
	{"name": "orders.return.5s"},
	{"name": "orders.attempt.5s"},
	{"name": "orders.redrive"},
	{"name": "other", "work_queue": map[string]any{"name": "orders.retry.5s"}},
	{"name": "other", "parking_queue": map[string]any{"name": "orders.attempt.5s"}},
}

// TestAccNeighbours: chains whose names begin alike leave each other alone. When
// one comes to need a name that the other has, the change is refused.
func TestAccNeighbours(t *testing.T) {
	everyBroker := rabbit.Size(3, 1)
	spread(t, len(neighbours)*everyBroker, func(i int) string { return fmt.Sprint(neighbours[i/everyBroker]) }, func(t *testing.T, b *rabbit.Broker, i int) {
		vhost := acctest.VHost(t, b)
		s := newSession(t, b, vhost, turn(b, i), nil)
		s.apply()
		neighbour := newSession(t, b, vhost, turn(b, i+1), neighbours[i/everyBroker])
		neighbour.apply()
		s.expectPlan(s.plan())
		neighbour.expectPlan(neighbour.plan())

		before := len(chainExchanges(t, b, vhost)) + queues(t, b, vhost)
		s.config = maps.Clone(s.config)
		s.config["delays"] = []any{"1s", "2s", "5s"}
		found := s.tryApply()
		if len(found.Errors()) > 0 {
			expectRefused(t, found, "Object Already Exists", ".5s\"")
			if now := len(chainExchanges(t, b, vhost)) + queues(t, b, vhost); now != before {
				t.Errorf("%d objects, and there were %d", now, before)
			}
			s.config["delays"] = []any{"1s", "2s"}
			s.apply()
		}
		s.expectPlan(s.plan())
		neighbour.expectPlan(neighbour.plan())
		if found := s.destroy(); len(found.Errors()) > 0 {
			t.Error(found)
		}
		neighbour.expectPlan(neighbour.plan())
		neighbour.destroy()
		if n := len(chainExchanges(t, b, vhost)) + queues(t, b, vhost); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// TestAccForeignTier: a queue of an application that has the name of a new tier
// is not touched.
func TestAccForeignTier(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		v := turn(b, 0)
		s := newSession(t, b, vhost, v, nil)
		s.apply()
		resp, err := api.DeclareQueue(vhost, tierName(v, "5s"), rabbithole.QueueSettings{Durable: true})
		acctest.Do(t, resp, err)
		resp, err = api.DeclareBinding(vhost, rabbithole.BindingInfo{Source: "amq.topic", Destination: tierName(v, "5s"), DestinationType: "queue", RoutingKey: "a"})
		acctest.Do(t, resp, err)
		s.expectPlan(s.plan())
		s.config["delays"] = []any{"1s", "2s", "5s"}
		expectRefused(t, s.tryApply(), "Object Already Exists", tierName(v, "5s"))
		queue, err := api.GetQueue(vhost, tierName(v, "5s"))
		if err != nil || len(queue.Arguments) > 1 {
			t.Errorf("the queue of the application has the arguments %v (%v)", queue, err)
		}
		bindings, err := api.ListQueueBindings(vhost, tierName(v, "5s"))
		if err != nil || len(bindings) != 2 {
			t.Errorf("the queue of the application has %d bindings, expected 2 (%v)", len(bindings), err)
		}
	})
}

// TestAccForeignExchange: exchanges of an application that only have names as
// the chain uses them are neither drift nor leftovers.
func TestAccForeignExchange(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		s := newSession(t, b, vhost, defaultVariant(b, "classic"), nil)
		s.apply()
		for name, kind := range map[string]string{"orders.retry.keys": "topic", "orders.return": "topic", "orders.return.9s": "fanout", "orders.retry.audit": "fanout"} {
			resp, err := api.DeclareExchange(vhost, name, rabbithole.ExchangeSettings{Type: kind, Durable: true})
			acctest.Do(t, resp, err)
		}
		s.expectPlan(s.plan())
		if found := s.destroy(); len(found.Errors()) > 0 {
			t.Error(found)
		}
		if left := chainExchanges(t, b, vhost); len(left) != 4 {
			t.Errorf("the exchanges %q are left, expected those of the application, 4", left)
		}
	})
}
