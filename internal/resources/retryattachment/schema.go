package retryattachment

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (r *attachmentResource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = identityschema.Schema{
		Attributes: map[string]identityschema.Attribute{
			"vhost": identityschema.StringAttribute{OptionalForImport: true, Description: "Virtual host of the tiers and the queue. Default: /."},
			"tiers": identityschema.StringAttribute{RequiredForImport: true, Description: "Name of the retry tiers."},
			"queue": identityschema.StringAttribute{RequiredForImport: true, Description: "Name of the queue."},
		},
	}
}

func (r *attachmentResource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Version: 1,
		MarkdownDescription: "Attaches a work queue to retry tiers that others own, see `rabbitmq_retry_tiers`: declares the queue, or takes an existing one. What the consumer rejects with `requeue=false` waits in the " +
			"next tier and comes back, and is parked after the last one.\n\n" +
			"Neither making nor removing an attachment changes the tiers or another attachment.",
		Attributes: map[string]schema.Attribute{},
	}
	for _, part := range []map[string]schema.Attribute{names(), queue(), policy(), removal(), outputs()} {
		for name, attribute := range part {
			resp.Schema.Attributes[name] = attribute
		}
	}
	resp.Schema.Attributes["timeouts"] = timeoutsSchema(ctx)
}

func names() map[string]schema.Attribute {
	fixed := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	return map[string]schema.Attribute{
		"tiers": schema.StringAttribute{
			Required: true, Validators: notEmpty, PlanModifiers: fixed,
			MarkdownDescription: "Name of the retry tiers. They must exist when this is applied: refer to the resource, if it is in the same configuration. It cannot change while the queue is attached: for a while the queue would be attached to none, and what its consumers reject would be lost.",
		},
		"queue": schema.StringAttribute{
			Required: true, Validators: notEmpty, PlanModifiers: fixed,
			MarkdownDescription: "Name of the work queue. Messages that come back from a tier have it as their routing key. Changing it makes a new attachment.",
		},
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString("/"), Validators: notEmpty, PlanModifiers: fixed,
			MarkdownDescription: "Virtual host of the tiers and the queue. Changing it makes a new attachment. Default: `/`.",
		},
	}
}

func queue() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"ownership": ownership(),
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Type of the queue that the attachment declares: `quorum` or `classic`. Classic queues can lose messages if their node fails. It cannot change in place. Default: `quorum`; none for an existing queue.",
			Validators:          []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
		},
		"dead_letter_strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Guarantee with which the broker moves a rejected message into the first tier. `at-least-once` needs a quorum queue: no message is lost on the way, in rare cases one comes twice. " +
				"`at-most-once`: the other way round. It can change in place for an existing queue only. Default: `at-least-once` for quorum queues, `at-most-once` for classic ones.",
			Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
		},
		"delivery_limit": schema.Int64Attribute{
			Optional: true, Computed: true,
			MarkdownDescription: fmt.Sprintf("How often a message may go back to the queue without being rejected (a crash of the consumer, a requeue) before it is parked; `-1` for no limit. RabbitMQ counts a retry as a "+
				"delivery, and so the queue is declared with %d more. For quorum queues that the attachment declares. It cannot change in place. Default: `%d`; none for classic and existing queues.", retry.MaxTiers, retry.DefaultDeliveryLimit),
			Validators: []validator.Int64{int64validator.AtLeast(retry.Unlimited)},
		},
		"arguments": schema.StringAttribute{
			Optional: true, CustomType: jsontypes.NormalizedType{},
			MarkdownDescription: "Further arguments of the queue that the attachment declares, as a JSON object with typed values: `jsonencode({ \"x-single-active-consumer\" = true })`. " +
				"A length limit is refused: a queue that is full would hold up the tiers for all others. They cannot change in place. Default: none.",
			Validators: []validator.String{values.Arguments()},
		},
	}
}

func policy() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"policy": attribute.AttachmentPolicy.Schema("Settings of the policy that attaches an application's queue. RabbitMQ applies only one user policy to a queue, the one of the highest priority. " +
			"Without effect on a queue that the attachment declares. Default: the defaults below."),
	}
}

func ownership() schema.Attribute {
	a := attribute.Ownership(ownedByAttachment, "Who declares the queue. `attachment`: the attachment declares and deletes it. `application`: the attachment neither declares nor deletes it, and attaches it by a policy, "+
		"which needs a user with the tag `policymaker`. It cannot change in place.")
	a.Default = stringdefault.StaticString(ownedByAttachment)
	return a
}

func removal() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"on_detach": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(waitThere),
			MarkdownDescription: "What happens on a destroy with messages that are under way in the tiers. `wait`: it waits until they have come back, which takes as long as the longest delay unless all tiers are empty, and " +
				"fails at once if `timeouts.delete` is too short for that. An existing queue parks meanwhile what is rejected. A queue that the attachment declared has to be empty then, and without consumers. " +
				"`park`: it does not wait; they are parked when their delay is over. The value that was applied last counts. Default: `wait`.",
			Validators: []validator.String{stringvalidator.OneOf(waitThere, park)},
		},
		"deletion_policy": schema.StringAttribute{
			Optional: true, Computed: true, Default: stringdefault.StaticString(ifEmpty),
			MarkdownDescription: "What a destroy does with a queue that the attachment declared. `if_empty`: it fails while the queue holds a message or has a consumer. `delete`: it deletes the queue with its messages, and " +
				"without waiting for those in the tiers, which are parked. `retain`: it leaves the queue attached, whether declared or existing, and only forgets it. The value that was applied last counts: to change it, " +
				"apply first and destroy then. Default: `if_empty`.",
			Validators: []validator.String{stringvalidator.OneOf(ifEmpty, deleteAll, retain)},
		},
	}
}

func timeoutsSchema(ctx context.Context) schema.Attribute {
	attribute := timeouts.Attributes(ctx, timeouts.Opts{
		Create: true, Read: true, Update: true, Delete: true,
		CreateDescription: "Longest time for a create, such as `30s`. Default: `5m`.",
		ReadDescription:   "Longest time for a refresh. Default: `2m`.",
		UpdateDescription: "Longest time for an update. Default: `5m`.",
		DeleteDescription: "Longest time for a destroy, which may wait for the longest delay of the tiers, see `on_detach`. Default: `10m`.",
	})
	if nested, ok := attribute.(schema.SingleNestedAttribute); ok {
		nested.MarkdownDescription = "Time limits of the operations. Default: those below."
		return nested
	}
	return attribute
}

func outputs() map[string]schema.Attribute {
	lines := func(what string) schema.Attribute {
		return schema.MapAttribute{Computed: true, ElementType: types.StringType, MarkdownDescription: what}
	}
	return map[string]schema.Attribute{
		"id": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "`tiers/queue@vhost`, as an import takes it. `%`, `@` and, in the first two parts, `/` are percent-encoded.",
		},
		"topology": schema.SingleNestedAttribute{
			Computed: true,
			MarkdownDescription: "Every object of the attachment, one line each. The plan holds what is wanted, the state what is on the broker, and so a plan shows exactly what drifted. " +
				"`ignore_changes` has no effect on it.",
			Attributes: map[string]schema.Attribute{
				"exchanges": lines("Always empty: the exchanges belong to the tiers."),
				"queues":    lines("The queue, if the attachment declares it: type and arguments by name."),
				"bindings":  lines("The way back from the tiers: routing key by `source -> destination`."),
				"policies":  lines("The policy that attaches an existing queue, and, after a refresh, policies of others that endanger its messages."),
			},
		},
	}
}
