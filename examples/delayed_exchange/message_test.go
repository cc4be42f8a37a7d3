package main

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func example() *config {
	return &config{
		address: "amqps://me:secret@host/vhost", chain: "orders", header: "count", prefetch: 20, user: "me",
		delays: []time.Duration{time.Second, time.Minute},
	}
}

// died is the x-death header of a message that died for these reasons, the latest
// first.
func died(reasons ...string) []any {
	var deaths []any
	for _, reason := range reasons {
		deaths = append(deaths, amqp.Table{"queue": "orders", "reason": reason, "count": int64(1)})
	}
	return deaths
}

func TestFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		deaths   any
		count    any
		exchange string
		want     int64
		delay    time.Duration
	}{
		{"first", died("rejected"), nil, "orders.wait", 1, time.Second},
		{"second", died("rejected"), int32(1), "orders.wait", 2, time.Minute},
		{"last", died("rejected"), int64(2), "orders.parking", 3, 0},
		{"beyond", died("rejected"), int64(77), "orders.parking", 78, 0},
		{"largest", died("rejected"), int64(math.MaxInt64), "orders.parking", park, 0},
		{"parked before", died("rejected"), park, "orders.parking", park, 0},
		{"text", died("rejected"), "1", "orders.parking", park, 0},
		{"expired", died("expired"), nil, "orders.parking", park, 0},
		{"expired after a rejection", died("expired", "rejected"), int64(1), "orders.parking", park, 0},
		{"rejected after it expired elsewhere", died("rejected", "expired"), nil, "orders.wait", 1, time.Second},
		{"over the delivery limit", died("delivery_limit"), nil, "orders.parking", park, 0},
		{"never died", nil, nil, "orders.parking", park, 0},
		{"strange deaths", "rejected", nil, "orders.parking", park, 0},
		{"strange death", []any{"rejected"}, nil, "orders.parking", park, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := amqp.Delivery{Headers: amqp.Table{"x-death": test.deaths}}
			if test.count != nil {
				d.Headers["count"] = test.count
			}
			want := amqp.Table{"count": test.want}
			if test.delay > 0 {
				want["x-delay"] = test.delay.Milliseconds()
			}
			got := example().failed(d)
			if got.exchange != test.exchange || got.delay != test.delay || !reflect.DeepEqual(got.message.Headers, want) {
				t.Errorf("to %s with delay %s and headers %v", got.exchange, got.delay, got.message.Headers)
			}
		})
	}
}

// A delay of zero is not held back, and so the message can be mandatory.
func TestFailedWithoutDelay(t *testing.T) {
	t.Parallel()
	c := example()
	c.delays = []time.Duration{0}
	if got := c.failed(amqp.Delivery{Headers: amqp.Table{"x-death": died("rejected")}}); got.exchange != "orders.wait" || got.delay != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestDue(t *testing.T) {
	t.Parallel()
	d := amqp.Delivery{
		Headers: amqp.Table{
			"x-death": died("rejected"), "x-first-death-reason": "rejected", "x-last-death-queue": "orders", "x-delivery-count": int64(1),
			"x-acquired-count": int64(1), "x-delay": int32(-1000), "CC": []any{"a"}, "BCC": []any{"b"}, "count": int64(2), "x-request-id": "kept",
		},
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 9, CorrelationId: "c", ReplyTo: "r",
		Expiration: "60000", MessageId: "m", Timestamp: time.Unix(1, 0), Type: "t", UserId: "me", AppId: "a", Body: []byte("{}"),
	}
	want := amqp.Publishing{
		Headers:     amqp.Table{"count": int64(2), "x-request-id": "kept"},
		ContentType: "application/json", ContentEncoding: "gzip", DeliveryMode: amqp.Persistent, Priority: 9, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Timestamp: time.Unix(1, 0), Type: "t", UserId: "me", AppId: "a", Body: []byte("{}"),
	}
	before := len(d.Headers)
	got := example().due(d)
	if got.exchange != "orders.return" || got.delay != 0 || !reflect.DeepEqual(got.message, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if len(d.Headers) != before {
		t.Error("the delivery itself was changed")
	}
	d.UserId = "other"
	if got := example().due(d); got.message.UserId != "" {
		t.Errorf("user id %q", got.message.UserId)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := example().check(); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(*config)
		want  string
	}{
		{"no address", func(c *config) { c.address = "" }, "set AMQP_URL"},
		{"scheme", func(c *config) { c.address = "http://me:secret@host" }, "not an AMQP URL"},
		{"no chain", func(c *config) { c.chain = "" }, "must not be empty"},
		{"no header", func(c *config) { c.header = "" }, "must not be empty"},
		{"header of the broker", func(c *config) { c.header = "x-count" }, `-header "x-count"`},
		{"prefetch too small", func(c *config) { c.prefetch = 0 }, "-prefetch 0"},
		{"prefetch too large", func(c *config) { c.prefetch = 1001 }, "-prefetch 1001"},
		{"negative delay", func(c *config) { c.delays[0] = -1 }, "-delays"},
		{"delay too long", func(c *config) { c.delays[1] = longestDelay + time.Millisecond }, "-delays"},
		{"delay too fine", func(c *config) { c.delays[1] = time.Microsecond }, "-delays"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := example()
			test.spoil(c)
			err := c.check()
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("got %v, want an error with %q", err, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the error shows the password: %s", err)
			}
		})
	}
}

func TestSetDelays(t *testing.T) {
	t.Parallel()
	var c config
	if err := c.setDelays("5s,1m30s"); err != nil || !reflect.DeepEqual(c.delays, []time.Duration{5 * time.Second, 90 * time.Second}) {
		t.Errorf("%v, %v", c.delays, err)
	}
	if err := c.setDelays("5s,soon"); err == nil {
		t.Error("\"soon\" is taken for a duration")
	}
}
