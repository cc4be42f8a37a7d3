package delaynetwork

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

var (
	_ resource.ResourceWithConfigure      = (*networkResource)(nil)
	_ resource.ResourceWithIdentity       = (*networkResource)(nil)
	_ resource.ResourceWithImportState    = (*networkResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*networkResource)(nil)
	_ resource.ResourceWithValidateConfig = (*networkResource)(nil)
)

// Time limits of a resource that sets none.
const (
	createTimeout = 5 * time.Minute
	readTimeout   = 2 * time.Minute
	updateTimeout = 5 * time.Minute
	deleteTimeout = 5 * time.Minute
)

type networkResource struct {
	data *run.Data
}

// NewResource returns the resource rabbitmq_delay_network.
func NewResource() resource.Resource { return &networkResource{} }

func (r *networkResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_delay_network"
}

func (r *networkResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (r *networkResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
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
	diagnostics.AddProblems(&resp.Diagnostics, plan.network().Problems(), false)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkPolicies(ctx, plan, &resp.Diagnostics))
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

func (r *networkResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	timeout, d := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(d...)
	imported := state.Levels.IsNull()
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
	if f.Imported = imported; imported {
		r.readImported(ctx, &state, f, &resp.Diagnostics)
	} else if before := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, &resp.Diagnostics); before != nil {
		f.Features, f.Imported = f.Features.AsDeclared(before.Features), before.Imported
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
// endanger messages included. It returns false when nothing of the network is
// there, or after an error.
func (r *networkResource) refresh(ctx context.Context, state *model, f *facts, diags *diag.Diagnostics) bool {
	if !r.readTopology(ctx, state, f, diags) {
		return false
	}
	var dangers []retry.Problem
	err := r.data.Client.View(ctx, state.VHost.ValueString(), func(in *topology.Topology) { dangers = state.network().PolicyProblems(in) })
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	state.Topology = values.WithDangers(state.Topology, dangers)
	return true
}

func (r *networkResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
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
	plan = complete(plan, &state, f)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkPolicies(ctx, plan, &resp.Diagnostics))
	result := plan
	if resp.Diagnostics.HasError() || !r.repair(ctx, plan, f, &resp.Diagnostics) {
		result = state // the inputs of before, with what is really there
	} else {
		f.Imported = false
	}
	r.readResult(ctx, &result, f, &resp.Diagnostics)
	lifecycle.WritePrivate(ctx, resp.Private, factsKey, f, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &result)...)
}

// readResult reads what an update has left, also when its time is over.
func (r *networkResource) readResult(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, readTimeout)
	defer cancel()
	r.readTopology(ctx, m, f, diags)
}

func (r *networkResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
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

	r.remove(ctx, state, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.data.Names.Release(lockName(state))
	}
}

// lockName keeps the operations on one network apart from each other, and from
// those on a chain of the same name.
func lockName(m model) string { return "delay network " + m.ID.ValueString() }

// ImportState takes name@vhost or the identity; the read that follows fills in
// the rest from the broker.
func (r *networkResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	lifecycle.ImportByName(ctx, r.data, req, resp, "delays@/")
}

// readImported reads the inputs of a network that is being imported.
func (r *networkResource) readImported(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	name, vhost := m.Name.ValueString(), m.VHost.ValueString()
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return
	}
	var n delay.Network
	var readErr error
	err = r.data.Client.View(ctx, vhost, func(in *topology.Topology) { n, f.Features, readErr = delay.Read(name, in, info.Version.AtLeast) })
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
	case errors.Is(readErr, delay.ErrNoNetwork):
		diags.AddError("Nothing to Import", fmt.Sprintf("Virtual host %q holds no level of a delay network named %q, such as the queue %s. "+
			"Check the name, or create the network instead of importing it.", vhost, name, delay.Network{Name: name}.Level(0)))
	default:
		m.setInputs(n)
		m.setNames()
	}
}
