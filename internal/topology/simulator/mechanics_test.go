package simulator_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// Only the head of a queue expires: a short time-to-live behind a long one has
// to wait.
func TestOnlyTheHeadExpires(t *testing.T) {
	b := start(t, "4.0.5", queue("q", topology.Classic, arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead"}),
		queue("dead", topology.Classic, nil))
	long := send(t, b, simulator.Publishing{RoutingKey: "q", Expiration: new(10 * time.Second)})
	short := send(t, b, simulator.Publishing{RoutingKey: "q", Expiration: new(time.Second)})
	b.Advance(9 * time.Second)
	wantFates(t, b, short, `ready in "q"`)
	b.Advance(time.Second)
	wantFates(t, b, long, `ready in "dead"`)
	wantFates(t, b, short, `ready in "dead"`)
}

// The smaller of the two times-to-live counts, and it is fixed when the message
// comes.
func TestTimeToLive(t *testing.T) {
	b := start(t, "4.0.5", queue("q", topology.Quorum, arguments{topology.MessageTTL: int64(5000)}))
	own := send(t, b, simulator.Publishing{RoutingKey: "q", Expiration: new(time.Second)})
	b.Advance(time.Second)
	wantFates(t, b, own, `lost in "q" (the queue has no dead-letter exchange)`)
	queues := send(t, b, simulator.Publishing{RoutingKey: "q", Expiration: new(time.Hour)})
	q, _ := b.Topology().Queue("q")
	q.Arguments = q.Arguments.Clone()
	q.Arguments[topology.MessageTTL] = int64(10)
	must(t, b.Reconfigure(q))
	b.Advance(4999 * time.Millisecond)
	wantFates(t, b, queues, `ready in "q"`)
	b.Advance(time.Millisecond)
	wantFates(t, b, queues, `lost in "q" (the queue has no dead-letter exchange)`)
}

func TestTimeToLiveOfZero(t *testing.T) {
	for kind, lasts := range map[topology.QueueType]time.Duration{topology.Classic: 0, topology.Quorum: time.Millisecond} {
		b := start(t, "4.0.5", queue("q", kind, arguments{topology.MessageTTL: int64(0)}))
		id := send(t, b, simulator.Publishing{RoutingKey: "q"})
		b.Advance(lasts)
		if losses := b.Losses(id); len(losses) != 1 || losses[0].At != lasts || losses[0].Reason != simulator.Expired {
			t.Errorf("%s: %+v", kind, losses)
		}
	}
}

func TestLengthLimits(t *testing.T) {
	limit := func(overflow string) arguments {
		return arguments{topology.MaxLength: int64(2), topology.Overflow: overflow, topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead"}
	}
	tests := []struct {
		name     string
		kind     topology.QueueType
		overflow string
		// The fates of the first and of the last of five messages.
		first, last string
	}{
		{"classic drop-head", topology.Classic, "drop-head", `ready in "dead"`, `ready in "q"`},
		{"quorum drop-head", topology.Quorum, "drop-head", `ready in "dead"`, `ready in "q"`},
		{"classic reject-publish", topology.Classic, "reject-publish", `ready in "q"`, `refused`},
		{"classic reject-publish-dlx", topology.Classic, "reject-publish-dlx", `ready in "q"`, `ready in "dead"`},
		{"quorum reject-publish", topology.Quorum, "reject-publish", `ready in "q"`, `refused`},
		{"quorum reject-publish-dlx", topology.Quorum, "reject-publish-dlx", `ready in "dead"`, `ready in "q"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := start(t, "4.0.5", queue("q", test.kind, limit(test.overflow)), queue("dead", topology.Classic, nil))
			var ids []simulator.ID
			for range 5 {
				ids = append(ids, send(t, b, simulator.Publishing{RoutingKey: "q"}))
			}
			wantFates(t, b, ids[0], test.first)
			wantFates(t, b, ids[4], test.last)
		})
	}
}

func TestLengthLimitInBytes(t *testing.T) {
	b := start(t, "4.0.5", queue("q", topology.Classic, arguments{topology.MaxLengthBytes: int64(10)}))
	for range 3 {
		send(t, b, simulator.Publishing{RoutingKey: "q", Body: "12345"})
	}
	if got := b.Depth("q").Ready; got != 2 {
		t.Errorf("%d messages", got)
	}
}

// A message that a classic queue gets back goes to its old place; a quorum queue
// serves it first, or last when it has no delivery limit before 4.3.
func TestRequeueOrder(t *testing.T) {
	unlimited := arguments{topology.DeliveryLimit: int64(-1)}
	tests := []struct {
		version   string
		kind      topology.QueueType
		arguments arguments
		crash     bool
		want      string
	}{
		{"4.0.5", topology.Classic, nil, false, "abc"},
		{"3.10.8", topology.Quorum, nil, false, "cab"},
		{"3.10.8", topology.Quorum, nil, true, "abc"},
		{"3.10.8", topology.Quorum, arguments{topology.DeliveryLimit: int64(5)}, false, "abc"},
		{"4.0.5", topology.Quorum, unlimited, false, "cab"},
		{"4.3.6", topology.Quorum, unlimited, false, "abc"},
	}
	for _, test := range tests {
		b := start(t, test.version, queue("q", test.kind, test.arguments))
		for _, body := range []string{"a", "b", "c"} {
			send(t, b, simulator.Publishing{RoutingKey: "q", Body: body})
		}
		taken := []simulator.Delivery{get(t, b, "q"), get(t, b, "q")}
		for _, d := range taken {
			if test.crash {
				must(t, b.Crash(d))
			} else {
				must(t, b.Nack(d, true))
			}
		}
		order := ""
		for range 3 {
			order += get(t, b, "q").Body
		}
		if order != test.want {
			t.Errorf("%s %s %v: %s, want %s", test.version, test.kind, test.arguments, order, test.want)
		}
	}
}

// What a message carries after two rounds through a work queue and a tier.
func TestDeathHeaders(t *testing.T) {
	b := start(t, "4.0.5",
		queue("work", topology.Classic, arguments{topology.DeadLetterExchange: "retry"}),
		queue("tier", topology.Classic, arguments{topology.DeadLetterExchange: "return", topology.DeadLetterRoutingKey: "back", topology.MessageTTL: int64(1000)}),
		exchange("in", topology.Fanout, nil), exchange("retry", topology.Fanout, nil), exchange("return", topology.Fanout, nil),
		bind("in", "work", nil), bind("retry", "tier", nil), bind("return", "work", nil))
	send(t, b, simulator.Publishing{
		Exchange: "in", RoutingKey: "k", Expiration: new(time.Minute),
		Headers: arguments{"CC": []any{"copy"}, "BCC": []any{"hidden"}, "x-first-death-queue": "spoofed", "x-death": "spoofed", "mine": int64(1)},
	})
	for range 2 {
		must(t, b.Reject(get(t, b, "work"), false))
		b.Advance(time.Second)
	}
	d := get(t, b, "work")
	want := []simulator.Death{
		{Queue: "tier", Reason: "expired", Count: 2, Exchange: "retry", RoutingKeys: []string{"k", "copy"}, Time: time.Second},
		{Queue: "work", Reason: "rejected", Count: 2, Exchange: "in", RoutingKeys: []string{"k", "copy"}, Expiration: "60000"},
	}
	if !slices.EqualFunc(d.Deaths, want, func(a, b simulator.Death) bool {
		return slices.Equal(a.RoutingKeys, b.RoutingKeys) && a.Queue == b.Queue && a.Reason == b.Reason && a.Count == b.Count &&
			a.Exchange == b.Exchange && a.Time == b.Time && a.Expiration == b.Expiration
	}) {
		t.Errorf("deaths %+v\nwant   %+v", d.Deaths, want)
	}
	for key, value := range map[string]any{
		"x-first-death-queue": "work", "x-first-death-reason": "rejected", "x-first-death-exchange": "in",
		"x-last-death-queue": "tier", "x-last-death-reason": "expired", "x-last-death-exchange": "retry", "mine": int64(1),
	} {
		if d.Headers[key] != value {
			t.Errorf("%s is %v, want %v", key, d.Headers[key], value)
		}
	}
	if _, there := d.Headers["BCC"]; there || d.Expiration != nil || d.RoutingKey != "back" || d.Exchange != "return" {
		t.Errorf("%+v", d)
	}
}

// The header CC goes with a dead-letter routing key until 3.12 and stays from
// 3.13 on; x-last-death-* exist from 3.13 on.
func TestHeadersByVersion(t *testing.T) {
	for version, modern := range map[string]bool{"3.10.8": false, "3.12.14": false, "3.13.7": true, "4.0.5": true, "4.3.6": true} {
		b := start(t, version, queue("q", topology.Classic, arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead"}),
			queue("dead", topology.Classic, nil))
		send(t, b, simulator.Publishing{RoutingKey: "q", Headers: arguments{"CC": []any{"copy"}}})
		must(t, b.Reject(get(t, b, "q"), false))
		d := get(t, b, "dead")
		_, cc := d.Headers["CC"]
		_, last := d.Headers["x-last-death-reason"]
		if cc != modern || last != modern || d.Headers["x-first-death-reason"] != "rejected" {
			t.Errorf("%s: %v", version, d.Headers)
		}
	}
}

// Until 3.13 a publisher's x-death is taken for history: counts go on, and a
// message can be dropped for a cycle that it did not go through.
func TestTrustedHistory(t *testing.T) {
	history := arguments{"x-death": []any{map[string]any{"queue": "work", "reason": "expired", "count": int64(7), "exchange": "", "routing-keys": []any{"k"}}}}
	for version, trusted := range map[string]bool{"3.10.8": true, "3.13.0": false, "3.13.7": true, "4.0.5": false} {
		b := start(t, version,
			queue("wait", topology.Classic, arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "work", topology.MessageTTL: int64(10)}),
			queue("work", topology.Classic, nil))
		id := send(t, b, simulator.Publishing{RoutingKey: "wait", Headers: history})
		b.Advance(time.Second)
		if trusted {
			wantFates(t, b, id, `lost in "wait" (a cycle without a rejection)`)
		} else {
			wantFates(t, b, id, `ready in "work"`)
		}
	}
}

func TestAccount(t *testing.T) {
	b := start(t, "4.0.5", exchange("x", topology.Fanout, nil), queue("a", topology.Classic, nil), queue("b", topology.Classic, nil),
		bind("x", "a", nil), bind("x", "b", nil))
	twice := send(t, b, simulator.Publishing{Exchange: "x"})
	nowhere := send(t, b, simulator.Publishing{RoutingKey: "gone"})
	wantFates(t, b, twice, `ready in "a"`, `ready in "b"`)
	wantFates(t, b, nowhere, `unroutable`)
	must(t, b.Ack(get(t, b, "a")))
	d := get(t, b, "b")
	wantFates(t, b, twice, `acked`, `unacked in "b"`)
	must(t, b.Nack(d, false))
	wantFates(t, b, twice, `acked`, `lost in "b" (the queue has no dead-letter exchange)`)
	if err := b.Ack(d); !errors.Is(err, simulator.ErrSettled) {
		t.Errorf("acked twice: %v", err)
	}
	if got := b.Journey(twice)[0].String(); got != `0s message 1 published exchange="x"` {
		t.Errorf("event %q", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	missing := vhost(exchange("x", topology.Fanout, nil))
	missing.Bind(topology.Binding{Source: "x", Destination: "gone", DestinationKind: topology.KindQueue})
	for name, in := range map[string]*topology.Topology{
		"stream":          vhost(queue("s", topology.Stream, nil)),
		"unknown type":    vhost(exchange("x", "x-delayed-message", nil)),
		"dangling source": vhost(queue("q", topology.Classic, nil), bind("gone", "q", nil)),
		"dangling target": missing,
	} {
		if _, err := simulator.New(in, simulator.Options{Version: "4.0.5"}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := simulator.New(topology.New(), simulator.Options{Version: "four"}); err == nil {
		t.Error("version: no error")
	}
	b := start(t, "4.0.5", queue("q", topology.Classic, nil))
	other := topology.Queue{Name: "q", Type: topology.Quorum, Durable: true}
	if err := b.Apply(topology.Step{DeclareQueue: &other}); err == nil {
		t.Error("redeclared in another form: no error")
	}
	if _, err := b.Publish(simulator.Publishing{Exchange: "gone"}); !errors.Is(err, topology.ErrNoExchange) {
		t.Errorf("publish to a missing exchange: %v", err)
	}
}

// What RabbitMQ 4.3 holds back, and for how long: the n-th failed delivery n
// times the minimum, a delivery that does not count as long as the one before.
// What goes over the delivery limit dies at once.
func TestDelayedRetry(t *testing.T) {
	delayed := func(kind string, more arguments) arguments {
		a := arguments{topology.DelayedRetryType: kind, topology.DelayedRetryMin: int64(1000), topology.DelayedRetryMax: int64(2500)}
		for key, value := range more {
			a[key] = value
		}
		return a
	}
	const s = time.Second
	for name, test := range map[string]struct {
		version   string
		kind      topology.QueueType
		arguments arguments
		ways      string // R reject, N nack, C crash, all with requeue
		want      []time.Duration
	}{
		"all":               {"4.3.6", topology.Quorum, delayed("all", nil), "RNCR", []time.Duration{s, s, 2 * s, 2500 * time.Millisecond}},
		"failed":            {"4.3.6", topology.Quorum, delayed("failed", nil), "RNCR", []time.Duration{s, 0, 2 * s, 2500 * time.Millisecond}},
		"returned":          {"4.3.6", topology.Quorum, delayed("returned", nil), "RNCN", []time.Duration{0, s, 0, 2 * s}},
		"nacks only":        {"4.3.6", topology.Quorum, delayed("all", nil), "NNN", []time.Duration{s, s, s}},
		"disabled":          {"4.3.6", topology.Quorum, delayed("disabled", nil), "RN", []time.Duration{0, 0}},
		"maximum by itself": {"4.3.6", topology.Quorum, arguments{topology.DelayedRetryType: "all", topology.DelayedRetryMin: int64(1000)}, "RR", []time.Duration{s, s}},
		"no minimum":        {"4.3.6", topology.Quorum, arguments{topology.DelayedRetryType: "all"}, "R", []time.Duration{0}},
		"earlier":           {"4.2.9", topology.Quorum, delayed("all", nil), "RN", []time.Duration{0, 0}},
		"classic":           {"4.3.6", topology.Classic, delayed("all", nil), "RN", []time.Duration{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, test.version, queue("q", test.kind, test.arguments))
			id := send(t, b, simulator.Publishing{RoutingKey: "q"})
			for i, way := range test.ways {
				settle := map[rune]func(simulator.Delivery) error{
					'R': func(d simulator.Delivery) error { return b.Reject(d, true) },
					'N': func(d simulator.Delivery) error { return b.Nack(d, true) },
					'C': b.Crash,
				}[way]
				must(t, settle(get(t, b, "q")))
				if test.want[i] > 0 {
					wantFates(t, b, id, `delayed in "q"`)
					if d := b.Depth("q"); d != (simulator.Depth{Delayed: 1}) {
						t.Errorf("the queue holds %+v", d)
					}
					b.Advance(test.want[i] - 1)
					if _, ok := b.Get("q"); ok {
						t.Fatalf("return %d came before %v", i+1, test.want[i])
					}
					b.Advance(1)
				}
				wantFates(t, b, id, `ready in "q"`)
			}
		})
	}
	b := start(t, "4.3.6", queue("q", topology.Quorum, delayed("all", arguments{topology.DeliveryLimit: int64(1), topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead"})),
		queue("dead", topology.Quorum, nil))
	id := send(t, b, simulator.Publishing{RoutingKey: "q"})
	must(t, b.Reject(get(t, b, "q"), true))
	b.Advance(s)
	must(t, b.Reject(get(t, b, "q"), true))
	wantFates(t, b, id, `ready in "dead"`)
}

// A message that is held back does not expire, counts towards a length limit,
// and goes with its queue.
func TestHeldBack(t *testing.T) {
	b := start(t, "4.3.6", queue("q", topology.Quorum, arguments{
		topology.DelayedRetryType: "all", topology.DelayedRetryMin: int64(60_000), topology.MessageTTL: int64(1000),
		topology.MaxLength: int64(1), topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead",
	}), queue("dead", topology.Quorum, nil))
	held := send(t, b, simulator.Publishing{RoutingKey: "q"})
	must(t, b.Nack(get(t, b, "q"), true))
	b.Advance(59 * time.Second)
	wantFates(t, b, held, `delayed in "q"`)
	over := send(t, b, simulator.Publishing{RoutingKey: "q"})
	wantFates(t, b, over, `ready in "dead"`)
	b.Advance(time.Second)
	wantFates(t, b, held, `ready in "dead"`)
	gone := send(t, b, simulator.Publishing{RoutingKey: "q"})
	must(t, b.Nack(get(t, b, "q"), true))
	must(t, b.Apply(topology.Step{DeleteQueue: &topology.Queue{Name: "q"}}))
	wantFates(t, b, gone, `lost in "q" (the queue was deleted)`)
}
