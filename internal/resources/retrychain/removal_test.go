package retrychain_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// destroy destroys the chain. After an error the session keeps its state.
func (s *session) destroy() protocol.Diagnostics {
	s.t.Helper()
	server := s.provider()
	state, found := server.Read(s.t, chainType, s.state)
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
	plan := server.Plan(s.t, chainType, nil, state)
	if len(plan.Diagnostics.Errors()) > 0 {
		return plan.Diagnostics
	}
	after, found := s.provider().Apply(s.t, chainType, plan)
	if len(found.Errors()) == 0 {
		after = protocol.State{}
	}
	s.state = after
	return found
}

// flood publishes to all queues of a chain through the default exchange, with
// confirms and the mandatory flag, and keeps account of what the broker took.
// Each of its publishers waits for the confirm before it goes on.
type flood struct {
	t       *testing.T
	b       *rabbit.Broker
	vhost   string
	workers []*worker.Worker
	queues  []string
	// collector takes the messages out of the queues in the end.
	collector *worker.Worker

	mu    sync.Mutex
	next  int
	taken map[string]string // confirmed and not returned: queue by message
	// late are those of them that were confirmed when the deletion of their
	// queue was under way.
	late     map[string]bool
	deleting map[string]bool
	found    map[string]int
}

func newFlood(t *testing.T, b *rabbit.Broker, vhost string, queues ...string) *flood {
	t.Helper()
	f := &flood{t: t, b: b, vhost: vhost, queues: queues, taken: map[string]string{}, late: map[string]bool{}, deleting: map[string]bool{}, found: map[string]int{}}
	f.collector = acctest.Worker(t, b, vhost)
	for range 4 {
		f.workers = append(f.workers, acctest.Worker(t, b, vhost))
	}
	return f
}

// start publishes until stop is called, which waits for the last confirms.
func (f *flood) start() (stop func()) {
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	for i := range f.workers {
		group.Go(func() {
			for ctx.Err() == nil {
				if f.publish(f.workers[i]) {
					f.workers[i] = acctest.Worker(f.t, f.b, f.vhost)
				}
				time.Sleep(rand.N(4 * time.Millisecond)) // the pace of the publishers
			}
		})
	}
	return func() { cancel(); group.Wait() }
}

// publish publishes one message. It says whether the connection broke: RabbitMQ
// ends it with INTERNAL_ERROR now and then when a queue is deleted.
func (f *flood) publish(w *worker.Worker) (broke bool) {
	f.mu.Lock()
	f.next++
	id, queue := fmt.Sprint(f.next), f.queues[f.next%len(f.queues)]
	f.mu.Unlock()
	err := w.Publish(context.Background(), "", queue, amqp.Publishing{MessageId: id, Body: []byte(id)})
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case err == nil:
		f.taken[id] = queue
		if f.deleting[queue] {
			f.late[id] = true
		}
	case w.Connection().IsClosed():
		return true
	}
	return false // a message that was refused or returned stays with its publisher
}

// deletes notes that the deletion of a queue begins.
func (f *flood) deletes(queue string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deleting[queue] = true
}

// waitFor waits until the broker has taken n more messages, or for a second:
// the queues may all be gone.
func (f *flood) waitFor(n int) {
	want := f.count() + n
	for deadline := time.Now().Add(time.Second); f.count() < want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
}

func (f *flood) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.taken)
}

// collect takes all messages that are ready out of the queues that exist.
func (f *flood) collect(api *rabbithole.Client) {
	f.t.Helper()
	queues, err := api.ListQueuesIn(f.vhost)
	if err != nil {
		f.t.Fatal(err)
	}
	for _, q := range queues {
		messages, err := f.collector.Drain(q.Name)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, m := range messages {
			f.found[m.MessageId]++
		}
	}
}

// missing lists the messages that were not found, and apart from them those that
// were late.
func (f *flood) missing() (missing, late []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, queue := range f.taken {
		switch {
		case f.found[id] > 0:
		case f.late[id]:
			late = append(late, id+" in "+queue)
		default:
			missing = append(missing, id+" in "+queue)
		}
	}
	return missing, late
}

// expectAll fails the test unless every message that the broker took is found,
// when those in the tiers have come back. It returns how many of the late ones
// are lost, which is at most one of each publisher and deleted queue.
func (f *flood) expectAll(api *rabbithole.Client) int {
	f.t.Helper()
	f.collect(api)
	missing, late := f.missing()
	began := time.Now()
	within := func(limit time.Duration) bool { return time.Since(began) < limit }
	// A dead letter that found no way out of its tier tries again after 180 s.
	for ; len(missing) > 0 && within(4*time.Minute) || len(late) > 0 && within(6*time.Second); time.Sleep(poll.Pause(time.Since(began))) {
		f.collect(api)
		missing, late = f.missing()
	}
	if len(missing) > 0 {
		f.t.Fatalf("%d of %d messages are lost, such as %s", len(missing), f.count(), missing[0])
	}
	if most := len(f.workers) * len(f.deleting); len(late) > most {
		f.t.Fatalf("%d messages are lost that were confirmed during a deletion, expected at most %d: %q", len(late), most, late)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.taken, f.late, f.deleting = map[string]string{}, map[string]bool{}, map[string]bool{}
	return len(late)
}

// TestAccDestroyWhilePublishing destroys a chain again and again while
// publishers publish to all of its queues. They start before the destroy, or
// when it is about to delete its first, second or last queue, which it has
// proved empty; so they hit the moment between the last look into a queue and
// its deletion. Each message that was confirmed before the broker was asked to
// delete its queue is found.
//
// What is on its way to a queue at the very moment in which the broker deletes
// it, the broker confirms and drops (rabbit_channel:handle_queue_actions/2, eol,
// 3.10 to 4.3). No client can prevent that; the test counts these messages, and
// there is at most one of each publisher and queue.
func TestAccDestroyWhilePublishing(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				destroyWhilePublishing(t, b, defaultVariant(b, queueType))
			})
		}
	})
}

func destroyWhilePublishing(t *testing.T, b *rabbit.Broker, v variant) {
	vhost, api := acctest.VHost(t, b), acctest.API(t, b)
	p := proxy.New(t, b.Endpoint)
	behind := *b
	behind.Endpoint = p.URL
	s := newSession(t, &behind, vhost, v, map[string]any{"deletion_policy": "if_empty"})
	f := newFlood(t, b, vhost, "orders", tierName(v, "1s"), tierName(v, "2s"), "orders.parking")
	for _, at := range []int64{0, 1, 2, 4} {
		s.apply()
		s.expectPlan(s.plan())
		found := destroyAt(s, p, f, at)
		taken := f.count()
		switch {
		case len(found.Errors()) == 0:
		case taken == 0:
			t.Errorf("the destroy failed, and the broker had taken no message: %s", found)
		case at == 0:
			expectRefused(t, found, "Chain Holds Messages", "Nothing was changed.")
		default:
			expectRefused(t, found, "Chain in Use")
		}
		s.apply() // what waits in a tier needs a way out
		late := f.expectAll(api)
		t.Logf("published from deletion %d on: %d messages taken, destroyed: %t, dropped by the broker: %d", at, taken, len(found.Errors()) == 0, late)
	}
}

// destroyAt destroys, and lets the flood begin before the n-th deletion of a
// queue, or with the destroy when n is 0.
func destroyAt(s *session, p *proxy.Proxy, f *flood, n int64) protocol.Diagnostics {
	var (
		once      sync.Once
		stop      func()
		deletions atomic.Int64
	)
	begin := func() { once.Do(func() { stop = f.start(); f.waitFor(rand.IntN(3)) }) }
	if n == 0 {
		begin()
		f.waitFor(20)
	}
	p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/api/queues/") {
			if deletions.Add(1) == n {
				begin()
			}
			f.deletes(path.Base(r.URL.Path))
		}
		return false
	})
	defer p.OnRequest(nil)
	found := s.destroy()
	once.Do(func() {
		s.t.Errorf("the destroy deleted %d queues, expected at least %d: %s", deletions.Load(), n, found)
	})
	if stop != nil {
		stop()
	}
	return found
}

// TestAccDestroyWhileConsuming destroys while consumers reject: those that
// subscribe, and those that fetch and leave no trace in the queue. Nothing is
// changed as long as they have messages, and afterwards all of it goes.
func TestAccDestroyWhileConsuming(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, _ variant) {
		s.config["deletion_policy"] = "if_empty"
		s.apply()
		l := startTraffic(t, s.b, s.vhost)
		for range 5 {
			l.waitFor(20)
			expectRefused(t, s.destroy(), "Chain Holds Messages", "orders: ", "consumers", "Nothing was changed.")
		}
		l.finish(30 * time.Second)

		fetching := startFetching(t, s.b, s.vhost)
		for fetching.left() > 0 {
			if found := s.destroy(); len(found.Errors()) == 0 {
				if n := fetching.left(); n > 0 {
					t.Errorf("the chain was destroyed with %d messages on their way", n)
				}
				return
			}
		}
		if found := s.destroy(); len(found.Errors()) > 0 {
			t.Error(found)
		}
		if n := queues(t, s.b, s.vhost) + exchanges(t, s.b, s.vhost); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// fetching is a consumer without a subscription: it fetches one message at a
// time and rejects it, until all are parked, and takes those out of the parking
// queue.
type fetching struct{ rest atomic.Int64 }

func (f *fetching) left() int64 { return f.rest.Load() }

func startFetching(t *testing.T, b *rabbit.Broker, vhost string) *fetching {
	t.Helper()
	const messages = 5
	w := acctest.Worker(t, b, vhost)
	for range messages {
		publish(t, w, "orders")
	}
	f := &fetching{}
	f.rest.Store(messages)
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); group.Wait() })
	group.Go(func() {
		for f.left() > 0 && ctx.Err() == nil {
			if err := fetchOne(w); err != nil {
				t.Errorf("fetch with %d messages left: %s", f.left(), err)
				return
			}
			parked, err := w.Drain("orders.parking")
			if err != nil {
				t.Errorf("look into the parking queue with %d messages left: %s", f.left(), err)
				return
			}
			f.rest.Add(-int64(len(parked)))
			time.Sleep(50 * time.Millisecond)
		}
	})
	return f
}

// fetchOne fetches a message, works on it for a while, and rejects it.
func fetchOne(w *worker.Worker) error {
	ch, err := w.Connection().Channel()
	if err != nil {
		return err
	}
	defer ch.Close() // the message was rejected before, or comes back
	d, ok, err := ch.Get("orders", false)
	if err != nil || !ok {
		return err
	}
	time.Sleep(100 * time.Millisecond)
	return d.Reject(false)
}

// TestAccDestroyOfRest deletes one object of a chain and destroys what is left:
// nothing stays. On each broker, each queue type loses a part of the objects.
func TestAccDestroyOfRest(t *testing.T) {
	eachType(t, func(t *testing.T, s *session, v variant) {
		api := acctest.API(t, s.b)
		objects := everyObject(t, api, s.vhost)
		for i, o := range objects {
			if i%2 != slices.Index([]string{"quorum", "classic"}, v.queueType) {
				continue
			}
			s.apply()
			resp, err := o.remove()
			acctest.Do(t, resp, err)
			expectDestroyed(t, s, o.line)
		}
	})
}

// TestAccDestroyOfRestIfEmpty does the same with the proof that all queues are
// empty, each object on one broker and one queue type.
func TestAccDestroyOfRestIfEmpty(t *testing.T) {
	t.Parallel()
	brokers := acctest.Brokers(t)
	for i, line := range []string{
		"queues + orders", "queues + orders.parking", "queues + TIER", "exchanges + orders.retry", "exchanges + orders.parking", "bindings + orders.redrive -> orders",
	} {
		b := brokers[i%len(brokers)]
		v := defaultVariant(b, []string{"quorum", "classic"}[i/len(brokers)%2])
		line = strings.Replace(line, "TIER", tierName(v, "1s"), 1)
		t.Run(fmt.Sprintf("%s/%s/%s", b.Name, v.queueType, line), func(t *testing.T) {
			t.Parallel()
			s := newSession(t, b, acctest.VHost(t, b), v, map[string]any{"deletion_policy": "if_empty"})
			s.apply()
			objects := everyObject(t, acctest.API(t, b), s.vhost)
			at := slices.IndexFunc(objects, func(o lost) bool { return o.line == line })
			if at < 0 {
				t.Fatalf("the chain has no %q", line)
			}
			resp, err := objects[at].remove()
			acctest.Do(t, resp, err)
			expectDestroyed(t, s, line)
		})
	}
}

func expectDestroyed(t *testing.T, s *session, without string) {
	t.Helper()
	if found := s.destroy(); len(found) > 0 {
		t.Errorf("the destroy without %q: %s", without, found)
	}
	if left := everyObject(t, acctest.API(t, s.b), s.vhost); len(left) > 0 {
		t.Errorf("the destroy without %q left %d objects, such as %q", without, len(left), left[0].line)
	}
}

// TestAccDestroyOfNothing: a chain, or a virtual host, that is gone altogether
// is destroyed already.
func TestAccDestroyOfNothing(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		s := newSession(t, b, vhost, defaultVariant(b, "classic"), map[string]any{"deletion_policy": "if_empty"})
		s.apply()
		for _, o := range everyObject(t, api, vhost) {
			if !strings.HasPrefix(o.line, "bindings") {
				resp, err := o.remove()
				acctest.Do(t, resp, err)
			}
		}
		server := s.provider()
		plan := server.Plan(t, chainType, nil, s.state) // as with -refresh=false
		if _, found := server.Apply(t, chainType, plan); len(found) > 0 {
			t.Error(found)
		}
		state, found := s.provider().Read(t, chainType, s.state)
		if len(found) > 0 || !state.Value.IsNull() {
			t.Errorf("a chain of which nothing is left stays in the state: %s", found)
		}
	})
}

// TestAccReplacement gives a chain another name and another virtual host. A new
// chain is made and the old one destroyed: the plan is refused while that holds
// messages, and while its deletion policy would leave it at work.
func TestAccReplacement(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for attribute, queueType := range map[string]string{"name": "quorum", "vhost": "classic"} {
			t.Run(attribute, func(t *testing.T) {
				t.Parallel()
				s := newSession(t, b, acctest.VHost(t, b), defaultVariant(b, queueType), map[string]any{"deletion_policy": "if_empty"})
				replacement(t, s, map[string]any{attribute: acctest.VHost(t, b)}) // also a name that nothing has
			})
		}
	})
}

func replacement(t *testing.T, s *session, change map[string]any) {
	s.apply()
	api := acctest.API(t, s.b)
	w := acctest.Worker(t, s.b, s.vhost)
	publish(t, w, "orders.parking")
	publish(t, w, "orders.parking")
	waitForCount(t, api, s.vhost, "orders.parking", 2)
	with := func(more map[string]any) *session {
		changed := *s
		changed.config = map[string]any{}
		for _, attributes := range []map[string]any{s.config, change, more} {
			for name, value := range attributes {
				changed.config[name] = value
			}
		}
		return &changed
	}
	expectRefused(t, with(nil).plan().Diagnostics, "name Chain to Be Replaced Holds Messages", "orders.parking: 2 messages (2 ready)", fmt.Sprintf("%q", "orders@"+s.vhost))
	// The deletion policy that counts is the one in the state.
	expectRefused(t, with(map[string]any{"deletion_policy": "delete"}).plan().Diagnostics, "name Chain to Be Replaced Holds Messages")
	if n, err := w.Ready("orders.parking"); err != nil || n != 2 {
		t.Errorf("%d messages are parked, expected 2 (%v)", n, err)
	}
	if _, err := w.Drain("orders.parking"); err != nil {
		t.Fatal(err)
	}
	waitForCount(t, api, s.vhost, "orders.parking", 0)
	empty := with(nil)
	plan := empty.plan()
	if len(plan.Diagnostics.Errors()) > 0 || len(plan.Replace) != 1 {
		t.Errorf("the replacement of an empty chain is not planned: replace %q, %s", plan.Replace, plan.Diagnostics)
	}

	s.config["deletion_policy"] = "retain"
	s.apply()
	expectRefused(t, with(nil).plan().Diagnostics, "deletion_policy Replacement Would Leave the Old Chain", `Set deletion_policy = "if_empty" and apply that first`)
}

// TestAccReplacementOfEmpty carries out a replacement.
func TestAccReplacementOfEmpty(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		acctest.Reconfigure(t, w, settings{policy: "if_empty", name: "bills"}.config(b, vhost))
		expectText(t, apply(t, w), "1 added, 0 changed, 1 destroyed")
		expectEmptyPlan(t, w)
		tier := strings.Replace(tier(b), "orders", "bills", 1)
		expectQueues(t, b, vhost, "bills", "bills.parking", tier, strings.Replace(tier, "2s", "1s", 1))
	})
}

// TestAccDestroyLeavesExistingQueue: the queue of an application stays, with its
// messages, and obeys the policy again that it obeyed before.
func TestAccDestroyLeavesExistingQueue(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"quorum", "classic"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				vhost, api := acctest.VHost(t, b), acctest.API(t, b)
				resp, err := api.DeclareQueue(vhost, "orders", rabbithole.QueueSettings{Durable: true, Arguments: map[string]any{"x-queue-type": queueType}})
				acctest.Do(t, resp, err)
				resp, err = api.PutPolicy(vhost, "limits", rabbithole.Policy{Pattern: "^orders$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"max-length": 1000}})
				acctest.Do(t, resp, err)
				s := newSession(t, b, vhost, defaultVariant(b, queueType), map[string]any{
					"deletion_policy": "if_empty", "work_queue": map[string]any{"ownership": "application"},
				})
				s.apply()
				w := acctest.Worker(t, b, vhost)
				publish(t, w, "orders")
				if found := s.destroy(); len(found) > 0 {
					t.Error(found)
				}
				expectQueues(t, b, vhost, "orders")
				if n, err := w.Ready("orders"); err != nil || n != 1 {
					t.Errorf("the queue of the application holds %d messages, expected 1 (%v)", n, err)
				}
				policies, err := api.ListPoliciesIn(vhost)
				if err != nil || len(policies) != 1 || policies[0].Name != "limits" {
					t.Errorf("the policies are %v, expected only the one of before (%v)", policies, err)
				}
				if n := exchanges(t, b, vhost); n != 0 {
					t.Errorf("%d exchanges are left", n)
				}
			})
		}
	})
}
