package topology_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestLinesReadBack: what the lines say is read back exactly, whatever names and
// arguments hold.
func TestLinesReadBack(t *testing.T) {
	name := rapid.StringMatching(`[a-b.# "\[\]{}()=,>é-]{1,8}`)
	value := rapid.SampledFrom([]any{
		"", "a", "a b", "1", "true", "a, b=c", `"`, "[x]", true, int64(-1), int64(60000), 1.0, 1.5e30,
		[]any{"a", int64(1)},
		[]any{},
		map[string]any{"k": "v, w", "l": []any{true}},
		map[string]any{},
	})
	arguments := rapid.MapOfN(rapid.SampledFrom([]string{"h", "type", "routing_key", "x-h", "x-match", "alternate-exchange"}), value, 0, 3)
	rapid.Check(t, func(t *rapid.T) {
		wanted := topology.New()
		names := rapid.SliceOfNDistinct(name, 1, 4, rapid.ID[string]).Draw(t, "names")
		for _, n := range names {
			wanted.SetExchange(topology.Exchange{
				Name: n, Type: "topic", Durable: rapid.Bool().Draw(t, "durable"), Internal: rapid.Bool().Draw(t, "internal"),
				AutoDelete: rapid.Bool().Draw(t, "auto-delete"), Arguments: arguments.Draw(t, "exchange"),
			})
			wanted.SetQueue(topology.Queue{
				Name: "queue" + n, Type: topology.Quorum, Durable: true, Exclusive: rapid.Bool().Draw(t, "exclusive"),
				Arguments: arguments.Draw(t, "queue"),
			})
			wanted.SetPolicy(topology.Policy{
				Name: n, Pattern: name.Draw(t, "pattern"), ApplyTo: topology.ApplyToQueues, Priority: 5,
				Definition: arguments.Draw(t, "policy"),
			})
		}
		kind := rapid.SampledFrom([]topology.Kind{topology.KindQueue, topology.KindExchange}).Draw(t, "kind")
		destination := rapid.SampledFrom(names).Draw(t, "to")
		if kind == topology.KindQueue {
			destination = "queue" + destination
		}
		wanted.Bind(topology.Binding{
			Source: rapid.SampledFrom(names).Draw(t, "from"), Destination: destination, DestinationKind: kind,
			RoutingKey: rapid.OneOf(rapid.Just(""), name).Draw(t, "key"), Arguments: arguments.Draw(t, "binding"),
		})
		got := wanted.Lines(nil).Topology()
		if read, written := got.Lines(nil), wanted.Lines(nil); !equalLines(read, written) {
			t.Fatalf("read back as %q, expected %q", read, written)
		}
		if got.Mermaid() != wanted.Mermaid() {
			t.Fatalf("drawn as\n%s\nexpected\n%s", got.Mermaid(), wanted.Mermaid())
		}
	})
}

func equalLines(a, b topology.Lines) bool {
	for _, maps := range [][2]map[string]string{
		{a.Exchanges, b.Exchanges}, {a.Queues, b.Queues}, {a.Bindings, b.Bindings}, {a.Policies, b.Policies},
	} {
		if len(maps[0]) != len(maps[1]) {
			return false
		}
		for name, line := range maps[0] {
			if maps[1][name] != line {
				return false
			}
		}
	}
	return true
}

// TestReadBackOfTwins: two bindings that share a label stay apart.
func TestReadBackOfTwins(t *testing.T) {
	t.Parallel()
	wanted := topology.New()
	for _, match := range []string{topology.MatchAll, topology.MatchAny} {
		wanted.Bind(topology.Binding{
			Source: "amq.headers", Destination: "orders", DestinationKind: topology.KindQueue, RoutingKey: "k",
			Arguments: topology.Arguments{topology.Match: match, "type": "order"},
		})
	}
	if got := wanted.Lines(nil).Topology(); got.Mermaid() != wanted.Mermaid() {
		t.Errorf("drawn as\n%s\nexpected\n%s", got.Mermaid(), wanted.Mermaid())
	}
}

// TestOddLines: lines that no topology writes are drawn all the same.
func TestOddLines(t *testing.T) {
	t.Parallel()
	lines := topology.Lines{
		Exchanges: map[string]string{"e": ""}, Queues: map[string]string{"q": `classic, x="`},
		Bindings: map[string]string{"no arrow": "", " -> ": "="}, Policies: map[string]string{"p": "policy, queues, pattern=[, priority=x"},
	}
	if lines.Topology().Mermaid() == "" {
		t.Error("nothing is drawn")
	}
}
