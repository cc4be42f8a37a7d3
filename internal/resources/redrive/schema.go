package redrive

import (
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// kind tells the redrive from the discard.
type kind struct {
	// name is that of the Terraform object without the provider's name.
	name string
	// done is the attribute that counts, and the verb in texts.
	done string
	// redrive says that messages are published before they leave the queue.
	redrive bool
	summary string
}

var (
	redriving = kind{
		name: "redrive", done: "moved", redrive: true,
		summary: "Takes parked messages back: publishes each one to the queue that it failed in, and removes it from the parking " +
			"queue once the broker has confirmed it. Messages that are not selected stay in their place and order.",
	}
	discarding = kind{
		name: "discard", done: "discarded",
		summary: "Deletes parked messages. Messages that are not selected stay in their place and order.",
	}
)

// inputs are the arguments of action and resource.
func (k kind) inputs() map[string]schema.Attribute {
	common := map[string]schema.Attribute{
		"queue": schema.StringAttribute{
			Required: true, MarkdownDescription: "Queue that holds the messages, such as the parking queue of a retry chain.",
			Validators: []validator.String{stringvalidator.LengthBetween(1, topology.MaxNameBytes)},
		},
		"vhost": schema.StringAttribute{
			Optional: true, MarkdownDescription: "Virtual host." + attribute.DefaultVHost,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"filter": parked.FilterAttribute(),
		"max_messages": schema.Int64Attribute{
			Optional: true, MarkdownDescription: "Largest number of messages, the oldest of the selected ones first. Default: no limit.",
			Validators: []validator.Int64{int64validator.AtLeast(1)},
		},
		"max_messages_per_second": schema.Int64Attribute{
			Optional: true, MarkdownDescription: "Largest number of messages per second, spread evenly. Default: no limit.",
			Validators: []validator.Int64{int64validator.Between(1, 1_000_000)},
		},
		"dry_run": schema.BoolAttribute{
			Optional: true, MarkdownDescription: fmt.Sprintf("Only counts: `%s` is what a run would have done. Default: `false`.", k.done),
		},
	}
	maps.Copy(common, k.ownInputs())
	return common
}

func (k kind) ownInputs() map[string]schema.Attribute {
	if !k.redrive {
		return map[string]schema.Attribute{"all": schema.BoolAttribute{
			Optional: true, MarkdownDescription: "If `true`, deletes every message of the queue. Required if `filter` is missing or " +
				"selects every message. Default: `false`.",
		}}
	}
	name := func(description string) schema.StringAttribute {
		return schema.StringAttribute{
			Optional: true, MarkdownDescription: description,
			Validators: []validator.String{stringvalidator.LengthBetween(1, topology.MaxNameBytes)},
		}
	}
	return map[string]schema.Attribute{"strict": schema.BoolAttribute{
		Optional: true,
		MarkdownDescription: "If `true`, messages stay that a redrive is known to change: those with a `user_id` of another user, " +
			"with `CC` or `BCC` that must be removed, or of the type `amqp-1.0`. Other messages that were published over AMQP 1.0 " +
			"cannot be recognized. Default: `false`.",
	}, "redrive_headers": schema.StringAttribute{
		Optional: true,
		MarkdownDescription: fmt.Sprintf("Form of the headers `%s` and `%s` that a redrive adds: `typed` (an integer and a "+
			"timestamp), `text` (both as text, for clients that accept no other headers), or `none`. Default: `typed`.",
			messages.RedriveCount, messages.RedrivenAt),
		Validators: []validator.String{stringvalidator.OneOf(string(messages.TypedHeaders), string(messages.TextHeaders),
			string(messages.NoHeaders))},
	}, "destination": schema.SingleNestedAttribute{
		Optional: true,
		MarkdownDescription: "Where the messages go. Default: the queue that each message failed in, through the redrive exchange of " +
			"its retry chain, so that it keeps its routing key and has all attempts again; where that queue is none of a chain, " +
			"through the default exchange, so that the routing key becomes the name of the queue. A message that does not tell where " +
			"it failed stays, and so does one whose queue is gone.",
		Attributes: map[string]schema.Attribute{
			"queue": name("Name of a queue. The routing key stays if it is the work queue of a chain, and else becomes the name of the " +
				"queue."),
			"exchange": name("Name of an exchange, to which messages are published with the routing key with which they came to the " +
				"queue that they failed in. Exactly one of `queue` and `exchange` is needed."),
		},
	}}
}

// resourceInputs are what only the resource has, or has in another form.
func resourceInputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, MarkdownDescription: "Virtual host." + attribute.DefaultVHost,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"triggers": schema.MapAttribute{
			Optional: true, ElementType: types.StringType,
			MarkdownDescription: "Any values. A change of one, or of any other argument, runs it again. Default: none.",
		},
	}
}

// outputs are what the resource reports of its run.
func (k kind) outputs() map[string]schema.Attribute {
	count := func(description string) schema.Int64Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
	}
	outputs := map[string]schema.Attribute{
		"total":    count("Number of messages that were ready in the queue when the run began."),
		"selected": count("Number of messages that the filter selected, until `max_messages` was reached."),
		k.done:     count(fmt.Sprintf("Number of messages that were %s; with `dry_run`, that would have been.", k.done)),
		"ran_at":   schema.StringAttribute{Computed: true, MarkdownDescription: "When the run ended, as an RFC 3339 timestamp in UTC."},
	}
	if k.redrive {
		outputs["without_origin"] = count("Number of selected messages that stay, because they do not tell where they failed, or because " +
			"that queue is gone.")
		outputs["changed"] = count("Number of selected messages that a redrive is known to change, see `strict`.")
		outputs["refused"] = count("Number of selected messages that stay because RabbitMQ refused them, for example because they are " +
			"larger than `max_message_size`, or because their headers are nested deeper than 32 levels.")
	}
	return outputs
}

// description is the text above the attributes.
func (k kind) description() string {
	if !k.redrive {
		return k.summary + "\n\n" + "What was not selected stays, in its order. When the node of a classic queue is killed during a run, " +
			"the queue can have forgotten what was deleted; run it again."
	}
	return k.summary + "\n\n" + fmt.Sprintf("No message is lost, whenever the run ends. If it is killed or the connection breaks, at "+
		"most %d messages are in both queues. A message that RabbitMQ refuses stays and is reported with its id and position; the "+
		"others move. While RabbitMQ blocks publishers (memory or disk alarm), the run ends with an error.\n\n"+
		"The broker's headers about deaths are removed. `CC` and `BCC` are removed unless the message goes through its retry chain, "+
		"because they would route copies. A `user_id` of another user is removed. The headers `%s` and `%s` are added. Everything "+
		"else stays as AMQP 0-9-1 shows it: of a message that was published over AMQP 1.0, the properties `to`, `subject`, "+
		"`group-sequence`, `reply-to-group-id` and `absolute-expiry-time`, footers, and annotations that do not begin with `x-` are "+
		"lost, and a priority of 0 becomes none.",
		messages.RedriveBatch, messages.RedriveCount, messages.RedrivenAt)
}
