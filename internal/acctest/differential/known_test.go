package differential

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

type arguments = topology.Arguments

// knownCases are situations that a random case meets rarely and that the design
// of retry chains rests on.
func knownCases() []testCase {
	cases := append(limitCases(), lengthCases()...)
	cases = append(cases, cycleCases()...)
	cases = append(cases, refusedCases()...)
	cases = append(cases, historyCase(), blockedCase())
	for i := range cases {
		if cases[i].longest == 0 {
			cases[i].longest = 500 * time.Millisecond
		}
	}
	return cases
}

func queue(name string, kind topology.QueueType, a arguments) topology.Queue {
	return topology.Queue{Name: name, Type: kind, Durable: true, Arguments: a}
}

func of(queues ...topology.Queue) *topology.Topology {
	t := topology.New()
	for _, q := range queues {
		t.SetQueue(q)
	}
	return t
}

func bodies(queue string, n int) []simulator.Publishing {
	list := make([]simulator.Publishing, n)
	for i := range list {
		list[i] = simulator.Publishing{RoutingKey: queue, Body: fmt.Sprint(i)}
	}
	return list
}

// limitCases return a message until it dies over the delivery limit, or 25
// times.
func limitCases() []testCase {
	var cases []testCase
	for i, limit := range []any{nil, int64(-1), int64(0), int64(3)} {
		for _, how := range []outcome{rejectRequeue, nackRequeue, crash} {
			name := fmt.Sprintf("limit %d %s", i, how)
			a := arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: name + " dead"}
			if limit != nil {
				a[topology.DeliveryLimit] = limit
			}
			cases = append(cases, testCase{
				name: name, consumed: []string{name}, messages: bodies(name, 1),
				topology: of(queue(name, topology.Quorum, a), queue(name+" dead", topology.Quorum, nil)),
				choose: func(n int) outcome {
					if n > 25 {
						return ack
					}
					return how
				},
			})
		}
	}
	return cases
}

// lengthCases publish five messages into a queue that holds two. A quorum queue
// that refuses publishers does so late; how late depends on timing.
func lengthCases() []testCase {
	var cases []testCase
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
		for _, overflow := range []string{"drop-head", "reject-publish", "reject-publish-dlx"} {
			if kind == topology.Quorum && overflow == "reject-publish" {
				continue
			}
			name := fmt.Sprintf("length %s %s", kind, overflow)
			a := arguments{
				topology.MaxLength: int64(2), topology.Overflow: overflow,
				topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: name + " dead",
			}
			cases = append(cases, testCase{
				name: name, messages: bodies(name, 5),
				topology: of(queue(name, kind, a), queue(name+" dead", topology.Classic, nil)),
			})
			// Dead letters that come to a full queue, sent at most once.
			full := arguments{topology.MaxLength: int64(2), topology.Overflow: overflow}
			cases = append(cases, testCase{
				name: "full " + name, messages: bodies("source "+name, 5),
				topology: of(queue("full "+name, kind, full), queue("source "+name, topology.Classic, arguments{
					topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: "full " + name, topology.MessageTTL: int64(50),
				})),
			})
		}
	}
	return cases
}

// cycleCases are work queues whose dead letters all wait in one queue that
// leads back. The message is rejected some times and then dies otherwise.
func cycleCases() []testCase {
	var cases []testCase
	for _, wait := range []string{"classic", "quorum", "at-least-once"} {
		for rejections := range 4 {
			name := fmt.Sprintf("cycle %s %d", wait, rejections)
			kind := topology.Quorum
			a := arguments{topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: name, topology.MessageTTL: int64(40)}
			switch wait {
			case "classic":
				kind = topology.Classic
			case "at-least-once":
				a[topology.DeadLetterStrategy], a[topology.Overflow] = "at-least-once", "reject-publish"
			}
			work := arguments{
				topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: name + " wait", topology.DeliveryLimit: int64(8),
			}
			cases = append(cases, testCase{
				name: name, consumed: []string{name}, messages: bodies(name, 1),
				topology: of(queue(name, topology.Quorum, work), queue(name+" wait", kind, a)),
				choose: func(n int) outcome {
					switch {
					case n <= rejections:
						return reject
					case n > 30:
						return ack
					}
					return crash
				},
			})
		}
	}
	return cases
}

// refusedCases are chains of strategy "routing_key" as they are expanded for a
// broker without x-last-death headers, with a delivery limit, which is refused
// there: a message is rejected (R) or dies over the limit (X) at each attempt.
func refusedCases() []testCase {
	var cases []testCase
	for _, deaths := range []string{"X", "RX", "RXR", "RRXR", "RXXR", "RXRR", "RXRXR"} {
		for _, strategy := range []retry.DeadLetterStrategy{retry.AtMostOnce, retry.AtLeastOnce} {
			name := fmt.Sprintf("refused %s %s", strategy, deaths)
			t := refusedChain(name, strategy)
			cases = append(cases, testCase{
				name: name, topology: t, consumed: []string{name}, messages: bodies(name, 1),
				choose: func(n int) outcome {
					switch {
					case n > len(deaths):
						return ack
					case deaths[n-1] == 'R':
						return reject
					}
					return crash
				},
			})
		}
	}
	return cases
}

func refusedChain(name string, strategy retry.DeadLetterStrategy) *topology.Topology {
	c := retry.Chain{
		Name: name, Strategy: retry.RoutingKey, QueueType: topology.Quorum, DeadLetterStrategy: strategy,
		Work: retry.WorkQueue{Name: name}, Parking: retry.ParkingQueue{Name: name + ".parking"},
	}
	for i := range 7 {
		c.Delays = append(c.Delays, time.Duration(20+10*i)*time.Millisecond)
	}
	t := c.Topology(retry.Features{})
	work, _ := t.Queue(name)
	work.Arguments = work.Arguments.Clone()
	work.Arguments[topology.DeliveryLimit] = int64(0)
	t.SetQueue(work)
	return t
}

// historyCase sends a message with the history of an earlier rejection and an
// expiration of its own.
func historyCase() testCase {
	const name = "history"
	p := simulator.Publishing{RoutingKey: name, Expiration: new(50 * time.Millisecond), Headers: arguments{
		"x-first-death-reason": "rejected",
		"x-death": []any{map[string]any{
			"queue": name, "reason": "rejected", "count": int64(1), "exchange": "", "routing-keys": []any{name},
		}},
	}}
	return testCase{
		name: name, topology: refusedChain(name, retry.AtMostOnce), consumed: []string{name}, messages: []simulator.Publishing{p},
		choose: func(int) outcome { return reject },
	}
}

// blockedCase sends 33 messages without a way and then one with a way through
// an at-least-once queue.
func blockedCase() testCase {
	a := arguments{
		topology.DeadLetterExchange: "blocked x", topology.DeadLetterStrategy: "at-least-once", topology.Overflow: "reject-publish",
	}
	t := of(queue("blocked", topology.Quorum, a), queue("blocked parking", topology.Classic, nil))
	t.SetExchange(topology.Exchange{Name: "blocked x", Type: topology.Headers, Durable: true})
	t.Bind(topology.Binding{
		Source: "blocked x", Destination: "blocked parking", DestinationKind: topology.KindQueue, Arguments: arguments{"ok": true},
	})
	messages := bodies("blocked", simulator.HoldSlots+1)
	messages[0].Headers = arguments{"ok": true}
	messages = append(messages, simulator.Publishing{RoutingKey: "blocked", Headers: arguments{"ok": true}})
	return testCase{
		name: "blocked", topology: t, consumed: []string{"blocked"}, messages: messages,
		choose: func(int) outcome { return reject },
	}
}

// compareOrders looks where a requeued message goes: to its old place in a
// classic queue, and to the front or the end of a quorum queue.
func compareOrders(t *testing.T, h *host) {
	t.Helper()
	for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
		for _, limit := range []int64{0, -1, 5} {
			a := arguments{}
			if limit != 0 && kind == topology.Quorum && (limit > 0 || h.version.AtLeast("4.0.0")) {
				a[topology.DeliveryLimit] = limit
			}
			for _, crashes := range []bool{false, true} {
				compareOrder(t, h, queue(fmt.Sprintf("order %s %d %v", kind, limit, crashes), kind, a), crashes)
			}
		}
	}
}

// compareOrder takes two of three messages, gives them back, and takes all.
func compareOrder(t *testing.T, h *host, q topology.Queue, crashes bool) {
	t.Helper()
	b, err := simulator.New(of(q), simulator.Options{Version: h.version.String()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newReal(h.connection)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { r.close() }()
	if err := r.declare(of(q)); err != nil {
		t.Fatal(err)
	}
	s := &simulated{broker: b}
	for _, p := range bodies(q.Name, 3) {
		for _, w := range []world{r, s} {
			if _, err := w.publish(p); err != nil {
				t.Fatal(err)
			}
		}
	}
	var simulatedTaken []simulator.Delivery
	var tags []uint64
	for range 2 {
		for _, w := range []world{r, s} {
			if _, ok, err := w.get(q.Name); err != nil || !ok {
				t.Fatalf("get: %v %v", ok, err)
			}
		}
		simulatedTaken, tags = append(simulatedTaken, s.last), append(tags, r.last.DeliveryTag)
	}
	for i, d := range simulatedTaken {
		s.last, r.last.DeliveryTag = d, tags[i]
		how := nackRequeue
		if crashes {
			how = crash
		}
		if err := s.settle(how); err != nil {
			t.Fatal(err)
		}
		if !crashes || i == 0 {
			if err := r.settle(how); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(100 * time.Millisecond)
	for range 3 {
		want, _, _ := s.get(q.Name)
		got, _, err := r.get(q.Name)
		if err != nil || got.String() != want.String() {
			t.Errorf("%s: %v, simulator %v (%v)", q.Name, got, want, err)
		}
	}
}
