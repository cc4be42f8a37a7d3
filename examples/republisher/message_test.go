package main

import (
	"context"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"
)

func TestCount(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		headers amqp.Table
		want    int64
	}{
		{"no headers", nil, 1},
		{"no such header", amqp.Table{"Count": int64(3)}, 1},
		{"zero", amqp.Table{"count": int64(0)}, 1},
		{"int8", amqp.Table{"count": int8(math.MaxInt8)}, 128},
		{"uint8", amqp.Table{"count": uint8(math.MaxUint8)}, 256},
		{"int16", amqp.Table{"count": int16(2)}, 3},
		{"uint16", amqp.Table{"count": uint16(math.MaxUint16)}, 65536},
		{"int32", amqp.Table{"count": int32(2)}, 3},
		{"uint32", amqp.Table{"count": uint32(math.MaxUint32)}, 1 << 32},
		{"int64", amqp.Table{"count": int64(2)}, 3},
		{"the largest", amqp.Table{"count": int64(math.MaxInt64)}, park},
		{"parked before", amqp.Table{"count": park}, park},
		{"negative", amqp.Table{"count": int32(-7)}, park},
		{"text", amqp.Table{"count": "2"}, park},
		{"float", amqp.Table{"count": 2.0}, park},
		{"void", amqp.Table{"count": nil}, park},
		{"boolean", amqp.Table{"count": true}, park},
		{"array", amqp.Table{"count": []any{int64(2)}}, park},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := count(test.headers, "count"); got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

func TestRetryDropsWhatIsTheBrokers(t *testing.T) {
	t.Parallel()
	d := amqp.Delivery{
		Headers: amqp.Table{
			"x-death":                []any{amqp.Table{"queue": "orders"}},
			"x-first-death-exchange": "",
			"x-first-death-queue":    "orders",
			"x-first-death-reason":   "expired",
			"x-last-death-exchange":  "",
			"x-last-death-queue":     "orders",
			"x-last-death-reason":    "rejected",
			"x-delivery-count":       int64(1),
			"x-acquired-count":       int64(1),
			"CC":                     []any{"a"},
			"BCC":                    []any{"b"},
			"x-request-id":           "kept",
			"cc":                     "kept",
			"retries":                int32(1),
		},
		Expiration: "60000",
		UserId:     "somebody",
	}
	want := amqp.Publishing{Headers: amqp.Table{"x-request-id": "kept", "cc": "kept", "retries": int64(2)}}
	before := maps.Clone(d.Headers)
	if got := retry(d, "retries", "republisher"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
	if !reflect.DeepEqual(d.Headers, before) {
		t.Error("the delivery itself was changed")
	}
}

// TestRetryKeeps checks that a retry is the failed message but for the count,
// the broker's own headers, the expiration and the id of another user.
func TestRetryKeeps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := delivery(t)
		got := retry(d, "count", "me")
		if got.Expiration != "" {
			t.Errorf("expiration %q", got.Expiration)
		}
		if want := d.UserId; want == "me" && got.UserId != want || want != "me" && got.UserId != "" {
			t.Errorf("user id %q of %q", got.UserId, want)
		}
		if _, ok := got.Headers["count"].(int64); !ok {
			t.Errorf("the count is a %T", got.Headers["count"])
		}
		want := maps.Clone(d.Headers)
		maps.DeleteFunc(want, func(name string, _ any) bool { return slices.Contains(brokerHeaders, name) || name == "count" })
		kept := maps.Clone(got.Headers)
		delete(kept, "count")
		if !maps.EqualFunc(want, kept, reflect.DeepEqual) {
			t.Errorf("headers %v of %v", got.Headers, d.Headers)
		}
		checkProperties(t, d, got)
	})
}

// checkProperties compares every property that a delivery and a publishing have
// in common, those of a later version of AMQP's client too.
func checkProperties(t *rapid.T, d amqp.Delivery, got amqp.Publishing) {
	changed := []string{"Headers", "Expiration", "UserId"}
	from, to := reflect.ValueOf(d), reflect.ValueOf(got)
	for _, field := range reflect.VisibleFields(to.Type()) {
		if slices.Contains(changed, field.Name) {
			continue
		}
		want, have := from.FieldByName(field.Name).Interface(), to.FieldByIndex(field.Index).Interface()
		if !reflect.DeepEqual(want, have) {
			t.Errorf("%s is %v, was %v", field.Name, have, want)
		}
	}
}

var brokerHeaders = []string{
	"x-death", "x-first-death-queue", "x-first-death-reason", "x-first-death-exchange", "x-last-death-queue",
	"x-last-death-reason", "x-last-death-exchange", "x-delivery-count", "x-acquired-count", "CC", "BCC",
}

// delivery draws a delivery with any properties.
func delivery(t *rapid.T) amqp.Delivery {
	text := rapid.StringN(0, 20, -1)
	name := rapid.OneOf(text, rapid.SampledFrom(brokerHeaders),
		rapid.SampledFrom([]string{"count", "x-request-id", "x-deaths", "x-first", "cc"}))
	value := rapid.OneOf(text.AsAny(), rapid.Int64().AsAny(), rapid.Int32().AsAny(),
		rapid.Uint8().AsAny(), rapid.Bool().AsAny(), rapid.Float64Range(-9, 9).AsAny())
	return amqp.Delivery{
		Headers:         rapid.MapOf(name, value).Draw(t, "headers"),
		ContentType:     text.Draw(t, "content type"),
		ContentEncoding: text.Draw(t, "content encoding"),
		DeliveryMode:    rapid.Uint8Range(0, 2).Draw(t, "delivery mode"),
		Priority:        rapid.Uint8().Draw(t, "priority"),
		CorrelationId:   text.Draw(t, "correlation id"),
		ReplyTo:         text.Draw(t, "reply to"),
		Expiration:      text.Draw(t, "expiration"),
		MessageId:       text.Draw(t, "message id"),
		Timestamp:       time.Unix(rapid.Int64Range(0, 1<<40).Draw(t, "timestamp"), 0),
		Type:            text.Draw(t, "type"),
		UserId:          rapid.SampledFrom([]string{"", "me", "other"}).Draw(t, "user id"),
		AppId:           text.Draw(t, "app id"),
		Body:            rapid.SliceOf(rapid.Byte()).Draw(t, "body"),
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	good := config{address: "amqps://me:secret@host/vhost", queue: "orders.failed", exchange: "orders.retry", header: "count", prefetch: 20}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for _, test := range []struct {
		name  string
		spoil func(*config)
		want  string
	}{
		{"no address", func(c *config) { c.address = "" }, "set AMQP_URL"},
		{"scheme", func(c *config) { c.address = "http://me:secret@host" }, "not an AMQP URL"},
		{"port", func(c *config) { c.address = "amqp://me:secret#1@host" }, "not an AMQP URL"},
		{"escape", func(c *config) { c.address = "amqp://me:secret%zz@host" }, "not an AMQP URL"},
		{"space", func(c *config) { c.address = "amqp://me:secret 1@host" }, "not an AMQP URL"},
		{"no queue", func(c *config) { c.queue = "" }, "must not be empty"},
		{"no exchange", func(c *config) { c.exchange = "" }, "must not be empty"},
		{"no header", func(c *config) { c.header = "" }, "must not be empty"},
		{"header of the broker", func(c *config) { c.header = "x-count" }, `-header "x-count"`},
		{"CC", func(c *config) { c.header = "CC" }, `-header "CC"`},
		{"prefetch too small", func(c *config) { c.prefetch = 0 }, "-prefetch 0"},
		{"prefetch too large", func(c *config) { c.prefetch = 1001 }, "-prefetch 1001"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := good
			test.spoil(&c)
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

func TestBackoff(t *testing.T) {
	t.Parallel()
	var b backoff
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range 12 {
		if b.wait(ctx) {
			t.Fatal("waited although the context had ended")
		}
		if want := min(firstPause<<i, longestPause); time.Duration(b) != want {
			t.Errorf("pause %d is %s, want %s", i+1, time.Duration(b), want)
		}
	}
	b = 0
	began := time.Now()
	if !b.wait(t.Context()) || time.Since(began) < firstPause/2 {
		t.Errorf("waited %s", time.Since(began))
	}
}
