package delay_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

var versions = []string{"3.10.8", "4.0.5", "4.3.6"}

// destinations share words, so that a careless binding would mix them up.
var destinations = []string{"orders", "eu.orders", "0.orders", "orders.eu", "1"}

func genNetwork(t *rapid.T) delay.Network {
	n := delay.Network{
		Name:               "delays",
		Unit:               time.Duration(rapid.Int64Range(1, 2000).Draw(t, "unit in ms")) * time.Millisecond,
		Levels:             rapid.IntRange(1, delay.DefaultLevels).Draw(t, "levels"),
		QueueType:          rapid.SampledFrom([]topology.QueueType{topology.Quorum, topology.Classic}).Draw(t, "type"),
		DeadLetterStrategy: retry.AtMostOnce,
	}
	if n.QueueType == topology.Quorum && rapid.Bool().Draw(t, "at least once") {
		n.DeadLetterStrategy = retry.AtLeastOnce
	}
	if problems := n.Problems(); len(problems) > 0 {
		t.Fatalf("the network has problems: %v", problems)
	}
	return n
}

// genDelay draws delays next to powers of two more often than others.
func genDelay(t *rapid.T, n delay.Network) time.Duration {
	units := rapid.Int64Range(0, int64(n.Maximum()/n.Unit)).Draw(t, "units")
	if rapid.Bool().Draw(t, "at a power of two") {
		units = 1<<rapid.IntRange(0, n.Levels-1).Draw(t, "power") - rapid.Int64Range(0, 1).Draw(t, "less")
	}
	d := time.Duration(units) * n.Unit
	if d > 0 && rapid.Bool().Draw(t, "between units") {
		d -= time.Duration(rapid.Int64Range(0, int64(n.Unit)-1).Draw(t, "less than a unit"))
	}
	return d
}

type fataler interface {
	Helper()
	Fatal(args ...any)
}

func newBroker(t fataler, n delay.Network, version string, names ...string) *simulator.Broker {
	t.Helper()
	all := n.Topology(retry.Features{UnlimitedDelivery: version >= "4"})
	for _, name := range names {
		all.SetQueue(topology.Queue{Name: name, Type: topology.Quorum, Durable: true})
		all.Bind(delay.Destination{Network: n.Name, Levels: n.Levels, Name: name, Queue: name}.Binding())
	}
	b, err := simulator.New(all, simulator.Options{Version: version})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func publish(t fataler, b *simulator.Broker, n delay.Network, d time.Duration, to string) simulator.ID {
	t.Helper()
	key, err := n.Key(d, to)
	if err != nil {
		t.Fatal(err)
	}
	receipt, err := b.Publish(simulator.Publishing{Exchange: n.EntryExchange(), RoutingKey: key})
	if err != nil || receipt.Outcome != simulator.Confirmed {
		t.Fatal(fmt.Sprintf("publish with key %q: %v, %v", key, receipt, err))
	}
	return receipt.ID
}

// TestPropertyMessageArrivesOnceAndOnTime: a message with any delay waits in the
// queues of the levels that add up to it, the highest first, and is then at its
// destination and nowhere else.
func TestPropertyMessageArrivesOnceAndOnTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNetwork(t)
		d := genDelay(t, n)
		to := rapid.SampledFrom(destinations).Draw(t, "destination")
		b := newBroker(t, n, rapid.SampledFrom(versions).Draw(t, "version"), destinations...)
		id := publish(t, b, n, d, to)
		rounded := roundUp(d, n.Unit)
		b.Advance(n.Maximum() + time.Hour)
		if fates := b.Fates(id); len(fates) != 1 || fates[0] != (simulator.Fate{State: simulator.IsReady, Queue: to}) {
			t.Fatalf("the message is %v, expected in %q", fates, to)
		}
		var visited []string
		for _, event := range b.Journey(id) {
			if event.Kind != simulator.Enqueued {
				continue
			}
			visited = append(visited, event.Queue)
			if event.Queue == to && event.At != rounded {
				t.Errorf("it arrived after %s, expected %s", event.At, rounded)
			}
		}
		if want := append(path(n, rounded), to); !slices.Equal(visited, want) {
			t.Errorf("it visited %q, expected %q", visited, want)
		}
	})
}

func roundUp(d, unit time.Duration) time.Duration {
	if rest := d % unit; rest > 0 {
		d += unit - rest
	}
	return d
}

// path are the queues of the levels that add up to a delay.
func path(n delay.Network, d time.Duration) []string {
	var queues []string
	for level := n.Levels - 1; level >= 0; level-- {
		if wait := n.Wait(level); d >= wait {
			queues = append(queues, n.Level(level))
			d -= wait
		}
	}
	return queues
}

// TestPropertyAnyKeyIsKept: whatever the routing key, the message is in a
// destination or in the queue for unrouted messages in the end, once.
func TestPropertyAnyKeyIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNetwork(t)
		b := newBroker(t, n, rapid.SampledFrom(versions).Draw(t, "version"), destinations...)
		words := rapid.SliceOfN(rapid.SampledFrom([]string{"0", "1", "2", "", "orders", "eu", "*", "#"}), 0, n.Levels+2).Draw(t, "words")
		key := ""
		for i, word := range words {
			if i > 0 {
				key += "."
			}
			key += word
		}
		receipt, err := b.Publish(simulator.Publishing{Exchange: n.EntryExchange(), RoutingKey: key})
		if err != nil || receipt.Outcome != simulator.Confirmed {
			t.Fatalf("key %q: %v, %v", key, receipt, err)
		}
		b.Advance(n.Maximum() + time.Hour)
		fates := b.Fates(receipt.ID)
		if len(fates) != 1 || fates[0].State != simulator.IsReady || !slices.Contains(append(destinations, n.Unrouted()), fates[0].Queue) {
			t.Errorf("key %q: %v", key, fates)
		}
	})
}

// TestMissingDestination: messages for a destination that nobody attached are
// kept aside. Without the alternate exchanges they stop all others, which shows
// that the test can fail.
func TestMissingDestination(t *testing.T) {
	n := standard()
	for _, version := range versions {
		for _, way := range []bool{true, false} {
			b := newBroker(t, n, version, "orders")
			if !way {
				all := b.Topology()
				for _, e := range all.Exchanges() {
					e.Arguments = nil
					all.SetExchange(e)
				}
				var err error
				if b, err = simulator.New(all, simulator.Options{Version: version}); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 1000 {
				publish(t, b, n, time.Duration(1+i%7)*time.Second, "nobody")
			}
			id := publish(t, b, n, 7*time.Second, "orders")
			b.Advance(8 * time.Second)
			fates := b.Fates(id)
			if arrived := len(fates) == 1 && fates[0].Queue == "orders"; arrived != way {
				t.Errorf("%s, with alternate exchanges %t: the message after them is %v", version, way, fates)
			}
			if kept := b.Depth(n.Unrouted()).Ready; way && kept != 1000 {
				t.Errorf("%s: %d unrouted messages, expected 1000", version, kept)
			}
		}
	}
}

// TestOldDeaths: before RabbitMQ 4.0 a message with the x-death headers of an
// earlier passage does not get through.
func TestOldDeaths(t *testing.T) {
	n := standard()
	for _, version := range versions {
		b := newBroker(t, n, version, "orders")
		publish(t, b, n, 3*time.Second, "orders")
		b.Advance(4 * time.Second)
		first, ok := b.Get("orders")
		if !ok {
			t.Fatalf("%s: the message has not arrived", version)
		}
		receipt, err := b.Publish(simulator.Publishing{Exchange: n.EntryExchange(), RoutingKey: first.RoutingKey, Headers: first.Headers})
		if err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Hour)
		fates := b.Fates(receipt.ID)
		if arrived := len(fates) == 1 && fates[0].Queue == "orders"; arrived != (version >= "4") {
			t.Errorf("%s: with old x-death headers the message is %v", version, fates)
		}
	}
}
