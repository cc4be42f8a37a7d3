package retryattachment

import (
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Values of on_detach.
const (
	waitThere = "wait"
	park      = "park"
)

// ownedByAttachment is the value of ownership for a queue that the attachment declares.
const ownedByAttachment = "attachment"

type model struct {
	lifecycle.Common
	Tiers              types.String         `tfsdk:"tiers"`
	Queue              types.String         `tfsdk:"queue"`
	Ownership          types.String         `tfsdk:"ownership"`
	QueueType          types.String         `tfsdk:"queue_type"`
	DeadLetterStrategy types.String         `tfsdk:"dead_letter_strategy"`
	DeliveryLimit      types.Int64          `tfsdk:"delivery_limit"`
	Arguments          jsontypes.Normalized `tfsdk:"arguments"`
	Policy             types.Object         `tfsdk:"policy"`
	OnDetach           types.String         `tfsdk:"on_detach"`

	EffectiveLimit     types.Int64          `tfsdk:"effective_delivery_limit"`
	WorkQueueArguments jsontypes.Normalized `tfsdk:"work_queue_arguments"`
}

func (m *model) Names() []types.String { return []types.String{m.Tiers, m.Queue} }

func (m *model) Known() bool {
	return values.Known(m.Tiers, m.Queue, m.VHost, m.Ownership, m.QueueType, m.DeadLetterStrategy, m.DeliveryLimit, m.Arguments, m.Policy)
}

// KnowsWorkQueue is for [lifecycle.Looker].
func (m *model) KnowsWorkQueue() bool {
	return attribute.IsApplication(m.Ownership) && !m.Queue.IsUnknown() && !m.Tiers.IsUnknown() && !m.VHost.IsUnknown()
}

// KnownNeeds is for [lifecycle.NeedingModel]: the tiers and the queue are often known when
// what follows from the queue is not.
func (m *model) KnownNeeds() []lifecycle.Need {
	if m.ID.IsUnknown() || m.Ownership.IsUnknown() {
		return nil
	}
	return subject{Attachment: m.attachment()}.Needs()
}

// attachment converts the inputs, all of which must be known, to the domain.
// What it takes from the broker is still missing, see [lifecycle.Facts.Within].
func (m *model) attachment() retry.Attachment {
	a := retry.Attachment{
		Tiers: m.Tiers.ValueString(),
		Work: retry.WorkQueue{
			Name: m.Queue.ValueString(), Existing: attribute.IsApplication(m.Ownership), Arguments: values.ArgumentsOf(m.Arguments),
		},
		QueueType:          topology.QueueType(m.QueueType.ValueString()),
		DeadLetterStrategy: retry.DeadLetterStrategy(m.DeadLetterStrategy.ValueString()),
		Policy:             attribute.AttachmentPolicy.Settings(m.Policy),
	}
	if !m.DeliveryLimit.IsNull() {
		a.Work.DeliveryLimit = new(m.DeliveryLimit.ValueInt64())
	}
	return a
}

func (m *model) Import(in *topology.Topology, f *lifecycle.Facts, version abilities.Version) error {
	tiers, queue := m.Tiers.ValueString(), m.Queue.ValueString()
	a, features, err := retry.ReadAttachment(tiers, queue, in, version)
	if errors.Is(err, retry.ErrNotAttached) {
		return &lifecycle.ImportError{Title: "Nothing to Import", Text: fmt.Sprintf(
			"Virtual host %q holds nothing that attaches a queue %q to retry tiers %q, such as a binding of the exchange %s. Check "+
				"the parts of the identifier, or create the attachment instead of importing it; with ownership = \"application\" for a "+
				"queue that an application declares.",
			m.VHost.ValueString(), queue, tiers, retry.NewShared(tiers).ReturnExchange())}
	}
	f.Features = features
	m.setInputs(a)
	return err
}

// setInputs fills the inputs from an attachment that was read from a broker.
func (m *model) setInputs(a retry.Attachment) {
	m.Ownership = attribute.OwnershipValue(ownedByAttachment, a.Work.Existing)
	m.DeadLetterStrategy = types.StringValue(string(a.DeadLetterStrategy))
	m.Policy = attribute.AttachmentPolicy.Value(a.Policy)
	m.OnDetach = types.StringValue(waitThere)
	m.QueueType, m.DeliveryLimit, m.Arguments = types.StringNull(), types.Int64Null(), values.ArgumentsValue(a.Work.Arguments)
	if a.Work.Existing {
		return
	}
	m.QueueType = types.StringValue(string(a.QueueType))
	if a.Work.DeliveryLimit != nil {
		m.DeliveryLimit = types.Int64Value(*a.Work.DeliveryLimit)
	}
}

func (m *model) Complete(_ lifecycle.Model, f *lifecycle.Facts) {
	values.Default(&m.OnDetach, waitThere)
	values.Default(&m.Ownership, ownedByAttachment)
	m.Policy = attribute.AttachmentPolicy.Complete(m.Policy)
	m.QueueType = m.completeQueueType()
	m.DeadLetterStrategy = m.completeDeadLetterStrategy(f)
	m.DeliveryLimit = m.completeDeliveryLimit()
}

// SetOutputs has nothing to set.
func (m *model) SetOutputs() {}

// SetDeclared is for [lifecycle.DeclaringModel].
func (m *model) SetDeclared(wanted *topology.Topology) {
	m.WorkQueueArguments, m.EffectiveLimit = attribute.Declared(wanted, m.Queue.ValueString())
}

func (m *model) completeQueueType() types.String {
	switch {
	case !m.QueueType.IsNull():
		return m.QueueType
	case m.Ownership.IsUnknown():
		return types.StringUnknown()
	case attribute.IsApplication(m.Ownership):
		return types.StringNull()
	default:
		return types.StringValue(string(topology.Quorum))
	}
}

func (m *model) completeDeadLetterStrategy(f *lifecycle.Facts) types.String {
	queueType := topology.QueueType(m.QueueType.ValueString())
	if attribute.IsApplication(m.Ownership) && f != nil {
		queueType = f.WorkType
	}
	switch {
	case !m.DeadLetterStrategy.IsNull():
		return m.DeadLetterStrategy
	case queueType == "":
		return types.StringUnknown()
	default:
		return types.StringValue(string(retry.DefaultDeadLetterStrategy(queueType)))
	}
}

// completeDeliveryLimit is null for a queue that belongs to others.
func (m *model) completeDeliveryLimit() types.Int64 {
	switch {
	case !m.DeliveryLimit.IsNull():
		return m.DeliveryLimit
	case m.Ownership.IsUnknown(), m.QueueType.IsUnknown():
		return types.Int64Unknown()
	case m.QueueType.ValueString() == string(topology.Quorum):
		return types.Int64Value(retry.DefaultDeliveryLimit)
	default:
		return types.Int64Null()
	}
}

func (m *model) Changes(prior lifecycle.Model) (changes []lifecycle.Change, idle bool) {
	before, is := prior.(*model)
	if !is {
		return nil, false
	}
	const argument = "it is an argument of the queue, which RabbitMQ fixes when the queue is declared"
	fixed := []lifecycle.Fixed{
		{
			Name: "ownership", Reason: "a declared queue dead-letters by its arguments, which RabbitMQ fixes, and an existing one by a " +
				"policy",
			Before: before.Ownership, After: m.Ownership,
		},
		{Name: "queue_type", Reason: argument, Before: before.QueueType, After: m.QueueType},
		{Name: "delivery_limit", Reason: argument, Before: before.DeliveryLimit, After: m.DeliveryLimit},
		{Name: "arguments", Reason: argument, Before: before.Arguments, After: m.Arguments},
	}
	if !attribute.IsApplication(m.Ownership) { // else it is a key of the policy
		fixed = append(fixed, lifecycle.Fixed{
			Name: "dead_letter_strategy", Reason: argument, Before: before.DeadLetterStrategy,
			After: m.DeadLetterStrategy,
		})
	}
	changes = lifecycle.Differences("Undo the change; or attach a queue of another name with the new value, move publishers and then "+
		"consumers there, and remove this attachment when its queue is empty.", fixed...)
	// A queue that is gone, or a create that was killed.
	_, exists := values.LinesOf(before.Topology).Queues[m.Queue.ValueString()]
	return changes, !exists && !attribute.IsApplication(before.Ownership)
}

// Moves refuses other tiers for the same queue. Terraform would detach it first, and what
// its consumers reject until it is attached again would be lost.
func (m *model) Moves(state lifecycle.Model) []lifecycle.Change {
	before, is := state.(*model)
	if !is || m.Tiers.IsUnknown() || m.Tiers.Equal(before.Tiers) || !m.Queue.Equal(before.Queue) || !m.VHost.Equal(before.VHost) {
		return nil
	}
	return []lifecycle.Change{{
		Attribute: "tiers",
		Reason:    "the queue would be attached to none for a while, and what its consumers reject meanwhile would be lost",
		Instead: fmt.Sprintf("Undo the change; or attach a queue of another name to the tiers %q, move publishers and then consumers "+
			"there, and remove this attachment when its queue is empty. A queue of an application can move while nobody consumes it: "+
			"remove its attachment, apply, and attach it again.",
			m.Tiers.ValueString()),
	}}
}
