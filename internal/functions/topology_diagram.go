package functions

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

type topologyDiagram struct{}

func (topologyDiagram) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "topology_diagram"
}

func (topologyDiagram) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Mermaid flowchart of a topology.",
		MarkdownDescription: "Returns a Mermaid flowchart of the `topology` of a retry chain, retry tiers, an attachment or a delay " +
			"network, for a README or a pull request. Exchanges are rounded boxes, queues are cylinders, bindings are arrows, " +
			"dead-letter and alternate exchanges are dotted arrows.",
		Parameters: []function.Parameter{
			function.ObjectParameter{
				Name:           "topology",
				AttributeTypes: values.LinesTypes,
				MarkdownDescription: "Attribute `topology` of a resource `rabbitmq_retry_chain`, `rabbitmq_retry_tiers`, " +
					"`rabbitmq_retry_attachment` or `rabbitmq_delay_network`.",
			},
		},
		Return: function.StringReturn{},
	}
}

func (topologyDiagram) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var value types.Object
	resp.Error = req.Arguments.Get(ctx, &value)
	if resp.Error != nil {
		return
	}
	if !linesKnown(value) {
		resp.Error = resp.Result.Set(ctx, types.StringUnknown())
		return
	}
	resp.Error = resp.Result.Set(ctx, values.LinesOf(value).Topology().Mermaid())
}

// linesKnown says whether all lines are known: OpenTofu calls a function with an object
// that is known except for an attribute.
func linesKnown(value types.Object) bool {
	for _, part := range value.Attributes() {
		lines, _ := part.(types.Map)
		if lines.IsUnknown() {
			return false
		}
		for _, line := range lines.Elements() {
			if line.IsUnknown() {
				return false
			}
		}
	}
	return true
}
