package retrychain_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// application owns a work queue.
type application struct {
	t     *testing.T
	b     *rabbit.Broker
	vhost string
	queue string
	table amqp.Table
}

// newApplication declares the queue "orders" with further arguments over AMQP
// and binds it to amq.topic with order.#.
func newApplication(t *testing.T, b *rabbit.Broker, vhost, queueType string, arguments amqp.Table) *application {
	t.Helper()
	a := &application{t: t, b: b, vhost: vhost, queue: "orders", table: amqp.Table{"x-queue-type": queueType}}
	maps.Copy(a.table, arguments)
	a.declare()
	return a
}

func (a *application) declare() {
	a.t.Helper()
	ch, err := acctest.Worker(a.t, a.b, a.vhost).Connection().Channel()
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	if _, err := ch.QueueDeclare(a.queue, true, false, false, false, a.table); err != nil {
		a.t.Fatal(err)
	}
	if err := ch.QueueBind(a.queue, "order.#", "amq.topic", false, nil); err != nil {
		a.t.Fatal(err)
	}
}

// delete deletes the queue with what is in it.
func (a *application) delete() {
	a.t.Helper()
	resp, err := acctest.API(a.t, a.b).DeleteQueue(a.vhost, a.queue)
	acctest.Do(a.t, resp, err)
}

// describe says what the broker knows of the queue and of its bindings to others
// than the chain.
func (a *application) describe() string {
	a.t.Helper()
	api := acctest.API(a.t, a.b)
	q, err := api.GetQueue(a.vhost, a.queue)
	if err != nil {
		a.t.Fatal(err)
	}
	bindings, err := api.ListQueueBindings(a.vhost, a.queue)
	if err != nil {
		a.t.Fatal(err)
	}
	var sources []string
	for _, b := range bindings {
		if !strings.HasPrefix(b.Source, "orders.") && !strings.HasPrefix(b.Source, "bills.") {
			sources = append(sources, b.Source+" "+b.RoutingKey)
		}
	}
	slices.Sort(sources)
	return fmt.Sprint(q.Name, q.Type, q.Durable, q.AutoDelete, q.Exclusive, q.Arguments, sources)
}

// expectPolicy waits until the management API says that this policy applies to
// the queue. It is behind by seconds before 4.3.
func (a *application) expectPolicy(name string) {
	a.t.Helper()
	api, found := acctest.API(a.t, a.b), ""
	if !poll.Until(60*time.Second, func() bool {
		q, err := api.GetQueue(a.vhost, a.queue)
		if err != nil {
			a.t.Fatal(err)
		}
		found = q.Policy
		return found == name
	}) {
		a.t.Errorf("the queue obeys the policy %q, expected %q", found, name)
	}
}

// attached are the attributes of a chain on an existing queue.
func attached(more map[string]any) map[string]any {
	attributes := map[string]any{"work_queue": map[string]any{"ownership": "application"}}
	maps.Copy(attributes, more)
	return attributes
}

// eachExisting runs the test for every broker and both types of the existing
// queue, with a chain of the broker's newest strategy and the queue's type.
func eachExisting(t *testing.T, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				test(t, b, acctest.VHost(t, b), defaultVariant(b, queueType))
			})
		}
	})
}

// attachLine is the line of the chain's policy for a queue of that type.
func attachLine(v variant, priority int, more ...string) string {
	keys := append([]string{"dead-letter-exchange=orders.retry"}, more...)
	if v.queueType == "quorum" {
		keys = append(keys, "dead-letter-strategy="+v.deadLetterStrategy)
		if v.deadLetterStrategy == "at-least-once" {
			keys = append(keys, "overflow=reject-publish")
		}
	}
	slices.Sort(keys)
	return fmt.Sprintf(`queues, pattern="^orders$", priority=%d, %s`, priority, strings.Join(keys, ", "))
}

// TestAccAttach attaches a chain to a queue of an application, lets messages
// through and detaches it again. Nobody declares, changes or deletes the queue,
// and afterwards it obeys the policy of before.
func TestAccAttach(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, _ string, v variant) {
		for name, arguments := range map[string]amqp.Table{"plain": nil, "own": {"x-single-active-consumer": true}} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				a := newApplication(t, b, vhost, v.queueType, arguments)
				policy := ""
				if name == "own" {
					policy = "limits"
					setPolicy(t, b, vhost, false, policy, rabbithole.Policy{Pattern: "^orders$", Priority: 3, Definition: rabbithole.PolicyDefinition{"max-length": 100000}})
				}
				attach(t, a, v, policy)
			})
		}
	})
}

func attach(t *testing.T, a *application, v variant, policy string) {
	before := a.describe()
	p := proxy.New(t, a.b.Endpoint)
	behind := *a.b
	behind.Endpoint = p.URL
	s := newSession(t, &behind, a.vhost, v, attached(map[string]any{"delays": []any{"200ms", "400ms"}}))
	s.apply()
	s.expectPlan(s.plan())
	if line := s.lines("policies")["orders.retry"]; line != attachLine(v, 1000) {
		t.Errorf("the policy is %q, expected %q", line, attachLine(v, 1000))
	}
	if _, mine := s.lines("queues")["orders"]; mine {
		t.Error("the state counts the application's queue among the chain's")
	}
	l := startTraffic(t, a.b, a.vhost, func(l *traffic) { l.exchange, l.key = "amq.topic", "order.created" })
	l.waitFor(100)
	if o := l.finish(30 * time.Second); o.deliveries != 3 || o.parked == 0 {
		t.Errorf("%s; expected 3 deliveries at most, and some parked", o)
	}
	a.expectPolicy("orders.retry")

	w := acctest.Worker(t, a.b, a.vhost)
	publish(t, w, "orders")
	if found := s.destroy(); len(found) > 0 {
		t.Error(found)
	}
	if after := a.describe(); after != before {
		t.Errorf("the queue was %s and is %s", before, after)
	}
	if n, err := w.Ready("orders"); err != nil || n != 1 {
		t.Errorf("the queue of the application holds %d messages, expected 1 (%v)", n, err)
	}
	a.expectPolicy(policy)
	own := "/api/queues/" + url.PathEscape(a.vhost) + "/orders"
	for _, r := range p.Take() {
		if r.Write() && (r.Path == own || strings.HasPrefix(r.Path, own+"/")) {
			t.Errorf("the provider wrote to the queue: %s %s", r.Method, r.Path)
		}
	}
}

// TestAccAttachOtherType attaches a chain whose own queues are of another type
// than the existing one.
func TestAccAttachOtherType(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		newApplication(t, b, vhost, v.queueType, nil)
		other := defaultVariant(b, map[string]string{"quorum": "classic", "classic": "quorum"}[v.queueType])
		s := newSession(t, b, vhost, other, attached(map[string]any{"delays": []any{"200ms", "400ms"}}))
		if v.queueType == "classic" {
			expectWarned(t, s.plan().Diagnostics, "Work Queue Dead-Letters at Most Once", "goes from it to the first tier at most once")
		}
		s.apply()
		s.expectPlan(s.plan())
		l := startTraffic(t, b, vhost)
		l.waitFor(100)
		if o := l.finish(30 * time.Second); o.deliveries != 3 {
			t.Errorf("%s; expected 3 deliveries at most", o)
		}
	})
}

// expectWarned fails the test unless the diagnostics have a warning with all of
// the words.
func expectWarned(t *testing.T, found protocol.Diagnostics, words ...string) {
	t.Helper()
	for _, d := range found {
		text := strings.Join(strings.Fields(protocol.PathOf(d)+" "+d.Summary+" "+d.Detail), " ")
		if !slices.Contains(found.Errors(), d) && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			return
		}
	}
	t.Errorf("no warning has %q:\n%s", words, found)
}

// TestAccAttachInSameRun: the queue is missing at plan and is there at apply, or
// still missing.
func TestAccAttachInSameRun(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, attached(nil))
		expectRefused(t, s.tryApply(), "work_queue", "Existing Queue Not Found", `Queue "orders" does not exist in virtual host`, "refer to its resource")
		if n := exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d exchanges are left", n)
		}
		s.state = protocol.State{}
		plan := s.plan()
		if len(plan.Diagnostics.Errors()) > 0 {
			t.Fatal(plan.Diagnostics)
		}
		newApplication(t, b, vhost, v.queueType, nil)
		state, found := s.provider().Apply(t, chainType, plan)
		if len(found) > 0 {
			t.Fatal(found)
		}
		s.state = state
		s.expectPlan(s.plan())
		if line := s.lines("policies")["orders.retry"]; line != attachLine(v, 1000) {
			t.Errorf("the policy is %q, expected %q", line, attachLine(v, 1000))
		}
	})
}

// TestAccAttachBesideAnotherChain: the provider has read the virtual host for
// another chain of the same run before the queue and a policy are made.
func TestAccAttachBesideAnotherChain(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, _ string, v variant) {
		for name, test := range map[string]struct {
			made    func(t *testing.T, vhost string)
			refused []string
		}{
			"good queue": {func(t *testing.T, vhost string) { newApplication(t, b, vhost, v.queueType, nil) }, nil},
			"queue with a dead-letter exchange": {
				func(t *testing.T, vhost string) {
					newApplication(t, b, vhost, v.queueType, amqp.Table{"x-dead-letter-exchange": "amq.fanout"})
				},
				[]string{"Argument Overrides the Chain"},
			},
			"harmful policy": {
				func(t *testing.T, vhost string) {
					newApplication(t, b, vhost, v.queueType, nil)
					setPolicy(t, b, vhost, false, "harm", rabbithole.Policy{Pattern: "parking", Definition: rabbithole.PolicyDefinition{"message-ttl": 200}})
				},
				[]string{"Policy Endangers Messages"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				first := newSession(t, b, vhost, v, map[string]any{"name": "bills"}).plan()
				s := newSession(t, b, vhost, v, attached(nil))
				second := s.plan()
				server := s.provider()
				if _, found := server.Apply(t, chainType, first); len(found) > 0 {
					t.Fatal(found)
				}
				test.made(t, vhost)
				state, found := server.Apply(t, chainType, second)
				if test.refused != nil {
					expectRefused(t, found, test.refused...)
					return
				}
				if len(found) > 0 {
					t.Fatal(found)
				}
				s.state = state
				s.expectPlan(s.plan())
			})
		}
	})
}

// TestAccAttachRedeclared: an application deletes its queue and declares it
// again, as it was or with the other type, while messages wait in tiers. They
// are parked; the plan shows the lost bindings, and the apply mends them.
func TestAccAttachRedeclared(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		a := newApplication(t, b, vhost, v.queueType, nil)
		s := newSession(t, b, vhost, v, attached(map[string]any{"delays": []any{"30s"}}))
		s.apply()
		h := &harmed{others: others{t: t, b: b, vhost: vhost, queue: "orders"}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
		for range 20 {
			h.publish("", "orders")
			h.next("orders", 60*time.Second, reject)
		}
		if !poll.Until(60*time.Second, func() bool { return h.ready(tierName(v, "30s")) == 20 }) {
			t.Fatalf("%d of 20 messages wait in the tier", h.ready(tierName(v, "30s")))
		}
		a.delete()
		if v.queueType == "quorum" {
			a.table["x-queue-type"] = "classic"
		}
		a.declare()
		if !poll.Until(2*time.Minute, func() bool { return h.ready("orders.parking") == 20 }) {
			t.Errorf("%d of 20 messages are parked", h.ready("orders.parking"))
		}
		plan := s.plan()
		s.expectPlan(plan, lostBindings(v)...)
		expectWarned(t, plan.Diagnostics, "Chain Does Not Work", "messages that come back from a tier are parked")
		if v.queueType == "quorum" {
			v.queueType = "classic"
			expectPolicyLine(t, plan, attachLine(v, 1000))
		}
		s.apply()
		s.expectPlan(s.plan())
		h.drain("orders.parking")
		l := startTraffic(t, b, vhost)
		l.waitFor(20)
		if o := l.finish(90 * time.Second); o.deliveries > 2 {
			t.Errorf("%s; expected 2 deliveries at most", o)
		}
	})
}

// lostBindings are what a plan shows when the work queue was declared again.
func lostBindings(v variant) []string {
	lines := []string{"bindings + orders.redrive -> orders"}
	if v.strategy == "routing_key" {
		return append(lines, "bindings + orders.return -> orders")
	}
	return append(lines, "bindings + orders.return.30s -> orders")
}

// expectPolicyLine fails the test unless the plan wants this policy for the
// attachment.
func expectPolicyLine(t *testing.T, plan protocol.Plan, want string) {
	t.Helper()
	if len(plan.Diagnostics.Errors()) > 0 {
		t.Errorf("the plan failed: %s", plan.Diagnostics)
		return
	}
	lines, _ := protocol.Go(protocol.At(plan.Planned, "topology.policies")).(map[string]any)
	if lines["orders.retry"] != want {
		t.Errorf("the plan wants the policy %q, expected %q", lines["orders.retry"], want)
	}
}

// TestAccInherit: a plan names the policy that the chain displaces and what is
// lost with it; with inherit it carries the other keys over and follows their
// changes.
func TestAccInherit(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		a := newApplication(t, b, vhost, v.queueType, nil)
		// RabbitMQ does not apply a policy with a key that the type lacks.
		ignored := rabbithole.Policy{Pattern: "^orders$", Priority: 20, Definition: rabbithole.PolicyDefinition{"ha-mode": "all", "expires": 1}}
		if v.queueType == "classic" {
			ignored.Definition = rabbithole.PolicyDefinition{"delivery-limit": 7, "expires": 1}
		}
		if v.queueType == "classic" || !atLeast(b, "4.0") {
			setPolicy(t, b, vhost, false, "ignored", ignored)
		}
		displaced := rabbithole.Policy{Pattern: "^orders$", Priority: 3, Definition: rabbithole.PolicyDefinition{"expires": 3600000, "dead-letter-exchange": "amq.fanout"}}
		setPolicy(t, b, vhost, false, "limits", displaced)
		a.expectPolicy("limits")
		s := newSession(t, b, vhost, v, attached(nil))
		expectWarned(t, s.plan().Diagnostics, "Policy Displaced", `takes the place of policy "limits" on the queue "orders"`, "dead-letter-exchange=amq.fanout, expires=3600000", "Set policy.inherit = true")

		s.config["policy"] = map[string]any{"inherit": true, "priority": 50}
		plan := s.plan()
		expectPolicyLine(t, plan, attachLine(v, 50, "expires=3600000"))
		expectWarned(t, plan.Diagnostics, "Policy Displaced", "no longer in effect there: dead-letter-exchange=amq.fanout.")
		s.apply()
		s.expectPlan(s.plan())

		displaced.Definition = rabbithole.PolicyDefinition{"expires": 7200000, "max-length-bytes": 1000000000}
		want := attachLine(v, 50, "expires=7200000", "max-length-bytes=1000000000")
		if v.strategy == "routing_key" { // every limit is refused there
			displaced.Definition = rabbithole.PolicyDefinition{"expires": 7200000}
			want = attachLine(v, 50, "expires=7200000")
		}
		setPolicy(t, b, vhost, false, "limits", displaced)
		expectPolicyLine(t, s.plan(), want)
		s.apply()
		s.expectPlan(s.plan())
		p, err := acctest.API(t, b).GetPolicy(vhost, "orders.retry")
		if err != nil || fmt.Sprint(p.Definition["expires"]) != fmt.Sprint(7200000.0) {
			t.Errorf("the policy is %v, expected the changed key of the displaced one (%v)", p, err)
		}

		dropPolicy(t, b, vhost, false, "limits")
		expectPolicyLine(t, s.plan(), attachLine(v, 50))
		s.apply()
		s.expectPlan(s.plan())
		for _, name := range []string{"one", "other"} {
			setPolicy(t, b, vhost, false, name, rabbithole.Policy{Pattern: "orders$", Priority: 3, Definition: rabbithole.PolicyDefinition{"expires": 3600000}})
		}
		expectRefused(t, s.plan().Diagnostics, "policy.inherit", "Displaced Policy Not Clear", `The policies "one", "other" apply to the queue "orders" with the same priority`)
	})
}

// refusedAttachment is a work queue to which no chain can be attached.
type refusedAttachment struct {
	name string
	// only is the type of queue that it is about; empty for both.
	only      string
	arguments amqp.Table
	policy    *rabbithole.Policy
	operator  bool
	from      string // the first version that has it
	more      map[string]any
	words     []string
}

var refusedAttachments = []refusedAttachment{
	{
		name: "higher priority", policy: &rabbithole.Policy{Priority: 1001, Definition: rabbithole.PolicyDefinition{"expires": 3600000}},
		words: []string{"policy.priority", "Policy Hidden by Another", `"harm"`, "rejected messages would be lost", "Set policy.priority to 1002 or more"},
	},
	{
		name: "equal priority", policy: &rabbithole.Policy{Priority: 1000, Definition: rabbithole.PolicyDefinition{"expires": 3600000}},
		words: []string{"policy.priority", "Policy Hidden by Another", "its priority 1000 is not below the 1000", "Set policy.priority to 1001 or more"},
	},
	{
		name: "negative priority", policy: &rabbithole.Policy{Priority: 0, Definition: rabbithole.PolicyDefinition{"expires": 3600000}},
		more:  map[string]any{"policy": map[string]any{"priority": -1}},
		words: []string{"Policy Hidden by Another", "Set policy.priority to 1 or more"},
	},
	{
		name: "dead-letter exchange", arguments: amqp.Table{"x-dead-letter-exchange": "amq.fanout"},
		words: []string{"work_queue.name", "Argument Overrides the Chain", `declared with x-dead-letter-exchange=amq.fanout`, "rejected messages would go there"},
	},
	{
		name: "dead-letter routing key", arguments: amqp.Table{"x-dead-letter-exchange": "orders.retry", "x-dead-letter-routing-key": "dead"},
		words: []string{"Argument Overrides the Chain", "x-dead-letter-routing-key=dead"},
	},
	{
		name: "dead-letter strategy", only: "quorum", arguments: amqp.Table{"x-dead-letter-strategy": "at-most-once"},
		words: []string{"Argument Overrides the Chain", "x-dead-letter-strategy=at-most-once", "the chain asks for at-least-once"},
	},
	{
		name: "overflow", only: "classic", arguments: amqp.Table{"x-overflow": "reject-publish", "x-max-length": 10},
		words: []string{"Argument Overrides the Chain", "x-overflow=reject-publish", "they are lost"},
	},
	{
		name: "overflow to dead letters", only: "classic", arguments: amqp.Table{"x-overflow": "reject-publish-dlx", "x-max-length": 10},
		words: []string{"Argument Overrides the Chain", "x-overflow=reject-publish-dlx", "they are lost"},
	},
	{
		name: "stream", only: "classic", arguments: amqp.Table{"x-queue-type": "stream"},
		words: []string{"work_queue.name", "Queue Type Not Supported", `"orders" is a stream queue`},
	},
	{
		name: "operator policy with drop-head", only: "quorum", from: "3.12", operator: true, policy: &rabbithole.Policy{Definition: rabbithole.PolicyDefinition{"overflow": "drop-head"}},
		words: []string{"work_queue", "Policy Endangers Messages", `The operator policy "harm" sets overflow=drop-head on the work queue "orders"`, "cannot shield"},
	},
	{
		name: "operator policy with reject-publish", only: "classic", from: "3.12", operator: true, policy: &rabbithole.Policy{Definition: rabbithole.PolicyDefinition{"overflow": "reject-publish"}},
		words: []string{"work_queue", "Policy Endangers Messages", "refuses the messages that come back"},
	},
	{
		name: "inherited reject-publish", only: "classic", policy: &rabbithole.Policy{Definition: rabbithole.PolicyDefinition{"overflow": "reject-publish", "max-length": 10}},
		more:  map[string]any{"policy": map[string]any{"inherit": true}},
		words: []string{"Policy Endangers Messages", "overflow=reject-publish", "The key is inherited"},
	},
	{
		name:  "attribute of an own queue",
		more:  map[string]any{"work_queue": map[string]any{"ownership": "application", "max_length": 5}},
		words: []string{"work_queue.max_length", "Queue Belongs to Others"},
	},
	{
		name:  "binding of an own queue",
		more:  map[string]any{"work_queue": map[string]any{"ownership": "application", "bindings": []any{map[string]any{"exchange": "amq.topic"}}}},
		words: []string{"work_queue.bindings", "Queue Belongs to Others"},
	},
}

// TestAccAttachRefused: what would leave the queue without dead-lettering into
// the chain, or lose its messages, is an error of the plan.
func TestAccAttachRefused(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, _ string, v variant) {
		for _, c := range refusedAttachments {
			if c.only != "" && c.only != v.queueType || c.from != "" && !atLeast(b, c.from) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				newApplication(t, b, vhost, v.queueType, c.arguments)
				if c.policy != nil {
					p := *c.policy
					p.Pattern = "^orders$"
					setPolicy(t, b, vhost, c.operator, "harm", p)
				}
				s := newSession(t, b, vhost, v, attached(c.more))
				expectRefused(t, s.plan().Diagnostics, c.words...)
			})
		}
	})
}

// TestAccAttachToShortLivedQueues: a queue of one connection is refused, and one
// that deletes itself is warned of.
func TestAccAttachToShortLivedQueues(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		ch, err := acctest.Worker(t, b, vhost).Connection().Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare("orders", true, false, true, false, nil); err != nil {
			t.Fatal(err)
		}
		s := newSession(t, b, vhost, defaultVariant(b, "classic"), attached(nil))
		expectRefused(t, s.plan().Diagnostics, "work_queue.name", "Exclusive Queue")
		if _, err := ch.QueueDelete("orders", false, false, false); err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare("orders", true, true, false, false, nil); err != nil {
			t.Fatal(err)
		}
		expectWarned(t, s.plan().Diagnostics, "work_queue.name", "Queue Deletes Itself")
	})
}

// TestAccAttachmentHiddenLater: a policy that hides the chain's own loses every
// rejected message. A refresh finds it, and the plan is refused.
func TestAccAttachmentHiddenLater(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		newApplication(t, b, vhost, v.queueType, nil)
		s := newSession(t, b, vhost, v, attached(map[string]any{"delays": []any{"200ms"}}))
		s.apply()
		h := &harmed{
			others: others{t: t, b: b, vhost: vhost, queue: "orders", definition: map[string]any{"expires": 3600000}},
			s:      s, v: v, w: acctest.Worker(t, b, vhost),
		}
		h.put() // of priority 7
		s.expectPlan(s.plan())
		setPolicy(t, b, vhost, false, "harm", rabbithole.Policy{Pattern: ".*", Priority: 2000, Definition: rabbithole.PolicyDefinition{"expires": 3600000}})
		lost := func() bool {
			h.publish("", "orders")
			h.next("orders", 60*time.Second, reject)
			_, back := h.next("orders", time.Second, ack)
			return !back
		}
		if !poll.Until(60*time.Second, lost) {
			t.Error("no rejected message is lost")
		}
		expectRefused(t, s.plan().Diagnostics, "policy.priority", "Policy Hidden by Another", `"harm"`, "Set policy.priority to 2001 or more")
		s.config["policy"] = map[string]any{"priority": 2001}
		expectRefused(t, s.plan().Diagnostics, "Policy Endangers Messages", "orders.parking") // "expires" there
		dropPolicy(t, b, vhost, false, "harm")
		s.apply()
		s.expectPlan(s.plan())
		if !poll.Until(60*time.Second, func() bool { return !lost() }) {
			t.Error("rejected messages are still lost")
		}
	})
}

// TestAccAttachmentWithoutEffect: a policy that appears during the apply hides
// the chain's own. The apply fails, and says why, and leaves nothing.
func TestAccAttachmentWithoutEffect(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		// Half a minute each: one queue type per broker.
		vhost, v := acctest.VHost(t, b), defaultVariant(b, []string{"quorum", "classic"}[b.Version[len(b.Version)-1]%2])
		newApplication(t, b, vhost, v.queueType, nil)
		p := proxy.New(t, b.Endpoint)
		p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && strings.HasPrefix(r.URL.Path, "/api/policies/") {
				setPolicy(t, b, vhost, false, "harm", rabbithole.Policy{Pattern: "^orders$", Priority: 2000, Definition: rabbithole.PolicyDefinition{"expires": 3600000}})
			}
			return false
		})
		behind := *b
		behind.Endpoint = p.URL
		s := newSession(t, &behind, vhost, v, attached(nil))
		expectRefused(t, s.tryApply(), "Chain Not Created", `The policy "orders.retry" does not take effect on the queue "orders"`, "{expires=3600000}", "a policy of higher priority")
		if n := exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d exchanges are left", n)
		}
		expectQueues(t, b, vhost, "orders")
	})
}

// TestAccTwoChainsOnOneQueue refuses the second chain, in the same run and in
// another one.
func TestAccTwoChainsOnOneQueue(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		newApplication(t, b, vhost, "quorum", nil)
		more := settings{more: `work_queue = { name = "orders", ownership = "application" }`}
		second := more
		second.address, second.name = "bills", "bills"
		_, bills, _ := strings.Cut(second.config(b, vhost), "}\n")
		w := acctest.Terraform(t, more.config(b, vhost)+bills)
		// Whether the second create sees the claim or already the policy of the
		// first is chance.
		output := acctest.RunError(t, w, "apply", "-auto-approve")
		if !strings.Contains(output, "Object Claimed Twice") && !strings.Contains(output, "Queue Has Another Chain") {
			t.Errorf("the second chain is not refused for the queue:\n%s", output)
		}
		if list, err := acctest.API(t, b).ListPoliciesIn(vhost); err != nil || len(list) != 1 {
			t.Errorf("%d policies attach the queue, expected 1 (%v)", len(list), err)
		}

		a := newSession(t, b, acctest.VHost(t, b), defaultVariant(b, "quorum"), attached(nil))
		newApplication(t, b, a.vhost, "quorum", nil)
		a.apply()
		other := newSession(t, b, a.vhost, defaultVariant(b, "quorum"), map[string]any{"name": "bills", "work_queue": map[string]any{"name": "orders", "ownership": "application"}})
		expectRefused(t, other.plan().Diagnostics, "Queue Has Another Chain", `retry chain "orders"`, `"orders.retry"`)
		other.config["policy"] = map[string]any{"priority": 2000}
		expectRefused(t, other.plan().Diagnostics, "Queue Has Another Chain", `retry chain "orders"`, `"orders.retry"`)
		a.expectPlan(a.plan())
	})
}

// TestAccAttachWithoutTag: a user who may not set policies learns that from the
// plan, or from the apply when only that can know.
func TestAccAttachWithoutTag(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		limited := *b
		limited.Username, limited.Password = "user-of-"+vhost, "a-password"
		resp, err := api.PutUser(limited.Username, rabbithole.UserSettings{Name: limited.Username, Password: limited.Password, Tags: rabbithole.UserTags{"management"}})
		acctest.Do(t, resp, err)
		t.Cleanup(func() {
			resp, err := api.DeleteUser(limited.Username)
			acctest.Do(t, resp, err)
		})
		resp, err = api.UpdatePermissionsIn(vhost, limited.Username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
		acctest.Do(t, resp, err)

		s := newSession(t, &limited, vhost, defaultVariant(b, "classic"), attached(nil))
		unseen := s.plan() // the queue's type is not known, and so no policy yet
		newApplication(t, b, vhost, "classic", nil)
		_, found := s.provider().Apply(t, chainType, unseen)
		expectRefused(t, found, "tag policymaker or administrator", "orders.retry")
		if n := exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d exchanges are left", n)
		}
		expectRefused(t, s.plan().Diagnostics, "Permission Missing", "tag policymaker or administrator", "orders.retry")
		s.config["work_queue"] = map[string]any{"name": "own"}
		s.config["policy"] = map[string]any{"shield": true}
		expectRefused(t, s.plan().Diagnostics, "Permission Missing", "orders.shield")
	})
}

// TestAccDetachWithPendingDeadLetters: RabbitMQ deletes dead letters on their way
// when the policy goes. A destroy waits until there are none.
func TestAccDetachWithPendingDeadLetters(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, policy := range []string{"by hand", "if_empty", "delete"} {
			t.Run(policy, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				newApplication(t, b, vhost, "quorum", nil)
				v := defaultVariant(b, "quorum")
				s := newSession(t, b, vhost, v, attached(map[string]any{"deletion_policy": policy, "delays": []any{"200ms"}}))
				if policy == "by hand" {
					s.config["deletion_policy"] = "delete"
				}
				s.apply()
				h := &harmed{others: others{t: t, b: b, vhost: vhost, queue: "orders"}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
				detachPending(t, h, policy)
			})
		}
	})
}

func detachPending(t *testing.T, h *harmed, policy string) {
	const count = 20
	api := acctest.API(t, h.b)
	resp, err := api.DeleteExchange(h.vhost, "orders.retry")
	acctest.Do(t, resp, err)
	for range count {
		h.publish("", "orders")
		h.next("orders", 60*time.Second, reject)
	}
	waitForCount(t, api, h.vhost, "orders", count)
	if policy == "by hand" {
		dropPolicy(t, h.b, h.vhost, false, "orders.retry")
		waitForCount(t, api, h.vhost, "orders", 0)
	} else {
		expectRefused(t, h.s.destroy(), `Queue "orders" has 20 messages`, "RabbitMQ deletes dead letters on their way", "Nothing was changed.")
	}
	h.s.apply()
	h.s.config["policy"] = map[string]any{"priority": 1001} // a change of the policy makes the broker try again at once
	h.s.apply()
	arrived, want := 0, count
	if policy == "by hand" {
		want = 0
	}
	poll.Until(10*time.Second, func() bool {
		arrived += len(h.drain("orders"))
		return arrived >= count || want == 0 && arrived > 0
	})
	if arrived != want {
		t.Errorf("%d messages came back, expected %d of %d", arrived, want, count)
	}
}

// TestAccAttachWithPendingDeadLetters: the application's own policy has dead
// letters on their way. RabbitMQ deletes them when a policy without at-least-once
// takes its place, by hand or by a chain; one with at-least-once takes them over.
func TestAccAttachWithPendingDeadLetters(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, way := range []string{"by hand", "at-most-once", "at-least-once"} {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				newApplication(t, b, vhost, "quorum", nil)
				v := defaultVariant(b, "quorum")
				if way == "at-most-once" {
					v.deadLetterStrategy = way
				}
				s := newSession(t, b, vhost, v, attached(map[string]any{"delays": []any{"200ms"}}))
				h := &harmed{others: others{t: t, b: b, vhost: vhost, queue: "orders"}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
				attachPending(t, h, way)
			})
		}
	})
}

func attachPending(t *testing.T, h *harmed, way string) {
	const count = 20
	api := acctest.API(t, h.b)
	own := rabbithole.Policy{Pattern: "^orders$", Priority: 5, Definition: rabbithole.PolicyDefinition{
		"dead-letter-exchange": "not.there.yet", "dead-letter-strategy": "at-least-once", "overflow": "reject-publish",
	}}
	setPolicy(t, h.b, h.vhost, false, "own", own)
	for range count {
		h.publish("", "orders")
		h.next("orders", 60*time.Second, reject)
	}
	waitForCount(t, api, h.vhost, "orders", count)
	switch way {
	case "by hand":
		setPolicy(t, h.b, h.vhost, false, "weaker", rabbithole.Policy{Pattern: "^orders$", Priority: 6, Definition: rabbithole.PolicyDefinition{"dead-letter-exchange": "amq.fanout"}})
		waitForCount(t, api, h.vhost, "orders", 0)
	case "at-most-once":
		expectRefused(t, h.s.tryApply(), `Queue "orders" has 20 messages`, "RabbitMQ deletes dead letters on their way", "Nothing was changed.")
	default: // the chain parks or retries what the application's policy could not move
		h.s.apply()
		arrived := 0
		if !poll.Until(60*time.Second, func() bool {
			arrived += len(h.drain("orders")) + len(h.drain("orders.parking"))
			return arrived == count
		}) {
			t.Errorf("%d messages arrived, expected %d", arrived, count)
		}
		return
	}
	resp, err := api.DeclareExchange(h.vhost, "not.there.yet", rabbithole.ExchangeSettings{Type: "fanout", Durable: true})
	acctest.Do(t, resp, err)
	resp, err = api.DeclareBinding(h.vhost, rabbithole.BindingInfo{Source: "not.there.yet", Destination: "orders", DestinationType: "queue"})
	acctest.Do(t, resp, err)
	own.Priority = 4000 // the change makes the broker try again
	setPolicy(t, h.b, h.vhost, false, "own", own)
	want, arrived := count, 0
	if way == "by hand" {
		want = 0
	}
	poll.Until(10*time.Second, func() bool {
		arrived += len(h.drain("orders"))
		return want > 0 && arrived == want
	})
	if arrived != want {
		t.Errorf("%d of %d messages arrived, expected %d", arrived, count, want)
	}
}

// TestAccAttachToLimitedQueue: with at-least-once a full queue refuses messages in
// place of dropping the oldest, and a publisher without confirms loses them. The
// plan says so.
func TestAccAttachToLimitedQueue(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		newApplication(t, b, vhost, "quorum", amqp.Table{"x-max-length": 3, "x-overflow": "drop-head"})
		v := variant{"headers", "quorum", "at-least-once"}
		if !acctest.Modern(b) {
			v.strategy = "routing_key"
			expectRefused(t, newSession(t, b, vhost, v, attached(nil)).plan().Diagnostics, "Queue Would Lose Messages", "x-max-length=3")
			return
		}
		s := newSession(t, b, vhost, v, attached(nil))
		h := &harmed{others: others{t: t, b: b, vhost: vhost, queue: "orders"}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
		refused := func() bool {
			for range 10 {
				if _, err := h.tryPublish("", "orders"); err != nil {
					return true
				}
			}
			return false
		}
		if refused() {
			t.Error("the queue refuses messages before the chain is attached")
		}
		expectWarned(t, s.plan().Diagnostics, "work_queue", "x-max-length", "reject-publish")
		s.apply()
		if !poll.Until(60*time.Second, refused) {
			t.Error("the full queue refuses no message")
		}
	})
}

// TestAccAttachedBecomesOwn: an application's queue does not become the chain's own by
// a change of the configuration, and the chain stays attached to it.
func TestAccAttachedBecomesOwn(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, _ string, v variant) {
		for name, arguments := range map[string]amqp.Table{"other arguments": nil, "same arguments": sameArguments(b, v)} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				newApplication(t, b, vhost, v.queueType, arguments)
				s := newSession(t, b, vhost, v, attached(map[string]any{"delays": []any{"200ms"}}))
				s.apply()
				delete(s.config, "work_queue")
				found := s.tryApply()
				h := &harmed{others: others{t: t, b: b, vhost: vhost, queue: "orders"}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
				h.publish("", "orders")
				h.next("orders", 60*time.Second, reject)
				if _, back := h.next("orders", 60*time.Second, ack); !back {
					t.Errorf("a rejected message is lost after this change: %s", found)
				}
				if name == "other arguments" {
					expectRefused(t, found, "work_queue")
				}
			})
		}
	})
}

// sameArguments are those that a chain would declare the queue with.
func sameArguments(b *rabbit.Broker, v variant) amqp.Table {
	table := amqp.Table{"x-dead-letter-exchange": "orders.retry"}
	if v.queueType == "quorum" {
		table["x-dead-letter-strategy"], table["x-overflow"] = "at-least-once", "reject-publish"
		if acctest.Modern(b) {
			table["x-delivery-limit"] = 70
		}
	}
	return table
}

// TestAccOwnBecomesAttached gives the work queue of a chain to an application.
func TestAccOwnBecomesAttached(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms"}})
		s.apply()
		l := startTraffic(t, b, vhost)
		l.waitFor(50)
		s.config["work_queue"] = map[string]any{"ownership": "application"}
		s.apply()
		s.expectPlan(s.plan())
		l.waitFor(50)
		l.finish(20 * time.Second)
		if found := s.destroy(); len(found) > 0 {
			t.Error(found)
		}
		expectQueues(t, b, vhost, "orders")
	})
}
