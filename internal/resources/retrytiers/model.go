package retrytiers

import (
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

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
	Delays             types.List     `tfsdk:"delays"`
	QueueType          types.String   `tfsdk:"queue_type"`
	DeadLetterStrategy types.String   `tfsdk:"dead_letter_strategy"`
	DeletionPolicy     types.String   `tfsdk:"deletion_policy"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`

	ID             types.String `tfsdk:"id"`
	Attempts       types.Int64  `tfsdk:"attempts"`
	TotalDelay     types.String `tfsdk:"total_delay"`
	RetryExchange  types.String `tfsdk:"retry_exchange"`
	ReturnExchange types.String `tfsdk:"return_exchange"`
	ParkingQueue   types.String `tfsdk:"parking_queue"`
	Draining       types.List   `tfsdk:"draining"`
	Topology       types.Object `tfsdk:"topology"`
}

func (m model) identity() lifecycle.NamedIdentity {
	return lifecycle.NamedIdentity{VHost: m.VHost, Name: m.Name}
}

// isKnown says whether no input is known only after apply.
func (m model) isKnown() bool {
	inputs := append([]attr.Value{m.Name, m.VHost, m.Delays, m.QueueType, m.DeadLetterStrategy}, m.Delays.Elements()...)
	return !slices.ContainsFunc(inputs, func(v attr.Value) bool { return v.IsUnknown() })
}

// chain converts the inputs, all of which must be known, to the domain.
func (m model) chain() retry.Chain {
	c := retry.NewShared(m.Name.ValueString())
	c.Delays = m.durations()
	c.QueueType = topology.QueueType(m.QueueType.ValueString())
	c.DeadLetterStrategy = retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString())
	return c
}

// durations returns the delays, which the schema has validated.
func (m model) durations() []time.Duration { return values.DurationsOf(m.Delays) }

// setInputs fills the inputs from tiers that were read from a broker.
func (m *model) setInputs(c retry.Chain) {
	m.Delays = values.DurationList(c.Delays)
	m.QueueType = types.StringValue(string(c.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(c.DeadLetterStrategy))
	m.DeletionPolicy = types.StringValue(ifEmpty)
}
