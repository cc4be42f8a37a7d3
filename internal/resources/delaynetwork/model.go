package delaynetwork

import (
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Values of deletion_policy.
const (
	ifEmpty   = "if_empty"
	deleteAll = "delete"
	retain    = "retain"
)

type model struct {
	Name               types.String   `tfsdk:"name"`
	VHost              types.String   `tfsdk:"vhost"`
	Unit               types.String   `tfsdk:"unit"`
	Levels             types.Int64    `tfsdk:"levels"`
	QueueType          types.String   `tfsdk:"queue_type"`
	DeadLetterStrategy types.String   `tfsdk:"dead_letter_strategy"`
	DeletionPolicy     types.String   `tfsdk:"deletion_policy"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`

	ID               types.String `tfsdk:"id"`
	MaximumDelay     types.String `tfsdk:"maximum_delay"`
	Exchange         types.String `tfsdk:"exchange"`
	DeliveryExchange types.String `tfsdk:"delivery_exchange"`
	UnroutedQueue    types.String `tfsdk:"unrouted_queue"`
	Topology         types.Object `tfsdk:"topology"`
}

func (m model) identity() lifecycle.NamedIdentity {
	return lifecycle.NamedIdentity{VHost: m.VHost, Name: m.Name}
}

// isKnown says whether no input is known only after apply.
func (m model) isKnown() bool {
	inputs := []attr.Value{m.Name, m.VHost, m.Unit, m.Levels, m.QueueType, m.DeadLetterStrategy}
	return !slices.ContainsFunc(inputs, func(v attr.Value) bool { return v.IsUnknown() })
}

// network converts the inputs, all of which must be known, to the domain.
func (m model) network() delay.Network {
	return delay.Network{
		Name:               m.Name.ValueString(),
		Unit:               m.unit(),
		Levels:             int(m.Levels.ValueInt64()),
		QueueType:          topology.QueueType(m.QueueType.ValueString()),
		DeadLetterStrategy: retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString()),
	}
}

func (m model) unit() time.Duration {
	if unit := values.DurationOf(m.Unit); unit != nil {
		return *unit
	}
	return 0
}

// setInputs fills the inputs from a network that was read from a broker.
func (m *model) setInputs(n delay.Network) {
	m.Unit = types.StringValue(retry.FormatDuration(n.Unit))
	m.Levels = types.Int64Value(int64(n.Levels))
	m.QueueType = types.StringValue(string(n.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(n.DeadLetterStrategy))
	m.DeletionPolicy = types.StringValue(ifEmpty)
}
