package tfkit

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// DurationOf reads a duration that the validator [Duration] has accepted; nil
// stands for null, unknown and anything else.
func DurationOf(value types.String) *time.Duration {
	if value.IsNull() || value.IsUnknown() {
		return nil
	}
	d, err := retry.ParseDuration(value.ValueString())
	if err != nil {
		return nil
	}
	return &d
}

// DurationValue writes a duration in its canonical form; nil becomes null.
func DurationValue(d *time.Duration) types.String {
	if d == nil {
		return types.StringNull()
	}
	return types.StringValue(retry.FormatDuration(*d))
}

// ArgumentsOf reads arguments that the validator [Arguments] has accepted.
func ArgumentsOf(value jsontypes.Normalized) topology.Arguments {
	if value.IsNull() || value.IsUnknown() {
		return topology.Arguments{}
	}
	arguments, err := DecodeArguments(value.ValueString())
	if err != nil {
		return topology.Arguments{}
	}
	return arguments
}

// ArgumentsValue writes arguments; none become null.
func ArgumentsValue(arguments topology.Arguments) jsontypes.Normalized {
	if len(arguments) == 0 {
		return jsontypes.NewNormalizedNull()
	}
	text, err := EncodeArguments(arguments)
	if err != nil {
		return jsontypes.NewNormalizedNull()
	}
	return jsontypes.NewNormalizedValue(text)
}
