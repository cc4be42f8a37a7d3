package delaynetwork

import (
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// complete turns a configuration into a plan: it fills in defaults and
// everything that follows from the inputs. What follows from a value that is
// known only after apply, or from a broker that cannot be asked yet (facts is
// nil), stays unknown. prior is nil for a new network.
//
// It is a pure function: Terraform plans again at apply, in another process,
// and the answer has to be the same.
func complete(m model, prior *model, f *facts) model {
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	if prior != nil && !m.Unit.IsUnknown() && m.unit() == prior.unit() {
		m.Unit = prior.Unit // "1000ms" for "1s" is no change
	}
	m.setNames()
	m.setMaximum()
	m.setTopology(f)
	return m
}

func (m *model) setNames() {
	m.ID, m.Exchange, m.DeliveryExchange, m.UnroutedQueue = types.StringUnknown(), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	if m.Name.IsUnknown() {
		return
	}
	n := delay.Network{Name: m.Name.ValueString()}
	m.Exchange = types.StringValue(n.EntryExchange())
	m.DeliveryExchange = types.StringValue(n.DeliveryExchange())
	m.UnroutedQueue = types.StringValue(n.Unrouted())
	if !m.VHost.IsUnknown() {
		m.ID = types.StringValue(lifecycle.FormatID(n.Name, m.VHost.ValueString()))
	}
}

func (m *model) setMaximum() {
	m.MaximumDelay = types.StringUnknown()
	if levels := m.Levels.ValueInt64(); !m.Unit.IsUnknown() && levels >= 1 && levels <= delay.MaxLevels {
		m.MaximumDelay = types.StringValue(retry.FormatDuration(m.network().Maximum()))
	}
}

func (m *model) setTopology(f *facts) {
	m.Topology = types.ObjectUnknown(values.LinesTypes)
	if !m.isKnown() || f == nil && m.QueueType.ValueString() == string(topology.Quorum) {
		return
	}
	if f == nil {
		f = &facts{}
	}
	if n := m.network(); len(n.Problems()) == 0 {
		m.Topology = values.LinesValue(n.Topology(f.Features).Lines(nil))
	}
}
