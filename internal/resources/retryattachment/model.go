package retryattachment

import (
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Values of deletion_policy and on_detach.
const (
	ifEmpty   = "if_empty"
	deleteAll = "delete"
	retain    = "retain"

	waitThere = "wait"
	park      = "park"
)

// ownedByAttachment is the value of ownership for a queue that the attachment declares.
const ownedByAttachment = "attachment"

type model struct {
	Tiers              types.String         `tfsdk:"tiers"`
	Queue              types.String         `tfsdk:"queue"`
	VHost              types.String         `tfsdk:"vhost"`
	Ownership          types.String         `tfsdk:"ownership"`
	QueueType          types.String         `tfsdk:"queue_type"`
	DeadLetterStrategy types.String         `tfsdk:"dead_letter_strategy"`
	DeliveryLimit      types.Int64          `tfsdk:"delivery_limit"`
	Arguments          jsontypes.Normalized `tfsdk:"arguments"`
	Policy             types.Object         `tfsdk:"policy"`
	OnDetach           types.String         `tfsdk:"on_detach"`
	DeletionPolicy     types.String         `tfsdk:"deletion_policy"`
	Timeouts           timeouts.Value       `tfsdk:"timeouts"`

	ID       types.String `tfsdk:"id"`
	Topology types.Object `tfsdk:"topology"`
}

type identityModel struct {
	VHost types.String `tfsdk:"vhost"`
	Tiers types.String `tfsdk:"tiers"`
	Queue types.String `tfsdk:"queue"`
}

func (m model) identity() identityModel {
	return identityModel{VHost: m.VHost, Tiers: m.Tiers, Queue: m.Queue}
}

// isKnown says whether no input is known only after apply.
func (m model) isKnown() bool {
	inputs := []attr.Value{
		m.Tiers, m.Queue, m.VHost, m.Ownership, m.QueueType, m.DeadLetterStrategy, m.DeliveryLimit, m.Arguments, m.Policy,
	}
	for _, part := range m.Policy.Attributes() {
		inputs = append(inputs, part)
	}
	return !slices.ContainsFunc(inputs, func(v attr.Value) bool { return v.IsUnknown() })
}

// attachment converts the inputs, all of which must be known, to the domain.
// What it takes from the broker is still missing, see [facts.within].
func (m model) attachment() retry.Attachment {
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

// setInputs fills the inputs from an attachment that was read from a broker.
func (m *model) setInputs(a retry.Attachment) {
	m.Ownership = attribute.OwnershipValue(ownedByAttachment, a.Work.Existing)
	m.DeadLetterStrategy = types.StringValue(string(a.DeadLetterStrategy))
	m.Policy = attribute.AttachmentPolicy.Value(a.Policy)
	m.OnDetach, m.DeletionPolicy = types.StringValue(waitThere), types.StringValue(ifEmpty)
	m.QueueType, m.DeliveryLimit, m.Arguments = types.StringNull(), types.Int64Null(), values.ArgumentsValue(a.Work.Arguments)
	if a.Work.Existing {
		return
	}
	m.QueueType = types.StringValue(string(a.QueueType))
	if a.Work.DeliveryLimit != nil {
		m.DeliveryLimit = types.Int64Value(*a.Work.DeliveryLimit)
	}
}

// complete turns a configuration into a plan: it fills in defaults and
// everything that follows from the inputs. What follows from a value that is
// known only after apply, or from a broker that cannot be asked yet (facts is
// nil), stays unknown.
//
// It is a pure function: Terraform plans again at apply, in another process,
// and the answer has to be the same.
func complete(m model, f *facts) model {
	m.Policy = attribute.AttachmentPolicy.Complete(m.Policy)
	m.QueueType = completeQueueType(m)
	m.DeadLetterStrategy = completeDeadLetterStrategy(m, f)
	m.DeliveryLimit = completeDeliveryLimit(m)
	m.setID()
	m.setTopology(f)
	return m
}

func completeQueueType(m model) types.String {
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

func completeDeadLetterStrategy(m model, f *facts) types.String {
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
func completeDeliveryLimit(m model) types.Int64 {
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

func (m *model) setTopology(f *facts) {
	m.Topology = types.ObjectUnknown(values.LinesTypes)
	if !m.isKnown() || f == nil || attribute.IsApplication(m.Ownership) && f.WorkType == "" {
		return
	}
	if a := f.within(m.attachment()); len(a.Problems()) == 0 {
		m.Topology = values.LinesValue(a.Topology(f.Features).Lines(nil))
	}
}

// setID writes tiers/queue@vhost; "/" inside one of the first two parts is
// percent-encoded, as are "%" and "@" in all.
func (m *model) setID() {
	m.ID = types.StringUnknown()
	if m.Tiers.IsUnknown() || m.Queue.IsUnknown() || m.VHost.IsUnknown() {
		return
	}
	encode := strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40")
	m.ID = types.StringValue(encode.Replace(m.Tiers.ValueString()) + "/" + encode.Replace(m.Queue.ValueString()) + lifecycle.FormatID("", m.VHost.ValueString()))
}

// parseID reads tiers/queue@vhost, split at the last "@".
func parseID(id string) (identityModel, bool) {
	at := strings.LastIndex(id, "@")
	if at < 0 || at == len(id)-1 {
		return identityModel{}, false
	}
	parts := strings.Split(id[:at], "/")
	if len(parts) != 2 || slices.Contains(parts, "") {
		return identityModel{}, false
	}
	decode := func(part string) types.String {
		if decoded, err := url.PathUnescape(part); err == nil {
			part = decoded
		}
		return types.StringValue(part)
	}
	return identityModel{Tiers: decode(parts[0]), Queue: decode(parts[1]), VHost: decode(id[at+1:])}, true
}
