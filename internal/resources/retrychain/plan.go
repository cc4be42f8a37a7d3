package retrychain

import (
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (m *model) Complete(prior lifecycle.Model, f *lifecycle.Facts) {
	values.Default(&m.Strategy, string(retry.DefaultStrategy))
	values.Default(&m.QueueType, string(topology.Quorum))
	m.CountHeader = m.completeCountHeader()
	m.DeadLetterStrategy = values.CompleteDeadLetterStrategy(m.DeadLetterStrategy, m.QueueType)
	m.WorkQueue = m.completeWorkQueue(f)
	m.ParkingQueue = m.completeParkingQueue()
	m.Policy = attribute.ChainPolicy.Complete(m.Policy)
	if before, is := prior.(*model); is {
		m.keepSpelling(before)
	}
}

func (m *model) SetOutputs() {
	m.setNames()
	m.setTiers()
}

func (m *model) completeCountHeader() types.String {
	switch {
	case !m.CountHeader.IsNull():
		return m.CountHeader
	case m.Strategy.IsUnknown():
		return types.StringUnknown()
	case m.design().NamesHeader:
		return types.StringValue(retry.DefaultCountHeader)
	default:
		return types.StringNull()
	}
}

func (m *model) completeWorkQueue(f *lifecycle.Facts) types.Object {
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
		w.DeliveryLimit = m.defaultDeliveryLimit(w.Ownership, f)
	}
	if w.Overflow.IsNull() {
		w.Overflow = m.defaultOverflow(w.Ownership)
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
func (m *model) defaultDeliveryLimit(ownership types.String, f *lifecycle.Facts) types.Int64 {
	switch {
	case attribute.IsApplication(ownership), m.QueueType.ValueString() == string(topology.Classic):
		return types.Int64Null()
	case m.design().HoldsBack() && m.Delays.IsUnknown():
		return types.Int64Unknown()
	case m.design().HoldsBack() && len(m.Delays.Elements()) > 0:
		return types.Int64Null() // the delays say it
	case ownership.IsUnknown(), m.QueueType.IsUnknown(), m.Strategy.IsUnknown(), f == nil && m.design().DependsOnBroker:
		return types.Int64Unknown()
	case f != nil && !f.Features.DeliveryLimit:
		return types.Int64Null()
	default:
		return types.Int64Value(retry.DefaultDeliveryLimit)
	}
}

// defaultOverflow is null for a queue of an application.
func (m *model) defaultOverflow(ownership types.String) types.String {
	switch {
	case attribute.IsApplication(ownership), m.QueueType.ValueString() == string(topology.Classic):
		return types.StringNull()
	case ownership.IsUnknown(), m.DeadLetterStrategy.IsUnknown(), m.QueueType.IsUnknown():
		return types.StringUnknown()
	case m.DeadLetterStrategy.ValueString() == string(retry.AtLeastOnce):
		return types.StringValue(topology.RejectPublish)
	default:
		return types.StringNull()
	}
}

func (m *model) completeParkingQueue() types.Object {
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

// design is the zero [retry.Design] while the strategy is not known.
func (m *model) design() *retry.Design {
	d, _ := retry.DesignOf(retry.Strategy(m.Strategy.ValueString()))
	return d
}

// named is a chain that only knows its name.
func (m *model) named() retry.Chain {
	return retry.Chain{Name: m.Name.ValueString(), Strategy: retry.Strategy(m.Strategy.ValueString())}
}

// keepSpelling replaces values that only look different from the prior ones,
// such as "60s" for "1m", by the prior ones. Terraform allows a planned value to
// be the configured or the prior one as a whole, nothing in between.
func (m *model) keepSpelling(prior *model) {
	if values.SameDurations(m.Delays, prior.Delays) {
		m.Delays = prior.Delays
	}
	m.WorkQueue = m.keepWorkQueue(prior)
	if m.ParkingQueue.IsUnknown() || prior.ParkingQueue.IsNull() {
		return
	}
	p, before := m.parkingQueue(), prior.parkingQueue()
	if values.SameDuration(p.MessageTTL, before.MessageTTL) {
		p.MessageTTL = before.MessageTTL
		m.ParkingQueue = p.object()
	}
}

func (m *model) keepWorkQueue(prior *model) types.Object {
	if m.WorkQueue.IsUnknown() || prior.WorkQueue.IsNull() {
		return m.WorkQueue
	}
	w, before := m.workQueue(), prior.workQueue()
	if sameArguments(w, before) {
		w.Arguments = before.Arguments
	}
	if sameBindings(w, before) {
		w.Bindings = before.Bindings
	}
	return keepDurations(w.object(), prior.WorkQueue)
}

// keepDurations replaces durations that are only written differently.
func keepDurations(w, before types.Object) types.Object {
	parts, prior := w.Attributes(), before.Attributes()
	for _, s := range (retry.WorkQueue{}).Settings() {
		was := values.Part[types.String](prior, s.Attribute)
		if s.IsDuration && values.SameDuration(values.Part[types.String](parts, s.Attribute), was) {
			parts[s.Attribute] = was
		}
	}
	return types.ObjectValueMust(workQueueTypes, parts)
}

func sameArguments(a, b workQueueModel) bool {
	return !a.Arguments.IsUnknown() && values.ArgumentsOf(a.Arguments).Equal(values.ArgumentsOf(b.Arguments))
}

// sameBindings compares bindings as a set: their order means nothing.
func sameBindings(a, b workQueueModel) bool {
	if !values.Known(a.Bindings) || len(a.Bindings.Elements()) != len(b.Bindings.Elements()) {
		return false
	}
	wanted := retry.Chain{Work: retry.WorkQueue{Bindings: bindings(a.Bindings)}}
	have := retry.Chain{Work: retry.WorkQueue{Bindings: bindings(b.Bindings)}}
	return wanted.SameBindings(have)
}

func (m *model) setNames() {
	m.RetryExchange, m.RedriveExchange = types.StringUnknown(), types.StringUnknown()
	if m.Name.IsUnknown() {
		return
	}
	c := m.named()
	switch {
	case m.Strategy.IsUnknown():
	case c.HasRetryExchange():
		m.RetryExchange = types.StringValue(c.RetryExchange())
	default:
		m.RetryExchange = types.StringNull()
	}
	m.RedriveExchange = types.StringValue(c.RedriveExchange())
}

func (m *model) setTiers() {
	m.Tiers = types.ListUnknown(types.StringType)
	if m.Name.IsUnknown() || m.Strategy.IsUnknown() || !values.Known(m.Delays) {
		return
	}
	c := m.named()
	c.Delays = values.DurationsOf(m.Delays)
	m.Tiers = lifecycle.TierNames(c.Tiers())
}
