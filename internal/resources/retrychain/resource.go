package retrychain

import (
	"context"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

var (
	_ resource.ResourceWithConfigure      = (*chainResource)(nil)
	_ resource.ResourceWithIdentity       = (*chainResource)(nil)
	_ resource.ResourceWithImportState    = (*chainResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*chainResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*chainResource)(nil)
	_ resource.ResourceWithValidateConfig = (*chainResource)(nil)
)

// Time limits of a resource that sets none.
const (
	createTimeout = 5 * time.Minute
	readTimeout   = 2 * time.Minute
	updateTimeout = 10 * time.Minute
	deleteTimeout = 5 * time.Minute
)

type chainResource struct {
	data *run.Data
}

// NewResource returns the resource rabbitmq_retry_chain.
func NewResource() resource.Resource { return &chainResource{} }

func (r *chainResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_retry_chain"
}

func (r *chainResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (r *chainResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, d := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, ok := r.data.Names.Lock(ctx, plan.ID.ValueString(), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f, err := r.liveFacts(ctx)
	if err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Broker Not Reached", err)
		return
	}
	f.forNew(plan)
	inputs := completeInputs(plan, f)
	if inputs.usesExisting() {
		// The same run may have made the queue, after the virtual host was read.
		r.data.Client.Reload(plan.VHost.ValueString())
	}
	if err := r.lookAround(ctx, f, inputs); err != nil {
		diagnostics.AddVHostError(&resp.Diagnostics, err)
		return
	}
	plan = complete(ctx, plan, nil, f)
	c := f.within(plan.chain())
	diagnostics.AddProblems(&resp.Diagnostics, append(c.Problems(), f.problems(c)...), false)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkSurroundings(ctx, nil, plan, c, f, false, &resp.Diagnostics))
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.create(ctx, plan, c, *f, &resp.Diagnostics) {
		return
	}
	if !resp.Diagnostics.HasError() {
		r.readTopology(ctx, &plan, c, f.Features, &resp.Diagnostics)
	}
	f.write(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

func (r *chainResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	timeout, d := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || r.data.Client == nil {
		if state.Delays.IsNull() {
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
	if state.Delays.IsNull() {
		r.readImported(ctx, &state, f, &resp.Diagnostics)
	} else if before := readFacts(ctx, req.Private, &resp.Diagnostics); before != nil {
		f.Features = f.Features.AsDeclared(before.Features)
		f.WorkType, f.Inheritable = before.WorkType, before.Inheritable
	}
	if resp.Diagnostics.HasError() {
		return
	}
	r.data.Names.MarkSeen(state.ID.ValueString())
	if !r.refresh(ctx, &state, f, &resp.Diagnostics) {
		if !resp.Diagnostics.HasError() {
			resp.State.RemoveResource(ctx)
		}
		return
	}
	f.write(ctx, resp.Private, &resp.Diagnostics)
	lifecycle.WarnDown(ctx, r.data.Client, state.VHost.ValueString(), state.Topology, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

// refresh reads what is on the broker into the state and the facts. It returns
// false when nothing of the chain is there, or after an error.
func (r *chainResource) refresh(ctx context.Context, state *model, f *facts, diags *diag.Diagnostics) bool {
	var (
		dangers []retry.Problem
		targets []topology.Target
	)
	err := r.data.Client.View(ctx, state.VHost.ValueString(), func(in *topology.Topology) {
		f.look(state.chain(), in)
		c := f.within(state.chain())
		dangers, targets = c.PolicyProblems(in, f.Features), c.Targets(in)
	})
	if err != nil && !diagnostics.IsGone(err) {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if !r.readTopology(ctx, state, f.within(state.chain()), f.Features, diags) {
		return false
	}
	ineffective, err := r.data.Client.Ineffective(ctx, state.VHost.ValueString(), targets, true)
	if err != nil {
		diagnostics.AddError(diags, "Policies in Effect Not Read", err)
		return false
	}
	state.Topology = values.WithDangers(lifecycle.WithoutEffect(state.Topology, ineffective), dangers)
	return r.lookIntoDraining(ctx, *state, f, diags)
}

// lookIntoDraining notes whether a draining tier is empty. Only then does a
// refresh count messages.
func (r *chainResource) lookIntoDraining(ctx context.Context, state model, f *facts, diags *diag.Diagnostics) bool {
	for _, element := range state.Draining.Elements() {
		empty, err := lifecycle.LooksEmpty(ctx, r.data.Client, state.VHost.ValueString(), asString(element).ValueString())
		if err != nil {
			diagnostics.AddError(diags, "Draining Tier Not Counted", err)
			return false
		}
		f.Drained = f.Drained || empty
	}
	return true
}

func (r *chainResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
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
	unlock, ok := r.data.Names.Lock(ctx, plan.ID.ValueString(), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f := readFacts(ctx, req.Private, &resp.Diagnostics)
	if f == nil {
		var err error
		if f, err = r.liveFacts(ctx); err != nil {
			diagnostics.AddError(&resp.Diagnostics, "Broker Not Reached", err)
			return
		}
	}
	drain, draining := plan.Draining.IsUnknown(), plan.Draining
	inputs := completeInputs(plan, f)
	if inputs.usesExisting() {
		r.data.Client.Reload(plan.VHost.ValueString())
	}
	if f.WorkType == "" && attribute.IsApplication(inputs.workQueue().Ownership) {
		diagnostics.AddVHostError(&resp.Diagnostics, r.lookAround(ctx, f, inputs))
	}
	plan = complete(ctx, plan, &state, f)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkSurroundings(ctx, &state, plan, f.within(plan.chain()), f, false, &resp.Diagnostics))
	result := plan
	if resp.Diagnostics.HasError() || !r.update(ctx, state, plan, f, drain, &resp.Diagnostics) {
		result = state // the inputs of before, with what is really there
	}
	r.readResult(ctx, &result, f, &resp.Diagnostics)
	if !drain && !resp.Diagnostics.HasError() {
		result.Draining = draining // what another state retires meanwhile is for the next refresh
	}
	f.Drained = false
	f.write(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &result)...)
}

// readResult reads what an update has left, also when its time is over.
func (r *chainResource) readResult(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, readTimeout)
	defer cancel()
	r.readTopology(ctx, m, f.within(m.chain()), f.Features, diags)
}

func (r *chainResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, d := state.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	unlock, ok := r.data.Names.Lock(ctx, state.ID.ValueString(), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	f := readFacts(ctx, req.Private, &resp.Diagnostics)
	if f == nil {
		f = &facts{}
	}
	r.remove(ctx, state, f, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.data.Names.Release(state.ID.ValueString())
	}
}

// ImportState takes name@vhost or the identity; the read that follows fills in
// the rest from the broker.
func (r *chainResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	lifecycle.ImportByName(ctx, r.data, req, resp, "orders@/")
}

// applyDefaults fills in what the schema would, for a configuration that is
// validated without a plan.
func (m *model) applyDefaults() {
	for value, text := range map[*types.String]string{
		&m.VHost: "/", &m.Strategy: string(retry.Headers), &m.QueueType: string(topology.Quorum), &m.DeletionPolicy: ifEmpty,
	} {
		if value.IsNull() {
			*value = types.StringValue(text)
		}
	}
}
