package values

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

var lineTypes = types.MapType{ElemType: types.StringType}

// LinesTypes are the attributes of a topology as lines: a map from the name of
// each object to its line, per kind of object.
var LinesTypes = map[string]attr.Type{"exchanges": lineTypes, "queues": lineTypes, "bindings": lineTypes, "policies": lineTypes}

// LinesValue writes a topology as lines.
func LinesValue(lines topology.Lines) types.Object {
	return types.ObjectValueMust(LinesTypes, map[string]attr.Value{
		"exchanges": lineMap(lines.Exchanges), "queues": lineMap(lines.Queues), "bindings": lineMap(lines.Bindings),
		"policies": lineMap(lines.Policies),
	})
}

func lineMap(lines map[string]string) types.Map {
	elements := make(map[string]attr.Value, len(lines))
	for name, line := range lines {
		elements[name] = types.StringValue(line)
	}
	return types.MapValueMust(types.StringType, elements)
}

// LinesOf reads a topology's lines back; a null or unknown one has none.
func LinesOf(value types.Object) topology.Lines {
	parts := value.Attributes()
	lines := func(kind string) map[string]string {
		elements := Part[types.Map](parts, kind).Elements()
		lines := make(map[string]string, len(elements))
		for name, element := range elements {
			line, _ := element.(types.String)
			lines[name] = line.ValueString()
		}
		return lines
	}
	return topology.Lines{Exchanges: lines("exchanges"), Queues: lines("queues"), Bindings: lines("bindings"), Policies: lines("policies")}
}

// WithDangers shows other policies that endanger messages among the objects
// of a topology: a plan then shows them as what should not be there.
func WithDangers(value types.Object, problems []retry.Problem) types.Object {
	lines := LinesOf(value)
	for _, p := range problems {
		if p.Policy != nil && !p.Warning {
			lines.Policies[p.Policy.Name] = p.Policy.Kind() + ", " + p.Policy.Line()
		}
	}
	return LinesValue(lines)
}

// Part takes one attribute of a nested object; it is null when it is missing.
// Decoding by reflection, as the framework offers it, took half of the
// provider's own time.
func Part[T attr.Value](parts map[string]attr.Value, name string) T {
	value, _ := parts[name].(T)
	return value
}

// WithUnknownPolicies is a planned topology whose policies depend on what is not known yet.
func WithUnknownPolicies(value types.Object) types.Object {
	parts := value.Attributes()
	parts["policies"] = types.MapUnknown(types.StringType)
	return types.ObjectValueMust(LinesTypes, parts)
}
