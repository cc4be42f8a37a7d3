package retrychain_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// declareParking declares the queue "shared" over AMQP.
func declareParking(t *testing.T, b *rabbit.Broker, vhost, queueType string, arguments amqp.Table) {
	t.Helper()
	table := amqp.Table{"x-queue-type": queueType}
	for key, value := range arguments {
		table[key] = value
	}
	ch, err := acctest.Worker(t, b, vhost).Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	if _, err := ch.QueueDeclare("shared", true, false, false, false, table); err != nil {
		t.Fatal(err)
	}
}

// sharing are the attributes of a chain that parks in the queue "shared".
func sharing(name string) map[string]any {
	return map[string]any{
		"name": name, "delays": []any{"200ms"}, "deletion_policy": "if_empty",
		"parking_queue": map[string]any{"name": "shared", "ownership": "application"},
	}
}

// TestAccSharedParking: two chains park in one queue of an application, and each message
// tells from which it comes. Without one of the chains all stay parked.
func TestAccSharedParking(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		arguments := amqp.Table{}
		if v.queueType == "quorum" && acctest.Modern(b) {
			arguments["x-delivery-limit"] = -1
		}
		declareParking(t, b, vhost, v.queueType, arguments)
		orders, bills := newSession(t, b, vhost, v, sharing("orders")), newSession(t, b, vhost, v, sharing("bills"))
		for _, s := range []*session{orders, bills} {
			if plan := s.plan(); len(plan.Diagnostics) > 0 {
				t.Error(plan.Diagnostics)
			}
			s.apply()
		}
		orders.expectPlan(orders.plan())
		bills.expectPlan(bills.plan())

		h := &harmed{others: others{t: t, b: b, vhost: vhost}, s: orders, v: v, w: acctest.Worker(t, b, vhost)}
		for _, name := range []string{"orders", "bills"} {
			for range 3 {
				h.publish(name+".redrive", "of "+name)
				for range 2 {
					if _, found := h.next(name, 60*time.Second, reject); !found {
						t.Fatalf("no attempt came to %q", name)
					}
				}
			}
		}
		if !poll.Until(60*time.Second, func() bool { return h.ready("shared") == 6 }) {
			t.Fatalf("%d messages are parked, expected 6", h.ready("shared"))
		}
		if found := orders.destroy(); len(found) > 0 {
			t.Error(found)
		}
		expectQueues(t, b, vhost, "shared", "bills", strings.Replace(tierName(v, "200ms"), "orders", "bills", 1))
		bills.expectPlan(bills.plan())
		origins := map[string]int{}
		for _, d := range h.drain("shared") {
			origins[originOf(v, d.Delivery)]++
		}
		if want := "map[bills:3 orders:3]"; fmt.Sprint(origins) != want {
			t.Errorf("the parked messages come from %v, expected %s", origins, want)
		}
		publish(t, h.w, "shared")
		if found := bills.destroy(); len(found) > 0 {
			t.Error(found)
		}
		expectQueues(t, b, vhost, "shared")
		if n := h.ready("shared"); n != 1 {
			t.Errorf("%d messages are parked, expected 1", n)
		}
	})
}

// originOf tells from which chain a parked message comes: by the exchange
// through which it came and, the same, by the queue in which it died last.
func originOf(v variant, d amqp.Delivery) string {
	chain, _, _ := strings.Cut(d.Exchange, ".retry")
	queue := d.Headers["x-last-death-queue"]
	if v.strategy == "routing_key" { // before 3.13 only x-death tells
		deaths, _ := d.Headers["x-death"].([]any)
		for _, death := range deaths {
			if table, _ := death.(amqp.Table); table["reason"] == "rejected" {
				queue = table["queue"]
			}
		}
	}
	if queue != chain {
		return fmt.Sprintf("exchange %s, queue %v", d.Exchange, queue)
	}
	return chain
}

// TestAccAttachedAndSharing: the work queue and the parking queue both belong to
// others. Every message is accounted for.
func TestAccAttachedAndSharing(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		newApplication(t, b, vhost, v.queueType, nil)
		declareParking(t, b, vhost, v.queueType, nil)
		s := newSession(t, b, vhost, v, attached(sharing("orders")))
		s.apply()
		s.expectPlan(s.plan())
		expectQueues(t, b, vhost, "orders", "shared", tierName(v, "200ms"))
		l := startTraffic(t, b, vhost, func(l *traffic) { l.parking = "shared" })
		l.waitFor(100)
		if o := l.finish(30 * time.Second); o.parked == 0 || o.deliveries != 2 {
			t.Errorf("%s; expected 2 deliveries at most, and some parked", o)
		}

		// No broker stores whose queue it is: that shows after an import, and the
		// apply changes nothing.
		s.expectPlan(s.importChain(), "draining", "parking_queue", "queues - shared")
		s.apply()
		s.expectPlan(s.plan())
		expectQueues(t, b, vhost, "orders", "shared", tierName(v, "200ms"))
	})
}

// foreignParking is an application's parking queue and what a plan says of it.
type foreignParking struct {
	name      string
	only      string // the queue type that it is about; empty for both
	arguments amqp.Table
	from      string // the first version that it is about
	refused   bool
	words     []string
}

var foreignParkings = []foreignParking{
	{
		name: "length limit", arguments: amqp.Table{"x-max-length": 10}, refused: true,
		words: []string{"parking_queue.name", "Parking Queue Would Lose Messages", "declared with x-max-length=10", "over the limit are deleted"},
	},
	{
		name: "limit of bytes", arguments: amqp.Table{"x-max-length-bytes": 10}, refused: true,
		words: []string{"Parking Queue Would Lose Messages", "declared with x-max-length-bytes=10"},
	},
	{
		name: "expires", arguments: amqp.Table{"x-expires": 3600000}, refused: true,
		words: []string{"Parking Queue Would Lose Messages", "declared with x-expires=3600000", "deleted with all its messages"},
	},
	{
		name: "time-to-live", arguments: amqp.Table{"x-message-ttl": 3600000},
		words: []string{"parking_queue.name", "Parked Messages Are Deleted", "after 1h"},
	},
	{
		name: "default delivery limit", only: "quorum", from: "4.0",
		words: []string{"Looking at Parked Messages Deletes Them", "RabbitMQ's default of 20", "x-delivery-limit = -1"},
	},
	{
		name: "delivery limit", only: "quorum", arguments: amqp.Table{"x-delivery-limit": 3},
		words: []string{"Looking at Parked Messages Deletes Them", "delivery limit of 3", "put back more than 3 times"},
	},
	{
		name: "stream", only: "classic", arguments: amqp.Table{"x-queue-type": "stream"}, refused: true,
		words: []string{"parking_queue", "stream"},
	},
}

// TestAccSharedParkingProblems: a plan refuses an application's parking queue that
// loses messages, and warns of one that deletes them on purpose.
func TestAccSharedParkingProblems(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, _ string, v variant) {
		for _, c := range foreignParkings {
			if c.only != "" && c.only != v.queueType || c.from != "" && !atLeast(b, c.from) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				declareParking(t, b, vhost, v.queueType, c.arguments)
				found := newSession(t, b, vhost, v, sharing("orders")).plan().Diagnostics
				if c.refused {
					expectRefused(t, found, c.words...)
					return
				}
				expectWarned(t, found, c.words...)
				if len(found.Errors()) > 0 {
					t.Error(found)
				}
			})
		}
	})
}

// TestAccTransientParking refuses a parking queue that does not outlive the
// broker. From 4.3 on there are none.
func TestAccTransientParking(t *testing.T) {
	before43 := func(b *rabbit.Broker) bool { return !atLeast(b, "4.3") }
	acctest.EachWith(t, "RabbitMQ 4.3 refuses queues that are not durable", before43, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		ch, err := acctest.Worker(t, b, vhost).Connection().Channel()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ch.QueueDeclare("shared", false, false, false, false, nil); err != nil {
			t.Fatal(err)
		}
		expectRefused(t, newSession(t, b, vhost, defaultVariant(b, "classic"), sharing("orders")).plan().Diagnostics, "parking_queue.name", "durable")
	})
}

// TestAccParkingOfAnotherChain: a chain whose own parking queue others use is not
// destroyed under them.
func TestAccParkingOfAnotherChain(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		orders := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms"}, "deletion_policy": "if_empty"})
		orders.apply()
		bills := newSession(t, b, vhost, v, map[string]any{
			"name": "bills", "delays": []any{"200ms"}, "parking_queue": map[string]any{"name": "orders.parking", "ownership": "application"},
		})
		bills.apply()
		bills.expectPlan(bills.plan())
		orders.expectPlan(orders.plan())
		expectRefused(t, orders.destroy(), "orders.parking", "bills.parking")
		bills.expectPlan(bills.plan())
	})
}

// TestAccSharedParkingDeleted: the application's parking queue is gone. The apply
// says so, and mends the binding when it is back.
func TestAccSharedParkingDeleted(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		declareParking(t, b, vhost, v.queueType, nil)
		s := newSession(t, b, vhost, v, sharing("orders"))
		s.apply()
		resp, err := acctest.API(t, b).DeleteQueue(vhost, "shared")
		acctest.Do(t, resp, err)
		plan := s.plan()
		expectWarned(t, plan.Diagnostics, "Chain Does Not Work", `binding "orders.parking -> shared"`)
		expectRefused(t, s.tryApply(), "parking_queue.name", "Existing Queue Not Found", `Queue "shared" does not exist`)
		declareParking(t, b, vhost, v.queueType, nil)
		s.apply()
		s.expectPlan(s.plan())
		h := &harmed{others: others{t: t, b: b, vhost: vhost}, s: s, v: v, w: acctest.Worker(t, b, vhost)}
		h.publish("orders.parking", "")
		if n := h.ready("shared"); n != 1 {
			t.Errorf("%d messages are parked, expected 1", n)
		}
	})
}

// TestAccParkingBecomesShared gives the parking queue of a chain to others, and
// takes it back: it is never deleted, and nothing in it is lost.
func TestAccParkingBecomesShared(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		s := newSession(t, b, vhost, v, map[string]any{"delays": []any{"200ms"}})
		s.apply()
		park(t, b, vhost)
		for _, owner := range []string{"application", "chain"} {
			s.config["parking_queue"] = map[string]any{"ownership": owner}
			s.apply()
			s.expectPlan(s.plan())
			expectParked(t, b, vhost, 1)
		}
	})
}

// TestAccTakeoverRefused: another parking queue cannot become the chain's own
// if it has another form. That is the only error.
func TestAccTakeoverRefused(t *testing.T) {
	eachExisting(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		other := map[string]string{"quorum": "classic", "classic": "quorum"}[v.queueType]
		declareParking(t, b, vhost, other, nil)
		s := newSession(t, b, vhost, v, sharing("orders"))
		s.apply()
		s.config["parking_queue"] = map[string]any{"name": "shared"}
		found := s.plan().Diagnostics.Errors()
		expectRefused(t, found, "parking_queue.ownership", "Queue Cannot Be Taken Over", `Leave ownership = "application"`)
		if len(found) != 1 {
			t.Errorf("%d errors:\n%s", len(found), found)
		}
	})
}
