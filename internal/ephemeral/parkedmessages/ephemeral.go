// Package parkedmessages is the ephemeral resource rabbitmq_parked_messages: the
// messages of a queue with their payloads, in no state and no plan.
package parkedmessages

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

var (
	_ ephemeral.EphemeralResourceWithConfigure      = (*resource)(nil)
	_ ephemeral.EphemeralResourceWithValidateConfig = (*resource)(nil)
)

const (
	timeout      = 10 * time.Minute
	defaultLimit = 10
	maxLimit     = 1_000
	// maxPayloads is how many bytes of payload are given at most: Terraform
	// takes messages of 256 MiB from a provider, and base64 and JSON are longer.
	maxPayloads = 32 << 20
)

type resource struct {
	data *run.Data
}

// NewEphemeralResource returns the ephemeral resource rabbitmq_parked_messages.
func NewEphemeralResource() ephemeral.EphemeralResource { return &resource{} }

func (r *resource) Metadata(_ context.Context, req ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_parked_messages"
}

func (r *resource) Configure(_ context.Context, req ephemeral.ConfigureRequest, resp *ephemeral.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (r *resource) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	text := func(description string) schema.Attribute {
		return schema.StringAttribute{Computed: true, MarkdownDescription: description}
	}
	number := func(description string) schema.Attribute {
		return schema.Int64Attribute{Computed: true, MarkdownDescription: description}
	}
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads messages of a queue of dead letters with their payloads, which leaves nothing in the state or the " +
			"plan. It needs Terraform 1.10 or OpenTofu 1.11 and later. The data source `rabbitmq_parked_messages` counts and groups " +
			"messages without their payloads.\n\n" +
			"Looking loses no message, keeps the order, and is refused where the queue's own settings would make it dangerous.",
		Attributes: map[string]schema.Attribute{
			"queue": schema.StringAttribute{
				Required:            true,
				MarkdownDescription: "Name of the queue.",
				Validators:          []validator.String{stringvalidator.LengthBetween(1, topology.MaxNameBytes)},
			},
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Virtual host." + attribute.DefaultVHost,
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"filter": parked.FilterAttribute(),
			"limit": schema.Int64Attribute{
				Optional: true,
				MarkdownDescription: fmt.Sprintf("Largest number of messages, from the head of the queue. At most %d, and 32 MiB of "+
					"payloads. Default: `%d`.",
					maxLimit, defaultLimit),
				Validators: []validator.Int64{int64validator.Between(1, maxLimit)},
			},
			"total": number("Number of messages in the queue that wait for a consumer."),
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
					"last_death": text("Time of its last death as far as RabbitMQ keeps it, in RFC 3339, null when its headers do " +
						"not tell."),
					"exchange":         text("Exchange that it was published to before it first died."),
					"routing_key":      text("Routing key that it was published with before it first died."),
					"content_type":     text("Content type that the publisher gave, null without one."),
					"content_encoding": text("Content encoding that the publisher gave, such as `gzip`, null without one."),
					"headers":          text("Headers of the application as JSON, without those that RabbitMQ adds."),
					"payload":          text("The payload, null when it is not UTF-8."),
					"payload_base64":   text("The payload in base64."),
				}},
			},
		},
	}
}

type model struct {
	Queue    types.String   `tfsdk:"queue"`
	VHost    types.String   `tfsdk:"vhost"`
	Filter   types.Object   `tfsdk:"filter"`
	Limit    types.Int64    `tfsdk:"limit"`
	Total    types.Int64    `tfsdk:"total"`
	Messages []messageModel `tfsdk:"messages"`
}

type messageModel struct {
	ID              types.String `tfsdk:"id"`
	Position        types.Int64  `tfsdk:"position"`
	OriginQueue     types.String `tfsdk:"origin_queue"`
	Reason          types.String `tfsdk:"reason"`
	Attempts        types.Int64  `tfsdk:"attempts"`
	FirstDeath      types.String `tfsdk:"first_death"`
	LastDeath       types.String `tfsdk:"last_death"`
	Exchange        types.String `tfsdk:"exchange"`
	RoutingKey      types.String `tfsdk:"routing_key"`
	ContentType     types.String `tfsdk:"content_type"`
	ContentEncoding types.String `tfsdk:"content_encoding"`
	Headers         types.String `tfsdk:"headers"`
	Payload         types.String `tfsdk:"payload"`
	PayloadBase64   types.String `tfsdk:"payload_base64"`
}

func newMessage(p deadletter.Message) messageModel {
	m := messageModel{
		ID:              values.TextOrNull(p.ID()),
		Position:        types.Int64Value(int64(p.Position)),
		OriginQueue:     values.TextOrNull(p.OriginQueue),
		Reason:          values.TextOrNull(p.Reason),
		Attempts:        types.Int64Value(p.Attempts),
		FirstDeath:      values.TimeOrNull(p.FirstDeath),
		LastDeath:       values.TimeOrNull(p.LastDeath),
		Exchange:        types.StringValue(p.Exchange),
		RoutingKey:      types.StringValue(p.RoutingKey),
		ContentType:     values.TextOrNull(p.ContentType()),
		ContentEncoding: values.TextOrNull(p.ContentEncoding()),
		Headers:         types.StringValue(p.HeadersJSON()),
		PayloadBase64:   types.StringValue(base64.StdEncoding.EncodeToString(p.Body())),
	}
	if utf8.Valid(p.Body()) {
		m.Payload = types.StringValue(string(p.Body()))
	}
	return m
}

// ValidateConfig reports what is wrong whatever the broker.
func (r *resource) ValidateConfig(ctx context.Context, req ephemeral.ValidateConfigRequest, resp *ephemeral.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if !resp.Diagnostics.HasError() && parked.FilterIsKnown(config.Filter) {
		parked.FilterOf(config.Filter, time.Now(), &resp.Diagnostics)
	}
}

// Open reads the messages. Nothing stays open.
func (r *resource) Open(ctx context.Context, req ephemeral.OpenRequest, resp *ephemeral.OpenResponse) {
	var m model
	resp.Diagnostics.Append(req.Config.Get(ctx, &m)...)
	m.VHost = r.data.VHost(m.VHost)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) || !run.KnowsVHost(m.VHost, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	filter := parked.FilterOf(m.Filter, time.Now(), &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	limit, size := defaultLimit, 0
	if !m.Limit.IsNull() {
		limit = int(m.Limit.ValueInt64())
	}
	m.Messages = []messageModel{}
	total := parked.Look(ctx, r.data, m.VHost.ValueString(), m.Queue.ValueString(), &resp.Diagnostics, func(p deadletter.Message) bool {
		if filter.Match(p) {
			size += len(p.Body())
			m.Messages = append(m.Messages, newMessage(p))
		}
		return len(m.Messages) < limit && size <= maxPayloads
	})
	if size > maxPayloads {
		resp.Diagnostics.AddAttributeError(path.Root("limit"), "Payloads Too Large",
			fmt.Sprintf("The payloads of the first %d messages are longer than 32 MiB together. Set a lower limit, or a "+
				"filter.", len(m.Messages)))
	}
	if resp.Diagnostics.HasError() {
		return
	}
	m.Total = types.Int64Value(int64(total))
	resp.Diagnostics.Append(resp.Result.Set(ctx, &m)...)
}
