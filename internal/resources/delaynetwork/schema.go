package delaynetwork

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func networkSchema(ctx context.Context) schema.Schema {
	return schema.Schema{
		MarkdownDescription: "Declares a delay network: exchanges and queues through which a message reaches its destination after " +
			"any delay up to a maximum, in steps of a unit. The broker alone does it, without a plugin and without a process.\n\n" +
			"A sender publishes to `exchange` with a routing key that holds the delay and the destination, see the function " +
			"`delay_key`. The resource `rabbitmq_delay_destination` attaches a queue.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Required: true,
				MarkdownDescription: "Name of the exchange that senders publish to, and prefix of every other object. Changing it makes " +
					"a new network.",
			},
			"vhost": lifecycle.VHostAttribute("Virtual host. It must exist. Changing it makes a new network."),
			"unit": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Shortest delay above zero, such as `1s` or `100ms`. Delays are rounded up to it. It cannot change " +
					"in place. Default: `1s`.",
				Validators: []validator.String{values.Duration()},
			},
			"levels": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: fmt.Sprintf("Number of levels, one exchange and one queue each. The longest delay is the unit "+
					"times 2 to the power of the levels, less one unit. At most %d, and no level may be longer than ten years. It "+
					"cannot change in place. Default: `28`, which is 8.5 years with a unit of `1s`.", delay.MaxLevels),
				Validators: []validator.Int64{int64validator.Between(1, delay.MaxLevels)},
			},
			"queue_type": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Type of every queue of the network: `quorum` or `classic`. Classic queues can lose every waiting " +
					"message if their node fails. It cannot change in place. Default: `quorum`.",
				Validators: []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
			},
			"dead_letter_strategy": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Guarantee with which the broker moves a message from level to level. `at-least-once` needs " +
					"quorum queues: no message is lost on the way, in rare cases one comes twice. `at-most-once`: the other way " +
					"round. It cannot change in place. Default: `at-least-once` for quorum queues, `at-most-once` for classic ones.",
				Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
			},
			"deletion_policy": lifecycle.DeletionPolicyAttribute(
				"What a destroy does with messages. `if_empty`: it fails while any queue of the network holds one, or a destination " +
					"is attached. `delete`: it deletes them. `retain`: it leaves the whole network on the broker and only forgets it."),
			"timeouts": limits.TimeoutsAttribute(ctx, ".", ", of which a proof that queues are empty takes 10 to 30 seconds."),

			"id": lifecycle.TextOutput("`name@vhost`, as an import takes it. `%` and `@` inside the two parts are " +
				"percent-encoded."),
			"maximum_delay":     lifecycle.TextOutput("Longest delay."),
			"exchange":          lifecycle.TextOutput("Exchange that senders publish to; its name is that of the network."),
			"delivery_exchange": lifecycle.TextOutput("Topic exchange that destinations are bound to."),
			"unrouted_queue": lifecycle.TextOutput("Queue for messages that the network cannot deliver: no destination of their name " +
				"is attached, or their routing key is no key of the network. It should be watched; nothing consumes it."),
			"topology": lifecycle.TopologyAttribute("Every object of the network except the bindings of destinations"),
		},
	}
}
