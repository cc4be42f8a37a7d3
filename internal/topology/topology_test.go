package topology_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// hub has one exchange that leads to n queues and takes messages from n exchanges.
func hub(n int) *topology.Topology {
	in := topology.New()
	in.SetExchange(topology.Exchange{Name: "hub", Type: topology.Topic})
	for i := range n {
		source, queue := fmt.Sprint("source", i), fmt.Sprint("queue", i)
		in.SetExchange(topology.Exchange{Name: source, Type: topology.Fanout})
		in.SetQueue(topology.Queue{Name: queue, Type: topology.Classic})
		in.Bind(topology.Binding{Source: source, Destination: "hub", DestinationKind: topology.KindExchange})
		in.Bind(topology.Binding{Source: "hub", Destination: queue, DestinationKind: topology.KindQueue, RoutingKey: queue})
	}
	return in
}

// TestRemovalEffortIsLinear: removing an exchange with ten times the bindings takes
// about ten times the effort, whichever end they have at it. Allocations are
// counted, which do not depend on the machine.
func TestRemovalEffortIsLinear(t *testing.T) {
	for name, remove := range map[string]func(in *topology.Topology, n int){
		"exchange": func(in *topology.Topology, _ int) { in.RemoveExchange("hub") },
		"every source": func(in *topology.Topology, n int) {
			for i := range n {
				in.RemoveExchange(fmt.Sprint("source", i))
			}
		},
		"every queue": func(in *topology.Topology, n int) {
			for i := range n {
				in.RemoveQueue(fmt.Sprint("queue", i))
			}
		},
	} {
		effort := func(n int) float64 {
			in := []*topology.Topology{hub(n), hub(n)} // AllocsPerRun runs twice
			return testing.AllocsPerRun(1, func() {
				remove(in[0], n)
				in = in[1:]
			})
		}
		few, many := effort(200), effort(2000)
		t.Logf("%s: 200 bindings: %.0f allocations, 2,000: %.0f", name, few, many)
		if many > 12*few {
			t.Errorf("%s: ten times the bindings take %.1f times the effort", name, many/few)
		}
	}
}

// TestPropertyBindings compares the indexes with a plain list of bindings.
func TestPropertyBindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := topology.New()
		expected := map[string]topology.Binding{}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		for range rapid.IntRange(1, 40).Draw(t, "changes") {
			b := topology.Binding{
				Source: name.Draw(t, "source"), Destination: name.Draw(t, "destination"), RoutingKey: name.Draw(t, "key"),
				DestinationKind: rapid.SampledFrom([]topology.Kind{topology.KindQueue, topology.KindExchange}).Draw(t, "kind"),
				Arguments:       topology.Arguments{},
			}
			switch rapid.SampledFrom([]string{"bind", "bind", "bind", "unbind", "exchange", "queue"}).Draw(t, "change") {
			case "bind":
				in.Bind(b)
				expected[b.ID()] = b
			case "unbind":
				in.Unbind(b)
				delete(expected, b.ID())
			case "exchange":
				in.RemoveExchange(b.Source)
				dropBindings(expected, func(o topology.Binding) bool {
					return o.Source == b.Source || o.DestinationKind == topology.KindExchange && o.Destination == b.Source
				})
			case "queue":
				in.RemoveQueue(b.Destination)
				dropBindings(expected, func(o topology.Binding) bool {
					return o.DestinationKind == topology.KindQueue && o.Destination == b.Destination
				})
			}
			compareBindings(t, in, expected)
		}
	})
}

func dropBindings(from map[string]topology.Binding, which func(topology.Binding) bool) {
	for id, b := range from {
		if which(b) {
			delete(from, id)
		}
	}
}

func compareBindings(t *rapid.T, in *topology.Topology, expected map[string]topology.Binding) {
	if got := len(in.Bindings()); got != len(expected) {
		t.Fatalf("%d bindings, expected %d", got, len(expected))
	}
	for _, name := range []string{"a", "b", "c"} {
		compareList(t, in.From(name), expected, func(b topology.Binding) bool { return b.Source == name })
		for _, kind := range []topology.Kind{topology.KindQueue, topology.KindExchange} {
			compareList(t, in.To(kind, name), expected, func(b topology.Binding) bool { return b.DestinationKind == kind && b.Destination == name })
		}
	}
}

func compareList(t *rapid.T, list []topology.Binding, expected map[string]topology.Binding, which func(topology.Binding) bool) {
	var got, want []string
	for _, b := range list {
		got = append(got, b.ID())
	}
	for id, b := range expected {
		if which(b) {
			want = append(want, id)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("bindings %q, expected %q", got, want)
	}
}

// BenchmarkRemoveExchange removes an exchange with that many bindings on each side.
// The cost per binding does not depend on their number.
func BenchmarkRemoveExchange(b *testing.B) {
	for _, n := range []int{2500, 5000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				in := hub(n)
				b.StartTimer()
				in.RemoveExchange("hub")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(2*n), "ns/binding")
		})
	}
}
