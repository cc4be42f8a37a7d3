package topology_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestPropertyIndexed: with an index a message goes where it goes without.
func TestPropertyIndexed(t *testing.T) {
	routed := 0
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SampledFrom([]any{"a", "b", true, int64(1), 1.0, "1", nil})
		headers := rapid.MapOfN(rapid.SampledFrom([]string{"h", "i", "x-h"}), values, 0, 3)
		keys := rapid.SampledFrom([]string{"a", "b", "a.b", "", "#", "a.*"})
		in := topology.New()
		in.SetExchange(topology.Exchange{Name: "in", Type: rapid.SampledFrom([]string{"direct", "topic", "fanout", "headers"}).Draw(t, "type")})
		for range rapid.IntRange(0, 60).Draw(t, "bindings") {
			arguments := topology.Arguments(headers.Draw(t, "arguments"))
			if match := rapid.SampledFrom([]string{"", "all", "any", "all-with-x", "any-with-x"}).Draw(t, "match"); match != "" {
				arguments["x-match"] = match
			}
			in.Bind(topology.Binding{
				Source: "in", Destination: rapid.StringMatching("[a-z]").Draw(t, "queue"), DestinationKind: topology.KindQueue,
				RoutingKey: keys.Draw(t, "binding key"), Arguments: arguments,
			})
		}
		indexed := in.Indexed()
		for range 5 {
			m := topology.Message{RoutingKeys: rapid.SliceOfN(keys, 1, 3).Draw(t, "keys"), Headers: topology.Arguments(headers.Draw(t, "headers"))}
			equality := rapid.SampledFrom([]topology.Equality{topology.Strict, topology.Numeric}).Draw(t, "equality")
			want, err := in.Route("in", m, equality)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := indexed.Route("in", m, equality); err != nil || !slices.Equal(got, want) {
				t.Fatalf("%v goes to %q with an index, %v, and to %q without", m, got, err, want)
			}
			routed += len(want)
		}
	})
	if routed == 0 {
		t.Error("no message was routed")
	}
}
