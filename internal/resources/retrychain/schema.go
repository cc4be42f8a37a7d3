package retrychain

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/listvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func chainSchema(ctx context.Context) schema.Schema {
	whole := schema.Schema{
		Version: 3,
		MarkdownDescription: "Declares how a work queue retries: after each rejection the message waits in the next tier, comes back, " +
			"and after the last one is parked. The plan shows every exchange, queue, binding and policy that this expands into.\n\n" +
			"The consumer has one duty: `basic.reject` or `basic.nack` with `requeue=false` when it fails. It counts nothing and " +
			"republishes nothing.",
		Attributes: inputs(ctx),
	}
	for name, attribute := range outputs() {
		whole.Attributes[name] = attribute
	}
	return whole
}

func inputs(ctx context.Context) map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"name": schema.StringAttribute{
			Required: true,
			MarkdownDescription: "Prefix of every object of the chain, and the name of its work queue unless `work_queue.name` gives " +
				"another. Changing it makes a new chain.",
		},
		"delays": schema.ListAttribute{
			Required: true, ElementType: types.StringType,
			MarkdownDescription: "Waits before each retry, in order, such as `[\"5s\", \"30s\", \"5m\"]`; one retry per element, at " +
				"most 50. Units are `ms`, `s`, `m`, `h` and `d` (24 hours). `\"0s\"` retries at once at the tail of the queue; an " +
				"empty list parks a message at its first rejection. `\"60s\"` and `\"1m\"` are the same, as are `\"24h\"` and `\"1d\"`.",
			Validators: []validator.List{
				listvalidator.SizeAtMost(retry.MaxTiers),
				listvalidator.NoNullValues(),
				listvalidator.ValueStringsAre(values.Duration()),
			},
		},
		"vhost": lifecycle.VHostAttribute("Virtual host. It must exist. Changing it makes a new chain."),
		"strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "How the chain knows which attempt a message is at. " + strategies() +
				" Never chosen by the broker's version. Default: `" + string(retry.DefaultStrategy) + "`.",
			Validators: []validator.String{stringvalidator.OneOf(retry.Strategies()...)},
		},
		"count_header": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Header in which strategy `republish` counts, as an integer; it must not start with `x-`. Default: " +
				"`count`; null with other strategies.",
			Validators: []validator.String{stringvalidator.LengthBetween(1, topology.MaxNameBytes)},
		},
		"queue_type": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Type of every queue of the chain: `quorum` or `classic`. Classic queues can lose every waiting message " +
				"if their node fails. Default: `quorum`.",
			Validators: []validator.String{stringvalidator.OneOf(string(topology.Quorum), string(topology.Classic))},
		},
		"dead_letter_strategy": schema.StringAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "Guarantee with which the broker moves a message from queue to queue. `at-least-once` needs quorum " +
				"queues: no message is lost on the way, in rare cases one comes twice. `at-most-once`: the other way round. Default: " +
				"`at-least-once` for quorum queues, `at-most-once` for classic ones.",
			Validators: []validator.String{stringvalidator.OneOf(string(retry.AtLeastOnce), string(retry.AtMostOnce))},
		},
		"work_queue":    workQueueSchema(),
		"parking_queue": parkingQueueSchema(),
		"policy": attribute.ChainPolicy.Schema("Settings of the policies that the chain sets. RabbitMQ applies only one user policy " +
			"to a queue, the one of the highest priority. Default: no shield, and for an application's work queue a policy with the " +
			"defaults below."),
		"deletion_policy": lifecycle.DeletionPolicyAttribute(
			"What a destroy does with messages. `if_empty`: it fails while any queue of the chain holds one. `delete`: it deletes them. " +
				"`retain`: it leaves the whole chain on the broker and only forgets it."),
		"timeouts": limits.TimeoutsAttribute(ctx, ".", ", of which a proof that queues are empty takes 10 to 30 seconds."),
	}
}

func workQueueSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "The queue whose messages are retried. Default: a queue with the chain's name.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Name of the work queue. Default: the chain's name.",
			},
			"ownership": attribute.Ownership(ownedByChain, "Who declares the queue. `chain`: the chain declares and deletes it. "+
				"`application`: the chain neither declares nor changes nor deletes it, and attaches it by a policy that sets the "+
				"chain's dead-letter exchange. Then only `name` and `consumer_timeout` of `work_queue` may be set, the queue must "+
				"exist when the chain is applied, and the user needs the tag `policymaker`. A destroy removes the policy, and what "+
				"was in effect before is in effect again."),
			"delivery_limit": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: "How often a message may go back to the queue without being rejected (a crash of its consumer, a " +
					"requeue) before it is parked; `-1` for no limit. Quorum queues only. RabbitMQ 4.3 does not count `basic.nack` " +
					"with `requeue=true`. The queue is declared with 50 more, because newer brokers count the rounds through the " +
					"tiers as well; that of a chain that is made with `delays = []` with exactly this number, so that a message that " +
					"always fails is delivered once more than it says. Default: `20` for quorum queues on RabbitMQ 3.13.3 or later, " +
					"else none; with strategy `delayed_retry` it follows from the delays.",
				Validators: []validator.Int64{int64validator.AtLeast(retry.Unlimited)},
			},
			"effective_delivery_limit": attribute.EffectiveLimit(),
			"message_ttl": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "How long a message may wait in the work queue before it is parked, such as `1h`. Default: for ever.",
				Validators:          []validator.String{values.Duration()},
			},
			"max_length": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Largest number of messages in the work queue. Rejected messages that wait to be dead-lettered " +
					"count as well. Default: no limit.",
				Validators: []validator.Int64{int64validator.AtLeast(0)},
			},
			"max_length_bytes": schema.Int64Attribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Largest size of all message bodies in the work queue, in bytes. Default: no limit.",
				Validators:          []validator.Int64{int64validator.AtLeast(0)},
			},
			"overflow": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "What happens at the limit: `drop-head` parks the oldest message, `reject-publish` refuses new " +
					"ones. Default: `reject-publish` with `at-least-once`, which needs it, else the broker's default, `drop-head`.",
				Validators: []validator.String{stringvalidator.OneOf(topology.DropHead, topology.RejectPublish)},
			},
			"single_active_consumer": schema.BoolAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Whether only one consumer at a time gets messages. A retry changes the order of messages all the " +
					"same. Default: `false`.",
			},
			"consumer_timeout": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "How long a consumer may hold a message without settling it, such as `1h`; then RabbitMQ takes the " +
					"message back. Minimum `1m`: before 4.3 RabbitMQ checks once a minute. Needs RabbitMQ 3.12 or later, and 4.3 has it " +
					"for quorum queues only. The chain's policy sets it for an application's queue, and it changes in place; otherwise " +
					"it cannot change. Default: the broker's, 30 minutes.",
				Validators: []validator.String{values.DurationAtLeast(time.Minute)},
			},
			"arguments": schema.StringAttribute{
				Optional: true, Computed: true, CustomType: jsontypes.NormalizedType{},
				MarkdownDescription: "Further arguments of the work queue as a JSON object with typed values, such as `jsonencode({ " +
					"\"x-quorum-initial-group-size\" = 5 })`. Arguments that have an attribute of their own are refused. Default: none.",
				Validators: []validator.String{values.Arguments()},
			},
			"bindings": schema.ListNestedAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Exchanges that feed the work queue. They must exist when the chain is applied. Bindings made by " +
					"others are left alone. Default: none.",
				NestedObject: schema.NestedAttributeObject{Attributes: bindingSchema()},
			},
		},
	}
}

func bindingSchema() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"exchange": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the source exchange.",
			Validators:          []validator.String{stringvalidator.LengthAtMost(topology.MaxNameBytes)},
		},
		"routing_key": schema.StringAttribute{
			Optional:            true,
			MarkdownDescription: "Routing key of the binding. Default: the empty key.",
		},
		"arguments": schema.StringAttribute{
			Optional: true, CustomType: jsontypes.NormalizedType{},
			MarkdownDescription: "Arguments of the binding as a JSON object with typed values, such as the headers that a headers " +
				"exchange compares: `jsonencode({ \"x-match\" = \"all\", type = \"order\", version = 2 })`. RabbitMQ tells `2` from " +
				"`\"2\"`. Default: none.",
			Validators: []validator.String{values.Arguments()},
		},
	}
}

func parkingQueueSchema() schema.Attribute {
	return schema.SingleNestedAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: "The queue for messages that used up their attempts, or died of something that is not retried. Default: a " +
			"queue with the chain's name and `.parking`.",
		Attributes: map[string]schema.Attribute{
			"name": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "Name of the parking queue. Default: the chain's name and `.parking`.",
			},
			"ownership": attribute.Ownership(ownedByChain, "Who declares the queue. `chain`: the chain declares and deletes it. "+
				"`application`: something else does; the chain neither declares nor changes nor deletes it, and several chains can "+
				"share it. A parked message came through an exchange named after its chain, and its `x-death` headers name the queue "+
				"it died in."),
			"message_ttl": schema.StringAttribute{
				Optional: true, Computed: true,
				MarkdownDescription: "After this time parked messages are **deleted**, for good. Default: they are kept for ever.",
				Validators:          []validator.String{values.Duration()},
			},
		},
	}
}

func outputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"id": lifecycle.TextOutput("`name@vhost`, as an import takes it. `%` and `@` inside the two parts are percent-encoded."),
		"tiers": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Queues in which messages wait, one for each of `delays`, in the same order. Empty with the " +
				"strategies `delayed_retry` and `delayed_exchange`. The number of deliveries before parking is `length(delays) + 1`; see " +
				"the function `retry_schedule` for times.",
		},
		"work_queue_arguments": attribute.WorkQueueArguments("rabbitmq_retry_chain.orders"),
		"retry_exchange": lifecycle.TextOutput("Exchange that leads to the tiers: the dead-letter exchange of the work queue, and " +
			"with strategy `republish` the exchange that your process publishes to. Null with the strategies `delayed_retry` and " +
			"`delayed_exchange`, which have no tiers."),
		"redrive_exchange": lifecycle.TextOutput("Publish here what was taken out of the parking queue: it goes to the work queue " +
			"with its routing key and starts again at the first attempt."),
		"draining": schema.ListAttribute{
			Computed: true, ElementType: types.StringType,
			MarkdownDescription: "Queues of delays that were removed and that still hold messages, or may hold some. Nothing enters " +
				"them any more, and their messages come back when their delay is over. They are left out of `topology`. A later plan " +
				"that finds one empty shows its removal.",
		},
		"topology": lifecycle.TopologyAttribute("Every object of the chain"),
	}
}

// strategies describes every strategy.
func strategies() string {
	var texts []string
	for _, d := range retry.Designs() {
		texts = append(texts, fmt.Sprintf("`%s` %s", d.Strategy, d.Summary))
	}
	return strings.Join(texts, " ")
}
