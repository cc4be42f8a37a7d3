package retrychain

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// complete turns a configuration into a plan: it fills in defaults and
// everything that follows from the inputs. What follows from a value that is
// known only after apply, or from a broker that cannot be asked yet (facts is
// nil), stays unknown. prior is nil for a new chain.
//
// It is a pure function: Terraform plans again at apply, in another process,
// and the answer has to be the same.
func complete(ctx context.Context, config model, prior *model, f *facts) model {
	m := completeInputs(config, f)
	if prior != nil {
		m.keepSpelling(ctx, *prior)
	}
	m.setNames()
	m.setSchedule()
	m.setTiers()
	m.setTopology(ctx, f)
	m.setDraining(prior, f)
	return m
}

// completeInputs fills in the defaults.
func completeInputs(config model, f *facts) model {
	m := config
	m.CountHeader = completeCountHeader(m)
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	m.WorkQueue = completeWorkQueue(m, f)
	m.ParkingQueue = completeParkingQueue(m)
	m.Policy = attribute.ChainPolicy.Complete(m.Policy)
	return m
}

func completeCountHeader(m model) types.String {
	switch {
	case !m.CountHeader.IsNull():
		return m.CountHeader
	case m.Strategy.IsUnknown():
		return types.StringUnknown()
	case m.Strategy.ValueString() == string(retry.Republish):
		return types.StringValue(retry.DefaultCountHeader)
	default:
		return types.StringNull()
	}
}

func completeWorkQueue(m model, f *facts) types.Object {
	if m.WorkQueue.IsUnknown() {
		return m.WorkQueue
	}
	w := m.workQueue()
	if w.Name.IsNull() {
		w.Name = m.Name
	}
	if w.Ownership.IsNull() {
		w.Ownership = types.StringValue(ownedByChain)
	}
	if w.DeliveryLimit.IsNull() {
		w.DeliveryLimit = defaultDeliveryLimit(m, w.Ownership, f)
	}
	if w.Overflow.IsNull() {
		w.Overflow = defaultOverflow(m, w.Ownership)
	}
	if w.SingleActiveConsumer.IsNull() {
		w.SingleActiveConsumer = types.BoolValue(false)
	}
	if w.Bindings.IsNull() {
		w.Bindings = types.ListValueMust(types.ObjectType{AttrTypes: bindingTypes}, []attr.Value{})
	}
	return w.object()
}

// defaultDeliveryLimit is null for a queue of an application.
func defaultDeliveryLimit(m model, ownership types.String, f *facts) types.Int64 {
	switch {
	case attribute.IsApplication(ownership), m.QueueType.ValueString() == string(topology.Classic):
		return types.Int64Null()
	case m.Strategy.ValueString() == string(retry.DelayedRetry) && m.Delays.IsUnknown():
		return types.Int64Unknown()
	case m.Strategy.ValueString() == string(retry.DelayedRetry) && len(m.Delays.Elements()) > 0:
		return types.Int64Null() // the delays say it
	case ownership.IsUnknown(), m.QueueType.IsUnknown(), m.Strategy.IsUnknown(), f == nil && m.Strategy.ValueString() == string(retry.RoutingKey):
		return types.Int64Unknown()
	case f != nil && !f.Features.DeliveryLimit:
		return types.Int64Null()
	default:
		return types.Int64Value(retry.DefaultDeliveryLimit)
	}
}

// defaultOverflow is null for a queue of an application.
func defaultOverflow(m model, ownership types.String) types.String {
	switch {
	case attribute.IsApplication(ownership), m.QueueType.ValueString() == string(topology.Classic):
		return types.StringNull()
	case ownership.IsUnknown(), m.DeadLetterStrategy.IsUnknown(), m.QueueType.IsUnknown():
		return types.StringUnknown()
	case m.DeadLetterStrategy.ValueString() == string(retry.AtLeastOnce):
		return types.StringValue(retry.RejectPublish)
	default:
		return types.StringNull()
	}
}

func completeParkingQueue(m model) types.Object {
	if m.ParkingQueue.IsUnknown() {
		return m.ParkingQueue
	}
	p := m.parkingQueue()
	switch {
	case !p.Name.IsNull():
	case m.Name.IsUnknown():
		p.Name = types.StringUnknown()
	default:
		p.Name = types.StringValue(m.named().DefaultParkingQueue())
	}
	if p.Ownership.IsNull() {
		p.Ownership = types.StringValue(ownedByChain)
	}
	return p.object()
}

// named is a chain that only knows its name.
func (m model) named() retry.Chain {
	return retry.Chain{Name: m.Name.ValueString(), Strategy: retry.Strategy(m.Strategy.ValueString())}
}

// keepSpelling replaces values that only look different from the prior ones,
// such as "60s" for "1m", by the prior ones. Terraform allows a planned value to
// be the configured or the prior one as a whole, nothing in between.
func (m *model) keepSpelling(ctx context.Context, prior model) {
	if sameDurations(m.Delays, prior.Delays) {
		m.Delays = prior.Delays
	}
	m.WorkQueue = keepWorkQueue(ctx, *m, prior)
	if m.ParkingQueue.IsUnknown() || prior.ParkingQueue.IsNull() {
		return
	}
	p, before := m.parkingQueue(), prior.parkingQueue()
	if sameDuration(p.MessageTTL, before.MessageTTL) {
		p.MessageTTL = before.MessageTTL
		m.ParkingQueue = p.object()
	}
}

func keepWorkQueue(ctx context.Context, m, prior model) types.Object {
	if m.WorkQueue.IsUnknown() || prior.WorkQueue.IsNull() {
		return m.WorkQueue
	}
	w, before := m.workQueue(), prior.workQueue()
	if sameDuration(w.MessageTTL, before.MessageTTL) {
		w.MessageTTL = before.MessageTTL
	}
	if sameArguments(w, before) {
		w.Arguments = before.Arguments
	}
	if sameBindings(ctx, w, before) {
		w.Bindings = before.Bindings
	}
	return w.object()
}

func sameArguments(a, b workQueueModel) bool {
	return !a.Arguments.IsUnknown() && values.ArgumentsOf(a.Arguments).Equal(values.ArgumentsOf(b.Arguments))
}

// sameBindings compares bindings as a set: their order means nothing.
func sameBindings(ctx context.Context, a, b workQueueModel) bool {
	raw, err := a.Bindings.ToTerraformValue(ctx)
	if err != nil || !raw.IsFullyKnown() || len(a.Bindings.Elements()) != len(b.Bindings.Elements()) {
		return false
	}
	wanted := retry.Chain{Work: retry.WorkQueue{Bindings: bindings(a.Bindings)}}
	have := retry.Chain{Work: retry.WorkQueue{Bindings: bindings(b.Bindings)}}
	return wanted.SameBindings(have)
}

func sameDuration(a, b types.String) bool {
	x, y := values.DurationOf(a), values.DurationOf(b)
	return x != nil && y != nil && *x == *y
}

func sameDurations(a, b types.List) bool {
	return !a.IsUnknown() && !b.IsNull() && slices.EqualFunc(a.Elements(), b.Elements(), func(x, y attr.Value) bool {
		return sameDuration(asString(x), asString(y))
	})
}

func asString(value attr.Value) types.String {
	text, ok := value.(types.String)
	if !ok {
		return types.StringNull()
	}
	return text
}

func (m *model) setNames() {
	m.ID, m.RetryExchange, m.RedriveExchange = types.StringUnknown(), types.StringUnknown(), types.StringUnknown()
	if m.Name.IsUnknown() {
		return
	}
	c := m.named()
	switch {
	case m.Strategy.IsUnknown():
	case c.Strategy == retry.DelayedRetry, c.Strategy == retry.DelayedExchange:
		m.RetryExchange = types.StringNull()
	default:
		m.RetryExchange = types.StringValue(c.RetryExchange())
	}
	m.RedriveExchange = types.StringValue(c.RedriveExchange())
	if !m.VHost.IsUnknown() {
		m.ID = types.StringValue(lifecycle.FormatID(m.Name.ValueString(), m.VHost.ValueString()))
	}
}

func (m *model) setSchedule() {
	m.Attempts, m.TotalDelay = types.Int64Unknown(), types.StringUnknown()
	if m.Delays.IsUnknown() {
		return
	}
	c := retry.Chain{Delays: m.durations()}
	m.Attempts = types.Int64Value(int64(len(m.Delays.Elements()) + 1))
	if m.delaysKnown() {
		m.TotalDelay = types.StringValue(retry.FormatDuration(c.TotalDelay()))
	}
}

// durations returns the delays that are known.
func (m model) durations() []time.Duration { return values.DurationsOf(m.Delays) }

func (m model) delaysKnown() bool {
	unknown := func(v attr.Value) bool { return v.IsUnknown() }
	return !m.Delays.IsUnknown() && !slices.ContainsFunc(m.Delays.Elements(), unknown)
}

func (m *model) setTiers() {
	m.Tiers = types.ListUnknown(types.ObjectType{AttrTypes: tierTypes})
	if m.Name.IsUnknown() || m.Strategy.IsUnknown() || !m.delaysKnown() {
		return
	}
	c := m.named()
	c.Delays = m.durations()
	tiers := make([]attr.Value, 0, len(c.Delays))
	for _, t := range c.Tiers() {
		tiers = append(tiers, tierModel{
			Delay:          types.StringValue(retry.FormatDuration(t.Delay)),
			Queue:          types.StringValue(t.Queue),
			ReturnExchange: types.StringValue(t.Return),
		}.object())
	}
	m.Tiers = types.ListValueMust(types.ObjectType{AttrTypes: tierTypes}, tiers)
}

func (m *model) setTopology(ctx context.Context, f *facts) {
	m.Topology = types.ObjectUnknown(topologyTypes)
	if !m.isKnown(ctx) {
		return
	}
	c := m.chain()
	if f == nil {
		if c.DependsOnBroker() {
			return
		}
		f = &facts{}
	}
	c = f.within(c)
	m.Topology = topologyValue(c.Topology(f.Features), nil)
	if c.Work.Existing && c.Work.Type == "" {
		m.Topology = withUnknownPolicies(m.Topology)
	}
}

// setDraining plans what stays of tiers that are not wanted any more.
func (m *model) setDraining(prior *model, f *facts) {
	m.Draining = lifecycle.TierNames(nil)
	if prior != nil {
		m.Draining = lifecycle.PlanDraining(prior.Draining, prior.Topology, m.Topology, f != nil && f.Drained)
	}
}
