package retrychain

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
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
	// Features that the chain is made for.
	Features retry.Features `json:"features"`
	// ExchangeTypes are those that the broker can declare.
	ExchangeTypes []string `json:"exchange_types,omitempty"`
	// WorkType is the type of an existing work queue; empty while nobody knows it.
	WorkType topology.QueueType `json:"work_type,omitempty"`
	// Inheritable are the keys, as JSON, of the policy that the chain's own
	// displaces on an existing work queue.
	Inheritable string `json:"inheritable,omitempty"`
	// Drained: the refresh found a draining tier empty.
	Drained bool `json:"drained,omitempty"`
}

// look notes what the chain takes from the virtual host. A work queue that is
// gone for a while keeps the type that it had.
func (f *facts) look(c retry.Chain, in *topology.Topology) {
	if c = c.Within(in); c.Work.Type != "" {
		f.WorkType, f.Inheritable = c.Work.Type, values.ArgumentsValue(c.Policy.Inherited).ValueString()
	}
}

// within completes a chain with these facts.
func (f facts) within(c retry.Chain) retry.Chain {
	if c.Work.Existing {
		c.Work.Type = f.WorkType
		c.Policy.Inherited = values.ArgumentsOf(jsontypes.NewNormalizedValue(f.Inheritable))
	}
	return c
}

func factsOf(info broker.Info) facts {
	return facts{Version: info.Version.String(), Features: retry.FeaturesOf(info.Version.AtLeast), ExchangeTypes: info.ExchangeTypes}
}

// forNew notes what a new chain is made with, as far as its inputs are known.
func (f *facts) forNew(m model) {
	if !m.Delays.IsUnknown() {
		f.Features = f.Features.ForNew(retry.Chain{Delays: make([]time.Duration, len(m.Delays.Elements()))})
	}
}

// problems tells what the chain asks for and the broker cannot do.
func (f facts) problems(c retry.Chain) []retry.Problem {
	return append(c.BrokerProblems(f.Version, f.Features), c.ExchangeTypeProblems(f.ExchangeTypes, f.Features)...)
}

// readFacts returns nil when there are none.
func readFacts(ctx context.Context, private lifecycle.PrivateReader, diags *diag.Diagnostics) *facts {
	return lifecycle.ReadPrivate[facts](ctx, private, factsKey, diags)
}

func (f facts) write(ctx context.Context, private lifecycle.PrivateWriter, diags *diag.Diagnostics) {
	lifecycle.WritePrivate(ctx, private, factsKey, f, diags)
}
