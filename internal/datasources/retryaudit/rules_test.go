package retryaudit_test

import (
	"context"
	"slices"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
)

// ruleTest shows that what a rule says happens on a broker, that the rule finds
// it, and that it finds nothing once it is mended.
type ruleTest struct {
	rule     string
	severity string
	kind     string
	object   string
	// only leaves out the brokers on which the case is none. On them build makes
	// what the rule must not find.
	only func(b *rabbit.Broker) bool
	// build makes the faulty topology, harm shows what it does, mend mends it and
	// works shows that it does so no more.
	build, harm, mend, works func(w *world)
}

func before4(b *rabbit.Broker) bool  { return !acctest.AtLeast(b, 4, 0) }
func from4(b *rabbit.Broker) bool    { return acctest.AtLeast(b, 4, 0) }
func before43(b *rabbit.Broker) bool { return !acctest.AtLeast(b, 4, 3) }

// lostByReject publishes into a queue, and nothing is left after a rejection.
func lostByReject(queue string) func(w *world) {
	return func(w *world) {
		w.publish("", queue, "lost")
		w.reject(queue)
		w.expectGone()
	}
}

// keptByReject finds a rejected message in another queue.
func keptByReject(queue, target string) func(w *world) {
	return func(w *world) {
		w.publish("", queue, "kept")
		w.reject(queue)
		w.expectIn(target, "kept")
	}
}

// deadLetterTo is a policy that sends dead letters to a queue.
func deadLetterTo(queue string) args {
	return args{"dead-letter-exchange": "", "dead-letter-routing-key": queue}
}

// rounds rejects what comes to a queue until it came n times, and says how long
// that took.
func rounds(w *world, queue string, n int) time.Duration {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	began, count := time.Now(), 0
	err := w.worker.Consume(ctx, queue, 1, func(worker.Delivery) worker.Outcome {
		count++
		if count > n {
			cancel()
			return worker.Ack
		}
		return worker.Reject
	})
	if err != nil || count <= n {
		w.t.Fatalf("%d rounds, %v", count, err)
	}
	return time.Since(began)
}

var ruleTests = map[string]ruleTest{
	"missing dead-letter exchange": {
		rule: "missing_dead_letter_exchange", severity: "error", kind: "queue", object: "work",
		build: func(w *world) { w.queue("work", "classic", args{"x-dead-letter-exchange": "dead"}) },
		harm:  lostByReject("work"),
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.exchange("dead", "fanout", nil)
			w.bind("dead", "parking", "", nil)
		},
		works: keptByReject("work", "parking"),
	},
	"dead-letter exchange with another routing key": {
		// RabbitMQ routes a dead letter by the keys in CC as well: only a message without
		// them is lost.
		rule: "dead_letter_no_route", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.exchange("dead", "direct", nil)
			w.bind("dead", "parking", "changed", nil)
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "dead"})
			w.bind("amq.direct", "work", "created", nil)
		},
		harm: func(w *world) {
			w.publish("amq.direct", "created", "lost")
			w.reject("work")
			w.expectGone()
			w.publishHeaders("amq.direct", "created", "kept", amqp.Table{"CC": []any{"changed"}})
			w.reject("work")
			w.expectIn("parking", "kept")
		},
		mend: func(w *world) { w.bind("dead", "parking", "created", nil) },
		works: func(w *world) {
			w.publish("amq.direct", "created", "kept")
			w.reject("work")
			w.expectIn("parking", "kept")
		},
	},
	"dead-letter routing key without a binding": {
		rule: "dead_letter_no_route", severity: "error", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.exchange("dead", "direct", nil)
			w.bind("dead", "parking", "parking", nil)
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "dead", "x-dead-letter-routing-key": "other"})
		},
		harm: func(w *world) {
			w.publishHeaders("", "work", "lost", amqp.Table{"CC": []any{"parking.copy"}})
			w.reject("work")
			w.expectGone()
		},
		mend:  func(w *world) { w.bind("dead", "parking", "other", nil) },
		works: keptByReject("work", "parking"),
	},
	"auto-delete dead-letter queue": {
		rule: "waiting_queue_expires", severity: "error", kind: "queue", object: "parking",
		build: func(w *world) {
			resp, err := w.api.DeclareQueue(w.vhost, "parking", rabbithole.QueueSettings{Type: "classic", Durable: true, AutoDelete: true})
			acctest.Do(w.t, resp, err)
			w.queue("work", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
		},
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.reject("work")
			w.eventually("the dead letter", func() bool { n, err := w.worker.Ready("parking"); return err == nil && n == 1 })
			w.consumeAndLeave("parking")
			w.expectNoQueue("parking")
			w.expectGone()
		},
		mend:  func(w *world) { w.queue("parking", "classic", nil) },
		works: keptByReject("work", "parking"),
	},
	"work queue that expires": {
		rule: "work_queue_deletes_itself", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
			w.policy("work", args{"expires": 2000})
			w.publish("", "work", "lost")
		},
		harm: func(w *world) {
			w.expectNoQueue("work")
			w.expectGone()
		},
		mend: func(w *world) {
			w.deletePolicy("work")
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
		},
		works: keptByReject("work", "parking"),
	},
	"work queue that is deleted with its last consumer": {
		rule: "work_queue_deletes_itself", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			resp, err := w.api.DeclareQueue(w.vhost, "work", rabbithole.QueueSettings{Type: "classic", Durable: true, AutoDelete: true})
			acctest.Do(w.t, resp, err)
			w.policy("work", deadLetterTo("parking"))
		},
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.consumeAndLeave("work")
			w.expectNoQueue("work")
			w.expectGone()
		},
		mend:  func(w *world) { w.queue("work", "classic", nil) },
		works: keptByReject("work", "parking"),
	},
	"alternate exchange without a binding": {
		rule: "alternate_exchange_no_route", severity: "error", kind: "exchange", object: "events",
		build: func(w *world) {
			w.exchange("unrouted", "fanout", nil)
			w.exchange("events", "direct", args{"alternate-exchange": "unrouted"})
		},
		harm: func(w *world) { w.expectUnroutable("events", nil) },
		mend: func(w *world) {
			w.queue("unrouted", "classic", nil)
			w.bind("unrouted", "unrouted", "", nil)
		},
		works: func(w *world) {
			w.publish("events", "any", "kept")
			w.expectIn("unrouted", "kept")
		},
	},
	"exchange without a binding": {
		rule: "exchange_without_binding", severity: "warning", kind: "exchange", object: "events",
		build: func(w *world) { w.exchange("events", "topic", nil) },
		harm:  func(w *world) { w.expectUnroutable("events", nil) },
		mend: func(w *world) {
			w.queue("work", "classic", nil)
			w.bind("events", "work", "#", nil)
		},
		works: func(w *world) {
			w.publish("events", "any", "kept")
			w.expectIn("work", "kept")
		},
	},
	"dead-letter exchange without a binding": {
		rule: "dead_letter_no_route", severity: "error", kind: "queue", object: "work",
		build: func(w *world) {
			w.exchange("dead", "topic", nil)
			w.queue("parking", "classic", nil)
			w.queue("work", "classic", args{"x-dead-letter-exchange": "dead"})
			w.bind("amq.fanout", "work", "", nil)
		},
		harm:  lostByReject("work"),
		mend:  func(w *world) { w.bind("dead", "parking", "#", nil) },
		works: keptByReject("work", "parking"),
	},
	"expiry": {
		rule: "expiry_without_dlx", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) { w.queue("work", "quorum", args{"x-message-ttl": 200}) },
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.expectGone()
		},
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", deadLetterTo("parking"))
		},
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.expectIn("parking", "kept")
		},
	},
	"length limit": {
		rule: "limit_without_dlx", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) { w.queue("work", "classic", args{"x-max-length": 1}) },
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.publish("", "work", "kept")
			w.expectIn("work", "kept")
			w.expectGone()
		},
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", deadLetterTo("parking"))
		},
		works: func(w *world) {
			w.publish("", "work", "first")
			w.publish("", "work", "second")
			w.expectIn("parking", "first")
			w.expectIn("work", "second")
		},
	},
	"default delivery limit": {
		rule: "default_delivery_limit", severity: "warning", kind: "queue", object: "work", only: from4,
		build: func(w *world) { w.queue("work", "quorum", nil) },
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.putBack("work", 21)
			w.expectGone()
		},
		mend: func(w *world) { w.policy("work", args{"delivery-limit": -1}) },
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.putBack("work", 25)
			w.expectIn("work", "kept")
		},
	},
	"delivery limit": {
		rule: "delivery_limit_without_dlx", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) { w.queue("work", "quorum", args{"x-delivery-limit": 2}) },
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.putBack("work", 3)
			w.expectGone()
		},
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", deadLetterTo("parking"))
		},
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.putBack("work", 3)
			w.expectIn("parking", "kept")
		},
	},
	"parking queue with a delivery limit": {
		rule: "parking_delivery_limit", severity: "error", kind: "queue", object: "parking",
		build: func(w *world) {
			w.queue("parking", "quorum", nil)
			w.policy("parking", args{"delivery-limit": 2})
			w.queue("work", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
		},
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.reject("work")
			w.putBack("parking", 2)
			if before43(w.b) { // from then on the rejection counts as well
				w.putBack("parking", 1)
			}
			w.expectGone()
		},
		mend: func(w *world) {
			if before4(w.b) {
				w.deletePolicy("parking")
			} else {
				w.policy("parking", args{"delivery-limit": -1})
			}
		},
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.reject("work")
			w.putBack("parking", 4)
			w.expectIn("parking", "kept")
		},
	},
	"negative delivery limit": {
		rule: "negative_delivery_limit", severity: "error", kind: "queue", object: "work", only: before4,
		build: func(w *world) { w.queue("work", "quorum", args{"x-delivery-limit": -1}) },
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.putBack("work", 1)
			w.expectGone()
		},
		mend: func(w *world) {
			w.deleteQueue("work")
			w.queue("work", "quorum", nil)
		},
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.putBack("work", 3)
			w.expectIn("work", "kept")
		},
	},
	"cycle of expired messages": {
		rule: "dead_letter_cycle", severity: "error", kind: "queue", object: "wait",
		build: func(w *world) {
			w.queue("work", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
			w.policy("work", args{"message-ttl": 100})
			w.queue("wait", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 100})
		},
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.expectGone()
		},
		mend: func(w *world) { w.deletePolicy("work") },
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.reject("work")
			w.expectIn("work", "kept")
		},
	},
	"cycle of messages over the delivery limit": {
		rule: "dead_letter_cycle", severity: "error", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
			w.policy("work", args{"delivery-limit": 2})
			w.queue("wait", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 100})
		},
		harm: func(w *world) {
			w.publish("", "work", "lost")
			w.putBack("work", 3)
			w.expectGone()
		},
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", args{"delivery-limit": 2, "overflow": "reject-publish"})
			w.deleteQueue("work")
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
		},
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.putBack("work", 3)
			w.expectIn("parking", "kept")
		},
	},
	"hot loop": {
		rule: "hot_loop", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("work", "classic", nil)
			w.policy("work", deadLetterTo("work"))
		},
		harm: func(w *world) {
			w.publish("", "work", "busy")
			w.t.Logf("50 rounds in %s", rounds(w, "work", 50))
		},
		mend: func(w *world) {
			w.queue("wait", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 300})
			w.policy("work", deadLetterTo("wait"))
		},
		works: func(w *world) {
			w.publish("", "work", "slow")
			if took := rounds(w, "work", 2); took < 600*time.Millisecond {
				w.t.Errorf("2 rounds through a wait of 300 ms took %s", took)
			}
		},
	},
	"endless retry": {
		rule: "endless_retry", severity: "info", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("wait", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 20})
			w.queue("work", "classic", nil)
			w.policy("work", deadLetterTo("wait"))
		},
		harm: func(w *world) {
			w.publish("", "work", "for ever")
			rounds(w, "work", 30)
		},
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", deadLetterTo("parking"))
		},
		works: keptByReject("work", "parking"),
	},
	"at-least-once without reject-publish": {
		rule: "at_least_once_without_reject_publish", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.exchange("dead", "fanout", nil)
			w.queue("parking", "classic", nil)
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "dead", "x-dead-letter-strategy": "at-least-once"})
		},
		harm: lostByReject("work"),
		mend: func(w *world) { w.policy("work", args{"overflow": "reject-publish"}) },
		works: func(w *world) {
			w.publish("", "work", "kept")
			w.reject("work")
			w.bind("dead", "parking", "", nil)
			w.policy("work", args{"overflow": "reject-publish", "max-length": 1000}) // makes the queue try again at once
			w.expectIn("parking", "kept")
		},
	},
	"dead-letter routing key without an exchange": {
		rule: "dead_letter_settings_without_exchange", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.queue("work", "classic", nil)
			w.policy("work", args{"dead-letter-routing-key": "parking"})
		},
		harm:  lostByReject("work"),
		mend:  func(w *world) { w.policy("work", deadLetterTo("parking")) },
		works: keptByReject("work", "parking"),
	},
	"delayed retries that are ignored": {
		rule: "delayed_retry_ignored", severity: "warning", kind: "queue", object: "work", only: before43,
		build: func(w *world) {
			w.queue("work", "quorum", args{"x-delayed-retry-type": "all", "x-delayed-retry-min": 60000})
		},
		harm: func(w *world) {
			w.publish("", "work", "at once")
			w.putBack("work", 1)
			w.expectIn("work", "at once")
		},
		mend: func(w *world) {
			w.deleteQueue("work")
			w.queue("wait", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 300})
			w.queue("work", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
		},
		works: func(w *world) {
			began := time.Now()
			w.publish("", "work", "later")
			w.reject("work")
			w.expectIn("work", "later")
			if took := time.Since(began); took < 300*time.Millisecond {
				w.t.Errorf("the message came back after %s", took)
			}
		},
	},
	"policies of equal priority": {
		rule: "equal_priority_policies", severity: "warning", kind: "policy", object: "a",
		build: func(w *world) {
			for _, name := range []string{"a", "b"} {
				w.queue("dead."+name, "classic", nil)
				w.rankedPolicy(name, "^work$", 0, deadLetterTo("dead."+name))
			}
			w.queue("work", "classic", nil)
		},
		harm: func(w *world) { // one of them is not in effect
			w.publish("", "work", "one")
			w.reject("work")
			w.eventually("the message at one of the two targets", func() bool {
				a, _ := w.worker.Drain("dead.a")
				b, _ := w.worker.Drain("dead.b")
				return len(a)+len(b) == 1
			})
		},
		mend:  func(w *world) { w.rankedPolicy("b", "^work$", 1, deadLetterTo("dead.b")) },
		works: keptByReject("work", "dead.b"),
	},
	"full queue that refuses dead letters": {
		rule: "full_queue_refuses_dead_letters", severity: "warning", kind: "queue", object: "parking",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("parking", args{"max-length": 1, "overflow": "reject-publish"})
			w.queue("work", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
		},
		harm: func(w *world) {
			w.publish("", "parking", "full")
			w.publish("", "work", "lost")
			w.reject("work")
			time.Sleep(time.Second) // the dead letter must come while the queue is full
			w.expectIn("parking", "full")
			w.expectGone()
		},
		mend: func(w *world) { w.deletePolicy("parking") },
		works: func(w *world) {
			w.publish("", "parking", "full")
			w.publish("", "work", "kept")
			w.reject("work")
			w.eventually("two messages", func() bool { n, err := w.worker.Ready("parking"); return err == nil && n == 2 })
		},
	},
	"number against text": {
		rule: "header_type_mismatch", severity: "warning", kind: "exchange", object: "steps",
		build: func(w *world) {
			w.exchange("steps", "headers", nil)
			w.queue("first", "classic", nil)
			w.queue("second", "classic", nil)
			w.bind("steps", "first", "", args{"x-match": "all", "count": 1})
			w.bind("steps", "second", "", args{"x-match": "all", "count": "2"})
		},
		harm: func(w *world) { w.expectUnroutable("steps", amqp.Table{"count": int32(2)}) },
		mend: func(w *world) {
			w.unbind("steps", "second")
			w.bind("steps", "second", "", args{"x-match": "all", "count": 2})
		},
		works: func(w *world) {
			w.publishHeaders("steps", "", "kept", amqp.Table{"count": int32(2)})
			w.expectIn("second", "kept")
		},
	},
	"text that is a number": {
		rule: "header_type_mismatch", severity: "info", kind: "exchange", object: "steps",
		build: func(w *world) {
			w.exchange("steps", "headers", nil)
			w.queue("first", "classic", nil)
			w.bind("steps", "first", "", args{"x-match": "all", "count": "1"})
		},
		harm: func(w *world) { w.expectUnroutable("steps", amqp.Table{"count": int32(1)}) },
		mend: func(w *world) {
			w.unbind("steps", "first")
			w.bind("steps", "first", "", args{"x-match": "all", "count": 1})
		},
		works: func(w *world) {
			w.publishHeaders("steps", "", "kept", amqp.Table{"count": int32(1)})
			w.expectIn("first", "kept")
		},
	},
	"policy hidden by another": {
		rule: "hidden_policy", severity: "warning", kind: "policy", object: "retries",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.queue("work", "classic", nil)
			w.rankedPolicy("retries", "^work$", 1, deadLetterTo("parking"))
			w.rankedPolicy("limits", "^work$", 2, args{"max-length": 1000})
		},
		harm: lostByReject("work"),
		mend: func(w *world) {
			w.rankedPolicy("limits", "^work$", 2, args{"max-length": 1000, "dead-letter-exchange": "", "dead-letter-routing-key": "parking"})
		},
		works: keptByReject("work", "parking"),
	},
	"policy ignored because of one key": {
		rule: "ignored_policy", severity: "warning", kind: "policy", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.queue("work", "classic", nil)
			w.policy("work", args{"delivery-limit": 5, "dead-letter-exchange": "", "dead-letter-routing-key": "parking"})
		},
		harm:  lostByReject("work"),
		mend:  func(w *world) { w.policy("work", deadLetterTo("parking")) },
		works: keptByReject("work", "parking"),
	},
	"all skips x-headers": {
		rule: "match_ignores_x_headers", severity: "warning", kind: "binding", object: "steps -> first",
		build: func(w *world) {
			w.exchange("steps", "headers", nil)
			w.queue("first", "classic", nil)
			w.bind("steps", "first", "", args{"x-match": "all", "x-count": 1})
		},
		harm: func(w *world) {
			w.publishHeaders("steps", "", "of somebody else", amqp.Table{"x-count": int32(7)})
			w.expectIn("first", "of somebody else")
		},
		mend: func(w *world) {
			w.unbind("steps", "first")
			w.bind("steps", "first", "", args{"x-match": "all-with-x", "x-count": 1})
		},
		works: func(w *world) { w.expectUnroutable("steps", amqp.Table{"x-count": int32(7)}) },
	},
	"any skips x-headers": {
		rule: "match_ignores_x_headers", severity: "warning", kind: "binding", object: "steps -> first",
		build: func(w *world) {
			w.exchange("steps", "headers", nil)
			w.queue("first", "classic", nil)
			w.bind("steps", "first", "", args{"x-match": "any", "x-count": 1})
		},
		harm: func(w *world) { w.expectUnroutable("steps", amqp.Table{"x-count": int32(1)}) },
		mend: func(w *world) {
			w.unbind("steps", "first")
			w.bind("steps", "first", "", args{"x-match": "any-with-x", "x-count": 1})
		},
		works: func(w *world) {
			w.publishHeaders("steps", "", "kept", amqp.Table{"x-count": int32(1)})
			w.expectIn("first", "kept")
		},
	},
	"missing alternate exchange": {
		rule: "missing_alternate_exchange", severity: "error", kind: "exchange", object: "events",
		build: func(w *world) {
			w.exchange("events", "direct", nil)
			w.policy("events", args{"alternate-exchange": "unrouted"})
		},
		harm: func(w *world) { w.expectUnroutable("events", nil) },
		mend: func(w *world) {
			w.exchange("unrouted", "fanout", nil)
			w.queue("unrouted", "classic", nil)
			w.bind("unrouted", "unrouted", "", nil)
		},
		works: func(w *world) {
			w.publish("events", "any", "kept")
			w.expectIn("unrouted", "kept")
		},
	},
	"no dead-letter exchange": {
		rule: "no_dead_letter_exchange", severity: "info", kind: "queue", object: "work",
		build: func(w *world) { w.queue("work", "classic", nil) },
		harm:  lostByReject("work"),
		mend: func(w *world) {
			w.queue("parking", "classic", nil)
			w.policy("work", deadLetterTo("parking"))
		},
		works: keptByReject("work", "parking"),
	},
	"return to several queues": {
		rule: "retry_reaches_several_queues", severity: "warning", kind: "queue", object: "wait",
		build: func(w *world) {
			w.exchange("return", "fanout", nil)
			w.queue("wait", "classic", args{"x-dead-letter-exchange": "return", "x-message-ttl": 100})
			for _, name := range []string{"work", "other"} {
				w.queue(name, "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
				w.bind("return", name, "", nil)
			}
		},
		harm: func(w *world) {
			w.publish("", "work", "doubled")
			w.reject("work")
			w.expectIn("work", "doubled")
			w.expectIn("other", "doubled")
		},
		mend: func(w *world) { w.unbind("return", "other") },
		works: func(w *world) {
			w.publish("", "work", "once")
			w.reject("work")
			w.expectIn("work", "once")
			w.expectGone()
		},
	},
	"shortened wait": {
		rule: "shortened_wait", severity: "warning", kind: "queue", object: "wait",
		build: func(w *world) {
			w.queue("work", "classic", nil)
			w.queue("wait", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 60000})
			w.policy("wait", args{"message-ttl": 100})
		},
		harm: func(w *world) {
			w.publish("", "wait", "early")
			w.expectIn("work", "early")
		},
		mend: func(w *world) { w.deletePolicy("wait") },
		works: func(w *world) {
			w.publish("", "wait", "waits")
			w.expectIn("wait", "waits")
		},
	},
	"misspelt argument": {
		rule: "unknown_argument", severity: "warning", kind: "queue", object: "work",
		build: func(w *world) {
			w.queue("parking", "classic", nil)
			w.exchange("dead", "fanout", nil)
			w.bind("dead", "parking", "", nil)
			w.queue("work", "classic", args{"x-dead-leter-exchange": "dead"})
		},
		harm: lostByReject("work"),
		mend: func(w *world) {
			w.deleteQueue("work")
			w.queue("work", "classic", args{"x-dead-letter-exchange": "dead"})
		},
		works: keptByReject("work", "parking"),
	},
	"waiting queue that expires": {
		rule: "waiting_queue_expires", severity: "error", kind: "queue", object: "wait",
		build: func(w *world) {
			w.queue("work", "classic", nil)
			w.queue("wait", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 60000})
			w.policy("wait", args{"expires": 2000})
		},
		harm: func(w *world) {
			w.publish("", "wait", "lost")
			w.expectNoQueue("wait")
			w.expectGone()
		},
		mend: func(w *world) {
			w.deletePolicy("wait")
			w.queue("wait", "quorum", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 2500})
		},
		works: func(w *world) {
			w.publish("", "wait", "kept")
			w.expectIn("work", "kept")
		},
	},
	"waiting queue with a length limit": {
		rule: "waiting_queue_limit", severity: "warning", kind: "queue", object: "wait",
		build: func(w *world) {
			w.queue("work", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "wait"})
			w.queue("wait", "classic", args{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "work", "x-message-ttl": 60000})
			w.policy("wait", args{"max-length": 1})
		},
		harm: func(w *world) {
			w.publish("", "work", "early")
			w.reject("work")
			w.publish("", "work", "waits")
			w.reject("work")
			w.expectIn("work", "early")
			w.expectIn("wait", "waits")
		},
		mend: func(w *world) { w.deletePolicy("wait") },
		works: func(w *world) {
			for _, id := range []string{"first", "second"} {
				w.publish("", "work", id)
				w.reject("work")
			}
			w.eventually("two messages that wait", func() bool { n, err := w.worker.Ready("wait"); return err == nil && n == 2 })
		},
	},
}

// untested are the rules that no test of this table shows, and where they are
// tested.
var untested = map[string]string{
	"delayed_message_exchange":       "audit.TestRulesWithoutBroker: the plugin has no release for the brokers of the tests",
	"deprecated_feature":             "TestAccDeprecatedFeature",
	"shovel_without_acknowledgement": "audit.TestShovels, broker.TestShovels: the brokers of the tests have no shovel plugin",
	"stream_deletes_dead_letters":    "audit.TestRulesWithoutBroker: a stream deletes whole segments, of 500 MB by default",
}

// TestEveryRuleIsTested fails for a rule that no test shows.
func TestEveryRuleIsTested(t *testing.T) {
	tested := map[string]bool{}
	for _, test := range ruleTests {
		tested[test.rule] = true
	}
	for _, rule := range audit.Rules() {
		if elsewhere := untested[rule.ID] != ""; tested[rule.ID] == elsewhere {
			t.Errorf("rule %s: in the table %t, elsewhere %t", rule.ID, tested[rule.ID], elsewhere)
		}
	}
}

func TestAccRules(t *testing.T) {
	t.Parallel()
	for name, test := range ruleTests {
		brokers := acctest.Brokers(t)
		if test.only == nil {
			brokers = rabbit.Spread(name, brokers)
		}
		for _, b := range brokers {
			t.Run(name+"/"+b.Name, func(t *testing.T) {
				t.Parallel()
				test.run(t, b)
			})
		}
	}
}

func (test ruleTest) run(t *testing.T, b *rabbit.Broker) {
	t.Helper()
	w := newWorld(t, b)
	test.build(w)
	found := w.audit()
	if test.only != nil && !test.only(b) {
		if slices.ContainsFunc(found, test.is) {
			t.Errorf("a finding that does not hold on this broker: %v", found)
		}
		return
	}
	if !slices.ContainsFunc(found, test.is) {
		t.Fatalf("no finding %s %s on %s %q in %v", test.severity, test.rule, test.kind, test.object, found)
	}
	test.harm(w)
	test.mend(w)
	if found := w.audit(); slices.ContainsFunc(found, func(f finding) bool { return f.Rule == test.rule && f.Severity == test.severity }) {
		t.Errorf("it is mended and still found: %v", found)
	}
	test.works(w)
}

func (test ruleTest) is(f finding) bool {
	return f.Rule == test.rule && f.Severity == test.severity && f.Kind == test.kind && f.Name == test.object && f.Message != "" && f.Fix != "" && f.Source != ""
}
