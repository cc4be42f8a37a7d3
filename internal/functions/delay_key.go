package functions

import (
	"context"
	"math/big"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

type delayKey struct{}

// networkArgument is what the key depends on of a network.
type networkArgument struct {
	Unit   types.String `tfsdk:"unit"`
	Levels types.Number `tfsdk:"levels"`
}

// isKnown says whether both are known: OpenTofu calls a function with an object
// that is known except for an attribute.
func (n networkArgument) isKnown() bool { return !n.Unit.IsUnknown() && !n.Levels.IsUnknown() }

func (delayKey) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "delay_key"
}

func (delayKey) Definition(_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse) {
	resp.Definition = function.Definition{
		Summary: "Routing key for a delay and a destination of a delay network.",
		MarkdownDescription: "Returns the routing key with which a message has to be published to the exchange of a delay network, so " +
			"that it reaches the destination after the delay. The key is the delay in units, rounded up, as a binary number with one " +
			"digit per level, and the name of the destination, separated by dots: with 4 levels and a unit of one second, 5 seconds to " +
			"`orders` are `0.1.0.1.orders`.",
		Parameters: []function.Parameter{
			function.ObjectParameter{
				Name:           "network",
				AttributeTypes: map[string]attr.Type{"unit": types.StringType, "levels": types.NumberType},
				MarkdownDescription: "The resource `rabbitmq_delay_network`, or an object with its `unit` and `levels`, such as `{ unit " +
					"= \"1s\", levels = 28 }`.",
			},
			function.StringParameter{
				Name:                "delay",
				MarkdownDescription: "Delay, such as `\"90s\"`: 0 to the maximum delay of the network, and not over ten years.",
			},
			function.StringParameter{
				Name: "destination",
				MarkdownDescription: "Name of the destination. Dots are allowed, the words `*` and `#` are not. At most 255 bytes " +
					"less 2 per level.",
			},
		},
		Return: function.StringReturn{},
	}
}

func (delayKey) Run(ctx context.Context, req function.RunRequest, resp *function.RunResponse) {
	var network networkArgument
	var text, destination string
	resp.Error = req.Arguments.Get(ctx, &network, &text, &destination)
	if resp.Error != nil {
		return
	}
	if !network.isKnown() {
		resp.Error = resp.Result.Set(ctx, types.StringUnknown())
		return
	}
	var a arguments
	n := a.network(0, network)
	d := a.duration(1, text)
	if a.err == nil {
		a.destination(2, n, destination)
	}
	if a.err != nil {
		resp.Error = a.err
		return
	}
	key, err := n.Key(d, destination)
	if err != nil {
		resp.Error = function.NewArgumentFuncError(1, err.Error())
		return
	}
	resp.Error = resp.Result.Set(ctx, key)
}

// network converts what a key depends on of a network.
func (a *arguments) network(position int64, from networkArgument) delay.Network {
	switch {
	case from.Unit.IsNull():
		a.refuse(position, "unit is null")
		return delay.Network{}
	case from.Levels.IsNull():
		a.refuse(position, "levels is null")
		return delay.Network{}
	}
	unit, err := retry.ParseDuration(from.Unit.ValueString())
	if err != nil {
		a.refuse(position, "unit: %s", err)
		return delay.Network{}
	}
	levels, accuracy := from.Levels.ValueBigFloat().Int64()
	if accuracy != big.Exact || levels < 1 || levels > delay.MaxLevels {
		a.refuse(position, "levels is %s. A network has 1 to %d levels.", short(from.Levels.ValueBigFloat()), delay.MaxLevels)
		return delay.Network{}
	}
	n := delay.Network{Name: "network", Unit: unit, Levels: int(levels)}
	for _, problem := range n.Problems() {
		a.refuse(position, "%s", problem.Detail)
	}
	return n
}

func (a *arguments) destination(position int64, n delay.Network, name string) {
	if err := n.CheckDestination(name); err != nil {
		a.refuse(position, "%s", err)
	}
}
