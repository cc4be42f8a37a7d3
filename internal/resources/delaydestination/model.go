package delaydestination

import (
	"net/url"
	"slices"
	"strings"

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

type identityModel struct {
	VHost   types.String `tfsdk:"vhost"`
	Network types.String `tfsdk:"network"`
	Name    types.String `tfsdk:"name"`
	Queue   types.String `tfsdk:"queue"`
}

func (m model) identity() identityModel {
	return identityModel{VHost: m.VHost, Network: m.Network, Name: m.Name, Queue: m.Queue}
}

// isKnown says whether no input is known only after apply.
func (m model) isKnown() bool {
	inputs := []attr.Value{m.Network, m.VHost, m.Levels, m.Name, m.Queue}
	return !slices.ContainsFunc(inputs, func(v attr.Value) bool { return v.IsUnknown() })
}

// destination converts the inputs, all of which must be known, to the domain.
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
	if d := m.destination(); len(d.Problems()) == 0 {
		m.RoutingKey = types.StringValue(d.Binding().RoutingKey)
		m.ID = types.StringValue(m.formatID())
	}
}

// formatID writes network/name/queue@vhost; "/" inside one of the first three
// parts is percent-encoded, as are "%" and "@" in all.
func (m model) formatID() string {
	parts := []string{m.Network.ValueString(), m.Name.ValueString(), m.Queue.ValueString()}
	for i, part := range parts {
		parts[i] = strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40").Replace(part)
	}
	return strings.Join(parts, "/") + lifecycle.FormatID("", m.VHost.ValueString())
}

// parseID reads network/name/queue@vhost, split at the last "@".
func parseID(id string) (identityModel, bool) {
	at := strings.LastIndex(id, "@")
	if at < 0 || at == len(id)-1 {
		return identityModel{}, false
	}
	parts := strings.Split(id[:at], "/")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return identityModel{}, false
	}
	decode := func(part string) types.String {
		if decoded, err := url.PathUnescape(part); err == nil {
			part = decoded
		}
		return types.StringValue(part)
	}
	return identityModel{Network: decode(parts[0]), Name: decode(parts[1]), Queue: decode(parts[2]), VHost: decode(id[at+1:])}, true
}
