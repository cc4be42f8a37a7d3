package delay_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

func applyAll(t fataler, b *simulator.Broker, stages []topology.Stage) {
	t.Helper()
	for _, stage := range stages {
		for _, step := range stage {
			if err := b.Apply(step); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestPropertyRepair: whatever is missing, and whatever was bound by others, a
// repair makes the network whole and leaves destinations alone.
func TestPropertyRepair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNetwork(t)
		f := retry.Features{UnlimitedDelivery: true}
		b := newBroker(t, n, "4.3.6", "orders")
		broken := b.Topology()
		for _, e := range broken.Exchanges() {
			if e.Name != n.DeliveryExchange() && rapid.IntRange(0, 3).Draw(t, "remove "+e.Name) == 0 {
				broken.RemoveExchange(e.Name)
			}
		}
		for _, q := range broken.Queues() {
			if q.Name != "orders" && rapid.IntRange(0, 3).Draw(t, "remove queue "+q.Name) == 0 {
				broken.RemoveQueue(q.Name)
			}
		}
		if _, exists := broken.Exchange(n.EntryExchange()); exists {
			broken.Bind(topology.Binding{Source: n.EntryExchange(), Destination: "orders", DestinationKind: topology.KindQueue, RoutingKey: "#"})
		}
		b, err := simulator.New(broken, simulator.Options{Version: "4.3.6"})
		if err != nil {
			t.Fatal(err)
		}
		applyAll(t, b, n.Repair(n.Actual(broken, f), n.Topology(f)))
		if d := topology.Diff(n.Actual(b.Topology(), f), n.Topology(f)); !d.Empty() {
			t.Errorf("left to do: %+v", d)
		}
		if got := len(n.Attached(b.Topology())); got != 1 {
			t.Errorf("%d destinations are attached, expected 1", got)
		}
	})
}

// TestRemovalCutShort: wherever a removal ends, a message that came meanwhile
// and keeps its queue from being deleted is not lost.
func TestRemovalCutShort(t *testing.T) {
	n := delay.Network{Name: "delays", Unit: time.Second, Levels: 4, QueueType: topology.Classic, DeadLetterStrategy: retry.AtMostOnce}
	b := newBroker(t, n, "4.3.6")
	id := publish(t, b, n, 15*time.Second, "nobody")
	stages := n.Removal(n.Actual(b.Topology(), retry.Features{}))
	for _, stage := range stages[:2] { // the entry and the levels
		for _, step := range stage {
			if step.DeleteQueue != nil && step.DeleteQueue.Name == n.Level(3) {
				continue // refused: it holds the message
			}
			if err := b.Apply(step); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.Advance(time.Hour)
	if fates := b.Fates(id); len(fates) != 1 || fates[0].Queue != n.Unrouted() {
		t.Errorf("the message is %v", fates)
	}
	applyAll(t, b, stages)
	if rest := b.Topology(); !rest.Empty() {
		t.Errorf("left: %+v", rest.Lines(nil))
	}
}

// TestPropertyRead: what was made is read back, also when only a level is left.
func TestPropertyRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := genNetwork(t)
		modern := rapid.Bool().Draw(t, "modern")
		in := n.Topology(retry.Features{UnlimitedDelivery: modern})
		top := n.Level(n.Levels - 1)
		if rapid.Bool().Draw(t, "half") {
			for _, e := range in.Exchanges() {
				if e.Name != top {
					in.RemoveExchange(e.Name)
				}
			}
			for _, q := range in.Queues() {
				if q.Name != n.Level(n.Levels/2) && q.Name != n.Unrouted() {
					in.RemoveQueue(q.Name)
				}
			}
		}
		got, f, err := delay.Read(n.Name, in, abilities.MustParse("4.3.6"))
		if err != nil || got != n {
			t.Errorf("read %+v, %v, expected %+v", got, err, n)
		}
		if n.QueueType == topology.Quorum && f.UnlimitedDelivery != modern {
			t.Errorf("unlimited delivery is %t, expected %t", f.UnlimitedDelivery, modern)
		}
	})
	live := abilities.MustParse("4.3.6")
	for _, name := range []string{"delays", "delays.delivery", "delays.unrouted"} {
		in := topology.New()
		e, _ := standard().Topology(retry.Features{}).Exchange(name)
		in.SetExchange(e)
		if n, _, err := delay.Read("delays", in, live); err != nil || n.Levels != delay.DefaultLevels {
			t.Errorf("the exchange %s alone is read as %+v: %v", name, n, err)
		}
		e.Type = topology.Direct
		in.SetExchange(e)
		if n, _, err := delay.Read("delays", in, live); err == nil {
			t.Errorf("an exchange %s of others is read as %+v", name, n)
		}
	}
	if _, _, err := delay.Read("delays", topology.New(), live); err == nil {
		t.Error("a network was read from nothing")
	}
}
