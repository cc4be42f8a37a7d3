package retrychain_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// killed is a change of a chain at work that ends in the middle.
type killed struct {
	name          string
	before, after map[string]any
	// writes is how many requests the change needs.
	writes int64
	// step lies between two ends that TestAccKilledAndReverted tries.
	step int64
}

// Changes of delays add, remove and reorder tiers, the first one as well.
var (
	delaysBefore = map[string]any{"delays": []any{"200ms", "500ms", "1s"}}
	delaysAfter  = map[string]any{"delays": []any{"500ms", "300ms", "200ms", "200ms"}}
	headers      = map[string]any{"strategy": "headers", "delays": []any{"200ms", "500ms"}}
	routingKey   = map[string]any{"strategy": "routing_key", "delays": []any{"200ms", "500ms"}}

	kills = []killed{
		{"headers", with(delaysBefore, "headers"), with(delaysAfter, "headers"), 16, 1},
		{"routing_key", with(delaysBefore, "routing_key"), with(delaysAfter, "routing_key"), 11, 2},
		{"to routing_key", headers, routingKey, 16, 2},
		{"to headers", routingKey, headers, 17, 2},
	}
)

func with(attributes map[string]any, strategy string) map[string]any {
	attributes = maps.Clone(attributes)
	attributes["strategy"] = strategy
	return attributes
}

// queueTypes are the variants of a chain whose strategy is told elsewhere.
var queueTypes = []variant{
	{queueType: "quorum", deadLetterStrategy: "at-least-once"},
	{queueType: "classic", deadLetterStrategy: "at-most-once"},
	{queueType: "quorum", deadLetterStrategy: "at-most-once"},
}

// brokers are those that can carry out the change.
func (k killed) brokers(t *testing.T) []*rabbit.Broker {
	t.Helper()
	var all []*rabbit.Broker
	for _, b := range acctest.Brokers(t) {
		if acctest.Modern(b) || k.before["strategy"] == "routing_key" && k.after["strategy"] == "routing_key" {
			all = append(all, b)
		}
	}
	return all
}

// TestAccKilledAndReverted ends the provider before a write of a change of a
// chain at work, or after all of them but before Terraform learns of it. (A
// request whose answer is lost leaves the broker as the end before the next
// request does.) The configuration is reverted then: nothing of the change
// stays, and no message is lost. A change of delays ends before each of its
// writes, and the others, to save time, before every other one; the ends meet
// the brokers and queue types in turn. Without [rabbit.EnvFull] it tries every fourth
// of these ends.
func TestAccKilledAndReverted(t *testing.T) {
	t.Parallel() // it waits most of the time
	for _, k := range kills {
		all := k.brokers(t)
		for at := k.writes + 1; at > 0; at -= k.step { // the last ones take longest
			turn := int(at / k.step)
			if !acctest.Sampled(t, turn) {
				continue
			}
			b, v := all[turn%len(all)], queueTypes[turn/len(all)%len(queueTypes)]
			t.Run(fmt.Sprintf("%s/%d/%s%s", k.name, at, b.Name, v), func(t *testing.T) {
				t.Parallel()
				k.revert(t, b, v, at)
			})
		}
	}
}

// start makes the chain as it is before the change, with traffic.
func (k killed) start(t *testing.T, b *rabbit.Broker, v variant) (*session, *proxy.Proxy, *traffic) {
	t.Helper()
	p := proxy.New(t, b.Endpoint)
	through := *b
	through.Endpoint = p.URL
	s := newSession(t, &through, acctest.VHost(t, b), v, k.before)
	s.apply()
	l := startTraffic(t, b, s.vhost, func(l *traffic) { l.every = 30 * time.Millisecond })
	l.waitFor(30)
	return s, p, l
}

func (k killed) revert(t *testing.T, b *rabbit.Broker, v variant, at int64) {
	s, p, l := k.start(t, b, v)
	maps.Copy(s.config, k.after)
	if died := s.applyDying(p, at); died != (at <= k.writes) {
		t.Errorf("the change has not %d writes: it died before write %d is %t", k.writes, at, died)
	}
	l.waitFor(30)
	maps.Copy(s.config, k.before)
	s.settle()
	s.expectOnly()
	l.waitFor(30)
	l.finish(30 * time.Second)
}

// TestAccKilledAgainAndAgain lets every run of the provider do a single write of
// a change and ends it then, until nothing is left to do. So each state between
// two writes is one from which a run goes on, with traffic all the time.
//
// Before RabbitMQ 4.1 a run begins with the removal of quorum queues that are not
// bound, and so every eighth run gets far enough to bind one. Without
// [rabbit.EnvFull] it tries one of the changes.
func TestAccKilledAgainAndAgain(t *testing.T) {
	t.Parallel() // it waits most of the time
	for i, k := range kills {
		if !acctest.Sampled(t, i) {
			continue
		}
		for j, b := range rabbit.Spread(k.name, k.brokers(t)) {
			v := queueTypes[(i+j)%len(queueTypes)]
			t.Run(fmt.Sprintf("%s/%s%s", k.name, b.Name, v), func(t *testing.T) {
				t.Parallel()
				s, p, l := k.start(t, b, v)
				maps.Copy(s.config, k.after)
				remakes := v.queueType == "quorum" && strings.Compare(b.Name, "4.1") < 0
				runs, most := int64(0), 2*k.writes
				if remakes {
					most *= 4
				}
				for n := int64(2); s.applyDying(p, n); {
					if runs++; runs > most {
						t.Fatalf("%d runs have not finished a change of %d writes", runs, k.writes)
					}
					if remakes {
						n = 2 + runs%8
					}
					l.waitFor(5)
				}
				if runs < k.writes-1 && !remakes {
					t.Errorf("%d runs died; the change needs %d writes", runs, k.writes)
				}
				s.settle()
				s.expectOnly()
				l.waitFor(30)
				l.finish(30 * time.Second)
			})
		}
	}
}

// applyDying plans and applies, and ends the provider before its n-th write. It
// says whether the apply got so far. The state stays as it was.
func (s *session) applyDying(p *proxy.Proxy, n int64) bool {
	s.t.Helper()
	plan := s.plan()
	if len(plan.Diagnostics.Errors()) > 0 {
		s.t.Fatal(plan.Diagnostics)
	}
	dead := dieAt(p, n)
	s.applyAndForget(plan)
	p.OnRequest(nil)
	return dead.Load()
}

// applyAndForget carries out a plan. What it returns is lost, as with a process
// that ended.
func (s *session) applyAndForget(plan protocol.Plan) {
	s.t.Helper()
	pack := func(v tftypes.Value) *tfprotov6.DynamicValue {
		packed, err := tfprotov6.NewDynamicValue(plan.Prior.Type(), v)
		if err != nil {
			s.t.Fatal(err)
		}
		return &packed
	}
	_, err := s.provider().ApplyResourceChange(s.t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: chainType, PriorState: pack(plan.Prior), PlannedState: pack(plan.Planned), Config: pack(plan.Config), PlannedPrivate: plan.Private,
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// dieAt lets every request from the n-th write on fail, as far as the provider
// can tell for good, as if its process had ended right before it.
func dieAt(p *proxy.Proxy, n int64) (dead *atomic.Bool) {
	var writes atomic.Int64
	dead = new(atomic.Bool)
	p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
		if (proxy.Request{Method: r.Method}).Write() && writes.Add(1) >= n {
			dead.Store(true)
		}
		if !dead.Load() {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"not_authorized","reason":"the process is dead"}`))
		return true
	})
	return dead
}

// settle applies until nothing is left to do and no tier drains any more. A tier
// that still holds messages when it retires can need a second apply.
func (s *session) settle() {
	s.t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		plan := s.plan()
		if len(plan.Diagnostics.Errors()) > 0 {
			s.t.Fatal(plan.Diagnostics)
		}
		draining := fmt.Sprint(protocol.Go(protocol.At(plan.Prior, "draining")))
		switch {
		case !plan.Planned.Equal(plan.Prior):
			s.apply()
		case draining == "[]":
			// An apply keeps the draining tiers of its plan, although another one
			// has removed them meanwhile.
			s.refresh()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the chain does not come to rest: draining = %v", draining)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// TestAccFailedRemovalOfTier lets each write of a removal of tiers fail for
// good. The update tells it, and the next one removes the rest.
func TestAccFailedRemovalOfTier(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, failing := range []string{"/queues/", "/exchanges/"} {
			v := turn(b, i)
			if failing == "/exchanges/" && acctest.Modern(b) { // each tier of "headers" has one
				v.strategy = "headers"
			}
			t.Run(failing[1:]+v.String(), func(t *testing.T) {
				t.Parallel()
				p := proxy.New(t, b.Endpoint)
				through := *b
				through.Endpoint = p.URL
				s := newSession(t, &through, acctest.VHost(t, b), v, map[string]any{"delays": []any{"200ms", "300ms", "400ms"}})
				s.apply()
				s.config["delays"] = []any{"200ms"}
				refused := refuseDeletion(p, failing)
				found := s.tryApply()
				p.OnRequest(nil)
				if refused.Load() > 0 && len(found) == 0 {
					t.Error("the update says nothing of a removal that failed")
				}
				s.settle()
				s.expectOnly()
			})
		}
	})
}

// refuseDeletion refuses to delete objects of a kind, and counts how often.
func refuseDeletion(p *proxy.Proxy, kind string) *atomic.Int64 {
	refused := new(atomic.Int64)
	p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodDelete || !strings.HasPrefix(r.URL.Path, "/api"+kind) {
			return false
		}
		refused.Add(1)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"bad_request","reason":"refused on purpose"}`))
		return true
	})
	return refused
}

// TestAccKilledDestroy ends the provider before each write of a destroy. The
// next destroy removes the rest; or an apply makes the chain whole again. Without
// [rabbit.EnvFull] it tries every fourth end.
func TestAccKilledDestroy(t *testing.T) {
	t.Parallel() // it waits most of the time
	const writes = 10
	all := acctest.Brokers(t)
	for i := range writes + 1 {
		for j, then := range []string{"destroyed", "applied"} {
			if !acctest.Sampled(t, 2*i+j) {
				continue
			}
			b := all[(i+j)%len(all)]
			v := turn(b, i)
			t.Run(fmt.Sprintf("%d/%s/%s/%s", i+1, then, b.Name, v), func(t *testing.T) {
				t.Parallel()
				p := proxy.New(t, b.Endpoint)
				through := *b
				through.Endpoint = p.URL
				policy := "delete" // saves the time of the proof
				if i%4 == 0 {
					policy = "if_empty"
				}
				s := newSession(t, &through, acctest.VHost(t, b), v, map[string]any{"delays": []any{"200ms", "300ms"}, "deletion_policy": policy})
				s.apply()
				if died := s.destroyDying(p, int64(i+1)); died != (i < writes) {
					t.Errorf("the destroy has not %d writes: it died before write %d is %t", writes, i+1, died)
				}
				if then == "destroyed" {
					s.destroyRest()
					return
				}
				s.settle()
				s.expectOnly()
				l := startTraffic(t, b, s.vhost)
				l.waitFor(30)
				l.finish(20 * time.Second)
			})
		}
	}
}

// destroyRest destroys what is left of the chain, if a refresh finds something.
func (s *session) destroyRest() {
	s.t.Helper()
	state, found := s.provider().Read(s.t, chainType, s.state)
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
	if !state.Value.IsNull() {
		if found := s.destroy(); len(found.Errors()) > 0 {
			s.t.Error(found)
		}
	}
	if n := queues(s.t, s.b, s.vhost) + exchanges(s.t, s.b, s.vhost); n != 0 {
		s.t.Errorf("%d objects are left", n)
	}
}

// destroyDying destroys the chain until its n-th write, and says whether it got
// so far. The state stays.
func (s *session) destroyDying(p *proxy.Proxy, n int64) bool {
	s.t.Helper()
	plan := s.provider().Plan(s.t, chainType, nil, s.state)
	dead := dieAt(p, n)
	s.applyAndForget(plan)
	p.OnRequest(nil)
	return dead.Load()
}

// TestAccKilledByForce ends the real CLI and the provider with kill -9, in a
// change of the delays that is applied again and in one of the strategy (where
// the broker allows it) that is reverted.
func TestAccKilledByForce(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, at := range []int64{4, 11} {
			v := turn(b, i)
			t.Run(fmt.Sprintf("%d/%s", at, v), func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				p := proxy.New(t, b.Endpoint)
				through := *b
				through.Endpoint = p.URL
				before := v.chainConfig(&through, vhost, `["200ms", "500ms", "1s"]`, "")
				after, then := v.chainConfig(&through, vhost, `["500ms", "300ms", "200ms", "200ms"]`, ""), ""
				if i == 1 {
					then = before
					if acctest.Modern(b) {
						after = other(v).chainConfig(&through, vhost, `["200ms", "500ms", "1s"]`, "")
					}
				}
				w := acctest.Terraform(t, before)
				apply(t, w)
				l := startTraffic(t, b, vhost, func(l *traffic) { l.every = 30 * time.Millisecond })
				l.waitFor(30)
				acctest.Reconfigure(t, w, after)
				acctest.KillAtWrite(t, p, w, at, "apply", "-auto-approve")
				l.waitFor(30)
				if then != "" {
					acctest.Reconfigure(t, w, then)
				}
				acctest.RunAfterKill(t, b, vhost, w, "apply", "-auto-approve")
				applyUntilDrained(t, w)
				expectEmptyPlan(t, w)
				l.waitFor(30)
				l.finish(30 * time.Second)
			})
		}
	})
}

// TestAccHalfDeclaredTier: RabbitMQ breaks off the declaration of a quorum queue
// when the connection that asked for it is closed, as that of a killed provider
// is. The queue exists then, in the form that was asked for, and loses what is
// routed to it. A change that leads messages into a tier makes it whole first,
// one that does not want it removes it, and a destroy removes it too.
func TestAccHalfDeclaredTier(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		v := variant{"routing_key", "quorum", "at-most-once"}
		if acctest.Modern(b) {
			v.strategy = "headers"
		}
		for _, then := range []string{"applied", "reverted", "destroyed"} {
			t.Run(then, func(t *testing.T) {
				t.Parallel()
				s := newSession(t, b, acctest.VHost(t, b), v, map[string]any{"delays": []any{"200ms"}})
				s.apply()
				halfDeclare(t, b, s.vhost, v, "300ms")
				if then == "destroyed" {
					s.config["deletion_policy"] = "if_empty"
					s.apply()
					s.destroyRest()
					return
				}
				l := startTraffic(t, b, s.vhost, func(l *traffic) { l.every = 30 * time.Millisecond })
				if then == "applied" {
					s.config["delays"] = []any{"200ms", "300ms"}
				}
				s.apply()
				s.expectPlan(s.plan())
				s.expectOnly()
				l.waitFor(100)
				l.finish(30 * time.Second)
			})
		}
	})
}

// halfDeclare declares a tier of the chain and closes the connection at once,
// until a queue is left that does not take messages. The test skips where none
// is: it depends on the moment.
func halfDeclare(t *testing.T, b *rabbit.Broker, vhost string, v variant, label string) {
	t.Helper()
	delay, err := time.ParseDuration(label)
	if err != nil {
		t.Fatal(err)
	}
	arguments := map[string]any{
		"x-queue-type": v.queueType, "x-dead-letter-strategy": v.deadLetterStrategy, "x-message-ttl": delay.Milliseconds(),
		"x-dead-letter-exchange": "orders.return." + label,
	}
	if v.strategy == "routing_key" {
		arguments["x-dead-letter-exchange"], arguments["x-dead-letter-routing-key"] = "orders.return", tierName(v, label)
	}
	body := map[string]any{"durable": true, "auto_delete": false, "arguments": arguments}
	const tries = 100
	for i := range tries {
		acctest.BreakOff(t, b, http.MethodPut, "queues/"+vhost+"/"+tierName(v, label), body, time.Duration(i%40)*time.Millisecond)
		if half(t, b, vhost, tierName(v, label)) {
			return
		}
		resp, err := acctest.API(t, b).DeleteQueue(vhost, tierName(v, label))
		acctest.Do(t, resp, err)
	}
	t.Skipf("none of %d declarations that were broken off left a half-made queue", tries)
}

// half says whether the queue exists and does not take a message.
func half(t *testing.T, b *rabbit.Broker, vhost, queue string) bool {
	t.Helper()
	time.Sleep(200 * time.Millisecond) // a declaration that was not broken off
	w := acctest.Worker(t, b, vhost)
	if _, err := w.Ready(queue); err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	return w.Publish(ctx, "", queue, amqp.Publishing{Body: []byte("is anybody there?")}) != nil
}

// other is the variant with the other strategy.
func other(v variant) variant {
	if v.strategy == "headers" {
		v.strategy = "routing_key"
	} else {
		v.strategy = "headers"
	}
	return v
}
