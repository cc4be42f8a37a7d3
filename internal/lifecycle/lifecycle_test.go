package lifecycle_test

import (
	"fmt"
	"net/http"
	"net/url"
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
)

// TestAccCreateReadDestroy: an applied resource plans nothing and says nothing, an import by
// identifier and by identity finds the same, and a destroy leaves nothing.
func TestAccCreateReadDestroy(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		before := s.objects()
		s.apply(s.server())
		s.expectWhole()
		imported, found := s.server().Import(t, s.resource, s.id+"@"+s.vhost, nil)
		s.expectNoErrors(found)
		identity := map[string]any{"vhost": s.vhost, s.name: s.config[s.name]}
		if s.needs != nil {
			identity["tiers"] = s.config["tiers"]
		}
		again, found := s.server().Import(t, s.resource, "", identity)
		s.expectNoErrors(found)
		if !imported.Value.Equal(again.Value) {
			t.Errorf("the two imports differ: %v\n%v", protocol.Go(imported.Value), protocol.Go(again.Value))
		}
		for _, part := range []string{"id", "topology"} {
			if !protocol.At(imported.Value, part).Equal(protocol.At(s.state.Value, part)) {
				t.Errorf("%s is imported as %v", part, protocol.Go(protocol.At(imported.Value, part)))
			}
		}
		s.run(s.server(), s.plan(nil))
		if after := s.objects(); !slices.Equal(before, after) {
			t.Errorf("the destroy leaves %q of %q", after, before)
		}
	})
}

// TestAccVHostGone: without its virtual host a resource leaves the state, a plan only warns,
// and a destroy without a refresh works.
func TestAccVHostGone(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		s.apply(s.server())
		resp, err := acctest.API(t, s.b).DeleteVhost(s.vhost)
		acctest.Do(t, resp, err)
		server := s.server()
		read, found := server.Read(t, s.resource, s.state)
		if s.expectNoErrors(found); !read.Value.IsNull() {
			t.Errorf("it stays in the state: %v", protocol.Go(read.Value))
		}
		plan := server.Plan(t, s.resource, s.config, protocol.State{})
		s.expectNoErrors(plan.Diagnostics)
		expect(t, plan.Diagnostics, "Virtual Host Not Found", "The apply fails unless the same run creates the virtual host first")
		server = s.server()
		_, found = server.Apply(t, s.resource, plan)
		expect(t, found, "Virtual Host Not Found")
		s.run(s.server(), s.server().Plan(t, s.resource, nil, s.state))
	})
}

// TestAccRetain: a destroy with retain leaves everything and says so.
func TestAccRetain(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		s.config["deletion_policy"] = "retain"
		s.apply(s.server())
		before := s.objects()
		_, found := s.server().Apply(t, s.resource, s.plan(nil))
		if s.expectNoErrors(found); len(found) != 1 || !strings.HasSuffix(found[0].Summary, "Left on the Broker") {
			t.Errorf("the destroy says %s", found)
		}
		if after := s.objects(); !slices.Equal(before, after) {
			t.Errorf("the destroy leaves %q of %q", after, before)
		}
	})
}

// TestAccReplacement: a new name is refused while the old resource would stay at work, or
// while its queues hold messages.
func TestAccReplacement(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		s.config["deletion_policy"] = "retain"
		s.apply(s.server())
		renamed := func() protocol.Plan { return s.plan(with(s.config, s.name, "another")) }
		found := renamed().Diagnostics
		if len(found.Errors()) != 1 || !strings.HasPrefix(found.Errors()[0].Summary, "Replacement Would Leave the Old") {
			t.Errorf("the replacement of a retained resource says %s", found)
		}
		s.config["deletion_policy"] = "if_empty"
		s.apply(s.server())
		if plan := renamed(); len(plan.Diagnostics.Errors()) > 0 || !slices.Equal(plan.Replace, []string{s.name}) {
			t.Errorf("the replacement of an empty resource is not planned: replace %q, %s", plan.Replace, plan.Diagnostics)
		}
		w := acctest.Worker(t, s.b, s.vhost)
		if err := w.Publish(t.Context(), "", s.queue, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		if !poll.Until(30*time.Second, func() bool { return len(renamed().Diagnostics.Errors()) > 0 }) {
			t.Fatal("the replacement of a full resource is planned")
		}
		found = renamed().Diagnostics
		if !strings.HasSuffix(found.Errors()[0].Summary, "to Be Replaced Holds Messages") {
			t.Errorf("the replacement of a full resource says %s", found)
		}
		expect(t, found, found.Errors()[0].Summary, s.queue+": 1 message")
	})
}

// TestAccQueueGone: a plan warns that a queue is gone and needs the permission to declare it;
// the apply declares it, and then no warning is left.
func TestAccQueueGone(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		s.apply(s.server())
		s.deleteQueue()
		plan := s.plan(s.config)
		s.expectNoErrors(plan.Diagnostics)
		expect(t, plan.Diagnostics, "Queue Is Gone", s.queue)
		expect(t, s.asUser().plan(s.config).Diagnostics.Errors(), "Permission Missing", s.queue)
		s.run(s.server(), plan)
		s.expectWhole()
	})
}

// TestAccQueueDrifted: a queue of another form is refused, by the plan and by the apply.
func TestAccQueueDrifted(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		s.apply(s.server())
		s.deleteQueue()
		early := s.plan(s.config)
		s.expectNoErrors(early.Diagnostics)
		api := acctest.API(t, s.b)
		resp, err := api.DeclareQueue(s.vhost, s.queue, rabbithole.QueueSettings{Durable: true, Type: "classic"})
		acctest.Do(t, resp, err)
		expect(t, s.plan(s.config).Diagnostics.Errors(), "Queue Exists in Another Form", s.queue)
		after, found := s.server().Apply(t, s.resource, early)
		if len(found.Errors()) == 0 || after.Value.IsNull() {
			t.Errorf("the apply of an early plan says %s and leaves %v", found, protocol.Go(after.Value))
		}
		s.deleteQueue()
		s.apply(s.server())
		s.expectWhole()
	})
}

// TestAccDeletedObjects deletes the exchanges and queues one after the other: each time the
// apply makes the resource whole again.
func TestAccDeletedObjects(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		before := s.objects()
		s.apply(s.server())
		api := acctest.API(t, s.b)
		for _, object := range s.objects() {
			if slices.Contains(before, object) {
				continue
			}
			kind, name, _ := strings.Cut(object, " ")
			remove := api.DeleteQueue
			if kind == "exchange" {
				remove = func(vhost, name string, _ ...rabbithole.QueueDeleteOptions) (*http.Response, error) {
					return api.DeleteExchange(vhost, name)
				}
			}
			resp, err := remove(s.vhost, name)
			acctest.Do(t, resp, err)
			if plan := s.plan(s.config); plan.Planned.Equal(plan.Prior) {
				t.Errorf("the plan does not show that %s is gone", object)
			}
			s.apply(s.server())
			s.expectWhole()
		}
	})
}

// TestAccFailedCreate breaks the first write of a create, and one in its middle: what was made
// is taken away again, and the next apply succeeds.
func TestAccFailedCreate(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		before := s.objects()
		for _, broken := range []int64{1, 2} {
			p := proxy.New(t, s.b.Endpoint)
			var writes atomic.Int64
			p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodGet || writes.Add(1) != broken {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				_, _ = fmt.Fprint(w, `{"error":"bad_request","reason":"broken on purpose"}`)
				return true
			})
			behind := s.through(p)
			after, found := behind.server().Apply(t, s.resource, behind.plan(s.config))
			if len(found.Errors()) == 0 || !after.Value.IsNull() || !strings.Contains(found.String(), "broken on purpose") {
				t.Errorf("the create says %s and leaves %v", found, protocol.Go(after.Value))
			}
			if left := s.objects(); !slices.Equal(before, left) {
				t.Errorf("the create leaves %q of %q", left, before)
			}
		}
		s.apply(s.server())
		s.expectWhole()
	})
}

// TestAccUndoKeepsObjectOfOthers: another client declares the queue while a create is under way.
// The create fails, and its undo deletes only what was created for it.
func TestAccUndoKeepsObjectOfOthers(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		before := s.objects()
		p := proxy.New(t, s.b.Endpoint)
		path := "/api/queues/" + url.PathEscape(s.vhost) + "/" + url.PathEscape(s.queue)
		var once sync.Once
		p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method == http.MethodPut && r.URL.EscapedPath() == path {
				once.Do(func() { s.repeat(r) })
			}
			return false
		})
		behind := s.through(p)
		after, found := behind.server().Apply(t, s.resource, behind.plan(s.config))
		if len(found.Errors()) == 0 || !after.Value.IsNull() {
			t.Errorf("the create says %s and leaves %v", found, protocol.Go(after.Value))
		}
		want := append([]string{"queue " + s.queue}, before...)
		left := s.objects()
		slices.Sort(want)
		if slices.Sort(left); !slices.Equal(left, want) {
			t.Errorf("the create leaves %q, expected %q", left, want)
		}
	})
}

// TestAccUndoKeepsResourceOfOthers: another run creates the same resource while a create is
// under way. The create fails and says so, and removes nothing.
func TestAccUndoKeepsResourceOfOthers(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		p := proxy.New(t, s.b.Endpoint)
		behind := s.through(p)
		plan := behind.plan(s.config)
		var once sync.Once
		p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodGet {
				once.Do(func() { s.apply(s.server()) })
			}
			return false
		})
		after, found := behind.server().Apply(t, s.resource, plan)
		if !after.Value.IsNull() {
			t.Errorf("the create leaves %v", protocol.Go(after.Value))
		}
		expect(t, found.Errors(), "Object Already Exists", "another run made it at the same time", s.id+"@"+s.vhost)
		s.expectWhole()
	})
}

// TestAccConflict: what exists is never taken over, and two resources of one run cannot have
// the same object.
func TestAccConflict(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		server, second := s.server(), s.plan(s.config)
		s.apply(server)
		_, found := server.Apply(t, s.resource, second)
		expect(t, found.Errors(), "Object Claimed Twice")
		// A process that has read nothing may be the one that carries out a replacement.
		fresh := s.server()
		found = fresh.Plan(t, s.resource, s.config, protocol.State{}).Diagnostics
		if s.expectNoErrors(found); len(found) != 1 || !strings.Contains(found[0].Detail, s.id+"@"+s.vhost) {
			t.Errorf("the plan of a process that has read nothing says %s", found)
		}
		another := &subject{kind: tiers, t: t, b: s.b, vhost: s.vhost, config: with(with(tiers.config, "vhost", s.vhost), "name", "another")}
		another.apply(s.server())
		_, found = fresh.Read(t, another.resource, another.state)
		s.expectNoErrors(found)
		found = fresh.Plan(t, s.resource, s.config, protocol.State{}).Diagnostics
		expect(t, found.Errors(), "Object Already Exists", s.id+"@"+s.vhost)
		_, found = s.server().Apply(t, s.resource, second)
		expect(t, found.Errors(), "Object Already Exists", s.id+"@"+s.vhost)
		s.expectWhole()
	})
}

// TestAccLookBeforeRemoval: a destroy reads the virtual host again when what the process knows
// is old.
func TestAccLookBeforeRemoval(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		p := proxy.New(t, s.b.Endpoint)
		behind := s.through(p)
		server := behind.server()
		s.apply(server) // what the process knows is from now
		time.Sleep(1100 * time.Millisecond)
		p.Take()
		s.run(server, server.Plan(t, s.resource, nil, s.state))
		list := proxy.Request{Method: http.MethodGet, Path: "/api/bindings/" + url.PathEscape(s.vhost)}
		if requests := p.Take(); !slices.Contains(requests, list) {
			t.Errorf("the destroy does not list the bindings: %v", requests)
		}
	})
}

// TestAccFullStays: a destroy of queues that hold messages is refused and changes nothing;
// with deletion_policy = "delete" it deletes them.
func TestAccFullStays(t *testing.T) {
	eachKind(t, func(t *testing.T, s *subject) {
		before := s.objects()
		s.apply(s.server())
		w := acctest.Worker(t, s.b, s.vhost)
		if err := w.Publish(t.Context(), "", s.queue, amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		if !poll.Until(30*time.Second, func() bool { n, err := w.Ready(s.queue); return err == nil && n == 1 }) {
			t.Fatal("the message does not arrive")
		}
		after, found := s.server().Apply(t, s.resource, s.plan(nil))
		// AMQP tells of the message earlier than the management API, which knows the total.
		named := strings.Contains(found.String(), s.queue+": messages (1 ready") || strings.Contains(found.String(), s.queue+": 1 message (1 ready")
		if len(found.Errors()) != 1 || !named || after.Value.IsNull() {
			t.Errorf("the destroy says %s and leaves %v", found, protocol.Go(after.Value))
		}
		s.expectWhole()
		s.config["deletion_policy"] = "delete"
		s.apply(s.server())
		s.run(s.server(), s.plan(nil))
		if left := s.objects(); !slices.Equal(before, left) {
			t.Errorf("the destroy leaves %q of %q", left, before)
		}
	})
}
