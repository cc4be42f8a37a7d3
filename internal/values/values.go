// Package values converts between the values of Terraform and those of the domain:
// durations, JSON arguments, and topologies as lines.
package values

import (
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
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

// DurationsOf reads a list of durations as [DurationOf] does, and leaves out what
// is none.
func DurationsOf(list types.List) []time.Duration {
	durations := make([]time.Duration, 0, len(list.Elements()))
	for _, text := range Texts(list) {
		if d := DurationOf(types.StringValue(text)); d != nil {
			durations = append(durations, *d)
		}
	}
	return durations
}

// DurationList writes durations in their canonical form.
func DurationList(durations []time.Duration) types.List {
	texts := make([]string, 0, len(durations))
	for _, d := range durations {
		texts = append(texts, retry.FormatDuration(d))
	}
	return TextList(texts)
}

// Texts returns the elements of a list of strings that are known.
func Texts(list types.List) []string {
	var texts []string
	for _, element := range list.Elements() {
		if text, ok := element.(types.String); ok && !text.IsNull() && !text.IsUnknown() {
			texts = append(texts, text.ValueString())
		}
	}
	return texts
}

// TextList is a list of texts.
func TextList(texts []string) types.List {
	elements := make([]attr.Value, 0, len(texts))
	for _, text := range texts {
		elements = append(elements, types.StringValue(text))
	}
	return types.ListValueMust(types.StringType, elements)
}

// CompleteDeadLetterStrategy is the configured strategy, or else what is default
// for the type of the queues.
func CompleteDeadLetterStrategy(configured, queueType types.String) types.String {
	switch {
	case !configured.IsNull():
		return configured
	case queueType.IsUnknown():
		return types.StringUnknown()
	default:
		return types.StringValue(string(retry.DefaultDeadLetterStrategy(topology.QueueType(queueType.ValueString()))))
	}
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

// TextOrNull is null for an empty text.
func TextOrNull(text string) types.String {
	if text == "" {
		return types.StringNull()
	}
	return types.StringValue(text)
}

// TimeOrNull writes a time in RFC 3339 and UTC, null for the zero time.
func TimeOrNull(t time.Time) types.String {
	if t.IsZero() {
		return types.StringNull()
	}
	return types.StringValue(t.UTC().Format(time.RFC3339))
}

// Known says whether no value, and no part of one, is unknown.
func Known(all ...attr.Value) bool {
	for _, v := range all {
		known := true
		switch whole := v.(type) {
		case types.Object:
			for _, part := range whole.Attributes() {
				known = known && Known(part)
			}
		case types.List:
			known = Known(whole.Elements()...)
		}
		if !known || v.IsUnknown() {
			return false
		}
	}
	return true
}

// Default fills in a text that is null.
func Default(value *types.String, text string) {
	if value.IsNull() {
		*value = types.StringValue(text)
	}
}

// SameDurations compares lists of durations; what is unknown or null is not the same.
func SameDurations(a, b types.List) bool {
	return !a.IsUnknown() && !b.IsNull() && slices.EqualFunc(a.Elements(), b.Elements(), func(x, y attr.Value) bool {
		before, isText := x.(types.String)
		after, alsoText := y.(types.String)
		return isText && alsoText && SameDuration(before, after)
	})
}

// SameDuration compares durations; what is unknown or null is not the same.
func SameDuration(a, b types.String) bool {
	x, y := DurationOf(a), DurationOf(b)
	return x != nil && y != nil && *x == *y
}
