package parkedmessages

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

type model struct {
	Queue  types.String `tfsdk:"queue"`
	VHost  types.String `tfsdk:"vhost"`
	Filter types.Object `tfsdk:"filter"`
	Limit  types.Int64  `tfsdk:"limit"`
	Period types.String `tfsdk:"period"`

	Total    types.Int64    `tfsdk:"total"`
	Selected types.Int64    `tfsdk:"selected"`
	Groups   *groupsModel   `tfsdk:"groups"`
	Messages []messageModel `tfsdk:"messages"`
}

type groupsModel struct {
	ByOriginQueue []groupModel `tfsdk:"by_origin_queue"`
	ByReason      []groupModel `tfsdk:"by_reason"`
	ByRoutingKey  []groupModel `tfsdk:"by_routing_key"`
	ByPeriod      []groupModel `tfsdk:"by_period"`
}

type groupModel struct {
	Name  types.String `tfsdk:"name"`
	Count types.Int64  `tfsdk:"count"`
	First types.String `tfsdk:"first"`
	Last  types.String `tfsdk:"last"`
}

type messageModel struct {
	ID          types.String `tfsdk:"id"`
	Position    types.Int64  `tfsdk:"position"`
	OriginQueue types.String `tfsdk:"origin_queue"`
	Reason      types.String `tfsdk:"reason"`
	Attempts    types.Int64  `tfsdk:"attempts"`
	FirstDeath  types.String `tfsdk:"first_death"`
	LastDeath   types.String `tfsdk:"last_death"`
	Exchange    types.String `tfsdk:"exchange"`
	RoutingKey  types.String `tfsdk:"routing_key"`
	ContentType types.String `tfsdk:"content_type"`
	Size        types.Int64  `tfsdk:"size"`
	Headers     types.String `tfsdk:"headers"`
}

func newMessage(p deadletter.Message) messageModel {
	return messageModel{
		ID:          values.TextOrNull(p.ID()),
		Position:    types.Int64Value(int64(p.Position)),
		OriginQueue: values.TextOrNull(p.OriginQueue),
		Reason:      values.TextOrNull(p.Reason),
		Attempts:    types.Int64Value(p.Attempts),
		FirstDeath:  values.TimeOrNull(p.FirstDeath),
		LastDeath:   values.TimeOrNull(p.LastDeath),
		Exchange:    types.StringValue(p.Exchange),
		RoutingKey:  types.StringValue(p.RoutingKey),
		ContentType: values.TextOrNull(p.ContentType()),
		Size:        types.Int64Value(int64(len(p.Body()))),
		Headers:     types.StringValue(p.HeadersJSON()),
	}
}

// period is the length of the periods; the validator has seen that it parses.
func (m model) period() time.Duration {
	text := defaultPeriod
	if !m.Period.IsNull() {
		text = m.Period.ValueString()
	}
	period, err := retry.ParseDuration(text)
	if err != nil {
		return 0
	}
	return period
}

func newGroups(g *deadletter.Groups) *groupsModel {
	keys := g.ByRoutingKey()
	return &groupsModel{
		ByOriginQueue: newGroupList(g.ByOrigin()),
		ByReason:      newGroupList(g.ByReason()),
		ByRoutingKey:  newGroupList(keys[:min(len(keys), maxGroups)]),
		ByPeriod:      newGroupList(g.ByPeriod()),
	}
}

func newGroupList(groups []deadletter.Group) []groupModel {
	list := make([]groupModel, len(groups))
	for i, g := range groups {
		list[i] = groupModel{
			Name:  types.StringValue(g.Name),
			Count: types.Int64Value(g.Count),
			First: values.TimeOrNull(g.First),
			Last:  values.TimeOrNull(g.Last),
		}
	}
	return list
}
