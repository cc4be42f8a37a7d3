package simulator_test

import (
	"slices"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// holding is an exchange that holds messages back and routes them as the type
// then.
func holding(name, routedAs string) func(*topology.Topology) {
	return exchange(name, topology.DelayedMessage, arguments{topology.DelayedType: routedAs})
}

func delayed(ms any) simulator.Publishing {
	return simulator.Publishing{Exchange: "wait", RoutingKey: "k", Headers: arguments{topology.DelayHeader: ms, "tenant": "t1"}}
}

// try publishes and returns the receipt.
func try(t *testing.T, b *simulator.Broker, p simulator.Publishing) simulator.Receipt {
	t.Helper()
	receipt, err := b.Publish(p)
	must(t, err)
	return receipt
}

// A message with a delay is at the exchange, in no queue, for exactly that long.
// Its publisher learns that it was routed nowhere, and its consumer the delay, in
// most queues with the sign turned.
func TestExchangeHoldsBack(t *testing.T) {
	for _, test := range []struct {
		version string
		kind    topology.QueueType
		shown   int64
	}{
		{"3.10.8", topology.Classic, 5000},
		{"3.10.8", topology.Quorum, -5000},
		{"4.0.5", topology.Classic, -5000},
		{"4.0.5", topology.Quorum, -5000},
	} {
		t.Run(test.version+" "+string(test.kind), func(t *testing.T) { holdBackOnce(t, test.version, test.kind, test.shown) })
	}
}

func holdBackOnce(t *testing.T, version string, kind topology.QueueType, shown int64) {
	t.Helper()
	b := start(t, version, holding("wait", topology.Fanout), queue("q", kind, nil), bind("wait", "q", nil))
	receipt := try(t, b, delayed(int64(5000)))
	if receipt.Outcome != simulator.Unroutable || !slices.Equal(receipt.HeldBack, []string{"wait"}) || len(receipt.Queues) > 0 {
		t.Errorf("receipt %+v", receipt)
	}
	b.Advance(4999 * time.Millisecond)
	wantFates(t, b, receipt.ID, `delayed at exchange "wait"`)
	if n := b.HeldBack("wait"); n != 1 {
		t.Errorf("%d are held back", n)
	}
	b.Advance(time.Millisecond)
	wantFates(t, b, receipt.ID, `ready in "q"`)
	d, _ := b.Get("q")
	want := arguments{topology.DelayHeader: shown, "tenant": "t1"}
	for key, value := range want {
		if d.Headers[key] != value {
			t.Errorf("header %s is %v, want %v", key, d.Headers[key], value)
		}
	}
	if d.Exchange != "wait" || d.RoutingKey != "k" {
		t.Errorf("it came from %q with %q", d.Exchange, d.RoutingKey)
	}
}

// The exchange holds back from 1 to 2³² - 1 ms, in the order in which the delays
// end, and everything else not at all.
func TestDelaysOfAnExchange(t *testing.T) {
	tests := map[string]struct {
		header any
		want   time.Duration
	}{
		"integer": {int64(7), 7 * time.Millisecond}, "string": {"8", 8 * time.Millisecond}, "float": {9.9, 9 * time.Millisecond},
		"longest": {int64(1<<32 - 1), topology.LongestDelay}, "too long": {int64(1 << 32), 0}, "zero": {int64(0), 0}, "negative": {int64(-5), 0},
		"fraction": {0.5, 0}, "no number": {true, 0}, "none": {nil, 0},
	}
	for name, test := range tests {
		b := start(t, "3.10.8", holding("wait", topology.Fanout), queue("q", topology.Classic, nil), bind("wait", "q", nil))
		receipt := try(t, b, delayed(test.header))
		if test.want == 0 {
			wantFates(t, b, receipt.ID, `ready in "q"`)
			continue
		}
		if wantFates(t, b, receipt.ID, `delayed at exchange "wait"`); !b.AdvanceToNextExpiry() || b.Now() != test.want {
			t.Errorf("%s: held back until %s, want %s", name, b.Now(), test.want)
		}
		wantFates(t, b, receipt.ID, `ready in "q"`)
	}
	b := start(t, "3.10.8", holding("wait", topology.Fanout), queue("q", topology.Classic, nil), bind("wait", "q", nil))
	var want []simulator.ID
	for _, ms := range []int64{30, 10, 20, 10} {
		want = append(want, try(t, b, delayed(ms)).ID)
	}
	b.Advance(time.Second)
	var got []simulator.ID
	for d, ok := b.Get("q"); ok; d, ok = b.Get("q") {
		got = append(got, d.ID)
	}
	if want = []simulator.ID{want[1], want[3], want[2], want[0]}; !slices.Equal(got, want) {
		t.Errorf("order %v, want %v", got, want)
	}
}

// The exchange routes as its argument says, by the bindings that it has when the
// delay is over. Nobody waits for a confirm then: what has no way, or is refused, is
// lost.
func TestExchangeRoutesAfterTheDelay(t *testing.T) {
	full := queue("q", topology.Classic, arguments{topology.MaxLength: int64(0), topology.Overflow: "reject-publish"})
	byKey := func(in *topology.Topology) {
		in.Bind(topology.Binding{Source: "wait", Destination: "q", DestinationKind: topology.KindQueue, RoutingKey: "other"})
	}
	const nowhere = `lost at exchange "wait" (the exchange that held it back leads nowhere)`
	tests := map[string]struct {
		parts  []func(*topology.Topology)
		change topology.Step
		want   string
	}{
		"bound":     {parts: []func(*topology.Topology){holding("wait", topology.Fanout), queue("q", topology.Quorum, nil), bind("wait", "q", nil)}, want: `ready in "q"`},
		"other key": {parts: []func(*topology.Topology){holding("wait", topology.Direct), queue("q", topology.Quorum, nil), byKey}, want: nowhere},
		"fanout":    {parts: []func(*topology.Topology){holding("wait", topology.Fanout), queue("q", topology.Quorum, nil), byKey}, want: `ready in "q"`},
		"full":      {parts: []func(*topology.Topology){holding("wait", topology.Fanout), full, bind("wait", "q", nil)}, want: `lost at exchange "wait" (every queue is full)`},
		"unbound": {
			parts:  []func(*topology.Topology){holding("wait", topology.Fanout), queue("q", topology.Quorum, nil), bind("wait", "q", nil)},
			change: topology.Step{DeleteQueue: &topology.Queue{Name: "q"}}, want: nowhere,
		},
		"deleted": {
			parts:  []func(*topology.Topology){holding("wait", topology.Fanout), queue("q", topology.Quorum, nil), bind("wait", "q", nil)},
			change: topology.Step{DeleteExchange: &topology.Exchange{Name: "wait"}}, want: nowhere,
		},
		"bound to each other": {
			parts: []func(*topology.Topology){
				holding("wait", topology.Fanout), holding("again", topology.Fanout), queue("q", topology.Quorum, nil), bind("again", "q", nil),
				func(in *topology.Topology) {
					in.Bind(topology.Binding{Source: "wait", Destination: "again", DestinationKind: topology.KindExchange})
				},
			},
			want: `ready in "q"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := start(t, "4.0.5", test.parts...)
			receipt := try(t, b, delayed(int64(10)))
			must(t, b.Apply(test.change))
			wantFates(t, b, receipt.ID, `delayed at exchange "wait"`)
			b.Advance(time.Second)
			wantFates(t, b, receipt.ID, test.want)
		})
	}
}

// What is held back counts as not routed: it goes to the alternate exchange as
// well, and an at-least-once queue sends it again and again.
func TestHeldBackCountsAsNotRouted(t *testing.T) {
	b := start(t, "4.0.5", exchange("wait", topology.DelayedMessage, arguments{topology.DelayedType: topology.Fanout, topology.AlternateExchange: "rest"}),
		exchange("rest", topology.Fanout, nil), queue("q", topology.Quorum, nil), queue("copies", topology.Quorum, nil), bind("wait", "q", nil), bind("rest", "copies", nil))
	receipt := try(t, b, delayed(int64(10)))
	b.Advance(time.Second)
	wantFates(t, b, receipt.ID, `ready in "copies"`, `ready in "q"`)

	for strategy, want := range map[string]int{"at-most-once": 1, "at-least-once": 3} {
		b := start(t, "4.0.5", holding("wait", topology.Fanout), queue("q", topology.Quorum, nil), bind("wait", "q", nil), queue("work", topology.Quorum, arguments{
			topology.DeadLetterExchange: "wait", topology.DeadLetterStrategy: strategy, topology.Overflow: "reject-publish",
		}))
		try(t, b, simulator.Publishing{RoutingKey: "work", Headers: arguments{topology.DelayHeader: int64(10)}})
		d, _ := b.Get("work")
		must(t, b.Reject(d, false))
		b.Advance(2*simulator.HoldPeriod + time.Second)
		if n := b.Depth("q").Ready; n != want {
			t.Errorf("%s: %d copies, want %d", strategy, n, want)
		}
	}
}

// The plugin does not run on 4.3, and the type needs another one to route by.
func TestDelayedExchangeRefused(t *testing.T) {
	for version, part := range map[string]func(*topology.Topology){
		"4.3.0": holding("wait", topology.Fanout), "4.2.9": holding("wait", "x-other"), "4.2.8": exchange("wait", topology.DelayedMessage, nil),
	} {
		if _, err := simulator.New(vhost(part), simulator.Options{Version: version}); err == nil {
			t.Errorf("%s: no error", version)
		}
	}
	if _, err := simulator.New(vhost(holding("wait", topology.Topic)), simulator.Options{Version: "4.2.9"}); err != nil {
		t.Error(err)
	}
}
