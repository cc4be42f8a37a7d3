package retrychain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// The tier of slowDelay cannot drain within slowTimeout: its delay and the proof
// that it is empty take longer.
const (
	slowDelay   = 30 * time.Second
	slowLabel   = "30s"
	slowTimeout = `timeouts = { update = "20s" }`
	// waiting is how many messages are in the tier when it is removed.
	waiting = 5
)

// slow is a chain whose slow tier was removed while it held messages.
type slow struct {
	t     *testing.T
	b     *rabbit.Broker
	vhost string
	v     variant
	w     *cli.Workspace
	tier  string
}

// eachSlow runs the test for every broker, in turn with other queue types and
// strategies.
func eachSlow(t *testing.T, turn int, test func(s *slow)) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		i := turn + int(b.Name[len(b.Name)-1])
		v := variant{"routing_key", "quorum", "at-least-once"}
		if i%2 == 0 {
			v.queueType, v.deadLetterStrategy = "classic", "at-most-once"
		}
		if acctest.Modern(b) && i/2%2 == 0 {
			v.strategy = "headers"
		}
		t.Logf("the chain is %s", v)
		s := &slow{t: t, b: b, vhost: acctest.VHost(t, b), v: v, tier: tierName(v, slowLabel)}
		s.w = acctest.Terraform(t, s.config(`["200ms", "30s"]`))
		apply(t, s.w)
		s.fill()
		acctest.Reconfigure(t, s.w, s.config(`["200ms"]`))
		output := apply(t, s.w)
		expectText(t, output, "Tiers Still Draining", s.tier+" (delay "+slowLabel+")", "no new messages enter these tiers", "A later plan that finds a tier empty shows its removal")
		s.expectDraining(s.tier)
		test(s)
	})
}

func (s *slow) config(delays string) string {
	return s.v.chainConfig(s.b, s.vhost, delays, slowTimeout)
}

// fill lets messages fail twice, after which they wait in the slow tier.
func (s *slow) fill() {
	s.t.Helper()
	messages := acctest.Worker(s.t, s.b, s.vhost)
	for i := range waiting {
		err := messages.Publish(s.t.Context(), "", "orders", amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte("slow")})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	ctx, stop := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer stop()
	seen := 0
	err := messages.Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome {
		if seen++; seen == 2*waiting {
			stop()
		}
		return worker.Reject
	})
	if err != nil || seen != 2*waiting {
		s.t.Fatalf("%d rejections, expected %d: %v", seen, 2*waiting, err)
	}
	s.expectReady(waiting)
}

// expectReady waits a moment until the tier holds n messages.
func (s *slow) expectReady(n int) {
	s.t.Helper()
	messages := acctest.Worker(s.t, s.b, s.vhost)
	var got int
	holds := func() bool {
		var err error
		if got, err = messages.Ready(s.tier); err != nil {
			s.t.Fatal(err)
		}
		return got == n
	}
	if !poll.Until(10*time.Second, holds) {
		s.t.Fatalf("tier %q holds %d messages, expected %d", s.tier, got, n)
	}
}

// expectDraining fails the test unless the state lists exactly these tiers, and
// the topology in the state none of them.
func (s *slow) expectDraining(want ...string) {
	s.t.Helper()
	draining, topology := drainingOf(s.t, s.w)
	if !slices.Equal(draining, want) {
		s.t.Errorf("draining = %q, expected %q", draining, want)
	}
	for _, name := range want {
		if strings.Contains(topology, name) {
			s.t.Errorf("the topology has the draining tier %q: %s", name, topology)
		}
	}
}

// drainingOf reads the tiers that drain, and the topology, out of the state.
func drainingOf(t *testing.T, w *cli.Workspace) (draining []string, topology string) {
	t.Helper()
	var state struct {
		Values struct {
			RootModule struct {
				Resources []struct {
					Values struct {
						Draining []string        `json:"draining"`
						Topology json.RawMessage `json:"topology"`
					} `json:"values"`
				} `json:"resources"`
			} `json:"root_module"`
		} `json:"values"`
	}
	if err := json.Unmarshal([]byte(acctest.Run(t, w, "show", "-json")), &state); err != nil {
		t.Fatal(err)
	}
	if n := len(state.Values.RootModule.Resources); n != 1 {
		t.Fatalf("the state has %d resources", n)
	}
	values := state.Values.RootModule.Resources[0].Values
	return values.Draining, string(values.Topology)
}

// drained takes the waiting messages when they come back, and waits until a
// plan, written to a file, has seen the tier empty.
func (s *slow) drained(file string) (plan string) {
	s.t.Helper()
	s.take(waiting)
	return s.plan(file)
}

// take takes n messages out of the work queue.
func (s *slow) take(n int) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), slowDelay+15*time.Second)
	defer cancel()
	messages := acctest.Worker(s.t, s.b, s.vhost)
	seen := map[string]bool{}
	for range n {
		d, err := messages.Get(ctx, "orders")
		if err != nil {
			s.t.Fatalf("%d of %d messages came back: %s", len(seen), n, err)
		}
		if seen[d.MessageId] {
			s.t.Errorf("message %s came back twice", d.MessageId)
		}
		seen[d.MessageId] = true
	}
}

// plan waits until a plan that is written to a file removes the tier.
func (s *slow) plan(file string) string {
	s.t.Helper()
	for range 20 {
		output, err := s.w.Run(s.t.Context(), "plan", "-detailed-exitcode", "-out="+file)
		if err != nil { // exit code 2: changes
			expectText(s.t, output, "Plan: 0 to add, 1 to change, 0 to destroy")
			expectText(s.t, output, "draining = [", `- "`+s.tier+`",`, "] -> (known after apply)")
			return output
		}
		time.Sleep(time.Second)
	}
	s.t.Fatal("no plan has seen the empty tier")
	return ""
}

// expectGone fails the test unless nothing but the chain without its slow tier
// is on the broker.
func (s *slow) expectGone() {
	s.t.Helper()
	expectQueues(s.t, s.b, s.vhost, "orders", "orders.parking", tierName(s.v, "200ms"))
	want := 5 // retry, first, parking, redrive, the return of 200ms
	if s.v.strategy == "routing_key" {
		want = 6 // and the keys
	}
	if n := exchanges(s.t, s.b, s.vhost); n != want {
		s.t.Errorf("%d exchanges, expected %d", n, want)
	}
	s.expectDraining()
}

// TestAccDraining removes a delay whose tier cannot drain in time. The apply
// succeeds, the plan is empty as long as messages wait, and a later one removes
// the tier.
func TestAccDraining(t *testing.T) {
	eachSlow(t, 0, func(s *slow) {
		expectEmptyPlan(s.t, s.w)
		s.expectReady(waiting)
		s.drained("drained.tfplan")
		acctest.Run(s.t, s.w, "apply", "-no-color", "drained.tfplan")
		s.expectGone()
		expectEmptyPlan(s.t, s.w)
	})
}

// TestAccDrainingFillsAgain puts a message into a tier between the plan that
// found it empty and the apply of that plan. The tier stays, and its message
// comes back.
func TestAccDrainingFillsAgain(t *testing.T) {
	eachSlow(t, 1, func(s *slow) {
		s.drained("drained.tfplan")
		messages := acctest.Worker(s.t, s.b, s.vhost)
		if err := messages.Publish(s.t.Context(), "", s.tier, amqp.Publishing{MessageId: "late", Body: []byte("late")}); err != nil {
			s.t.Fatal(err)
		}
		output := acctest.Run(s.t, s.w, "apply", "-no-color", "drained.tfplan")
		expectText(s.t, output, "Tiers Still Draining", s.tier+" (delay "+slowLabel+")")
		s.expectDraining(s.tier)
		expectEmptyPlan(s.t, s.w)
		s.take(1)
		s.plan("again.tfplan")
		acctest.Run(s.t, s.w, "apply", "-no-color", "again.tfplan")
		s.expectGone()
	})
}

// TestAccDrainingAddedAgain adds the delay again while its tier drains: the
// tier with its messages becomes a part of the chain again.
func TestAccDrainingAddedAgain(t *testing.T) {
	eachSlow(t, 2, func(s *slow) {
		acctest.Reconfigure(s.t, s.w, s.config(`["30s", "200ms"]`))
		apply(s.t, s.w)
		s.expectDraining()
		expectEmptyPlan(s.t, s.w)
		s.expectReady(waiting)
		s.take(waiting)
		expectQueues(s.t, s.b, s.vhost, "orders", "orders.parking", tierName(s.v, "200ms"), s.tier)
	})
}

// TestAccDrainingDestroy refuses to destroy a chain with a message in a tier
// that drains.
func TestAccDrainingDestroy(t *testing.T) {
	eachSlow(t, 3, func(s *slow) {
		config := strings.Replace(s.config(`["200ms"]`), `"delete"`, `"if_empty"`, 1)
		acctest.Reconfigure(s.t, s.w, config)
		apply(s.t, s.w)
		expectText(s.t, acctest.RunError(s.t, s.w, "destroy", "-auto-approve"), "Chain Holds Messages", s.tier+":", fmt.Sprintf("%d ready", waiting), "Nothing was changed.")
		s.expectReady(waiting)
		s.take(waiting)
		acctest.Run(s.t, s.w, "destroy", "-auto-approve")
		if n := queues(s.t, s.b, s.vhost) + exchanges(s.t, s.b, s.vhost); n != 0 {
			s.t.Errorf("%d objects are left", n)
		}
	})
}

// applyUntilDrained applies until the state lists no tier that drains.
func applyUntilDrained(t *testing.T, w *cli.Workspace) {
	t.Helper()
	for range 30 {
		if draining, _ := drainingOf(t, w); len(draining) == 0 {
			return
		}
		apply(t, w)
		time.Sleep(time.Second)
	}
	t.Fatal("the chain does not come to rest")
}

// held is how many messages a slow consumer holds.
const held = 100

// TestAccSlowConsumer removes a delay while a consumer holds messages that came
// out of its tier. They fail after the tier is gone, and go on at the next
// delay: the step out of the tier is still there. Without it each of them starts
// again at the first delay.
func TestAccSlowConsumer(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, without := range []bool{false, true} {
			v := turn(b, i)
			if without {
				v = turn(b, i+3)
			}
			name, attempts := "with its step", 4
			if without {
				name, attempts = "without its step", 5
			}
			t.Run(name+"/"+v.String(), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms", "300ms", "500ms"}})
				s.apply()
				c := holdAt(t, b, vhost, 3)
				s.config["delays"] = []any{"200ms", "500ms"}
				s.apply()
				expectQueues(t, b, vhost, "orders", "orders.parking", tierName(v, "200ms"), tierName(v, "500ms"))
				if without {
					removeStep(t, b, vhost, v, "300ms")
				}
				c.release()
				c.expectAttempts(attempts)
			})
		}
	})
}

// holder is a consumer that rejects every message, and holds those of one
// attempt until it is told to go on.
type holder struct {
	t *testing.T
	b *rabbit.Broker

	mu         sync.Mutex
	vhost      string
	deliveries map[string]int
	holding    []worker.Delivery
	open       bool
}

// holdAt publishes messages and returns when all of them are held at the given
// attempt.
func holdAt(t *testing.T, b *rabbit.Broker, vhost string, attempt int) *holder {
	t.Helper()
	h := &holder{t: t, b: b, vhost: vhost, deliveries: map[string]int{}}
	messages := acctest.Worker(t, b, vhost)
	ctx, stop := context.WithCancel(context.Background())
	var group sync.WaitGroup
	t.Cleanup(func() { stop(); group.Wait() })
	group.Go(func() {
		if err := messages.Consume(ctx, "orders", held, func(d worker.Delivery) worker.Outcome { return h.decide(d, attempt) }); err != nil {
			t.Error(err)
		}
	})
	publisher := acctest.Worker(t, b, vhost)
	for i := range held {
		if err := publisher.Publish(t.Context(), "", "orders", amqp.Publishing{MessageId: fmt.Sprint(i), Body: []byte("slow")}); err != nil {
			t.Fatal(err)
		}
	}
	h.wait("messages are held", func() int { return len(h.holding) })
	return h
}

func (h *holder) decide(d worker.Delivery, attempt int) worker.Outcome {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.deliveries[d.MessageId]++
	if h.deliveries[d.MessageId] == attempt && !h.open {
		h.holding = append(h.holding, d)
		return worker.Keep
	}
	return worker.Reject
}

// wait polls until the count is that of all messages.
func (h *holder) wait(what string, count func() int) {
	h.t.Helper()
	var n int
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		h.mu.Lock()
		n = count()
		h.mu.Unlock()
		if n == held {
			return
		}
	}
	h.t.Fatalf("%d of %d %s", n, held, what)
}

// release rejects what is held.
func (h *holder) release() {
	h.t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = true
	for _, d := range h.holding {
		if err := d.Reject(false); err != nil {
			h.t.Fatal(err)
		}
	}
}

// expectAttempts waits until all messages are parked, and fails the test unless
// each was delivered so often.
func (h *holder) expectAttempts(n int) {
	h.t.Helper()
	messages := acctest.Worker(h.t, h.b, h.vhost)
	h.wait("messages are parked", func() int {
		ready, err := messages.Ready("orders.parking")
		if err != nil {
			h.t.Fatal(err)
		}
		return ready
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	as := 0
	for _, deliveries := range h.deliveries {
		if deliveries == n {
			as++
		}
	}
	h.t.Logf("%d of %d messages got %d attempts", as, held, n)
	if as != held {
		h.t.Errorf("expected all of them, got %v", h.deliveries)
	}
}

// removeStep deletes the step out of a tier.
func removeStep(t *testing.T, b *rabbit.Broker, vhost string, v variant, label string) {
	t.Helper()
	api := acctest.API(t, b)
	bindings, err := api.ListBindingsIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(bindings, func(binding rabbithole.BindingInfo) bool {
		if v.strategy == "routing_key" {
			return binding.Source == "orders.retry.keys" && binding.RoutingKey == tierName(v, label)
		}
		return binding.Source == "orders.retry" && binding.Arguments["x-last-death-exchange"] == "orders.return."+label
	})
	if i < 0 {
		t.Fatalf("there is no step out of the tier of %s", label)
	}
	resp, err := api.DeleteBinding(vhost, bindings[i])
	acctest.Do(t, resp, err)
}
