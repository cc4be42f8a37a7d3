package delaynetwork

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

type model struct {
	lifecycle.Common
	Name               types.String `tfsdk:"name"`
	Unit               types.String `tfsdk:"unit"`
	Levels             types.Int64  `tfsdk:"levels"`
	QueueType          types.String `tfsdk:"queue_type"`
	DeadLetterStrategy types.String `tfsdk:"dead_letter_strategy"`

	MaximumDelay     types.String `tfsdk:"maximum_delay"`
	Exchange         types.String `tfsdk:"exchange"`
	DeliveryExchange types.String `tfsdk:"delivery_exchange"`
	UnroutedQueue    types.String `tfsdk:"unrouted_queue"`
}

func (m *model) Names() []types.String { return []types.String{m.Name} }

func (m *model) Known() bool {
	return values.Known(m.Name, m.VHost, m.Unit, m.Levels, m.QueueType, m.DeadLetterStrategy)
}

func (m *model) Complete(prior lifecycle.Model, _ *lifecycle.Facts) {
	values.Default(&m.Unit, retry.FormatDuration(delay.DefaultUnit))
	values.Default(&m.QueueType, string(topology.Quorum))
	if m.Levels.IsNull() {
		m.Levels = types.Int64Value(delay.DefaultLevels)
	}
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	if before, is := prior.(*model); is && !m.Unit.IsUnknown() && m.unit() == before.unit() {
		m.Unit = before.Unit // "1000ms" for "1s" is no change
	}
}

func (m *model) SetOutputs() {
	m.Exchange, m.DeliveryExchange, m.UnroutedQueue = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	m.MaximumDelay = types.StringUnknown()
	if !m.Name.IsUnknown() {
		n := delay.Network{Name: m.Name.ValueString()}
		m.Exchange = types.StringValue(n.EntryExchange())
		m.DeliveryExchange = types.StringValue(n.DeliveryExchange())
		m.UnroutedQueue = types.StringValue(n.Unrouted())
	}
	if levels := m.Levels.ValueInt64(); !m.Unit.IsUnknown() && levels >= 1 && levels <= delay.MaxLevels {
		m.MaximumDelay = types.StringValue(retry.FormatDuration(m.network().Maximum()))
	}
}

// network converts the inputs, all of which must be known, to the domain.
func (m *model) network() delay.Network {
	return delay.Network{
		Name:               m.Name.ValueString(),
		Unit:               m.unit(),
		Levels:             int(m.Levels.ValueInt64()),
		QueueType:          topology.QueueType(m.QueueType.ValueString()),
		DeadLetterStrategy: retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString()),
	}
}

func (m *model) unit() time.Duration {
	if unit := values.DurationOf(m.Unit); unit != nil {
		return *unit
	}
	return 0
}

func (m *model) Import(in *topology.Topology, f *lifecycle.Facts, version abilities.Version) error {
	n, features, err := delay.Read(m.Name.ValueString(), in, version)
	if errors.Is(err, delay.ErrNoNetwork) {
		return &lifecycle.ImportError{Title: "Nothing to Import", Text: fmt.Sprintf(
			"Virtual host %q holds no level of a delay network named %q, such as the queue %s. Check the name, or create the network "+
				"instead of importing it.", m.VHost.ValueString(), m.Name.ValueString(),
			m.network().Level(0))}
	}
	f.Features = features
	m.Unit = types.StringValue(retry.FormatDuration(n.Unit))
	m.Levels = types.Int64Value(int64(n.Levels))
	m.QueueType = types.StringValue(string(n.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(n.DeadLetterStrategy))
	return err
}

func (m *model) Changes(prior lifecycle.Model) (changes []lifecycle.Change, idle bool) {
	before, is := prior.(*model)
	if !is {
		return nil, false
	}
	const argument = "it is an argument of every queue, which RabbitMQ fixes when the queue is declared"
	changes = lifecycle.Differences("Undo the change; or add a network of another name with the new value, attach the destinations to "+
		"both, move the senders, and remove this one when it is empty.",
		lifecycle.Fixed{
			Name: "unit", Reason: "the queues hold messages for the unit times a power of two, which RabbitMQ fixes when they are declared",
			Before: before.Unit, After: m.Unit,
		},
		lifecycle.Fixed{
			Name: "levels", Reason: "the routing keys of messages that are under way, and the bindings of destinations, have one word " +
				"per level",
			Before: before.Levels, After: m.Levels,
		},
		lifecycle.Fixed{Name: "queue_type", Reason: argument, Before: before.QueueType, After: m.QueueType},
		lifecycle.Fixed{Name: "dead_letter_strategy", Reason: argument, Before: before.DeadLetterStrategy, After: m.DeadLetterStrategy})
	// Without queues or bindings no message can be under way: a create was killed, and
	// what it had not made cannot be read.
	have := values.LinesOf(before.Topology)
	return changes, len(have.Queues) == 0 || len(have.Bindings) == 0
}
