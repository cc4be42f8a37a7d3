package retrytiers

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (r *tiersResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{
		Attributes: map[string]identityschema.Attribute{
			"vhost": identityschema.StringAttribute{OptionalForImport: true, Description: "Virtual host of the tiers. Default: /."},
			"name":  identityschema.StringAttribute{RequiredForImport: true, Description: "Name of the tiers."},
		},
	}
}

func (r *tiersResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Declares tiers and a parking queue that any number of work queues share, so that one team owns them and others attach their queues with `rabbitmq_retry_attachment`, " +
			"also from other states. Neither changes the plan of the other.\n\n" +
			"A work queue that has tiers of its own is simpler and safer: see `rabbitmq_retry_chain`. In shared tiers consumers see the name of the queue as routing key when a message comes back " +
			"(the original one is in its `x-death` header), and messages of one queue can hold up those of others.",
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
			MarkdownDescription: "Prefix of every object. Changing it makes new tiers.",
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("/"),
			MarkdownDescription: "Virtual host. It must exist. Changing it makes new tiers. Default: `/`.",
			Validators:          []validator.String{stringvalidator.LengthAtLeast(1)},
			PlanModifiers:       []planmodifier.String{stringplanmodifier.RequiresReplace()},
		},
		"delays": schema.ListAttribute{
			Required: true, ElementType: types.StringType,
			MarkdownDescription: fmt.Sprintf("Wait before each retry, in order, such as `5s`, `1m30s` or `2h`. At most %d. They can change while messages are under way: new tiers come first, and tiers that are "+
				"not wanted any more drain before they are removed. An empty list parks every rejected message at once.", retry.MaxTiers),
			Validators: []validator.List{listvalidator.SizeAtMost(retry.MaxTiers), listvalidator.ValueStringsAre(values.Duration())},
		},
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(string(topology.Quorum)),
			MarkdownDescription: "Type of the tiers and the parking queue: `quorum` or `classic`. Classic queues can lose every waiting message if their node fails. It cannot change in place. Attached queues can be of another type. Default: `quorum`.",
			Validators:          []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
		},
		"dead_letter_strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Guarantee with which the broker moves a message out of a tier. `at-least-once` needs quorum queues: no message is lost on the way, in rare cases one " +
				"comes twice. `at-most-once`: the other way round. It cannot change in place. Default: `at-least-once` for quorum queues, `at-most-once` for classic ones.",
			Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
		},
		"deletion_policy": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(ifEmpty),
			MarkdownDescription: "What a destroy does with messages. `if_empty`: it fails while a tier or the parking queue holds one. `delete`: it deletes them. " +
				"`retain`: it leaves everything on the broker and only forgets it. Unless it is `retain`, a destroy fails while a queue is attached. The value that was applied last counts: to change it, " +
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
		UpdateDescription: "Longest time for an update. It waits that long at most for removed delays to be over. Default: `5m`.",
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
		"id":              text("`name@vhost`, as an import takes it. `%` and `@` inside the two parts are percent-encoded."),
		"attempts":        schema.Int64Attribute{Computed: true, MarkdownDescription: "How often a message that always fails is delivered: one more than there are delays."},
		"total_delay":     text("Sum of all delays."),
		"retry_exchange":  text("Exchange to which the dead letters of attached queues go."),
		"return_exchange": text("Direct exchange to which attached queues are bound by their names. To give a parked message all attempts again, publish it here with its routing key, which is the name of its queue."),
		"parking_queue":   text("Queue for messages that used up their attempts or died of something that is not retried, and for those whose queue is not attached any more. It should be watched; nothing consumes it."),
		"draining": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Queues of delays that were removed and that still hold messages, or may hold some. Nothing enters them any more, and their messages come back when their delay " +
				"is over. They are left out of `topology`. A later plan that finds one empty shows its removal.",
		},
		"topology": schema.SingleNestedAttribute{
			Computed: true,
			MarkdownDescription: "Every object of the tiers but the bindings of attachments, one line each. The plan holds what is wanted, the state what is on the broker, and so a plan shows " +
				"exactly what drifted. `ignore_changes` has no effect on it.",
			Attributes: map[string]schema.Attribute{
				"exchanges": lines("Type and arguments by name."),
				"queues":    lines("Type and arguments by name."),
				"bindings":  lines("Arguments by `source -> destination`."),
				"policies":  lines("After a refresh: policies of others that endanger messages."),
			},
		},
	}
}
