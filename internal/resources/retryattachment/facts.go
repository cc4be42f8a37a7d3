package retryattachment

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// factsKey is where the private state keeps the facts.
const factsKey = "broker"

// facts are what a plan has to know of the broker. A refresh writes them into
// the private state, where every later plan finds the same.
type facts struct {
	// Version of the broker at the last refresh.
	Version string `json:"version"`
	// Features that the attachment is made for.
	Features retry.Features `json:"features"`
	// Imported: no apply has looked at the attachment since it was imported. If
	// its binding is missing, a create was broken off.
	Imported bool `json:"imported,omitempty"`
	// WorkType is the type of an existing queue; empty while nobody knows it.
	WorkType topology.QueueType `json:"work_type,omitempty"`
	// Inheritable are the keys, as JSON, of the policy that the attachment's own
	// displaces on an existing queue.
	Inheritable string `json:"inheritable,omitempty"`
}

// liveFacts are those of the broker, without a look into the virtual host.
func (r *attachmentResource) liveFacts(ctx context.Context) (*facts, error) {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &facts{Version: info.Version.String(), Features: retry.FeaturesOf(info.Version.AtLeast)}, nil
}

// look notes what the attachment takes from the virtual host. A queue that is
// gone for a while keeps the type that it had.
func (f *facts) look(a retry.Attachment, in *topology.Topology) {
	if !a.Work.Existing {
		return
	}
	if a = a.Within(in); a.Work.Type != "" {
		f.WorkType, f.Inheritable = a.Work.Type, values.ArgumentsValue(a.Policy.Inherited).ValueString()
	}
}

// within completes an attachment with these facts.
func (f *facts) within(a retry.Attachment) retry.Attachment {
	if a.Work.Existing {
		a.Work.Type = f.WorkType
		a.Policy.Inherited = values.ArgumentsOf(jsontypes.NewNormalizedValue(f.Inheritable))
	}
	return a
}

// problems are those that need no look into the virtual host.
func (f *facts) problems(a retry.Attachment) []retry.Problem {
	problems := a.Problems()
	if f != nil {
		problems = append(problems, retry.SharedBrokerProblems("tiers", f.Version, f.Features)...)
	}
	return problems
}
