package retrychain_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// foreignPolicy is another policy that endangers the messages of a chain.
type foreignPolicy struct {
	role       string // "parking queue", "tier" (the one of 1s), "work queue"
	definition map[string]any
	// harmful is the key of the definition that the error must name.
	harmful string
	effect  string
	// operators can set it too, from the given version on.
	operators string
	// fits says on which chains the policy does harm; nil: on all.
	fits func(b *rabbit.Broker, v variant) bool
	// delays of the chain, 1s and 2s by default.
	delays []any
	// damage tries to see the harm once.
	damage func(h *harmed) bool
	// late: damage puts the policy itself. That takes half a minute, and so each
	// of these is tried on one broker.
	late bool
}

func quorum(_ *rabbit.Broker, v variant) bool      { return v.queueType == "quorum" }
func classic(_ *rabbit.Broker, v variant) bool     { return v.queueType == "classic" }
func atLeastOnce(_ *rabbit.Broker, v variant) bool { return v.deadLetterStrategy == "at-least-once" }
func byHeaders(_ *rabbit.Broker, v variant) bool   { return v.strategy == "headers" }
func byKey(_ *rabbit.Broker, v variant) bool       { return v.strategy == "routing_key" }

// untold: the broker does not tell a rejected message from one that died
// otherwise.
func untold(b *rabbit.Broker, _ variant) bool { return !acctest.Modern(b) }

func all(conditions ...func(*rabbit.Broker, variant) bool) func(*rabbit.Broker, variant) bool {
	return func(b *rabbit.Broker, v variant) bool {
		return !slices.ContainsFunc(conditions, func(fits func(*rabbit.Broker, variant) bool) bool { return !fits(b, v) })
	}
}

var foreignPolicies = []foreignPolicy{
	{
		role: "parking queue", definition: map[string]any{"message-ttl": 200}, operators: "3.10",
		effect: "its messages are deleted after 200ms", damage: parkedVanish,
	},
	{
		role: "parking queue", definition: map[string]any{"expires": 1000}, operators: "3.10",
		effect: "is deleted with all its messages", damage: queueVanishes,
	},
	{
		role: "parking queue", definition: map[string]any{"max-length": 2}, operators: "3.10",
		effect: "over the limit are deleted", damage: parkedVanish,
	},
	{
		role: "parking queue", definition: map[string]any{"max-length-bytes": 10}, operators: "3.10",
		effect: "over the limit are deleted", damage: parkedVanish,
	},
	{
		role: "parking queue", definition: map[string]any{"delivery-limit": 2}, operators: "3.10",
		effect: "put back more than 2 times is deleted", fits: quorum, damage: vanishesByLooking,
	},
	{
		role: "tier", definition: map[string]any{"message-ttl": 100}, operators: "3.10",
		effect: "messages wait 100ms there and not 1s", damage: comesEarly,
	},
	{
		role: "tier", definition: map[string]any{"expires": 500}, operators: "3.10",
		effect: "is deleted with all its messages", damage: queueVanishes,
	},
	{
		role: "tier", definition: map[string]any{"max-length": 1}, operators: "3.10",
		effect: "come back too early, or hold up the whole chain", damage: tierOverflows,
	},
	{
		role: "tier", definition: map[string]any{"max-length-bytes": 10}, operators: "3.10",
		effect: "come back too early, or hold up the whole chain", damage: tierOverflows,
	},
	{
		role: "tier", definition: map[string]any{"overflow": "drop-head"}, operators: "3.12", delays: []any{"1s"},
		effect: "deletes the messages that are being moved", fits: atLeastOnce, damage: pendingVanish, late: true,
	},
	{
		role: "tier", definition: map[string]any{"dead-letter-routing-key": "foreign"},
		effect: "with this routing key in place of their own", fits: byHeaders, damage: comesWithForeignKey,
	},
	{
		role: "work queue", definition: map[string]any{"overflow": "drop-head"}, operators: "3.12",
		effect: "deletes the messages that are being moved", fits: atLeastOnce, damage: pendingVanish, late: true,
	},
	{
		role: "work queue", definition: map[string]any{"max-length": 1, "overflow": "reject-publish"}, harmful: "overflow", operators: "3.12", delays: []any{"300ms"},
		effect: "refuses the messages that come back", fits: classic, damage: returningVanishes,
	},
	{
		role: "work queue", definition: map[string]any{"expires": 1000}, operators: "3.10",
		effect: "is deleted with all its messages", damage: queueVanishes,
	},
	{
		role: "work queue", definition: map[string]any{"dead-letter-routing-key": "foreign"}, delays: []any{"100ms", "200ms"},
		effect: "messages would go round for ever", fits: byKey, damage: goesRound,
	},
	{
		role: "work queue", definition: map[string]any{"message-ttl": 300}, operators: "3.10", delays: []any{"100ms", "200ms", "300ms"},
		effect: "it would be lost later", fits: untold, damage: otherDeathLoses(expireIt),
	},
	{
		role: "work queue", definition: map[string]any{"max-length": 1}, operators: "3.10", delays: []any{"100ms", "200ms", "300ms"},
		effect: "it would be lost later", damage: otherDeathLoses(pushItOut),
		fits: all(untold, func(_ *rabbit.Broker, v variant) bool { return v.deadLetterStrategy == "at-most-once" }),
	},
	{
		role: "work queue", definition: map[string]any{"delivery-limit": 1}, operators: "3.10", delays: []any{"100ms", "200ms", "300ms"},
		effect: "it would be lost later", fits: all(untold, quorum), damage: otherDeathLoses(requeueIt),
	},
}

func (p foreignPolicy) key() string {
	if p.harmful != "" {
		return p.harmful
	}
	for key := range p.definition {
		return key
	}
	return ""
}

// queue is the queue that the policy is put on.
func (p foreignPolicy) queue(v variant) string {
	switch p.role {
	case "parking queue":
		return "orders.parking"
	case "tier":
		return tierName(v, "1s")
	default:
		return "orders"
	}
}

func (p foreignPolicy) attribute() string {
	if p.role == "tier" {
		return "delays"
	}
	return strings.ReplaceAll(p.role, " ", "_")
}

// TestAccForeignPolicies shows for each harmful policy and operator policy what
// it does to messages; that a plan of a new chain refuses it; and that a refresh
// of a living chain finds it.
func TestAccForeignPolicies(t *testing.T) {
	t.Parallel()
	for i, p := range foreignPolicies {
		for _, operator := range rabbit.Half(p.role+p.key(), []bool{false, true}) {
			kind := fmt.Sprintf("%s/%s", p.role, p.key())
			if operator {
				kind = "operator " + kind
			}
			for _, b := range p.brokers(t, kind, i, operator) {
				v, _ := fitting(b, p, i)
				t.Run(fmt.Sprintf("%s/%s/%s", kind, b.Name, v), func(t *testing.T) {
					t.Parallel()
					foreignPolicyHarms(t, b, v, p, operator)
				})
			}
		}
	}
}

// brokers are those that the policy is tried on.
func (p foreignPolicy) brokers(t *testing.T, name string, i int, operator bool) []*rabbit.Broker {
	t.Helper()
	var able []*rabbit.Broker
	for _, b := range acctest.Brokers(t) {
		_, fits := fitting(b, p, i)
		if fits && (!operator || p.operators != "" && atLeast(b, p.operators)) {
			able = append(able, b)
		}
	}
	if p.late && len(able) > 0 {
		return able[i%len(able) : i%len(able)+1]
	}
	return rabbit.Spread(name, able)
}

// fitting chooses a variant on which the policy does harm, another one for
// every policy.
func fitting(b *rabbit.Broker, p foreignPolicy, i int) (variant, bool) {
	var fit []variant
	for _, v := range variants(b) {
		if p.fits == nil || p.fits(b, v) {
			fit = append(fit, v)
		}
	}
	if len(fit) == 0 {
		return variant{}, false
	}
	return fit[(i+len(b.Version)+int(b.Version[len(b.Version)-1]))%len(fit)], true
}

func atLeast(b *rabbit.Broker, version string) bool {
	v, err := abilities.Parse(b.Version)
	return err == nil && v.AtLeast(version)
}

func foreignPolicyHarms(t *testing.T, b *rabbit.Broker, v variant, p foreignPolicy, operator bool) {
	vhost := acctest.VHost(t, b)
	delays := p.delays
	if delays == nil {
		delays = []any{"1s", "2s"}
	}
	s := newSession(t, b, vhost, v, map[string]any{"delays": delays})
	other := others{t: t, b: b, vhost: vhost, operator: operator, queue: p.queue(v), definition: p.definition}
	kind := "policy"
	if operator {
		kind = "operator policy"
	}
	refusal := []string{
		p.attribute(), "Policy Endangers Messages",
		fmt.Sprintf("The %s %q sets %s=%v on the %s %q:", kind, "harm", p.key(), p.definition[p.key()], p.role, p.queue(v)), p.effect,
	}

	other.put()
	expectRefused(t, s.plan().Diagnostics, refusal...)
	other.drop()
	s.apply()

	h := &harmed{others: other, s: s, v: v, w: acctest.Worker(t, b, vhost)}
	h.watch(t, p)

	expectRefused(t, s.plan().Diagnostics, refusal...)
	s.refresh()
	if line := fmt.Sprint(s.lines("policies")["harm"]); !strings.HasPrefix(line, kind+", queues, ") {
		t.Errorf("the state does not tell of the policy: %s", line)
	}
	other.drop()
	s.apply() // declares again what the policy deleted
	s.expectPlan(s.plan())
}

// refresh reads the chain into the state.
func (s *session) refresh() {
	s.t.Helper()
	state, found := s.provider().Read(s.t, chainType, s.state)
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
	s.state = state
}

// others put a policy named "harm" on one queue.
type others struct {
	t          *testing.T
	b          *rabbit.Broker
	vhost      string
	operator   bool
	queue      string
	definition map[string]any
}

func (o others) put() {
	o.t.Helper()
	setPolicy(o.t, o.b, o.vhost, o.operator, "harm", rabbithole.Policy{
		Pattern: "^" + strings.ReplaceAll(o.queue, ".", `\.`) + "$", Priority: 7, Definition: o.definition,
	})
}

func (o others) drop() {
	o.t.Helper()
	dropPolicy(o.t, o.b, o.vhost, o.operator, "harm")
}

// setPolicy sets a policy or an operator policy for queues.
func setPolicy(t *testing.T, b *rabbit.Broker, vhost string, operator bool, name string, p rabbithole.Policy) {
	t.Helper()
	api := acctest.API(t, b)
	if p.ApplyTo == "" {
		p.ApplyTo = "queues"
	}
	var resp *http.Response
	var err error
	if operator {
		resp, err = api.PutOperatorPolicy(vhost, name, rabbithole.OperatorPolicy{
			Pattern: p.Pattern, ApplyTo: p.ApplyTo, Priority: p.Priority, Definition: p.Definition,
		})
	} else {
		resp, err = api.PutPolicy(vhost, name, p)
	}
	acctest.Do(t, resp, err)
}

func dropPolicy(t *testing.T, b *rabbit.Broker, vhost string, operator bool, name string) {
	t.Helper()
	api := acctest.API(t, b)
	remove := api.DeletePolicy
	if operator {
		remove = api.DeleteOperatorPolicy
	}
	resp, err := remove(vhost, name)
	acctest.Do(t, resp, err)
}

// harmed is a chain on which another policy does harm.
type harmed struct {
	others
	s *session
	v variant
	w *worker.Worker
	// with says whether the policy is there.
	with bool
	n    int
}

// watch fails the test unless the damage shows with the policy and not without
// it. A policy takes effect a moment after it was set.
func (h *harmed) watch(t *testing.T, p foreignPolicy) {
	t.Helper()
	if p.damage(h) {
		t.Error("the damage shows without the policy")
	}
	h.with = true
	if !p.late {
		h.put()
	}
	for deadline := time.Now().Add(2 * time.Minute); !p.damage(h); {
		if time.Now().After(deadline) {
			t.Fatal("no damage shows: the policy does no harm, or not this one")
		}
	}
}

// publish publishes a new message and returns its identifier.
func (h *harmed) publish(exchange, key string) string {
	h.t.Helper()
	id, err := h.tryPublish(exchange, key)
	if err != nil {
		h.t.Fatal(err)
	}
	return id
}

func (h *harmed) tryPublish(exchange, key string) (id string, err error) {
	h.n++
	id = strconv.Itoa(h.n)
	return id, h.w.Publish(h.t.Context(), exchange, key, amqp.Publishing{MessageId: id, Body: []byte("a body of some bytes")})
}

func (h *harmed) ready(queue string) int {
	h.t.Helper()
	n, err := h.w.Ready(queue)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *harmed) drain(queue string) []worker.Delivery {
	h.t.Helper()
	drained, err := h.w.Drain(queue)
	if err != nil {
		h.t.Fatal(err)
	}
	return drained
}

// next takes the next message of a queue and settles it, or returns false.
func (h *harmed) next(queue string, patience time.Duration, settle func(amqp.Delivery) error) (amqp.Delivery, bool) {
	h.t.Helper()
	ch, err := h.w.Connection().Channel()
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	var d amqp.Delivery
	found := poll.Until(patience, func() bool {
		var ok bool
		if d, ok, err = ch.Get(queue, false); err != nil {
			h.t.Fatal(err)
		}
		return ok
	})
	if found {
		if err := settle(d); err != nil {
			h.t.Fatal(err)
		}
	}
	return d, found
}

func ack(d amqp.Delivery) error    { return d.Ack(false) }
func reject(d amqp.Delivery) error { return d.Reject(false) }

// requeue puts a message back so that every version counts it as a delivery; 4.3
// does not count basic.nack.
func requeue(d amqp.Delivery) error { return d.Reject(true) }

// parkedVanish: of five parked messages some are gone after a moment.
func parkedVanish(h *harmed) bool {
	h.drain("orders.parking")
	for range 5 {
		h.publish("orders.parking", "")
	}
	return poll.Until(time.Second, func() bool { return h.ready("orders.parking") < 5 })
}

// queueVanishes: the queue is deleted although it holds a message.
func queueVanishes(h *harmed) bool {
	api := acctest.API(h.t, h.b)
	gone := func() bool {
		queues, err := api.ListQueuesIn(h.vhost)
		if err != nil {
			h.t.Fatal(err)
		}
		return !slices.ContainsFunc(queues, func(q rabbithole.QueueInfo) bool { return q.Name == h.queue })
	}
	if gone() {
		return true
	}
	_, err := h.tryPublish("", h.queue) // it fails while the broker deletes the queue
	vanishes := poll.Until(2*time.Second, gone)
	if err != nil && !vanishes {
		h.t.Fatal(err)
	}
	return vanishes
}

// vanishesByLooking: a parked message is gone after it was looked at four times.
func vanishesByLooking(h *harmed) bool {
	h.drain("orders.parking")
	h.publish("orders.parking", "")
	for range 4 {
		if _, found := h.next("orders.parking", 2*time.Second, requeue); !found {
			return true
		}
	}
	return !poll.Until(time.Second, func() bool { return h.ready("orders.parking") == 1 })
}

// comesEarly: a message leaves the tier of 1s before its time.
func comesEarly(h *harmed) bool {
	h.drain("orders")
	began := time.Now()
	h.publish("", h.queue)
	if _, found := h.next("orders", 60*time.Second, ack); !found {
		h.t.Fatal("the message does not come back from the tier")
	}
	return time.Since(began) < 900*time.Millisecond
}

// tierOverflows: the tier refuses a message, or gives one back before its time.
func tierOverflows(h *harmed) bool {
	if !poll.Until(60*time.Second, func() bool { return h.ready(h.queue) == 0 }) {
		h.t.Fatal("the tier keeps its messages")
	}
	h.drain("orders")
	sent := map[string]time.Time{}
	for range 5 {
		began := time.Now()
		id, err := h.tryPublish("", h.queue)
		if err != nil {
			return true
		}
		sent[id] = began
	}
	for range sent {
		d, found := h.next("orders", 10*time.Second, ack)
		if !found {
			h.t.Fatal("a message does not come back from the tier")
		}
		if time.Since(sent[d.MessageId]) < 900*time.Millisecond {
			return true
		}
	}
	return false
}

// pendingVanish: dead letters that had no way out for a while never arrive.
func pendingVanish(h *harmed) bool {
	const count = 3
	api := acctest.API(h.t, h.b)
	waitForCount(h.t, api, h.vhost, h.queue, 0) // the numbers of before are gone
	missing := rabbithole.ExchangeSettings{Type: "headers", Durable: true, Arguments: map[string]any{"alternate-exchange": "orders.retry.first"}}
	name := "orders.retry"
	if h.queue != "orders" {
		name = "orders.return.1s"
		if h.v.strategy == "routing_key" {
			name = "orders.return"
		}
		missing = rabbithole.ExchangeSettings{Type: "fanout", Durable: true, Arguments: map[string]any{"alternate-exchange": "orders.parking"}}
	}
	resp, err := api.DeleteExchange(h.vhost, name)
	acctest.Do(h.t, resp, err)
	for range count {
		h.publish("", h.queue)
		if h.queue == "orders" {
			h.next("orders", 60*time.Second, reject)
		}
	}
	if !poll.Until(60*time.Second, func() bool { return h.ready(h.queue) == 0 }) {
		h.t.Fatal("the messages did not die")
	}
	waitForCount(h.t, api, h.vhost, h.queue, count)
	if h.with {
		h.put()
		waitForCount(h.t, api, h.vhost, h.queue, 0)
	}
	resp, err = api.DeclareExchange(h.vhost, name, missing)
	acctest.Do(h.t, resp, err)
	if h.with {
		h.drop()
	}
	h.release()
	arrived := 0
	poll.Until(10*time.Second, func() bool { // from a tier they are parked now
		arrived += len(h.drain("orders.parking")) + len(h.drain("orders"))
		return arrived == count
	})
	h.s.apply()
	if h.with {
		h.put()
	}
	return arrived < count
}

// release makes the broker try its pending dead letters again at once, by a
// change of the queue's policy, instead of within 180 s.
func (h *harmed) release() {
	h.t.Helper()
	setPolicy(h.t, h.b, h.vhost, false, "touch", rabbithole.Policy{Pattern: "^orders", Priority: 1, Definition: rabbithole.PolicyDefinition{"max-length-bytes": 1 << 40}})
	dropPolicy(h.t, h.b, h.vhost, false, "touch")
}

// comesWithForeignKey: a retried message has another routing key than its own.
func comesWithForeignKey(h *harmed) bool {
	h.publish("orders.redrive", "own")
	if _, found := h.next("orders", 60*time.Second, reject); !found {
		h.t.Fatal("the message does not arrive")
	}
	d, found := h.next("orders", 10*time.Second, ack)
	if !found {
		h.t.Fatal("the message does not come back")
	}
	return d.RoutingKey != "own"
}

// returningVanishes: a message that comes back to a full queue is lost.
func returningVanishes(h *harmed) bool {
	h.drain("orders")
	h.drain("orders.parking")
	h.publish("", "orders")
	h.next("orders", 60*time.Second, reject)
	h.publish("", "orders")
	return !poll.Until(2*time.Second, func() bool { return h.ready("orders")+h.ready("orders.parking") == 2 })
}

// goesRound: a message that always fails is delivered more often than three
// times.
func goesRound(h *harmed) bool {
	h.publish("", "orders")
	deliveries := 0
	for {
		if _, found := h.next("orders", 2*time.Second, reject); !found {
			return false
		}
		if deliveries++; deliveries > 5 {
			break
		}
	}
	h.dropAndWait()
	return true
}

// dropAndWait takes the policy away and lets the message that goes round park.
func (h *harmed) dropAndWait() {
	h.drop()
	ctx, cancel := context.WithTimeout(h.t.Context(), 20*time.Second)
	defer cancel()
	for len(h.drain("orders.parking")) == 0 && ctx.Err() == nil {
		h.next("orders", time.Second, reject)
	}
	h.put()
}

// otherDeathLoses: a message that was rejected, died otherwise and is rejected
// again never comes out of the chain. 3.10.8 turns the entries of x-death round
// at every death, and so finds a cycle only after the second rejection.
func otherDeathLoses(die func(h *harmed)) func(h *harmed) bool {
	return func(h *harmed) bool {
		h.drain("orders")
		h.drain("orders.parking")
		h.publish("", "orders")
		h.next("orders", 60*time.Second, reject)
		if !poll.Until(60*time.Second, func() bool { return h.ready("orders") == 1 }) {
			h.t.Fatal("the message does not come back")
		}
		die(h)
		if _, found := h.next("orders", 60*time.Second, reject); !found {
			h.t.Fatal("the message does not come back after its second death")
		}
		return !poll.Until(3*time.Second, func() bool { return h.ready("orders")+h.ready("orders.parking") == 1 })
	}
}

// expireIt waits longer than the policy's time-to-live.
func expireIt(h *harmed) { poll.Until(time.Second, func() bool { return h.ready("orders") == 0 }) }

func pushItOut(h *harmed) {
	h.publish("", "orders")
	h.next("orders", time.Second, ack)
}

func requeueIt(h *harmed) {
	for range 2 {
		h.next("orders", 300*time.Millisecond, requeue)
	}
}

// TestAccVirtualHostWidePolicy: a policy for everything is refused for each queue
// that it endangers, in the text of the CLI.
func TestAccVirtualHostWidePolicy(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		wide := rabbithole.Policy{Pattern: ".*", ApplyTo: "all", Priority: 2, Definition: rabbithole.PolicyDefinition{"message-ttl": 300, "queue-version": 2}}
		setPolicy(t, b, vhost, false, "everything", wide)
		w := acctest.Terraform(t, settings{}.config(b, vhost))
		first := tier(b)
		output := acctest.RunError(t, w, "plan")
		expectText(t, output, "Policy Endangers Messages", `The policy "everything" sets message-ttl=300 on the parking queue "orders.parking": its messages are deleted after 300ms.`,
			fmt.Sprintf(`on the tier %q: messages wait 300ms there and not 2s.`, first), "set policy = { shield = true, priority = 1000 }")
		wide.Definition = rabbithole.PolicyDefinition{"message-ttl": 7 * 24 * 3600 * 1000}
		wide.Pattern = `^(?!orders\.parking$).*` // of Perl: a pattern that Go's own expressions lack
		if !acctest.Modern(b) {
			wide.Pattern = `^(?!orders(\.parking)?$).*`
		}
		setPolicy(t, b, vhost, false, "everything", wide)
		apply(t, w)
		expectEmptyPlan(t, w)
	})
}

// TestAccShield keeps harmful policies away from the chain's queues; it cannot do
// so with operator policies, and says so.
func TestAccShield(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				shield(t, b, defaultVariant(b, queueType))
			})
		}
	})
}

func shield(t *testing.T, b *rabbit.Broker, v variant) {
	vhost, api := acctest.VHost(t, b), acctest.API(t, b)
	resp, err := api.DeclareQueue(vhost, "control", rabbithole.QueueSettings{Type: v.queueType, Durable: true})
	acctest.Do(t, resp, err)
	harm := rabbithole.Policy{Pattern: ".*", Priority: 999, Definition: rabbithole.PolicyDefinition{"message-ttl": 200, "max-length": 2, "dead-letter-routing-key": "foreign"}}
	setPolicy(t, b, vhost, false, "harm", harm)
	s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"300ms", "600ms"}})
	expectRefused(t, s.plan().Diagnostics, "Policy Endangers Messages", "or set policy = { shield = true, priority = 1000 }.")
	s.config["policy"] = map[string]any{"shield": true, "priority": 999}
	expectRefused(t, s.plan().Diagnostics, "policy.priority", "Policy Hidden by Another", `hides the chain's shield`, "Set policy.priority to 1000 or more")
	s.config["policy"] = map[string]any{"shield": true}
	s.apply()
	s.expectPlan(s.plan())

	h := &harmed{others: others{t: t, b: b, vhost: vhost}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
	for range 5 {
		h.publish("", "control")
		h.publish("orders.redrive", "own")
	}
	attempts := map[string]int{}
	consuming, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- h.w.Consume(consuming, "orders", 10, func(d worker.Delivery) worker.Outcome {
			if attempts[d.MessageId]++; v.strategy == "headers" && d.RoutingKey != "own" {
				t.Errorf("attempt %d has the routing key %q", attempts[d.MessageId], d.RoutingKey)
			}
			return worker.Reject
		})
	}()
	if !poll.Until(60*time.Second, func() bool { return h.ready("control") == 0 && h.ready("orders.parking") == 5 }) {
		t.Errorf("the policy left %d messages in the queue without a shield, expected none, and %d are parked, expected 5", h.ready("control"), h.ready("orders.parking"))
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if want := (map[string]int{"2": 3, "4": 3, "6": 3, "8": 3, "10": 3}); !maps.Equal(attempts, want) {
		t.Errorf("the attempts are %v, expected %v", attempts, want)
	}
	if poll.Until(500*time.Millisecond, func() bool { return h.ready("orders.parking") != 5 }) { // the time-to-live is shorter
		t.Error("parked messages are lost behind the shield")
	}

	setPolicy(t, b, vhost, true, "harm", rabbithole.Policy{Pattern: "^orders", Definition: rabbithole.PolicyDefinition{"message-ttl": 200}})
	expectRefused(t, s.plan().Diagnostics, `operator policy "harm"`, "a policy of the chain cannot shield from an operator policy")
	dropPolicy(t, b, vhost, true, "harm")
	harm.Priority = 2000
	setPolicy(t, b, vhost, false, "harm", harm)
	expectRefused(t, s.plan().Diagnostics, "Policy Hidden by Another", "orders.parking", "Set policy.priority to 2001 or more")
	dropPolicy(t, b, vhost, false, "harm")
	s.expectPlan(s.plan())
}
