package retrytiers

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// complete turns a configuration into a plan: it fills in defaults and
// everything that follows from the inputs. What follows from a value that is
// known only after apply, or from a broker that cannot be asked yet (facts is
// nil), stays unknown. prior is nil for new tiers.
//
// It is a pure function: Terraform plans again at apply, in another process,
// and the answer has to be the same.
func complete(m model, prior *model, f *facts) model {
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	if prior != nil && m.isKnown() && slices.Equal(m.durations(), prior.durations()) && len(m.Delays.Elements()) == len(prior.Delays.Elements()) {
		m.Delays = prior.Delays // "60s" for "1m" is no change
	}
	m.setNames()
	m.setSchedule()
	m.setTopology(f)
	m.setDraining(prior, f)
	return m
}

func (m *model) setNames() {
	m.ID, m.RetryExchange, m.ReturnExchange, m.ParkingQueue = types.StringUnknown(), types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	if m.Name.IsUnknown() {
		return
	}
	c := retry.NewShared(m.Name.ValueString())
	m.RetryExchange = types.StringValue(c.RetryExchange())
	m.ReturnExchange = types.StringValue(c.ReturnExchange())
	m.ParkingQueue = types.StringValue(c.Parking.Name)
	if !m.VHost.IsUnknown() {
		m.ID = types.StringValue(lifecycle.FormatID(c.Name, m.VHost.ValueString()))
	}
}

func (m *model) setSchedule() {
	m.Attempts, m.TotalDelay = types.Int64Unknown(), types.StringUnknown()
	if m.Delays.IsUnknown() {
		return
	}
	m.Attempts = types.Int64Value(int64(len(m.Delays.Elements()) + 1))
	if delays := m.durations(); len(delays) == len(m.Delays.Elements()) {
		m.TotalDelay = types.StringValue(retry.FormatDuration(retry.Chain{Delays: delays}.TotalDelay()))
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
	if c := m.chain(); len(c.SharedProblems()) == 0 {
		m.Topology = values.LinesValue(c.Topology(f.Features).Lines(nil))
	}
}

// setDraining plans what stays of tiers that are not wanted any more.
func (m *model) setDraining(prior *model, f *facts) {
	m.Draining = lifecycle.TierNames(nil)
	if prior != nil {
		m.Draining = lifecycle.PlanDraining(prior.Draining, prior.Topology, m.Topology, f != nil && f.Drained)
	}
}
