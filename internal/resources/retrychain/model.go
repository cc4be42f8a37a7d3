package retrychain

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// ownedByChain is the value of ownership for a queue that the chain declares.
const ownedByChain = "chain"

type model struct {
	lifecycle.Common
	Name               types.String `tfsdk:"name"`
	Delays             types.List   `tfsdk:"delays"`
	Strategy           types.String `tfsdk:"strategy"`
	CountHeader        types.String `tfsdk:"count_header"`
	QueueType          types.String `tfsdk:"queue_type"`
	DeadLetterStrategy types.String `tfsdk:"dead_letter_strategy"`
	WorkQueue          types.Object `tfsdk:"work_queue"`
	ParkingQueue       types.Object `tfsdk:"parking_queue"`
	Policy             types.Object `tfsdk:"policy"`

	Tiers              types.List           `tfsdk:"tiers"`
	WorkQueueArguments jsontypes.Normalized `tfsdk:"work_queue_arguments"`
	RetryExchange      types.String         `tfsdk:"retry_exchange"`
	RedriveExchange    types.String         `tfsdk:"redrive_exchange"`
	Draining           types.List           `tfsdk:"draining"`
}

type workQueueModel struct {
	Name                 types.String         `tfsdk:"name"`
	Ownership            types.String         `tfsdk:"ownership"`
	DeliveryLimit        types.Int64          `tfsdk:"delivery_limit"`
	EffectiveLimit       types.Int64          `tfsdk:"effective_delivery_limit"`
	MessageTTL           types.String         `tfsdk:"message_ttl"`
	MaxLength            types.Int64          `tfsdk:"max_length"`
	MaxLengthBytes       types.Int64          `tfsdk:"max_length_bytes"`
	Overflow             types.String         `tfsdk:"overflow"`
	SingleActiveConsumer types.Bool           `tfsdk:"single_active_consumer"`
	ConsumerTimeout      types.String         `tfsdk:"consumer_timeout"`
	Arguments            jsontypes.Normalized `tfsdk:"arguments"`
	Bindings             types.List           `tfsdk:"bindings"`
}

type bindingModel struct {
	Exchange   types.String         `tfsdk:"exchange"`
	RoutingKey types.String         `tfsdk:"routing_key"`
	Arguments  jsontypes.Normalized `tfsdk:"arguments"`
}

type parkingQueueModel struct {
	Name       types.String `tfsdk:"name"`
	Ownership  types.String `tfsdk:"ownership"`
	MessageTTL types.String `tfsdk:"message_ttl"`
}

var (
	bindingTypes = map[string]attr.Type{
		"exchange": types.StringType, "routing_key": types.StringType, "arguments": jsontypes.NormalizedType{},
	}
	workQueueTypes    = values.TypesOf(workQueueSchema())
	parkingQueueTypes = values.TypesOf(parkingQueueSchema())
)

// workQueue reads the nested attribute; a null or unknown one has only null
// parts.
func (m *model) workQueue() workQueueModel {
	var w workQueueModel
	values.Read(m.WorkQueue, &w)
	if w.Bindings.IsNull() {
		w.Bindings = types.ListNull(types.ObjectType{AttrTypes: bindingTypes})
	}
	return w
}

func (w workQueueModel) object() types.Object {
	return values.Object(workQueueTypes, w)
}

func (m *model) parkingQueue() parkingQueueModel {
	var p parkingQueueModel
	values.Read(m.ParkingQueue, &p)
	return p
}

func (p parkingQueueModel) object() types.Object {
	return values.Object(parkingQueueTypes, p)
}

func (b bindingModel) object() types.Object {
	return types.ObjectValueMust(bindingTypes, map[string]attr.Value{
		"exchange": b.Exchange, "routing_key": b.RoutingKey, "arguments": b.Arguments,
	})
}

func (m *model) Names() []types.String { return []types.String{m.Name} }

func (m *model) DrainingTiers() *types.List { return &m.Draining }

func (m *model) Known() bool {
	return values.Known(m.Name, m.Delays, m.VHost, m.Strategy, m.CountHeader, m.QueueType, m.DeadLetterStrategy,
		m.withLimit(types.Int64Null()),
		m.ParkingQueue, m.Policy)
}

// SetDeclared is for [lifecycle.DeclaringModel].
func (m *model) SetDeclared(wanted *topology.Topology) {
	arguments, limit := attribute.Declared(wanted, m.workQueue().Name.ValueString())
	m.WorkQueueArguments, m.WorkQueue = arguments, m.withLimit(limit)
}

// withLimit is the work queue with another effective limit, which is the only part that is
// no input.
func (m *model) withLimit(effective types.Int64) types.Object {
	if m.WorkQueue.IsNull() || m.WorkQueue.IsUnknown() {
		return m.WorkQueue
	}
	w := m.workQueue()
	w.EffectiveLimit = effective
	return w.object()
}

// KnowsWorkQueue is for [lifecycle.Looker].
func (m *model) KnowsWorkQueue() bool {
	return m.Known() && attribute.IsApplication(m.workQueue().Ownership)
}

// ForNew notes what a new chain is made with, as far as its inputs are known.
func (m *model) ForNew(f *lifecycle.Facts) {
	if !m.Delays.IsUnknown() {
		f.Features = f.Features.ForNew(retry.Chain{Delays: make([]time.Duration, len(m.Delays.Elements()))})
	}
}

// chain converts the inputs, all of which must be known, to the domain.
func (m *model) chain() retry.Chain {
	c := retry.Chain{
		Name:               m.Name.ValueString(),
		Strategy:           retry.Strategy(m.Strategy.ValueString()),
		CountHeader:        m.CountHeader.ValueString(),
		QueueType:          topology.QueueType(m.QueueType.ValueString()),
		DeadLetterStrategy: retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString()),
		Delays:             values.DurationsOf(m.Delays),
		Work:               m.workQueue().domain(),
	}
	p := m.parkingQueue()
	c.Parking = retry.ParkingQueue{
		Name: p.Name.ValueString(), Existing: attribute.IsApplication(p.Ownership),
		MessageTTL: values.DurationOf(p.MessageTTL),
	}
	c.Policy = attribute.ChainPolicy.Settings(m.Policy)
	return c
}

func (w workQueueModel) domain() retry.WorkQueue {
	return retry.WorkQueue{
		Name:                 w.Name.ValueString(),
		Existing:             attribute.IsApplication(w.Ownership),
		DeliveryLimit:        w.DeliveryLimit.ValueInt64Pointer(),
		MessageTTL:           values.DurationOf(w.MessageTTL),
		MaxLength:            w.MaxLength.ValueInt64Pointer(),
		MaxLengthBytes:       w.MaxLengthBytes.ValueInt64Pointer(),
		Overflow:             w.Overflow.ValueString(),
		SingleActiveConsumer: w.SingleActiveConsumer.ValueBool(),
		ConsumerTimeout:      values.DurationOf(w.ConsumerTimeout),
		Arguments:            values.ArgumentsOf(w.Arguments),
		Bindings:             bindings(w.Bindings),
	}
}

func bindings(list types.List) []retry.SourceBinding {
	elements := list.Elements()
	bindings := make([]retry.SourceBinding, 0, len(elements))
	for _, element := range elements {
		object, _ := element.(types.Object)
		parts := object.Attributes()
		bindings = append(bindings, retry.SourceBinding{
			Exchange:   values.Part[types.String](parts, "exchange").ValueString(),
			RoutingKey: values.Part[types.String](parts, "routing_key").ValueString(),
			Arguments:  values.ArgumentsOf(values.Part[jsontypes.Normalized](parts, "arguments")),
		})
	}
	return bindings
}

func (m *model) Import(in *topology.Topology, f *lifecycle.Facts, version abilities.Version) error {
	name, vhost := m.Name.ValueString(), m.VHost.ValueString()
	c, features, err := retry.Read(name, in, version)
	var contradiction *retry.NotAChainError
	switch {
	case errors.As(err, &contradiction):
		return &lifecycle.ImportError{Title: "Not a Retry Chain", Text: fmt.Sprintf("The objects named after %q in virtual host %q "+
			"cannot be a retry chain: %s. Import only what has the form of a chain; for another topology, declare a chain of another "+
			"name and move publishers and consumers.",
			name, vhost, contradiction.Reason)}
	case errors.Is(err, retry.ErrNoChain):
		return &lifecycle.ImportError{Title: "Nothing to Import", Text: fmt.Sprintf(
			"Virtual host %q holds no object of a retry chain named %q: no exchange %s.retry, %s.parking or %s.redrive and no tier. "+
				"Check the name, or create the chain instead of importing it. For a queue that an application declares, create a chain "+
				"with work_queue = { ownership = \"application\" }.", vhost, name, name, name, name)}
	}
	f.Features = features
	m.setInputs(c)
	return err
}

// setInputs fills the inputs from a chain that was read from a broker.
func (m *model) setInputs(c retry.Chain) {
	m.Strategy = types.StringValue(string(c.Strategy))
	m.CountHeader = types.StringNull()
	if c.CountHeader != "" {
		m.CountHeader = types.StringValue(c.CountHeader)
	}
	m.QueueType = types.StringValue(string(c.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(c.DeadLetterStrategy))
	m.Delays = values.DurationList(c.Delays)
	m.WorkQueue = newWorkQueueModel(c.Work).object()
	m.ParkingQueue = parkingQueueModel{
		Name:       types.StringValue(c.Parking.Name),
		Ownership:  attribute.OwnershipValue(ownedByChain, c.Parking.Existing),
		MessageTTL: values.DurationValue(c.Parking.MessageTTL),
	}.object()
	m.Policy = attribute.ChainPolicy.Value(c.Policy)
}

func newWorkQueueModel(w retry.WorkQueue) workQueueModel {
	bindings := make([]attr.Value, 0, len(w.Bindings))
	for _, b := range w.Bindings {
		key := types.StringNull()
		if b.RoutingKey != "" {
			key = types.StringValue(b.RoutingKey)
		}
		bindings = append(bindings, bindingModel{
			Exchange: types.StringValue(b.Exchange), RoutingKey: key,
			Arguments: values.ArgumentsValue(b.Arguments),
		}.object())
	}
	overflow := types.StringNull()
	if w.Overflow != "" {
		overflow = types.StringValue(w.Overflow)
	}
	return workQueueModel{
		Name:                 types.StringValue(w.Name),
		Ownership:            attribute.OwnershipValue(ownedByChain, w.Existing),
		DeliveryLimit:        types.Int64PointerValue(w.DeliveryLimit),
		MessageTTL:           values.DurationValue(w.MessageTTL),
		MaxLength:            types.Int64PointerValue(w.MaxLength),
		MaxLengthBytes:       types.Int64PointerValue(w.MaxLengthBytes),
		Overflow:             overflow,
		SingleActiveConsumer: types.BoolValue(w.SingleActiveConsumer),
		ConsumerTimeout:      values.DurationValue(w.ConsumerTimeout),
		Arguments:            values.ArgumentsValue(w.Arguments),
		Bindings:             types.ListValueMust(types.ObjectType{AttrTypes: bindingTypes}, bindings),
	}
}
