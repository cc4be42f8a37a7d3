package retrytiers

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func tiersSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		Version: 1,
		MarkdownDescription: "Declares tiers and a parking queue that any number of work queues share, so that one team owns them and " +
			"others attach their queues with `rabbitmq_retry_attachment`, also from other states. Neither changes the plan of the " +
			"other.\n\nA work queue that has tiers of its own is simpler and safer: see `rabbitmq_retry_chain`. In shared tiers " +
			"consumers see the name of the queue as routing key when a message comes back (the original one is in its `x-death` " +
			"header), and messages of one queue can hold up those of others.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Prefix of every object. Changing it makes new tiers.",
			},
			"vhost": lifecycle.VHostAttribute("Virtual host. It must exist. Changing it makes new tiers."),
			"delays": schema.ListAttribute{
				Required: true, ElementType: types.StringType,
				MarkdownDescription: fmt.Sprintf("Wait before each retry, in order, such as `5s`, `1m30s` or `2h`. At most %d. They "+
					"can change while messages are under way: new tiers come first, and tiers that are not wanted any more drain "+
					"before they are removed. An empty list parks every rejected message at once.",
					retry.MaxTiers),
				Validators: []validator.List{listvalidator.SizeAtMost(retry.MaxTiers), listvalidator.ValueStringsAre(values.Duration())},
			},
			"queue_type": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Type of the tiers and the parking queue: `quorum` or `classic`. Classic queues can lose every " +
					"waiting message if their node fails. It cannot change in place. Attached queues can be of another type. Default: " +
					"`quorum`.",
				Validators: []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
			},
			"dead_letter_strategy": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Guarantee with which the broker moves a message out of a tier. `at-least-once` needs quorum " +
					"queues: no message is lost on the way, in rare cases one comes twice. `at-most-once`: the other way round. It " +
					"cannot change in place. Default: `at-least-once` for quorum queues, `at-most-once` for classic ones.",
				Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
			},
			"deletion_policy": lifecycle.DeletionPolicyAttribute(
				"What a destroy does with messages. `if_empty`: it fails while a tier or the parking queue holds one. `delete`: it " +
					"deletes them. `retain`: it leaves everything on the broker and only forgets it. Unless it is `retain`, a destroy " +
					"fails while a queue is attached."),
			"timeouts": limits.TimeoutsAttribute(ctx, ". It waits that long at most for removed delays to be over.", ", of which a proof "+
				"that queues are empty takes 10 to 30 seconds."),

			"id": lifecycle.TextOutput("`name@vhost`, as an import takes it. `%` and `@` inside the two parts are " +
				"percent-encoded."),
			"retry_exchange": lifecycle.TextOutput("Exchange to which the dead letters of attached queues go."),
			"return_exchange": lifecycle.TextOutput("Direct exchange to which attached queues are bound by their names. To give a parked " +
				"message all attempts again, publish it here with its routing key, which is the name of its queue."),
			"parking_queue": schema.SingleNestedAttribute{
				Computed: true,
				MarkdownDescription: "Queue for messages that used up their attempts or died of something that is not retried, and for " +
					"those whose queue is not attached any more. It should be watched; nothing consumes it.",
				Attributes: map[string]schema.Attribute{"name": lifecycle.TextOutput("Name of the queue.")},
			},
			"draining": schema.ListAttribute{
				Computed: true, ElementType: types.StringType,
				MarkdownDescription: "Queues of delays that were removed and that still hold messages, or may hold some. Nothing " +
					"enters them any more, and their messages come back when their delay is over. They are left out of `topology`. A " +
					"later plan that finds one empty shows its removal.",
			},
			"topology": lifecycle.TopologyAttribute("Every object of the tiers except the bindings of attachments"),
		},
	}
}
