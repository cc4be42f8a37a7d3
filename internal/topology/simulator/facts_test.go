package simulator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// The tests of this file are facts about brokers that the design of retry
// chains rests on. All were measured on real brokers; the differential tests
// compare the simulator with them.

type arguments = topology.Arguments

func vhost(parts ...func(*topology.Topology)) *topology.Topology {
	in := topology.New()
	for _, part := range parts {
		part(in)
	}
	return in
}

func queue(name string, kind topology.QueueType, a arguments) func(*topology.Topology) {
	return func(in *topology.Topology) {
		in.SetQueue(topology.Queue{Name: name, Type: kind, Durable: true, Arguments: a})
	}
}

func exchange(name, kind string, a arguments) func(*topology.Topology) {
	return func(in *topology.Topology) {
		in.SetExchange(topology.Exchange{Name: name, Type: kind, Durable: true, Arguments: a})
	}
}

func bind(source, to string, a arguments) func(*topology.Topology) {
	return func(in *topology.Topology) {
		in.Bind(topology.Binding{Source: source, Destination: to, DestinationKind: topology.KindQueue, Arguments: a})
	}
}

func start(t *testing.T, version string, parts ...func(*topology.Topology)) *simulator.Broker {
	t.Helper()
	b, err := simulator.New(vhost(parts...), simulator.Options{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func send(t *testing.T, b *simulator.Broker, p simulator.Publishing) simulator.ID {
	t.Helper()
	receipt, err := b.Publish(p)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

func get(t *testing.T, b *simulator.Broker, name string) simulator.Delivery {
	t.Helper()
	d, ok := b.Get(name)
	if !ok {
		t.Fatalf("%s is empty", name)
	}
	return d
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantFates(t *testing.T, b *simulator.Broker, id simulator.ID, want ...string) {
	t.Helper()
	var got []string
	for _, f := range b.Fates(id) {
		got = append(got, f.String())
	}
	if !slices.Equal(got, want) {
		t.Errorf("message %d at %v: %q, want %q", id, b.Now(), got, want)
	}
}

// loop is a work queue whose dead letters all wait in a queue that leads back.
// The waiting queue is classic or quorum, at most once or at least once.
func loop(work arguments, wait arguments, waitType topology.QueueType) []func(*topology.Topology) {
	work[topology.DeadLetterExchange], work[topology.DeadLetterRoutingKey] = "", "wait"
	wait[topology.DeadLetterExchange], wait[topology.DeadLetterRoutingKey] = "", "work"
	wait[topology.MessageTTL] = int64(1000)
	return []func(*topology.Topology){queue("work", topology.Quorum, work), queue("wait", waitType, wait)}
}

func atLeastOnce() arguments {
	return arguments{topology.DeadLetterStrategy: "at-least-once", topology.Overflow: "reject-publish"}
}

// A rejected message may go round indefinitely; one that expired or went over the
// delivery limit may not: the broker drops it on its way back, or keeps it for
// ever in a queue that dead-letters at least once.
func TestFactOnlyRejectionsMayGoRound(t *testing.T) {
	kinds := map[string]struct {
		arguments arguments
		queueType topology.QueueType
		want      string
	}{
		"classic":                  {arguments{}, topology.Classic, `lost in "wait" (a cycle without a rejection)`},
		"quorum":                   {arguments{}, topology.Quorum, `lost in "wait" (a cycle without a rejection)`},
		"quorum at least once":     {atLeastOnce(), topology.Quorum, `held in "wait" (a cycle without a rejection)`},
		"no reject-publish":        {arguments{topology.DeadLetterStrategy: "at-least-once"}, topology.Quorum, `lost in "wait" (a cycle without a rejection)`},
		"reject-publish-dlx is no": {arguments{topology.DeadLetterStrategy: "at-least-once", topology.Overflow: "reject-publish-dlx"}, topology.Quorum, `lost in "wait" (a cycle without a rejection)`},
	}
	for name, kind := range kinds {
		for _, version := range []string{"3.10.8", "4.0.5", "4.3.6"} {
			t.Run(name+" on "+version, func(t *testing.T) {
				b := start(t, version, loop(arguments{topology.DeliveryLimit: int64(5)}, kind.arguments.Clone(), kind.queueType)...)
				rejected := send(t, b, simulator.Publishing{RoutingKey: "work"})
				for range 5 {
					must(t, b.Reject(get(t, b, "work"), false))
					b.Advance(time.Second)
					wantFates(t, b, rejected, `ready in "work"`)
				}
				must(t, b.Ack(get(t, b, "work")))
				crashed := send(t, b, simulator.Publishing{RoutingKey: "work"})
				for b.Depth("work").Ready > 0 {
					must(t, b.Crash(get(t, b, "work")))
				}
				b.Advance(time.Hour)
				wantFates(t, b, crashed, kind.want)
			})
		}
	}
}

// An earlier rejection does not help: since the message was last in the waiting
// queue it was not rejected, and so it may not even wait again. Until 3.12 the
// broker shuffles the history at every death, finds the old rejection, and lets
// the message go round.
func TestFactAnEarlierRejectionDoesNotBreakACycle(t *testing.T) {
	for version, want := range map[string]string{
		"3.10.8": `ready in "work"`, "4.0.5": `lost in "work" (a cycle without a rejection)`, "4.3.6": `lost in "work" (a cycle without a rejection)`,
	} {
		b := start(t, version, loop(arguments{topology.MessageTTL: int64(5000)}, arguments{}, topology.Classic)...)
		id := send(t, b, simulator.Publishing{RoutingKey: "work"})
		must(t, b.Reject(get(t, b, "work"), false))
		b.Advance(7500 * time.Millisecond)
		wantFates(t, b, id, want)
	}
}

// With at-least-once, 32 messages without a way stop everything behind them,
// for other ways, too; a repair is noticed after 180 seconds, or at once when
// the queue's policy is touched.
func TestFactThirtyTwoHeldMessagesBlock(t *testing.T) {
	work := atLeastOnce()
	work[topology.DeadLetterExchange] = "dlx"
	build := func() *simulator.Broker {
		return start(t, "4.0.5", queue("work", topology.Quorum, work), queue("parking", topology.Classic, nil), exchange("dlx", topology.Headers, nil),
			bind("dlx", "parking", arguments{topology.Match: "all-with-x", "ok": true}))
	}
	b := build()
	var ids []simulator.ID
	for range simulator.HoldSlots - 1 {
		ids = append(ids, send(t, b, simulator.Publishing{RoutingKey: "work"}))
		must(t, b.Reject(get(t, b, "work"), false))
	}
	routable := simulator.Publishing{RoutingKey: "work", Headers: arguments{"ok": true}}
	passes := send(t, b, routable)
	must(t, b.Reject(get(t, b, "work"), false))
	wantFates(t, b, passes, `ready in "parking"`)
	send(t, b, simulator.Publishing{RoutingKey: "work"})
	must(t, b.Reject(get(t, b, "work"), false))
	waits := send(t, b, routable)
	must(t, b.Reject(get(t, b, "work"), false))
	wantFates(t, b, waits, `held in "work"`)
	wantFates(t, b, ids[0], `held in "work" (the dead-letter exchange leads nowhere)`)

	must(t, b.Apply(topology.Step{Bind: &topology.Binding{Source: "dlx", Destination: "parking", DestinationKind: topology.KindQueue}}))
	b.Advance(simulator.HoldPeriod - time.Second)
	if got := b.Depth("work").Held; got != simulator.HoldSlots+1 {
		t.Errorf("%d held before the period is over", got)
	}
	b.Advance(time.Second)
	if got := b.Depth("work").Held; got != 0 {
		t.Errorf("%d held after it", got)
	}
}

func TestFactTouchingThePolicyRetriesAtOnce(t *testing.T) {
	work := atLeastOnce()
	work[topology.DeadLetterExchange] = "dlx"
	for name, test := range map[string]struct {
		change func(arguments)
		want   string
	}{
		"kept":     {func(a arguments) { a[topology.MaxLength] = int64(1000) }, `ready in "parking"`},
		"weakened": {func(a arguments) { a[topology.Overflow] = "drop-head" }, `lost in "work" (at-least-once was switched off)`},
		"removed":  {func(a arguments) { delete(a, topology.DeadLetterExchange) }, `lost in "work" (at-least-once was switched off)`},
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t, "4.3.6", queue("work", topology.Quorum, work), queue("parking", topology.Quorum, nil))
			id := send(t, b, simulator.Publishing{RoutingKey: "work"})
			must(t, b.Reject(get(t, b, "work"), false))
			wantFates(t, b, id, `held in "work" (the dead-letter exchange does not exist)`)
			dlx := topology.Exchange{Name: "dlx", Type: topology.Fanout, Durable: true}
			must(t, b.Apply(topology.Step{DeclareExchange: &dlx}))
			must(t, b.Apply(topology.Step{Bind: &topology.Binding{Source: "dlx", Destination: "parking", DestinationKind: topology.KindQueue}}))
			q, _ := b.Topology().Queue("work")
			q.Arguments = q.Arguments.Clone()
			test.change(q.Arguments)
			must(t, b.Reconfigure(q))
			wantFates(t, b, id, test.want)
		})
	}
}

// With x-match "all" the death headers are skipped, so that such a binding
// takes every message.
func TestFactMatchAllSkipsDeathHeaders(t *testing.T) {
	for match, want := range map[string]int{"all": 1, "all-with-x": 0, "any": 0, "any-with-x": 0} {
		b := start(t, "4.0.5", exchange("x", topology.Headers, nil), queue("q", topology.Classic, nil),
			bind("x", "q", arguments{topology.Match: match, topology.LastDeathReason: "rejected"}))
		send(t, b, simulator.Publishing{Exchange: "x"})
		if got := b.Depth("q").Ready; got != want {
			t.Errorf("%s: %d messages, want %d", match, got, want)
		}
	}
}

// Without its binding, and without an alternate exchange, a return exchange
// loses every message of a classic waiting queue.
func TestFactReturnExchangeWithoutBinding(t *testing.T) {
	for alternate, want := range map[string]string{"": `lost in "wait" (the dead-letter exchange leads nowhere)`, "parking": `ready in "parking"`} {
		a := arguments{}
		if alternate != "" {
			a[topology.AlternateExchange] = alternate
		}
		b := start(t, "4.0.5",
			queue("wait", topology.Classic, arguments{topology.DeadLetterExchange: "return", topology.MessageTTL: int64(10)}),
			exchange("return", topology.Fanout, a), exchange("parking", topology.Fanout, nil), queue("parking", topology.Classic, nil),
			bind("parking", "parking", nil))
		id := send(t, b, simulator.Publishing{RoutingKey: "wait"})
		b.Advance(time.Second)
		wantFates(t, b, id, want)
	}
}

// The 21st requeue of a message kills it from 4.0 on, unless the queue says -1;
// on 3.x a limit of -1 kills it at the first.
func TestFactDeliveryLimits(t *testing.T) {
	tests := []struct {
		version string
		limit   arguments
		// requeues that a message survives; -1 for any number.
		nack, reject, crash int
	}{
		{"3.10.8", nil, -1, -1, -1},
		{"3.10.8", arguments{topology.DeliveryLimit: int64(-1)}, 0, 0, 0},
		{"3.13.7", arguments{topology.DeliveryLimit: int64(2)}, 2, 2, 2},
		{"4.0.5", nil, 20, 20, 20},
		{"4.0.5", arguments{topology.DeliveryLimit: int64(-1)}, -1, -1, -1},
		{"4.2.9", arguments{topology.DeliveryLimit: int64(0)}, 0, 0, 0},
		{"4.3.6", nil, -1, 20, 20},
		{"4.3.6", arguments{topology.DeliveryLimit: int64(2)}, -1, 2, 2},
	}
	for _, test := range tests {
		for name, how := range map[string]struct {
			want   int
			settle func(*simulator.Broker, simulator.Delivery) error
		}{
			"nack":   {test.nack, func(b *simulator.Broker, d simulator.Delivery) error { return b.Nack(d, true) }},
			"reject": {test.reject, func(b *simulator.Broker, d simulator.Delivery) error { return b.Reject(d, true) }},
			"crash":  {test.crash, (*simulator.Broker).Crash},
		} {
			t.Run(fmt.Sprintf("%s %v %s", test.version, test.limit, name), func(t *testing.T) {
				b := start(t, test.version, queue("q", topology.Quorum, test.limit))
				send(t, b, simulator.Publishing{RoutingKey: "q"})
				survived := 0
				for ; survived < 30; survived++ {
					must(t, how.settle(b, get(t, b, "q")))
					if b.Depth("q").Ready == 0 {
						break
					}
				}
				if survived == 30 {
					survived = -1
				}
				if survived != how.want {
					t.Errorf("survives %d requeues, want %d", survived, how.want)
				}
			})
		}
	}
}

// From 4.0 on the delivery count goes along with a dead letter; only 4.3 limits
// by it, so that there a message arrives with its limit used up.
func TestFactDeliveryCountSurvivesDeadLettering(t *testing.T) {
	for version, want := range map[string]string{
		"3.13.7": `ready in "work"`, "4.0.5": `ready in "work"`, "4.3.6": `lost in "work" (the queue has no dead-letter exchange)`,
	} {
		b := start(t, version,
			queue("before", topology.Quorum, arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "work", topology.DeliveryLimit: int64(100)}),
			queue("work", topology.Quorum, arguments{topology.DeliveryLimit: int64(2)}))
		id := send(t, b, simulator.Publishing{RoutingKey: "before"})
		for range 5 {
			must(t, b.Reject(get(t, b, "before"), true))
		}
		must(t, b.Reject(get(t, b, "before"), false))
		must(t, b.Crash(get(t, b, "work")))
		wantFates(t, b, id, want)
	}
}

// Deleting a queue dead-letters nothing.
func TestFactDeletedQueueLosesItsMessages(t *testing.T) {
	b := start(t, "4.0.5", queue("work", topology.Quorum, arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "dead"}),
		queue("dead", topology.Quorum, nil))
	unacked := send(t, b, simulator.Publishing{RoutingKey: "work"})
	d := get(t, b, "work")
	ready := send(t, b, simulator.Publishing{RoutingKey: "work"})
	must(t, b.Apply(topology.Step{DeleteQueue: &topology.Queue{Name: "work"}}))
	wantFates(t, b, ready, `lost in "work" (the queue was deleted)`)
	wantFates(t, b, unacked, `lost in "work" (the queue was deleted)`)
	if err := b.Ack(d); err == nil {
		t.Error("a delivery of a deleted queue can be acked")
	}
}
