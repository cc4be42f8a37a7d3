package delaynetwork

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (r *networkResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{
		Attributes: map[string]identityschema.Attribute{
			"vhost": identityschema.StringAttribute{OptionalForImport: true, Description: "Virtual host of the network. Default: /."},
			"name":  identityschema.StringAttribute{RequiredForImport: true, Description: "Name of the network."},
		},
	}
}

func (r *networkResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Declares a delay network: exchanges and queues through which a message reaches its destination after any delay up to a maximum, in steps of a unit. " +
			"The broker alone does it, without a plugin and without a process.\n\n" +
			"A sender publishes to `exchange` with a routing key that holds the delay and the destination, see the function `delay_key`. " +
			"The resource `rabbitmq_delay_destination` attaches a queue.",
		Attributes: inputs(ctx),
	}
	for name, attribute := range outputs() {
		resp.Schema.Attributes[name] = attribute
	}
}

func inputs(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the exchange that senders publish to, and prefix of every other object. Changing it makes a new network.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("/"),
			MarkdownDescription: "Virtual host. It must exist. Changing it makes a new network. Default: `/`.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"unit": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(retry.FormatDuration(delay.DefaultUnit)),
			MarkdownDescription: "Shortest delay above zero, such as `1s` or `100ms`. Delays are rounded up to it. It cannot change in place. Default: `1s`.",
			Validators:          []validator.String{values.Duration()},
		},
		"levels": schema.Int64Attribute{
			Optional: true, Computed: true, Default: int64default.StaticInt64(delay.DefaultLevels),
			MarkdownDescription: fmt.Sprintf("Number of levels, one exchange and one queue each. The longest delay is the unit times 2 to the power of the levels, less one unit. "+
				"At most %d, and no level may be longer than ten years. It cannot change in place. Default: `28`, which is 8.5 years with a unit of `1s`.", delay.MaxLevels),
			Validators: []validator.Int64{int64validator.Between(1, delay.MaxLevels)},
		},
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(topology.Quorum)),
			MarkdownDescription: "Type of every queue of the network: `quorum` or `classic`. Classic queues can lose every waiting message if their node fails. It cannot change in place. Default: `quorum`.",
			Validators:          []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
		},
		"dead_letter_strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Guarantee with which the broker moves a message from level to level. `at-least-once` needs quorum queues: no message is lost on the way, in rare cases one " +
				"comes twice. `at-most-once`: the other way round. It cannot change in place. Default: `at-least-once` for quorum queues, `at-most-once` for classic ones.",
			Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
		},
		"deletion_policy": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(ifEmpty),
			MarkdownDescription: "What a destroy does with messages. `if_empty`: it fails while any queue of the network holds one, or a destination is attached. `delete`: it deletes them. " +
				"`retain`: it leaves the whole network on the broker and only forgets it. The value that was applied last counts: to change it, " +
				"apply first and destroy then. Default: `if_empty`.",
			Validators: []validator.String{stringvalidator.OneOf(ifEmpty, deleteAll, retain)},
		},
		"timeouts": timeoutsSchema(ctx),
	}
}

func timeoutsSchema(ctx context.Context) schema.Attribute {
	attribute := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Longest time for a create, such as `30s`. Default: `5m`.",
		ReadDescription:   "Longest time for a refresh. Default: `2m`.",
		UpdateDescription: "Longest time for an update. Default: `5m`.",
		DeleteDescription: "Longest time for a destroy, of which a proof that queues are empty takes 10 to 30 seconds. Default: `5m`.",
	})
	if nested, ok := attribute.(schema.SingleNestedAttribute); ok {
		nested.MarkdownDescription = "Time limits of the operations. Default: those below."
		return nested
	}
	return attribute
}

func outputs() map[string]schema.Attribute {
	text := func(what string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: what}
	}
	lines := func(what string) schema.Attribute {
		return schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: what}
	}
	return map[string]schema.Attribute{
		"id":                text("`name@vhost`, as an import takes it. `%` and `@` inside the two parts are percent-encoded."),
		"maximum_delay":     text("Longest delay."),
		"exchange":          text("Exchange that senders publish to; its name is that of the network."),
		"delivery_exchange": text("Topic exchange that destinations are bound to."),
		"unrouted_queue": text("Queue for messages that the network cannot deliver: no destination of their name is attached, or their routing key is no key of the network. " +
			"It should be watched; nothing consumes it."),
		"topology": schema.SingleNestedAttribute{
			Computed: true,
			MarkdownDescription: "Every object of the network but the bindings of destinations, one line each. The plan holds what is wanted, the state what is on the broker, and so a plan shows " +
				"exactly what drifted. `ignore_changes` has no effect on it.",
			Attributes: map[string]schema.Attribute{
				"exchanges": lines("Type and arguments by name."),
				"queues":    lines("Type and arguments by name."),
				"bindings":  lines("Routing key by `source -> destination`."),
				"policies":  lines("After a refresh: policies of others that endanger the network's messages."),
			},
		},
	}
}
