package deadletter

import (
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// died is an entry of x-death, with its time in seconds.
func died(queue, reason, exchange string, count, at int64, keys ...any) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "exchange": exchange, "count": count, "time": time.Unix(at, 0), "routing-keys": keys}
}

// Headers as the brokers wrote them for chains and for queues of other makes.
func TestDeaths(t *testing.T) {
	for name, c := range map[string]struct {
		headers             amqp.Table
		origin, reason, key string
		attempts            int64
		first, last         int64
	}{
		"3.10, routing keys that count: the order is turned round": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "rejected", "x-first-death-exchange": "in",
				"x-death": []any{
					died("work", "rejected", "in", 3, 100, "order.created"),
					died("t1", "expired", "retry", 1, 101, "order.created"),
					died("t2", "expired", "retry", 1, 105, "attempt.1"),
				},
			},
			origin: "work", reason: "rejected", key: "order.created", attempts: 3, first: 100, last: 105,
		},
		"4.x, strategy headers": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "rejected",
				"x-last-death-queue": "work", "x-last-death-reason": "rejected",
				"x-death": []any{died("work", "rejected", "in", 2, 100, "k"), died("t1", "expired", "retry", 1, 105, "k")},
			},
			origin: "work", reason: "rejected", key: "k", attempts: 2, first: 100, last: 105,
		},
		"the delivery limit after a retry": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "rejected", "x-last-death-queue": "work",
				"x-death": []any{
					died("work", "delivery_limit", "return", 1, 110, "k"), died("t1", "expired", "retry", 1, 105, "k"), died("work", "rejected", "in", 1, 100, "k"),
				},
			},
			origin: "work", reason: "delivery_limit", key: "k", attempts: 2, first: 100, last: 110,
		},
		"expired in the work queue after a retry": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "rejected", "x-last-death-queue": "work",
				"x-death": []any{died("work", "expired", "return", 1, 110, "k"), died("t1", "expired", "retry", 1, 105, "k"), died("work", "rejected", "in", 1, 100, "k")},
			},
			origin: "work", reason: "expired", key: "k", attempts: 1, first: 100, last: 110,
		},
		"came out of a waiting queue": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "rejected", "x-last-death-queue": "t9",
				"x-death": []any{died("t9", "expired", "t9", 1, 109, "other"), died("work", "rejected", "in", 1, 100, "k")},
			},
			origin: "work", reason: "rejected", key: "k", attempts: 1, first: 100, last: 109,
		},
		"only ever expired": {
			headers: amqp.Table{
				"x-first-death-queue": "work", "x-first-death-reason": "expired", "x-last-death-queue": "wait",
				"x-death": []any{died("wait", "expired", "dlx", 1, 101, "k2"), died("work", "expired", "in", 1, 100, "k")},
			},
			origin: "work", reason: "expired", key: "k", first: 100, last: 101,
		},
		"failed in a second queue later": {
			headers: amqp.Table{
				"x-first-death-queue": "one", "x-first-death-reason": "rejected", "x-last-death-queue": "two",
				"x-death": []any{died("two", "rejected", "dlx", 4, 120, "one"), died("one", "rejected", "in", 7, 100, "k")},
			},
			origin: "two", reason: "rejected", key: "k", attempts: 4, first: 100, last: 120,
		},
		"expired in the work queue of a chain after it failed elsewhere": {
			headers: amqp.Table{
				"x-first-death-queue": "one", "x-first-death-reason": "rejected", "x-last-death-queue": "work of a chain",
				"x-death": []any{died("work of a chain", "expired", "dlx", 1, 120, "one"), died("one", "rejected", "in", 7, 100, "k")},
			},
			origin: "work of a chain", reason: "expired", key: "k", first: 100, last: 120,
		},
		"expired in a tier of a chain after it failed there": {
			headers: amqp.Table{
				"x-first-death-queue": "work of a chain", "x-first-death-reason": "rejected", "x-last-death-queue": "tier of a chain",
				"x-death": []any{died("tier of a chain", "expired", "dlx", 1, 120, "one"), died("work of a chain", "rejected", "in", 7, 100, "k")},
			},
			origin: "work of a chain", reason: "rejected", key: "k", attempts: 7, first: 100, last: 120,
		},
		"nonsense of a publisher": {
			headers: amqp.Table{"x-death": []any{"x", amqp.Table{"count": "many"}, int32(1), nil}, "x-first-death-queue": int32(3)},
			key:     "delivered",
		},
		"half an entry": {
			headers: amqp.Table{"x-death": []any{amqp.Table{"queue": "q"}}},
			origin:  "q",
		},
		"no array": {headers: amqp.Table{"x-death": "x"}, key: "delivered"},
		"nothing":  {key: "delivered"},
	} {
		p := Read(amqp.Delivery{Headers: c.headers, RoutingKey: "delivered", Exchange: "parking"}, 1, func(queue string) string {
			if strings.HasSuffix(queue, " of a chain") {
				return "work of a chain"
			}
			return ""
		})
		if p.OriginQueue != c.origin || p.Reason != c.reason || p.RoutingKey != c.key || p.Attempts != c.attempts {
			t.Errorf("%s: %+v", name, p)
		}
		if unix(p.FirstDeath) != c.first || unix(p.LastDeath) != c.last {
			t.Errorf("%s: %s to %s", name, p.FirstDeath, p.LastDeath)
		}
	}
}

func unix(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func TestHeadersJSON(t *testing.T) {
	p := Message{Delivery: amqp.Delivery{Headers: amqp.Table{
		"x-death": "x", "x-first-death-queue": "q", "x-last-death-reason": "r", "x-delivery-count": int64(4), "x-acquired-count": int64(4),
		"x-own": "kept", "i8": int8(-1), "i64": int64(1) << 62, "f": float32(0.5), "d": amqp.Decimal{Scale: 2, Value: 5}, "d0": amqp.Decimal{Value: 7},
		"time": time.Unix(0, 0), "bytes": []byte{0}, "text": "\xff", "nil": nil, "list": []any{amqp.Table{"a": true}},
	}}}
	const want = `{"bytes":"AA==","d":"0.05","d0":"7","f":0.5,"i64":4611686018427387904,"i8":-1,"list":[{"a":true}],"nil":null,"text":"/w==",` +
		`"time":"1970-01-01T00:00:00Z","x-own":"kept"}`
	if got := p.HeadersJSON(); got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
	if got := (Message{}).HeadersJSON(); got != "{}" {
		t.Error(got)
	}
}
