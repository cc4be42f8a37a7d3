package retrytiers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

var (
	_ resource.ResourceWithConfigure      = (*tiersResource)(nil)
	_ resource.ResourceWithIdentity       = (*tiersResource)(nil)
	_ resource.ResourceWithImportState    = (*tiersResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*tiersResource)(nil)
	_ resource.ResourceWithValidateConfig = (*tiersResource)(nil)
)

// Time limits of a resource that sets none.
const (
	createTimeout = 5 * time.Minute
	readTimeout   = 2 * time.Minute
	updateTimeout = 5 * time.Minute
	deleteTimeout = 5 * time.Minute
)

type tiersResource struct {
	data *run.Data
}

// NewResource returns the resource rabbitmq_retry_tiers.
func NewResource() resource.Resource { return &tiersResource{} }

func (r *tiersResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_retry_tiers"
}

func (r *tiersResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (r *tiersResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, d := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, ok := r.data.Names.Lock(ctx, lockName(plan), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f, err := r.liveFacts(ctx)
	if err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Broker Not Reached", err)
		return
	}
	plan = complete(plan, nil, f)
	diagnostics.AddProblems(&resp.Diagnostics, f.problems(plan.chain()), false)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkPolicies(ctx, plan, f, &resp.Diagnostics))
	if resp.Diagnostics.HasError() || !r.create(ctx, plan, f, &resp.Diagnostics) {
		return
	}
	if !resp.Diagnostics.HasError() {
		r.readTopology(ctx, &plan, f, &resp.Diagnostics)
	}
	lifecycle.WritePrivate(ctx, resp.Private, factsKey, f, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

func (r *tiersResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	timeout, d := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(d...)
	imported := state.QueueType.IsNull()
	if resp.Diagnostics.HasError() || r.data.Client == nil {
		if imported {
			run.KnowsBroker(r.data, &resp.Diagnostics) // an import has nothing to show for it
		}
		return // without a broker to ask, the state stays as it is
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()

	f, err := r.liveFacts(ctx)
	if err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Broker Not Reached", err)
		return
	}
	if imported {
		r.readImported(ctx, &state, f, &resp.Diagnostics)
	} else if before := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, &resp.Diagnostics); before != nil {
		f.Features = f.Features.AsDeclared(before.Features)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	r.data.Names.MarkSeen(lockName(state))
	if !r.refresh(ctx, &state, f, &resp.Diagnostics) {
		if !resp.Diagnostics.HasError() {
			resp.State.RemoveResource(ctx)
		}
		return
	}
	lifecycle.WritePrivate(ctx, resp.Private, factsKey, f, &resp.Diagnostics)
	lifecycle.WarnDown(ctx, r.data.Client, state.VHost.ValueString(), state.Topology, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// refresh reads what is on the broker into the state, policies of others that
// endanger messages included, and counts the messages of tiers that drain. It
// returns false when nothing of the tiers is
// there, or after an error.
func (r *tiersResource) refresh(ctx context.Context, state *model, f *facts, diags *diag.Diagnostics) bool {
	if !r.readTopology(ctx, state, f, diags) {
		return false
	}
	var dangers []retry.Problem
	err := r.data.Client.View(ctx, state.VHost.ValueString(), func(in *topology.Topology) { dangers = state.chain().PolicyProblems(in, f.Features) })
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	state.Topology = values.WithDangers(state.Topology, dangers)
	for _, queue := range values.Texts(state.Draining) {
		empty, err := lifecycle.LooksEmpty(ctx, r.data.Client, state.VHost.ValueString(), queue)
		if err != nil {
			diagnostics.AddError(diags, "Draining Tier Not Counted", err)
			return false
		}
		f.Drained = f.Drained || empty
	}
	return true
}

func (r *tiersResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	timeout, d := plan.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, ok := r.data.Names.Lock(ctx, lockName(plan), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, &resp.Diagnostics)
	if f == nil {
		var err error
		if f, err = r.liveFacts(ctx); err != nil {
			diagnostics.AddError(&resp.Diagnostics, "Broker Not Reached", err)
			return
		}
	}
	drain, draining := plan.Draining.IsUnknown(), plan.Draining
	plan = complete(plan, &state, f)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkPolicies(ctx, plan, f, &resp.Diagnostics))
	result := plan
	if resp.Diagnostics.HasError() || !r.update(ctx, state, plan, f, drain, &resp.Diagnostics) {
		result = state // the inputs of before, with what is really there
	}
	f.Drained = false // the next refresh looks again
	r.readResult(ctx, &result, f, &resp.Diagnostics)
	if !drain && !resp.Diagnostics.HasError() {
		result.Draining = draining // what another state retires meanwhile is for the next refresh
	}
	lifecycle.WritePrivate(ctx, resp.Private, factsKey, f, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &result)...)
}

// readResult reads what an update has left, also when its time is over.
func (r *tiersResource) readResult(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, readTimeout)
	defer cancel()
	r.readTopology(ctx, m, f, diags)
}

func (r *tiersResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, d := state.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, ok := r.data.Names.Lock(ctx, lockName(state), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, &resp.Diagnostics)
	if f == nil {
		f = &facts{}
	}
	r.remove(ctx, state, f, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.data.Names.Release(lockName(state))
	}
}

// lockName keeps the operations on one set of tiers apart from each other.
func lockName(m model) string { return "retry tiers " + m.ID.ValueString() }

// ImportState takes name@vhost or the identity; the read that follows fills in
// the rest from the broker.
func (r *tiersResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	lifecycle.ImportByName(ctx, r.data, req, resp, "retries@/")
}

// readImported reads the inputs of tiers that are being imported.
func (r *tiersResource) readImported(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	name, vhost := m.Name.ValueString(), m.VHost.ValueString()
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return
	}
	var c retry.Chain
	var readErr error
	var contradiction *retry.NotAChainError
	err = r.data.Client.View(ctx, vhost, func(in *topology.Topology) { c, f.Features, readErr = retry.ReadShared(name, in, info.Version.AtLeast) })
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
	case errors.Is(readErr, retry.ErrNoChain):
		diags.AddError("Nothing to Import", fmt.Sprintf("Virtual host %q holds nothing of retry tiers named %q, such as the exchange %s. "+
			"Check the name, or create the tiers instead of importing them.", vhost, name, retry.NewShared(name).ReturnExchange()))
	case errors.As(readErr, &contradiction):
		diags.AddError("Not Retry Tiers", fmt.Sprintf("In virtual host %q, %s. Import it with its own resource, or choose another name.", vhost, contradiction.Reason))
	default:
		m.setInputs(c)
		m.setNames()
	}
}
