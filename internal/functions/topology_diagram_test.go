package functions_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// lines is a topology as a resource has it.
type lines map[string]map[string]string

func (l lines) value(ty tftypes.Type) tftypes.Value {
	parts := map[string]tftypes.Value{}
	for _, kind := range []string{"exchanges", "queues", "bindings", "policies"} {
		elements := map[string]tftypes.Value{}
		for name, line := range l[kind] {
			elements[name] = tftypes.NewValue(tftypes.String, line)
		}
		parts[kind] = tftypes.NewValue(tftypes.Map{ElementType: tftypes.String}, elements)
	}
	return tftypes.NewValue(ty, parts)
}

func TestTopologyDiagram(t *testing.T) {
	t.Parallel()
	got, failed := call(t, "topology_diagram", lines{
		"exchanges": {"orders.retry": "headers, alternate-exchange=orders.parking", "orders.parking": "fanout"},
		"queues":    {"orders.retry.5s": "quorum, x-dead-letter-exchange=orders.return.5s, x-message-ttl=5000"},
		"bindings": {
			"amq.topic -> orders (order.#)":         "",
			"orders.retry -> orders.retry.5s":       "x-last-death-reason=rejected, x-match=all-with-x",
			"orders.retry -> exchange orders.first": "",
		},
		"policies": {"orders.attach": `queues, pattern="^orders$", priority=100, dead-letter-exchange=orders.retry`},
	})
	if failed != nil {
		t.Fatal(failed.text)
	}
	want := `flowchart LR
  n1(["orders.parking"])
  n2(["orders.retry"])
  n3[("orders.retry.5s")]
  n4(["amq.topic"])
  n5[("orders")]
  n4 -->|"routing_key=order.#35;"| n5
  n6(["orders.first"])
  n2 --> n6
  n2 -->|"x-last-death-reason=rejected, x-match=all-with-x"| n3
  n7(["orders.return.5s"])
  n3 -.->|"dead letters, after 5000 ms"| n7
  n5 -.->|"dead letters, by policy orders.attach"| n2
  n2 -.->|"nothing matched"| n1
`
	var text string
	if err := got.As(&text); err != nil || text != want {
		t.Errorf("drawn as\n%s\nexpected\n%s", text, want)
	}
	empty, failed := call(t, "topology_diagram", lines{})
	if failed != nil || empty.As(&text) != nil || strings.TrimSpace(text) != "flowchart LR" {
		t.Errorf("an empty topology is drawn as %q", text)
	}
}

// TestTopologyDiagramOfUnknownLines: OpenTofu calls the function when only a part of the
// topology is known.
func TestTopologyDiagramOfUnknownLines(t *testing.T) {
	t.Parallel()
	maps := tftypes.Map{ElementType: tftypes.String}
	unknown := map[string]tftypes.Value{
		"policies": tftypes.NewValue(maps, tftypes.UnknownValue),
		"a line":   tftypes.NewValue(maps, map[string]tftypes.Value{"p": tftypes.NewValue(tftypes.String, tftypes.UnknownValue)}),
	}
	for name, policies := range unknown {
		parts := map[string]tftypes.Value{"policies": policies}
		types := map[string]tftypes.Type{"policies": maps}
		for _, kind := range []string{"exchanges", "queues", "bindings"} {
			parts[kind], types[kind] = tftypes.NewValue(maps, map[string]tftypes.Value{}), maps
		}
		got, failed := call(t, "topology_diagram", tftypes.NewValue(tftypes.Object{AttributeTypes: types}, parts))
		if failed != nil || got.IsKnown() {
			t.Errorf("%s: the diagram is %v, expected unknown (%v)", name, got, failed)
		}
	}
}
