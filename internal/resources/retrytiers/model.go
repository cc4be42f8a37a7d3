package retrytiers

import (
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

type model struct {
	lifecycle.Common
	Name               types.String `tfsdk:"name"`
	Delays             types.List   `tfsdk:"delays"`
	QueueType          types.String `tfsdk:"queue_type"`
	DeadLetterStrategy types.String `tfsdk:"dead_letter_strategy"`

	RetryExchange  types.String `tfsdk:"retry_exchange"`
	ReturnExchange types.String `tfsdk:"return_exchange"`
	ParkingQueue   types.Object `tfsdk:"parking_queue"`
	Draining       types.List   `tfsdk:"draining"`
}

func (m *model) Names() []types.String { return []types.String{m.Name} }

func (m *model) DrainingTiers() *types.List { return &m.Draining }

func (m *model) Known() bool {
	return values.Known(m.Name, m.VHost, m.Delays, m.QueueType, m.DeadLetterStrategy)
}

func (m *model) Complete(prior lifecycle.Model, _ *lifecycle.Facts) {
	values.Default(&m.QueueType, string(topology.Quorum))
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	if before, is := prior.(*model); is && values.SameDurations(m.Delays, before.Delays) {
		m.Delays = before.Delays // "60s" for "1m" is no change
	}
}

func (m *model) SetOutputs() {
	m.RetryExchange, m.ReturnExchange, m.ParkingQueue = types.StringUnknown(), types.StringUnknown(), parkingQueue(types.StringUnknown())
	if !m.Name.IsUnknown() {
		c := retry.NewShared(m.Name.ValueString())
		m.RetryExchange = types.StringValue(c.RetryExchange())
		m.ReturnExchange = types.StringValue(c.ReturnExchange())
		m.ParkingQueue = parkingQueue(types.StringValue(c.Parking.Name))
	}
}

func parkingQueue(name types.String) types.Object {
	return types.ObjectValueMust(map[string]attr.Type{"name": types.StringType}, map[string]attr.Value{"name": name})
}

// chain converts the inputs, all of which must be known, to the domain.
func (m *model) chain() retry.Chain {
	c := retry.NewShared(m.Name.ValueString())
	c.Delays = values.DurationsOf(m.Delays)
	c.QueueType = topology.QueueType(m.QueueType.ValueString())
	c.DeadLetterStrategy = retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString())
	return c
}

func (m *model) Import(in *topology.Topology, f *lifecycle.Facts, version abilities.Version) error {
	name, vhost := m.Name.ValueString(), m.VHost.ValueString()
	c, features, err := retry.ReadShared(name, in, version)
	var contradiction *retry.NotAChainError
	switch {
	case errors.Is(err, retry.ErrNoChain):
		return &lifecycle.ImportError{Title: "Nothing to Import", Text: fmt.Sprintf("Virtual host %q holds nothing of retry tiers "+
			"named %q, such as the exchange %s. Check the name, or create the tiers instead of importing them.",
			vhost, name, retry.NewShared(name).ReturnExchange())}
	case errors.As(err, &contradiction):
		return &lifecycle.ImportError{Title: "Not Retry Tiers", Text: fmt.Sprintf("In virtual host %q, %s. Import it with its own "+
			"resource, or choose another name.",
			vhost, contradiction.Reason)}
	}
	f.Features = features
	m.Delays = values.DurationList(c.Delays)
	m.QueueType = types.StringValue(string(c.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(c.DeadLetterStrategy))
	return err
}

func (m *model) Changes(prior lifecycle.Model) (changes []lifecycle.Change, idle bool) {
	before, is := prior.(*model)
	if !is {
		return nil, false
	}
	const argument = "it is an argument of every queue, which RabbitMQ fixes when the queue is declared"
	changes = lifecycle.Differences("Undo the change; or add tiers of another name with the new value, and move the attachments there.",
		lifecycle.Fixed{Name: "queue_type", Reason: argument, Before: before.QueueType, After: m.QueueType},
		lifecycle.Fixed{Name: "dead_letter_strategy", Reason: argument, Before: before.DeadLetterStrategy, After: m.DeadLetterStrategy})
	return changes, len(values.LinesOf(before.Topology).Queues) == 0 // a create that was killed
}
