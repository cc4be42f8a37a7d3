package retrychain_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// drift is something that somebody did to the broker by hand.
type drift struct {
	name string
	do   func(t *testing.T, api *rabbithole.Client, vhost string)
	// changed are the lines of the topology that the plan must show: the
	// wanted value by path, or null for what must go.
	kind, object string
	gone         bool
}

func drifts(v variant) []drift {
	firstTier := "orders.retry.1s"
	if v.strategy == "routing_key" {
		firstTier = "orders.attempt.1s"
	}
	return []drift{
		{
			name: "binding deleted", kind: "bindings", object: "orders.redrive -> orders",
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteBinding(vhost, rabbithole.BindingInfo{
					Source: "orders.redrive", Destination: "orders", DestinationType: "queue", PropertiesKey: "~",
				})
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "exchange deleted", kind: "exchanges", object: "orders.redrive",
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteExchange(vhost, "orders.redrive")
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "empty tier deleted", kind: "queues", object: firstTier,
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteQueue(vhost, firstTier)
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "foreign binding", kind: "bindings", object: "orders.retry -> spy {team=other}", gone: true,
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeclareQueue(vhost, "spy", rabbithole.QueueSettings{Durable: true})
				acctest.Do(t, resp, err)
				resp, err = api.DeclareBinding(vhost, rabbithole.BindingInfo{
					Source: "orders.retry", Destination: "spy", DestinationType: "queue", Arguments: map[string]any{"team": "other"},
				})
				acctest.Do(t, resp, err)
			},
		},
	}
}

// TestAccDrift changes one thing by hand: the next plan shows exactly that
// object, and the apply repairs it. TestAccEveryDeletedObject tries every kind of
// queue; through the CLI one is enough.
func TestAccDrift(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		quorum := slices.DeleteFunc(variants(b), func(v variant) bool { return v.queueType != "quorum" || v.deadLetterStrategy != "at-least-once" })
		runVariants(t, b, rabbit.Spread(t.Name(), quorum), repairDrift)
	})
}

func repairDrift(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
	config := v.chainConfig(b, vhost, `["1s", "2s"]`, "")
	steps := []resource.TestStep{{Config: config, ConfigPlanChecks: emptyPlan()}}
	for _, d := range rabbit.Half(t.Name(), drifts(v)) {
		steps = append(steps, resource.TestStep{
			PreConfig: func() { d.do(t, acctest.API(t, b), vhost) },
			Config:    config,
			ConfigPlanChecks: resource.ConfigPlanChecks{
				PreApply:             []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate), d.expected(t)},
				PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
			},
		})
	}
	resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: acctest.Providers, Steps: steps})
}

func (d drift) expected(t *testing.T) plancheck.PlanCheck {
	return topologyChange{t: t, name: d.name, kind: d.kind, object: d.object, gone: d.gone}
}

// session is a chain in the hands of Terraform, without the CLI: a table of a
// hundred plans takes seconds. Every run has a provider of its own, as Terraform
// starts one for every plan and every apply.
type session struct {
	t      *testing.T
	b      *rabbit.Broker
	vhost  string
	config map[string]any
	state  protocol.State
}

// newSession prepares a chain "orders" with the attributes of the variant and
// further ones.
func newSession(t *testing.T, b *rabbit.Broker, vhost string, v variant, more map[string]any) *session {
	t.Helper()
	config := map[string]any{
		"name": "orders", "vhost": vhost, "delays": []any{"1s", "2s"}, "deletion_policy": "delete",
		"strategy": v.strategy, "queue_type": v.queueType, "dead_letter_strategy": v.deadLetterStrategy,
	}
	maps.Copy(config, more)
	return &session{t: t, b: b, vhost: vhost, config: config}
}

func (s *session) provider() *protocol.Server {
	s.t.Helper()
	server := protocol.New(s.t, acctest.NewProvider(s.b))
	found := server.Configure(s.t, map[string]any{
		"endpoint": s.b.Endpoint, "username": s.b.Username, "password": s.b.Password, "amqp_endpoint": "amqp://" + amqpHost(s.b),
	})
	if len(found) > 0 {
		s.t.Fatal(found)
	}
	return server
}

// plan refreshes and plans.
func (s *session) plan() protocol.Plan {
	s.t.Helper()
	server := s.provider()
	state := s.state
	if state.Value.Type() != nil {
		var found protocol.Diagnostics
		if state, found = server.Read(s.t, chainType, state); len(found.Errors()) > 0 {
			s.t.Fatal(found)
		}
	}
	return server.Plan(s.t, chainType, s.config, state)
}

// apply plans and applies, and fails the test if it cannot.
func (s *session) apply() protocol.Diagnostics {
	s.t.Helper()
	found := s.tryApply()
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
	return found
}

func (s *session) tryApply() protocol.Diagnostics {
	s.t.Helper()
	plan := s.plan()
	if len(plan.Diagnostics.Errors()) > 0 {
		return plan.Diagnostics
	}
	var found protocol.Diagnostics
	s.state, found = s.provider().Apply(s.t, chainType, plan)
	return found
}

// importChain imports the chain and plans the configuration.
func (s *session) importChain() protocol.Plan {
	s.t.Helper()
	server := s.provider()
	var found protocol.Diagnostics
	s.state, found = server.Import(s.t, chainType, "orders@"+s.vhost, nil)
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
	return server.Plan(s.t, chainType, s.config, s.state)
}

// expectPlan fails the test unless the plan changes exactly these lines of the
// topology, as [topologyChanges] writes them.
func (s *session) expectPlan(plan protocol.Plan, want ...string) {
	s.t.Helper()
	if len(plan.Diagnostics.Errors()) > 0 {
		s.t.Errorf("the plan failed: %s", plan.Diagnostics)
		return
	}
	before, after := protocol.Go(plan.Prior), protocol.Go(plan.Planned)
	got := append(topologyChanges(before, after), inputChanges(before, after)...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		s.t.Errorf("the plan changes %q, expected %q", got, want)
	}
}

// expectRefused fails the test unless the diagnostics have an error with all of
// the words.
func expectRefused(t *testing.T, found protocol.Diagnostics, words ...string) {
	t.Helper()
	for _, d := range found.Errors() {
		text := strings.Join(strings.Fields(protocol.PathOf(d)+" "+d.Summary+" "+d.Detail), " ")
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	t.Errorf("no error has %q:\n%s", words, found)
}

// warnings returns the titles of the warnings, in their order.
func warnings(found protocol.Diagnostics) []string {
	var titles []string
	for _, d := range found {
		if !slices.Contains(found.Errors(), d) {
			titles = append(titles, d.Summary)
		}
	}
	return titles
}

// lost is an object that somebody deletes.
type lost struct {
	line   string // as [topologyChanges] writes it
	remove func() (*http.Response, error)
	// gone are the bindings that RabbitMQ deletes along with it.
	gone []string
}

// everyObject lists all that a chain has on the broker, but for its policies.
func everyObject(t *testing.T, api *rabbithole.Client, vhost string) []lost {
	t.Helper()
	exchanges, err := api.ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := api.ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := api.ListBindingsIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	bindings = slices.DeleteFunc(bindings, func(b rabbithole.BindingInfo) bool { return b.Source == "" })
	var all []lost
	for _, e := range exchanges {
		if strings.HasPrefix(e.Name, "orders.") {
			all = append(all, lost{
				line:   "exchanges + " + e.Name,
				remove: func() (*http.Response, error) { return api.DeleteExchange(vhost, e.Name) },
				gone:   bindingsOf(bindings, "exchange", e.Name),
			})
		}
	}
	for _, q := range queues {
		all = append(all, lost{
			line:   "queues + " + q.Name,
			remove: func() (*http.Response, error) { return api.DeleteQueue(vhost, q.Name) },
			gone:   bindingsOf(bindings, "queue", q.Name),
		})
	}
	for _, b := range bindings {
		all = append(all, lost{
			line:   bindingLine(b),
			remove: func() (*http.Response, error) { return api.DeleteBinding(vhost, b) },
		})
	}
	return all
}

func bindingsOf(all []rabbithole.BindingInfo, kind, name string) []string {
	var lines []string
	for _, b := range all {
		if kind == "exchange" && b.Source == name || b.DestinationType == kind && b.Destination == name {
			lines = append(lines, bindingLine(b))
		}
	}
	return lines
}

// bindingLine is how a plan shows a binding that is missing.
func bindingLine(b rabbithole.BindingInfo) string {
	line := "bindings + " + b.Source + " -> "
	if b.DestinationType == "exchange" {
		line += "exchange "
	}
	line += b.Destination
	if b.RoutingKey != "" {
		line += " (" + b.RoutingKey + ")"
	}
	return line
}

// TestAccEveryDeletedObject deletes the objects of a chain one after the other:
// each time the plan shows that object and the bindings that went with it, and
// nothing else; the apply makes the chain whole again. A warning says first what
// stops the chain, and which queue is gone with its messages. On each broker,
// each variant of a strategy loses a part of the objects.
func TestAccEveryDeletedObject(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, map[string]any{
			"work_queue": map[string]any{"bindings": []any{map[string]any{"exchange": "amq.topic", "routing_key": "order.#"}}},
		})
		s.apply()
		api := acctest.API(t, b)
		objects := everyObject(t, api, vhost)
		if len(objects) != 18 {
			t.Fatalf("the chain has %d objects, expected 18", len(objects))
		}
		part := map[string]int{"quorumat-least-once": 0, "quorumat-most-once": 1, "classicat-most-once": 2}
		for i, o := range objects {
			if i%3 != part[v.queueType+v.deadLetterStrategy] {
				continue
			}
			resp, err := o.remove()
			acctest.Do(t, resp, err)
			plan := s.plan()
			s.expectPlan(plan, append([]string{o.line}, o.gone...)...)
			expectDriftWarnings(t, o, plan.Diagnostics)
			s.apply()
			s.expectPlan(s.plan())
		}
	})
}

// stops says whether the chain does not work without the object: no message
// gets into the chain, out of it or into the parking queue.
func (o lost) stops() bool {
	missing := append([]string{o.line}, o.gone...)
	return slices.ContainsFunc(missing, func(line string) bool {
		_, name, _ := strings.Cut(line, " + ")
		return slices.Contains([]string{
			"exchanges + orders.retry", "exchanges + orders.retry.first", "exchanges + orders.parking", "bindings + orders.parking -> orders.parking",
		}, line) || strings.HasPrefix(name, "orders.return") && strings.HasSuffix(name, " -> orders")
	})
}

func expectDriftWarnings(t *testing.T, o lost, found protocol.Diagnostics) {
	t.Helper()
	var want []string
	if o.stops() {
		want = append(want, "Chain Does Not Work")
	}
	name, queue := strings.CutPrefix(o.line, "queues + ")
	if queue {
		want = append(want, "Queue Is Gone")
		expectText(t, found.String(), name+" This plan declares them again. What was in them when they were deleted is lost")
	}
	if got := warnings(found); !slices.Equal(got, want) {
		t.Errorf("without %q the plan warns of %q, expected %q", o.line, got, want)
	}
}

// eachType runs the test for every broker and both queue types, with an applied
// chain that has the guarantee its queue type has by default.
func eachType(t *testing.T, test func(t *testing.T, s *session, v variant)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				v := defaultVariant(b, queueType)
				s := newSession(t, b, acctest.VHost(t, b), v, nil)
				s.apply()
				test(t, s, v)
			})
		}
	})
}

// TestAccForeignBindings binds a queue of another client to every exchange of the
// chain: each binding is shown and removed, the queue stays. A binding from an
// exchange of another client to the work queue is none of the chain's business.
func TestAccForeignBindings(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, _ variant) {
		api := acctest.API(t, s.b)
		do := func(resp *http.Response, err error) { t.Helper(); acctest.Do(t, resp, err) }
		do(api.DeclareQueue(s.vhost, "spy", rabbithole.QueueSettings{Durable: true}))
		do(api.DeclareBinding(s.vhost, rabbithole.BindingInfo{Source: "amq.topic", Destination: "orders", DestinationType: "queue", RoutingKey: "#"}))
		s.expectPlan(s.plan())
		var want []string
		for _, o := range everyObject(t, api, s.vhost) {
			name, is := strings.CutPrefix(o.line, "exchanges + ")
			if !is {
				continue
			}
			do(api.DeclareBinding(s.vhost, rabbithole.BindingInfo{Source: name, Destination: "spy", DestinationType: "queue", RoutingKey: "copy"}))
			do(api.DeclareBinding(s.vhost, rabbithole.BindingInfo{Source: name, Destination: "amq.fanout", DestinationType: "exchange"}))
			want = append(want, "bindings - "+name+" -> spy (copy)", "bindings - "+name+" -> exchange amq.fanout")
		}
		if len(want) != 12 {
			t.Errorf("%d foreign bindings, expected 12", len(want))
		}
		s.expectPlan(s.plan(), want...)
		s.apply()
		s.expectPlan(s.plan())
		if _, err := api.GetQueue(s.vhost, "spy"); err != nil {
			t.Errorf("the queue of somebody else is gone: %s", err)
		}
		if bindings, err := api.ListQueueBindingsBetween(s.vhost, "amq.topic", "orders"); err != nil || len(bindings) != 1 {
			t.Errorf("%d bindings of somebody else lead to the work queue, expected 1 (%v)", len(bindings), err)
		}
	})
}

// TestAccOtherForm declares an exchange, the work queue and the parking queue
// again in another form: the plan is refused with both forms. When somebody has
// deleted the object by hand, as the error says, the apply makes it.
func TestAccOtherForm(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, v variant) {
		api := acctest.API(t, s.b)
		do := func(resp *http.Response, err error) { t.Helper(); acctest.Do(t, resp, err) }
		for name, exchange := range map[string]rabbithole.ExchangeSettings{
			"orders.redrive":     {Type: "direct", Durable: true},
			"orders.retry.first": {Type: "headers", Durable: true},
			"orders.parking":     {Type: "fanout", Durable: false},
		} {
			do(api.DeleteExchange(s.vhost, name))
			do(api.DeclareExchange(s.vhost, name, exchange))
			is := exchange.Type
			if !exchange.Durable {
				is += ", transient"
			}
			expectRefused(t, s.plan().Diagnostics, "Exchange Exists in Another Form", fmt.Sprintf("Exchange %q is on the broker as %s and the chain needs %s", name, is, s.line("exchanges", name)))
			do(api.DeleteExchange(s.vhost, name))
			s.apply()
			s.expectPlan(s.plan())
		}
		for _, name := range []string{"orders", "orders.parking"} {
			is := "classic, x-message-ttl=60000"
			settings := rabbithole.QueueSettings{Durable: true, Arguments: map[string]any{"x-message-ttl": 60000}}
			if name == "orders" && v.queueType == "quorum" {
				is, settings.Arguments["x-queue-type"] = "quorum, x-message-ttl=60000", "quorum"
			}
			do(api.DeleteQueue(s.vhost, name))
			do(api.DeclareQueue(s.vhost, name, settings))
			expectRefused(t, s.plan().Diagnostics, "Queue Exists in Another Form", fmt.Sprintf("Queue %q is on the broker as %s and the chain needs %s", name, is, s.line("queues", name)))
			do(api.DeleteQueue(s.vhost, name))
			s.apply()
			s.expectPlan(s.plan())
		}
	})
}

// line is what the state says of an object.
func (s *session) line(kind, name string) string {
	s.t.Helper()
	line, is := lines(protocol.Go(s.state.Value), kind)[name].(string)
	if !is {
		s.t.Fatalf("the state does not hold %s %q", kind, name)
	}
	return line
}

// TestAccOtherTier gives a tier other arguments. While it holds a message the
// apply is refused and changes nothing; when it is empty it is declared again.
func TestAccOtherTier(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, v variant) {
		api, name := acctest.API(t, s.b), tierName(v, "2s")
		redeclare(t, api, s.vhost, name, map[string]any{"x-message-ttl": 3600000})
		w := acctest.Worker(t, s.b, s.vhost)
		publish(t, w, name)

		plan := s.plan()
		s.expectPlan(plan, "queues ~ "+name)
		expectRefused(t, s.tryApply(), "Queue Holds Messages", name+": ", "Nothing was changed.")
		if n, err := w.Ready(name); err != nil || n != 1 {
			t.Errorf("the tier holds %d messages after the refused update, expected 1 (%v)", n, err)
		}
		s.expectPlan(s.plan(), "queues ~ "+name)

		if _, err := w.Drain(name); err != nil {
			t.Fatal(err)
		}
		s.apply()
		s.expectPlan(s.plan())
	})
}

// redeclare deletes a queue and declares it again with other arguments and with
// the bindings that it had.
func redeclare(t *testing.T, api *rabbithole.Client, vhost, name string, change map[string]any) {
	t.Helper()
	q, err := api.GetQueue(vhost, name)
	if err != nil {
		t.Fatal(err)
	}
	bindings, err := api.ListQueueBindings(vhost, name)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := api.DeleteQueue(vhost, name)
	acctest.Do(t, resp, err)
	maps.Copy(q.Arguments, change)
	resp, err = api.DeclareQueue(vhost, name, rabbithole.QueueSettings{Durable: true, Arguments: q.Arguments})
	acctest.Do(t, resp, err)
	for _, b := range bindings {
		if b.Source != "" {
			resp, err = api.DeclareBinding(vhost, b)
			acctest.Do(t, resp, err)
		}
	}
}

// TestAccDeletedTierWithMessages: the tier comes back, the messages that were in
// it do not, and the plan and the apply say so.
func TestAccDeletedTierWithMessages(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		apply(t, w)
		publish(t, acctest.Worker(t, b, vhost), tier(b))
		resp, err := api.DeleteQueue(vhost, tier(b))
		acctest.Do(t, resp, err)
		for _, output := range []string{acctest.Run(t, w, "plan"), apply(t, w)} {
			expectText(t, output, "Warning: Queue Is Gone", tier(b)+" This plan declares them again. What was in them when they were deleted is lost")
		}
		expectEmptyPlan(t, w)
	})
}

// TestAccLeftovers finds what a killed run leaves: a tier that messages can
// enter is shown and removed, one that nothing enters is draining.
func TestAccLeftovers(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, v variant) {
		h := &handMade{exchanges: map[string]string{}, queues: map[string]map[string]any{tierName(v, "2s"): s.arguments(tierName(v, "2s"))}}
		entered := h.addRetiredTier(v, "7s", 7000)
		h.addRetiredTier(v, "6s", 6000) // draining
		delete(h.queues, tierName(v, "2s"))
		gone := []string{"draining", "queues - " + entered, "bindings - orders.retry.first -> " + entered}
		if v.strategy == "headers" {
			gone = append(gone, "exchanges - orders.return.7s", "bindings - orders.return.7s -> orders",
				"bindings - orders.retry -> orders.parking [x-last-death-exchange=orders.return.7s, x-last-death-reason=rejected, x-match=all-with-x]")
		} else {
			gone = append(gone, "bindings - orders.retry.keys -> orders.parking ("+entered+")")
		}
		h.bind("orders.retry.first", entered, map[string]any{"x-match": "all-with-x", "x-last-death-reason": "nothing"})
		h.make(t, s.b, s.vhost)
		s.expectPlan(s.plan(), gone...)
		s.apply()
		s.expectPlan(s.plan())
		expectQueues(t, s.b, s.vhost, "orders", "orders.parking", tierName(v, "1s"), tierName(v, "2s"))
	})
}

// arguments are those of a queue on the broker.
func (s *session) arguments(queue string) map[string]any {
	s.t.Helper()
	q, err := acctest.API(s.t, s.b).GetQueue(s.vhost, queue)
	if err != nil {
		s.t.Fatal(err)
	}
	return q.Arguments
}

// TestAccRepairUnderTraffic deletes bindings of a chain at work, and repairs it:
// whatever is missing, a message finds another way, to the first tier or into
// the parking queue.
func TestAccRepairUnderTraffic(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, _ variant) {
		l := startTraffic(t, s.b, s.vhost)
		for _, o := range everyObject(t, acctest.API(t, s.b), s.vhost) {
			if !strings.HasPrefix(o.line, "bindings + ") || o.line == "bindings + orders.parking -> orders.parking" {
				continue
			}
			l.waitFor(20)
			resp, err := o.remove()
			acctest.Do(t, resp, err)
			l.waitFor(20)
			s.apply()
		}
		s.expectPlan(s.plan())
		l.finish(30 * time.Second)
	})
}
