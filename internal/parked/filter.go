package parked

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// FilterAttribute is the attribute "filter". Data sources, ephemeral resources,
// actions and resources can all have it: the framework's schemas take each
// other's attributes.
func FilterAttribute() schema.SingleNestedAttribute {
	text := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, MarkdownDescription: description,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		}
	}
	return schema.SingleNestedAttribute{
		Optional:            true,
		MarkdownDescription: "Which messages are selected: those for which every given condition holds. Default: all messages.",
		Attributes: map[string]schema.Attribute{
			"origin_queue": text("Queue that the message failed in."),
			"reason":       text("Why the message failed there: `rejected`, `expired`, `maxlen` or `delivery_limit`."),
			"exchange":     text("Exchange that the message was published to."),
			"routing_key": text("Pattern of the routing key that the message was published with, as topic exchanges have it: `*` is " +
				"one word, `#` any number of words. Words are separated by dots."),
			"headers": text("Headers of the application with their exact values, as a JSON object: `jsonencode({ tenant = \"blue\" " +
				"})`. The integer `2` and the string `\"2\"` are different values."),
			"older_than": text("Selects messages whose last failure is longer ago than this duration, such as `24h`, or earlier than " +
				"this time, such as `2030-01-31T12:00:00Z`."),
			"newer_than": text("The other way round: failed within this duration, or after this time."),
			"message_ids": schema.ListAttribute{
				Optional: true, ElementType: types.StringType,
				MarkdownDescription: "Message ids, the AMQP property, as their publishers set them.",
				Validators: []validator.List{
					listvalidator.SizeAtLeast(1),
					listvalidator.ValueStringsAre(stringvalidator.LengthAtLeast(1)),
				},
			},
			"min_attempts": schema.Int64Attribute{
				Optional: true, MarkdownDescription: "Least number of attempts before the message failed for good.",
				Validators: []validator.Int64{int64validator.AtLeast(1)},
			},
		},
	}
}

// FilterIsKnown says whether no condition is known only after apply.
func FilterIsKnown(filter types.Object) bool {
	if filter.IsUnknown() {
		return false
	}
	for _, part := range filter.Attributes() {
		if part.IsUnknown() {
			return false
		}
		if list, ok := part.(types.List); ok && slices.ContainsFunc(list.Elements(), attr.Value.IsUnknown) {
			return false
		}
	}
	return true
}

// FilterOf reads and checks the filter, which must be known. Durations count
// back from now. It checks what validators could, because those have not seen
// what was known only after apply.
func FilterOf(filter types.Object, now time.Time, diags *diag.Diagnostics) deadletter.Filter {
	var f deadletter.Filter
	parts := filter.Attributes()
	if len(parts) == 0 {
		return f
	}
	text := func(name string) string { return values.Part[types.String](parts, name).ValueString() }
	f.OriginQueue, f.Reason, f.Exchange, f.RoutingKey = text("origin_queue"), text("reason"), text("exchange"), text("routing_key")
	f.MinAttempts = values.Part[types.Int64](parts, "min_attempts").ValueInt64()
	for _, element := range values.Part[types.List](parts, "message_ids").Elements() {
		id, _ := element.(types.String)
		f.MessageIDs = append(f.MessageIDs, id.ValueString())
	}
	wrong := func(name string, err error) {
		diags.AddAttributeError(path.Root("filter").AtName(name), "Invalid Filter", diagnostics.Locate("filter."+name,
			diagnostics.Sentence(err.Error())))
	}
	for name, at := range map[string]*time.Time{"older_than": &f.Before, "newer_than": &f.After} {
		if value := text(name); value != "" {
			var err error
			if *at, err = parseMoment(value, now); err != nil {
				wrong(name, err)
			}
		}
	}
	if value := text("headers"); value != "" {
		headers, err := values.DecodeArguments(value)
		if err != nil {
			wrong("headers", err)
		}
		f.Headers = headers
	}
	for _, problem := range f.Check() {
		wrong(problem.Attribute, errors.New(problem.Problem))
	}
	return f
}

func parseMoment(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	ago, err := retry.ParseDuration(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("neither a time such as 2030-01-31T12:00:00Z nor a duration: %w", err)
	}
	return now.Add(-ago), nil
}
