package retryattachment

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func attachmentSchema(ctx context.Context) schema.Schema {
	whole := schema.Schema{
		Version: 1,
		MarkdownDescription: "Attaches a work queue to retry tiers that others own, see `rabbitmq_retry_tiers`: declares the queue, " +
			"or takes an existing one. What the consumer rejects with `requeue=false` waits in the next tier and comes back, and is " +
			"parked after the last one.\n\nNeither making nor removing an attachment changes the tiers or another attachment.",
		Attributes: map[string]schema.Attribute{},
	}
	for _, part := range []map[string]schema.Attribute{names(), queue(), policy(), removal(), outputs()} {
		for name, attribute := range part {
			whole.Attributes[name] = attribute
		}
	}
	whole.Attributes["timeouts"] = limits.TimeoutsAttribute(ctx, ".", ", which may wait for the longest delay of the tiers, see "+
		"`on_detach`.")
	return whole
}

func names() map[string]schema.Attribute {
	notEmpty := []validator.String{stringvalidator.LengthAtLeast(1)}
	return map[string]schema.Attribute{
		"tiers": schema.StringAttribute{
			Required: true, Validators: notEmpty,
			MarkdownDescription: "Name of the retry tiers. They must exist when this is applied: refer to the resource, if it is in the " +
				"same configuration. It cannot change while the queue is attached: for a while the queue would be attached to none, and " +
				"what its consumers reject would be lost.",
		},
		"queue": schema.StringAttribute{
			Required: true, Validators: notEmpty,
			MarkdownDescription: "Name of the work queue. Messages that come back from a tier have it as their routing key. Changing it " +
				"makes a new attachment.",
		},
		"vhost": lifecycle.VHostAttribute("Virtual host of the tiers and the queue. Changing it makes a new attachment."),
	}
}

func queue() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"ownership": attribute.Ownership(ownedByAttachment, "Who declares the queue. `attachment`: the attachment declares and "+
			"deletes it. `application`: the attachment neither declares nor deletes it, and attaches it by a policy, which needs a "+
			"user with the tag `policymaker`. It cannot change in place."),
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Type of the queue that the attachment declares: `quorum` or `classic`. Classic queues can lose " +
				"messages if their node fails. It cannot change in place. Default: `quorum`; none for an existing queue.",
			Validators: []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
		},
		"dead_letter_strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Guarantee with which the broker moves a rejected message into the first tier. `at-least-once` needs " +
				"a quorum queue: no message is lost on the way, in rare cases one comes twice. `at-most-once`: the other way round. " +
				"It can change in place for an existing queue only. Default: `at-least-once` for quorum queues, `at-most-once` for " +
				"classic ones.",
			Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
		},
		"delivery_limit": schema.Int64Attribute{
			Optional: true, Computed: true,
			MarkdownDescription: fmt.Sprintf("How often a message may go back to the queue without being rejected (a crash of the "+
				"consumer, a requeue) before it is parked; `-1` for no limit. RabbitMQ counts a retry as a "+
				"delivery, and so the queue is declared with %d more. For quorum queues that the attachment declares. It cannot change "+
				"in place. Default: `%d`; none for classic and existing queues.", retry.MaxTiers, retry.DefaultDeliveryLimit),
			Validators: []validator.Int64{int64validator.AtLeast(retry.Unlimited)},
		},
		"arguments": schema.StringAttribute{
			Optional: true, CustomType: jsontypes.NormalizedType{},
			MarkdownDescription: "Further arguments of the queue that the attachment declares, as a JSON object with typed values: " +
				"`jsonencode({ \"x-single-active-consumer\" = true })`. A length limit is refused: a queue that is full would hold up " +
				"the tiers for all others. They cannot change in place. Default: none.",
			Validators: []validator.String{values.Arguments()},
		},
	}
}

func policy() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"policy": attribute.AttachmentPolicy.Schema("Settings of the policy that attaches an application's queue. RabbitMQ applies " +
			"only one user policy to a queue, the one of the highest priority. Without effect on a queue that the attachment " +
			"declares. Default: the defaults below."),
	}
}

func removal() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"on_detach": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "What happens on a destroy with messages that are under way in the tiers. `wait`: it waits until " +
				"they have come back, which takes as long as the longest delay unless all tiers are empty, and fails at once if " +
				"`timeouts.delete` is too short for that. An existing queue parks meanwhile what is rejected. A queue that the " +
				"attachment declared has to be empty then, and without consumers. `park`: it does not wait; they are parked when " +
				"their delay is over. The value that was applied last counts. Default: `wait`.",
			Validators: []validator.String{stringvalidator.OneOf(waitThere, park)},
		},
		"deletion_policy": lifecycle.DeletionPolicyAttribute(
			"What a destroy does with a queue that the attachment declared. `if_empty`: it fails while the queue holds a message or " +
				"has a consumer. `delete`: it deletes the queue with its messages, and without waiting for those in the tiers, which " +
				"are parked. `retain`: it leaves the queue attached, whether declared or existing, and only forgets it."),
	}
}

func outputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": lifecycle.TextOutput("`tiers/queue@vhost`, as an import takes it. `%`, `@` and, in the first two " +
			"parts, `/` are percent-encoded."),
		"effective_delivery_limit": attribute.EffectiveLimit(),
		"work_queue_arguments":     attribute.WorkQueueArguments("rabbitmq_retry_attachment.orders"),
		"topology":                 lifecycle.TopologyAttribute("Every object of the attachment (the exchanges belong to the tiers)"),
	}
}
