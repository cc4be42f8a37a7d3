package parkedmessages

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

const (
	defaultLimit = 100
	maxLimit     = 10_000
	// maxGroups bounds the groups by routing key, which may hold ids.
	maxGroups     = 100
	defaultPeriod = "1h"
)

func (d *dataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Counts, groups and lists the messages of a queue of dead letters, such as the parking queue of a retry " +
			"chain. It shows no payloads: they would be kept in the state, see the ephemeral resource `rabbitmq_parked_messages`. Ids " +
			"and headers of the listed messages are in the state: set `limit = 0` if only counts and groups are needed.\n\n" +
			"Looking loses no message, keeps the order, and is refused where the queue's own settings would make it dangerous.",
		Attributes: inputs(),
	}
	for name, attribute := range outputs() {
		resp.Schema.Attributes[name] = attribute
	}
}

func inputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"queue": schema.StringAttribute{
			Required:            true,
			MarkdownDescription: "Name of the queue.",
			Validators:          []validator.String{stringvalidator.LengthBetween(1, topology.MaxNameBytes)},
		},
		"vhost": schema.StringAttribute{
			Optional: true, Computed: true, MarkdownDescription: "Virtual host." + attribute.DefaultVHost,
			Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
		},
		"limit": schema.Int64Attribute{
			Optional: true,
			MarkdownDescription: fmt.Sprintf("Largest number of `messages` to list, from the head of the queue. Counts and groups "+
				"include all. At most %d. Default: `%d`.", maxLimit, defaultLimit),
			Validators: []validator.Int64{int64validator.Between(0, maxLimit)},
		},
		"period": schema.StringAttribute{
			Optional: true,
			MarkdownDescription: "Length of the time periods of `groups.by_period`, in whole seconds, such as `15m` or `24h`. " +
				"Default: `" + defaultPeriod + "`.",
			Validators: []validator.String{values.Duration()},
		},
		"filter": parked.FilterAttribute(),
	}
}

func outputs() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"total":    number("Number of messages in the queue that wait for a consumer."),
		"selected": number("Number of messages that the filter selects."),
		"groups": schema.SingleNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The selected messages in groups.",
			Attributes: map[string]schema.Attribute{
				"by_origin_queue": groupList("By the queue that they failed in, the largest group first."),
				"by_reason":       groupList("By reason, the largest group first."),
				"by_routing_key": groupList(fmt.Sprintf("By the routing key that they were published with, the %d largest "+
					"groups.", maxGroups)),
				"by_period": groupList("By the period of their last known death, in the order of time. `name` is the period's " +
					"start."),
			},
		},
		"messages": schema.ListNestedAttribute{
			Computed:            true,
			MarkdownDescription: "The selected messages in the order of the queue, at most `limit`.",
			NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
				"id":           text("Message id that the publisher gave, null without one."),
				"position":     number("Place in the queue, from 1 at the head."),
				"origin_queue": text("Queue that the message failed in, null when its headers do not tell."),
				"reason":       text("Reason of its last death there, null when its headers do not tell."),
				"attempts":     number("How often a consumer failed with it in `origin_queue`."),
				"first_death":  text("Time of its first death, in RFC 3339, null when its headers do not tell."),
				"last_death": text("Time of its last death as far as RabbitMQ keeps it: that of the first death for each queue and " +
					"reason. In RFC 3339, null when its headers do not tell."),
				"exchange":     text("Exchange that it was published to before it first died."),
				"routing_key":  text("Routing key that it was published with before it first died."),
				"content_type": text("Content type that the publisher gave, null without one."),
				"size":         number("Size of the payload, in bytes."),
				"headers": schema.StringAttribute{
					Computed: true, Sensitive: true,
					MarkdownDescription: "Headers of the application as JSON, without those that RabbitMQ adds. Timestamps are in RFC " +
						"3339, bytes and text that is not UTF-8 in base64, decimals are text. Headers can hold tokens: the value is " +
						"sensitive, but it is in the state.",
				},
			}},
		},
	}
}

func text(description string) schema.Attribute {
	return schema.StringAttribute{Computed: true, MarkdownDescription: description}
}

func number(description string) schema.Attribute {
	return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
}

func groupList(description string) schema.Attribute {
	return schema.ListNestedAttribute{
		Computed:            true,
		MarkdownDescription: description,
		NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
			"name":  text("What the messages have in common, empty when their headers do not tell."),
			"count": number("Number of messages."),
			"first": text("Earliest last known death, in RFC 3339, null when it is not known."),
			"last":  text("Latest last known death, in RFC 3339, null when it is not known."),
		}},
	}
}
