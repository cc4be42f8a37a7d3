package retrychain

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
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

// ownedByChain is the value of ownership for a queue that the chain declares.
const ownedByChain = "chain"

type model struct {
	Name               types.String   `tfsdk:"name"`
	Delays             types.List     `tfsdk:"delays"`
	VHost              types.String   `tfsdk:"vhost"`
	Strategy           types.String   `tfsdk:"strategy"`
	CountHeader        types.String   `tfsdk:"count_header"`
	QueueType          types.String   `tfsdk:"queue_type"`
	DeadLetterStrategy types.String   `tfsdk:"dead_letter_strategy"`
	WorkQueue          types.Object   `tfsdk:"work_queue"`
	ParkingQueue       types.Object   `tfsdk:"parking_queue"`
	Policy             types.Object   `tfsdk:"policy"`
	DeletionPolicy     types.String   `tfsdk:"deletion_policy"`
	Timeouts           timeouts.Value `tfsdk:"timeouts"`

	ID              types.String `tfsdk:"id"`
	Attempts        types.Int64  `tfsdk:"attempts"`
	TotalDelay      types.String `tfsdk:"total_delay"`
	Tiers           types.List   `tfsdk:"tiers"`
	RetryExchange   types.String `tfsdk:"retry_exchange"`
	RedriveExchange types.String `tfsdk:"redrive_exchange"`
	Topology        types.Object `tfsdk:"topology"`
	Draining        types.List   `tfsdk:"draining"`
}

type workQueueModel struct {
	Name                 types.String         `tfsdk:"name"`
	Ownership            types.String         `tfsdk:"ownership"`
	DeliveryLimit        types.Int64          `tfsdk:"delivery_limit"`
	MessageTTL           types.String         `tfsdk:"message_ttl"`
	MaxLength            types.Int64          `tfsdk:"max_length"`
	MaxLengthBytes       types.Int64          `tfsdk:"max_length_bytes"`
	Overflow             types.String         `tfsdk:"overflow"`
	SingleActiveConsumer types.Bool           `tfsdk:"single_active_consumer"`
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

type tierModel struct {
	Delay          types.String `tfsdk:"delay"`
	Queue          types.String `tfsdk:"queue"`
	ReturnExchange types.String `tfsdk:"return_exchange"`
}

var (
	bindingTypes = map[string]attr.Type{
		"exchange": types.StringType, "routing_key": types.StringType, "arguments": jsontypes.NormalizedType{},
	}
	workQueueTypes = map[string]attr.Type{
		"name": types.StringType, "ownership": types.StringType, "delivery_limit": types.Int64Type,
		"message_ttl": types.StringType, "max_length": types.Int64Type, "max_length_bytes": types.Int64Type,
		"overflow": types.StringType, "single_active_consumer": types.BoolType, "arguments": jsontypes.NormalizedType{},
		"bindings": types.ListType{ElemType: types.ObjectType{AttrTypes: bindingTypes}},
	}
	parkingQueueTypes = map[string]attr.Type{
		"name": types.StringType, "ownership": types.StringType, "message_ttl": types.StringType,
	}
	tierTypes     = map[string]attr.Type{"delay": types.StringType, "queue": types.StringType, "return_exchange": types.StringType}
	topologyTypes = values.LinesTypes
)

// workQueue reads the nested attribute; a null or unknown one has only null
// parts.
func (m model) workQueue() workQueueModel {
	parts := m.WorkQueue.Attributes()
	w := workQueueModel{
		Name:                 values.Part[types.String](parts, "name"),
		Ownership:            values.Part[types.String](parts, "ownership"),
		DeliveryLimit:        values.Part[types.Int64](parts, "delivery_limit"),
		MessageTTL:           values.Part[types.String](parts, "message_ttl"),
		MaxLength:            values.Part[types.Int64](parts, "max_length"),
		MaxLengthBytes:       values.Part[types.Int64](parts, "max_length_bytes"),
		Overflow:             values.Part[types.String](parts, "overflow"),
		SingleActiveConsumer: values.Part[types.Bool](parts, "single_active_consumer"),
		Arguments:            values.Part[jsontypes.Normalized](parts, "arguments"),
		Bindings:             values.Part[types.List](parts, "bindings"),
	}
	if w.Bindings.IsNull() {
		w.Bindings = types.ListNull(types.ObjectType{AttrTypes: bindingTypes})
	}
	return w
}

func (w workQueueModel) object() types.Object {
	return types.ObjectValueMust(workQueueTypes, map[string]attr.Value{
		"name": w.Name, "ownership": w.Ownership, "delivery_limit": w.DeliveryLimit, "message_ttl": w.MessageTTL,
		"max_length": w.MaxLength, "max_length_bytes": w.MaxLengthBytes, "overflow": w.Overflow,
		"single_active_consumer": w.SingleActiveConsumer, "arguments": w.Arguments, "bindings": w.Bindings,
	})
}

// usesExisting says whether the chain uses a queue of others.
func (m model) usesExisting() bool {
	return attribute.IsApplication(m.workQueue().Ownership) || attribute.IsApplication(m.parkingQueue().Ownership)
}

func (m model) parkingQueue() parkingQueueModel {
	parts := m.ParkingQueue.Attributes()
	return parkingQueueModel{
		Name:       values.Part[types.String](parts, "name"),
		Ownership:  values.Part[types.String](parts, "ownership"),
		MessageTTL: values.Part[types.String](parts, "message_ttl"),
	}
}

func (p parkingQueueModel) object() types.Object {
	return types.ObjectValueMust(parkingQueueTypes, map[string]attr.Value{
		"name": p.Name, "ownership": p.Ownership, "message_ttl": p.MessageTTL,
	})
}

func (b bindingModel) object() types.Object {
	return types.ObjectValueMust(bindingTypes, map[string]attr.Value{
		"exchange": b.Exchange, "routing_key": b.RoutingKey, "arguments": b.Arguments,
	})
}

func (t tierModel) object() types.Object {
	return types.ObjectValueMust(tierTypes, map[string]attr.Value{
		"delay": t.Delay, "queue": t.Queue, "return_exchange": t.ReturnExchange,
	})
}

// isKnown says whether no part of the inputs is known only after apply.
func (m model) isKnown(ctx context.Context) bool {
	for _, value := range []attr.Value{
		m.Name, m.Delays, m.VHost, m.Strategy, m.CountHeader, m.QueueType, m.DeadLetterStrategy, m.WorkQueue, m.ParkingQueue, m.Policy,
	} {
		raw, err := value.ToTerraformValue(ctx)
		if err != nil || !raw.IsFullyKnown() {
			return false
		}
	}
	return true
}

// chain converts the inputs, all of which must be known, to the domain.
func (m model) chain() retry.Chain {
	c := retry.Chain{
		Name:               m.Name.ValueString(),
		Strategy:           retry.Strategy(m.Strategy.ValueString()),
		CountHeader:        m.CountHeader.ValueString(),
		QueueType:          topology.QueueType(m.QueueType.ValueString()),
		DeadLetterStrategy: retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString()),
		Delays:             m.durations(),
		Work:               m.workQueue().domain(),
	}
	p := m.parkingQueue()
	c.Parking = retry.ParkingQueue{Name: p.Name.ValueString(), Existing: attribute.IsApplication(p.Ownership), MessageTTL: values.DurationOf(p.MessageTTL)}
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

// setInputs fills the inputs from a chain that was read from a broker.
func (m *model) setInputs(c retry.Chain) {
	m.Strategy = types.StringValue(string(c.Strategy))
	m.CountHeader = types.StringNull()
	if c.CountHeader != "" {
		m.CountHeader = types.StringValue(c.CountHeader)
	}
	m.QueueType = types.StringValue(string(c.QueueType))
	m.DeadLetterStrategy = types.StringValue(string(c.DeadLetterStrategy))
	m.DeletionPolicy = types.StringValue(ifEmpty)
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
		bindings = append(bindings, bindingModel{Exchange: types.StringValue(b.Exchange), RoutingKey: key, Arguments: values.ArgumentsValue(b.Arguments)}.object())
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
		Arguments:            values.ArgumentsValue(w.Arguments),
		Bindings:             types.ListValueMust(types.ObjectType{AttrTypes: bindingTypes}, bindings),
	}
}

// topologyValue writes a topology as lines. expected keeps the names of
// bindings stable, see [topology.Topology.Lines].
func topologyValue(t, expected *topology.Topology) types.Object {
	return values.LinesValue(t.Lines(expected))
}

// withUnknownPolicies is a planned topology whose policies depend on what is
// not known yet.
func withUnknownPolicies(t types.Object) types.Object {
	parts := t.Attributes()
	parts["policies"] = types.MapUnknown(types.StringType)
	return types.ObjectValueMust(topologyTypes, parts)
}

// lines reads a topology's lines back from state or plan.
func (m model) lines() topology.Lines {
	return values.LinesOf(m.Topology)
}
