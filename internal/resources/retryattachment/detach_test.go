package retryattachment_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// fill rejects n messages of the queue once, so that they are in the first tier,
// that of the wait. A consumer that ends takes along what it has rejected and a
// quorum queue has not heard of yet: it goes on until the tier holds all.
func fill(t *testing.T, b *rabbit.Broker, vhost, queue, wait string, n int) {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	tier := "retries.retry." + wait
	before := ready(t, w, tier)[tier]
	for i := range n {
		publish(t, w, "", queue, fmt.Sprintf("%s %d", queue, i))
	}
	expectReady(t, w, queue, n) // a slow leader of a quorum queue says 0
	c := consume(t, b, vhost, always(worker.Reject), queue)
	expectReady(t, w, tier, before+n)
	c.stop()
	if c.count() != n {
		t.Fatalf("%d deliveries of %d messages: they came back too early for this test", c.count(), n)
	}
}

// longWait is a delay that no test waits for: see endWaits.
const longWait = "1h"

// endWaits ends the wait of the n messages in the tier of [longWait]. They go
// where they would go in an hour, for another reason: a rejected message is routed
// as an expired one is.
func endWaits(t *testing.T, b *rabbit.Broker, vhost string, n int) {
	t.Helper()
	const tier = "retries.retry." + longWait
	expectReady(t, acctest.Worker(t, b, vhost), tier, n)
	consume(t, b, vhost, always(worker.Reject), tier)
}

// ready are the messages in each of the queues.
func ready(t *testing.T, w *worker.Worker, queues ...string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, queue := range queues {
		n, err := w.Ready(queue)
		if err != nil {
			t.Fatal(err)
		}
		counts[queue] = n
	}
	return counts
}

// TestAccDetachParks: with on_detach = "park" messages under way are parked, each
// once, and those of the other queue are not touched.
func TestAccDetachParks(t *testing.T) {
	const n = 50
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range variants {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				v = v.with(attributes{"on_detach": "park"})
				platform, orders := v.attach(t, b, vhost, waits{longWait}, []string{"orders"})
				invoices := newInProcess(b, attachment(vhost, "invoices", nil))
				invoices.apply(t)
				fill(t, b, vhost, "orders", longWait, n)
				fill(t, b, vhost, "invoices", longWait, n)
				orders.destroy(t)
				platform.expectEmptyPlan(t)
				invoices.expectEmptyPlan(t)
				endWaits(t, b, vhost, 2*n)
				w := acctest.Worker(t, b, vhost)
				queues := []string{"retries.parking", "invoices"}
				want := map[string]int{"retries.parking": n, "invoices": n}
				if v.existing != "" {
					queues, want["orders"] = append(queues, "orders"), 0
				}
				var got map[string]int
				if !within(func() bool { got = ready(t, w, queues...); return maps.Equal(got, want) }) {
					t.Fatalf("the queues hold %v, expected %v", got, want)
				}
				parked := parkedIDs(t, w)
				for i := range n {
					if id := fmt.Sprintf("orders %d", i); parked[id] != 1 {
						t.Errorf("%q is parked %d times", id, parked[id])
					}
				}
			})
		}
	})
}

// TestAccDetachWaits: by default messages under way come back before an existing
// queue is detached; what is rejected then is parked. A queue that the attachment
// declared must be empty, and is kept otherwise.
func TestAccDetachWaits(t *testing.T) {
	const n = 50
	eachVariant(t, waits{"6s", "1s"}, []string{"orders"}, func(t *testing.T, b *rabbit.Broker, vhost string, v variant, platform, appTeam workspace) {
		t.Helper()
		fill(t, b, vhost, "orders", "6s", n)
		w := acctest.Worker(t, b, vhost)
		var output string
		if v.existing != "" {
			appTeam.destroy(t)
		} else {
			output = appTeam.refused(t, "destroy")
		}
		platform.expectEmptyPlan(t)
		expectReady(t, w, "orders", n)
		expectReady(t, w, "retries.parking", 0)
		if v.existing != "" {
			if policies, err := acctest.API(t, b).ListPoliciesIn(vhost); err != nil || len(policies) != 0 {
				t.Errorf("policies are left: %v, %v", policies, err)
			}
			return
		}
		expectText(t, output, "Queue Holds Messages", "orders: ")
		appTeam.expectEmptyPlan(t)
		if drained, err := w.Drain("orders"); err != nil || len(drained) != n {
			t.Errorf("%d messages, %v", len(drained), err)
		}
		appTeam.destroy(t)
		if _, err := acctest.API(t, b).GetQueue(vhost, "orders"); err == nil {
			t.Error("the queue is still there")
		}
	})
}

// TestAccDetachUnderTraffic: an existing queue is detached while a consumer
// rejects half of the messages until it is detached. Every message is acknowledged
// or parked in the end, whether the tiers are waited for or not.
func TestAccDetachUnderTraffic(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, onDetach := range []string{"wait", "park"} {
			t.Run(onDetach, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				v := variant{existing: "quorum", attachment: attributes{"ownership": "application", "on_detach": onDetach}}
				_, appTeam := v.attach(t, b, vhost, waits{"500ms", "1s", "2s"}, []string{"orders"})
				w := acctest.Worker(t, b, vhost)
				var rejecting atomic.Bool
				rejecting.Store(true)
				var acknowledged atomic.Int64
				consume(t, b, vhost, func(d worker.Delivery) worker.Outcome {
					if rejecting.Load() && len(d.MessageId)%2 == 0 {
						return worker.Reject
					}
					acknowledged.Add(1)
					return worker.Ack
				}, "orders")
				const n = 300
				for i := range n {
					publish(t, w, "", "orders", fmt.Sprint(i))
				}
				// RabbitMQ drops what is rejected without a policy, as before the queue was
				// attached: the consumer must stop rejecting first.
				rejecting.Store(false)
				appTeam.destroy(t)
				var parked int
				eventually(t, "every message is acknowledged or parked", func() bool {
					var err error
					if parked, err = w.Ready("retries.parking"); err != nil {
						t.Fatal(err)
					}
					return int(acknowledged.Load())+parked >= n
				})
				if total := int(acknowledged.Load()) + parked; total != n {
					t.Errorf("%d messages are left of %d", total, n)
				}
				// What was rejected and not in a tier yet when the way there was closed goes
				// to the parking queue at once.
				causes := lastDeaths(t, w)
				delete(causes, "orders rejected")
				if onDetach == "wait" && len(causes) > 0 {
					t.Errorf("messages that were in a tier are parked although they were waited for: %v", causes)
				}
			})
		}
	})
}

// TestAccDetachTooShort: a delay that is longer than the destroy may take is
// refused at once, unless nothing is under way.
func TestAccDetachTooShort(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := variant{attachment: attributes{"ownership": "application", "timeouts": attributes{"delete": "5m"}}, existing: "quorum"}
		_, appTeam := v.attach(t, b, vhost, waits{"10m"}, []string{"orders"})
		fill(t, b, vhost, "orders", "10m", 1)
		began := time.Now()
		expectText(t, appTeam.refused(t, "destroy"), "Queue Not Detached", "up to 10m to come back", `on_detach = "park"`)
		if took := time.Since(began); took > 3*time.Minute {
			t.Errorf("the refusal took %s", took)
		}
		appTeam.expectEmptyPlan(t)
		resp, err := acctest.API(t, b).PurgeQueue(vhost, "retries.retry.10m")
		acctest.Do(t, resp, err)
		appTeam.destroy(t)
	})
}

// TestAccDeleteWithMessages: deletion_policy = "delete" deletes the queue with
// its messages at once, and nothing else.
func TestAccDeleteWithMessages(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		v := variant{attachment: attributes{"deletion_policy": "delete"}}
		_, appTeam := v.attach(t, b, vhost, waits{longWait}, []string{"orders"})
		fill(t, b, vhost, "orders", longWait, 3)
		w := acctest.Worker(t, b, vhost)
		publish(t, w, "", "orders", "given up")
		appTeam.destroy(t)
		endWaits(t, b, vhost, 3)
		expectReady(t, w, "retries.parking", 3)
		if ids := parkedIDs(t, w); ids["given up"] != 0 {
			t.Error("the message of the deleted queue is parked")
		}
		queues, err := acctest.API(t, b).ListQueuesIn(vhost)
		if err != nil || len(queues) != 2 {
			t.Errorf("%d queues are left, %v; expected a tier and the parking queue", len(queues), err)
		}
	})
}

// TestAccDetachNotUndone: a refused detachment whose binding cannot be made again
// says so, and an apply makes it.
func TestAccDetachNotUndone(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
		through := *b
		through.Endpoint = p.URL
		v := variant{attachment: attributes{"on_detach": "park"}}
		_, appTeam := v.attach(t, &through, vhost, waits{longWait}, []string{"orders"})
		publish(t, acctest.Worker(t, b, vhost), "", "orders", "one")
		p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
			if r.Method != http.MethodPost {
				return false
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"error":"bad_request","reason":"broken on purpose"}`))
			return true
		})
		output := appTeam.refused(t, "destroy")
		for _, text := range []string{"could not be made again", "broken on purpose", `"orders"`, "1 ready"} {
			if !strings.Contains(output, text) {
				t.Errorf("the error lacks %q: %s", text, output)
			}
		}
		p.OnRequest(nil)
		appTeam.apply(t)
		if output := appTeam.refused(t, "destroy"); !strings.Contains(output, "Nothing was changed") {
			t.Errorf("the second error: %s", output)
		}
		appTeam.expectEmptyPlan(t)
	})
}

// TestAccRetain: with deletion_policy = "retain" the queue stays attached.
func TestAccRetain(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders", rabbithole.QueueSettings{Type: "quorum", Durable: true})
		v := variant{attachment: attributes{"ownership": "application", "deletion_policy": "retain"}, existing: "quorum"}
		_, appTeam := v.attach(t, b, vhost, waits{"200ms"}, []string{"orders"})
		appTeam.destroy(t)
		w := acctest.Worker(t, b, vhost)
		publish(t, w, "", "orders", "one")
		c := consume(t, b, vhost, always(worker.Reject), "orders")
		expectReady(t, w, "retries.parking", 1)
		expectAttempts(t, c.of("one"), "orders", 200*time.Millisecond)
	})
}

// lastDeaths takes out what is parked and counts where it died last.
func lastDeaths(t *testing.T, w *worker.Worker) map[string]int {
	t.Helper()
	drained, err := w.Drain("retries.parking")
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, d := range drained {
		count[fmt.Sprint(d.Headers["x-last-death-queue"], " ", d.Headers["x-last-death-reason"])]++
	}
	return count
}
