package lifecycle

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// factsKey is where the private state keeps the facts.
const factsKey = "broker"

// Facts are what a plan must know of the broker. A refresh writes them into the private
// state, where every later plan finds the same.
type Facts struct {
	// Version of the broker at the last refresh.
	Version string `json:"version"`
	// Features that the objects were declared with.
	Features retry.Features `json:"features"`
	// ExchangeTypes are those that the broker can declare.
	ExchangeTypes []string `json:"exchange_types,omitempty"`
	// WorkType is the type of a work queue that belongs to an application; empty while
	// nobody knows it.
	WorkType topology.QueueType `json:"work_type,omitempty"`
	// Inheritable are the keys, as JSON, of the policy that the resource's own displaces
	// on such a queue.
	Inheritable string `json:"inheritable,omitempty"`
	// Drained: the refresh found a draining tier empty.
	Drained bool `json:"drained,omitempty"`
	// Imported: no apply has looked at the objects since their import. If something is
	// missing, a create was broken off.
	Imported bool `json:"imported,omitempty"`
}

// Within completes a work queue and its policy with what they take from the virtual host.
func (f *Facts) Within(w retry.WorkQueue, p retry.PolicySettings) (retry.WorkQueue, retry.PolicySettings) {
	if w.Existing {
		w.Type, p.Inherited = f.WorkType, values.ArgumentsOf(jsontypes.NewNormalizedValue(f.Inheritable))
	}
	return w, p
}

// look notes what the subject takes from the virtual host. A work queue that is gone
// for a while keeps the type that it had.
func (f *Facts) look(s Subject, in *topology.Topology) {
	attacher, _, is := attached(s)
	if !is {
		return
	}
	if work, policy := attacher.Inside(in); work.Type != "" {
		f.WorkType, f.Inheritable = work.Type, values.ArgumentsValue(policy.Inherited).ValueString()
	}
}

// liveFacts are those of the broker, without a look into the virtual host.
func (r *Resource) liveFacts(ctx context.Context, diags *diag.Diagnostics) *Facts {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return nil
	}
	return &Facts{Version: info.Version.String(), Features: retry.FeaturesOf(info.Version), ExchangeTypes: info.ExchangeTypes}
}

// lookAround notes what the subject takes from its virtual host.
func (r *Resource) lookAround(ctx context.Context, m Model, f *Facts) error {
	s := m.Subject(f)
	return r.data.Client.View(ctx, vhost(m), func(in *topology.Topology) { f.look(s, in) })
}

type privateReader interface {
	GetKey(ctx context.Context, key string) ([]byte, diag.Diagnostics)
}

type privateWriter interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// readFacts returns nil when there are none, or some that another version of the provider
// wrote and this one cannot read.
func readFacts(ctx context.Context, private privateReader, diags *diag.Diagnostics) *Facts {
	raw, d := private.GetKey(ctx, factsKey)
	diags.Append(d...)
	f := new(Facts)
	if raw == nil || json.Unmarshal(raw, f) != nil {
		return nil
	}
	return f
}

func (f *Facts) write(ctx context.Context, private privateWriter, diags *diag.Diagnostics) {
	raw, err := json.Marshal(f)
	if err != nil {
		diags.AddError("Broker Facts Not Saved", err.Error())
		return
	}
	diags.Append(private.SetKey(ctx, factsKey, raw)...)
}
