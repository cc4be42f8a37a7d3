package delaydestination

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
)

type model struct {
	Network types.String `tfsdk:"network"`
	VHost   types.String `tfsdk:"vhost"`
	Levels  types.Int64  `tfsdk:"levels"`
	Name    types.String `tfsdk:"name"`
	Queue   types.String `tfsdk:"queue"`

	ID         types.String `tfsdk:"id"`
	RoutingKey types.String `tfsdk:"routing_key"`
}

// identity is network/name/queue@vhost.
var identity = lifecycle.Identity{
	Parts: []lifecycle.Part{
		{Name: "network", Description: "Name of the network."},
		{Name: "name", Description: "Name of the destination. Default: that of the queue.", Optional: true},
		{Name: "queue", Description: "Name of the queue."},
	},
	VHost: "Virtual host of the network", Example: "delays/orders/orders@/",
}

func (m model) names() []types.String { return []types.String{m.Network, m.Name, m.Queue} }

// isKnown says whether no input is known only after apply.
func (m model) isKnown() bool {
	inputs := []attr.Value{m.Network, m.VHost, m.Name, m.Queue}
	return !slices.ContainsFunc(inputs, func(v attr.Value) bool { return v.IsUnknown() })
}

// destination converts the inputs, all of which must be known, to the domain. It has no
// levels while they are not known.
func (m model) destination() delay.Destination {
	return delay.Destination{
		Network: m.Network.ValueString(),
		Levels:  int(m.Levels.ValueInt64()),
		Name:    m.Name.ValueString(),
		Queue:   m.Queue.ValueString(),
	}
}

// complete fills in the default of the name and what follows from the inputs.
func (m *model) complete() {
	if m.Name.IsNull() {
		m.Name = m.Queue
	}
	m.ID, m.RoutingKey = types.StringUnknown(), types.StringUnknown()
	if !m.isKnown() {
		return
	}
	d := m.destination()
	if len(d.Problems()) > 0 {
		return
	}
	m.ID = identity.ID(m.VHost, m.names())
	if !m.Levels.IsUnknown() {
		m.RoutingKey = types.StringValue(d.Binding().RoutingKey)
	}
}
