package retrychain

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/tfkit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

var (
	_ resource.ResourceWithConfigure      = (*chainResource)(nil)
	_ resource.ResourceWithIdentity       = (*chainResource)(nil)
	_ resource.ResourceWithImportState    = (*chainResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*chainResource)(nil)
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
	data *tfkit.ProviderData
}

// NewResource returns the resource rabbitmq_retry_chain.
func NewResource() resource.Resource { return &chainResource{} }

func (r *chainResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_retry_chain"
}

func (r *chainResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = tfkit.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// knowsBroker adds an error when the provider's configuration is not known:
// then there is no client.
func (r *chainResource) knowsBroker(diags *diag.Diagnostics) bool {
	if r.data != nil && r.data.Client != nil {
		return true
	}
	diags.AddError("Broker Not Known",
		"A part of the provider's configuration is known only after apply, and so no broker can be asked or changed. Apply what it comes from "+
			"first, with -target, or write the value into the provider block.")
	return false
}

func (r *chainResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	timeout, d := plan.Timeouts.Create(ctx, createTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !r.knowsBroker(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer r.data.Names.Lock(plan.ID.ValueString())()

	f, err := r.liveFacts(ctx)
	if err != nil {
		tfkit.AddError(&resp.Diagnostics, "Broker Not Reached", err)
		return
	}
	plan = complete(ctx, plan, nil, f)
	c := plan.chain()
	tfkit.AddProblems(&resp.Diagnostics, append(c.Problems(), c.BrokerProblems(f.Version, f.Features)...), false)
	if resp.Diagnostics.HasError() {
		return
	}
	if !r.create(ctx, plan, c, *f, &resp.Diagnostics) {
		return
	}
	r.readTopology(ctx, &plan, c, f.Features, &resp.Diagnostics)
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
			r.knowsBroker(&resp.Diagnostics) // an import has nothing to show for it
		}
		return // without a broker to ask, the state stays as it is
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	f, err := r.liveFacts(ctx)
	if err != nil {
		tfkit.AddError(&resp.Diagnostics, "Broker Not Reached", err)
		return
	}
	if state.Delays.IsNull() {
		r.readImported(ctx, &state, f, &resp.Diagnostics)
	} else if before := readFacts(ctx, req.Private, &resp.Diagnostics); before != nil {
		f.Features = f.Features.AsDeclared(before.Features)
	}
	if resp.Diagnostics.HasError() {
		return
	}
	r.data.Names.MarkSeen(state.ID.ValueString())
	c := state.chain()
	if !r.readTopology(ctx, &state, c, f.Features, &resp.Diagnostics) {
		if !resp.Diagnostics.HasError() {
			resp.State.RemoveResource(ctx)
		}
		return
	}
	f.write(ctx, resp.Private, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
}

func (r *chainResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	var plan, state model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, plan.identity())...)
	timeout, d := plan.Timeouts.Update(ctx, updateTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !r.knowsBroker(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer r.data.Names.Lock(plan.ID.ValueString())()

	f := readFacts(ctx, req.Private, &resp.Diagnostics)
	if f == nil {
		var err error
		if f, err = r.liveFacts(ctx); err != nil {
			tfkit.AddError(&resp.Diagnostics, "Broker Not Reached", err)
			return
		}
	}
	plan = complete(ctx, plan, &state, f)
	c := plan.chain()
	if resp.Diagnostics.HasError() {
		return
	}
	result := plan
	if !r.update(ctx, plan, c, f.Features, &resp.Diagnostics) {
		result = state // the inputs of before, with what is really there
	}
	r.readTopology(ctx, &result, result.chain(), f.Features, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &result)...)
}

func (r *chainResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	timeout, d := state.Timeouts.Delete(ctx, deleteTimeout)
	resp.Diagnostics.Append(d...)
	if resp.Diagnostics.HasError() || !r.knowsBroker(&resp.Diagnostics) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer r.data.Names.Lock(state.ID.ValueString())()

	f := readFacts(ctx, req.Private, &resp.Diagnostics)
	if f == nil {
		f = &facts{}
	}
	r.remove(ctx, state, state.chain(), f.Features, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.data.Names.Release(state.ID.ValueString())
	}
}

// ImportState takes name@vhost or the identity; the read that follows fills in
// the rest from the broker.
func (r *chainResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var id identityModel
	if req.ID != "" {
		name, vhost, ok := parseID(req.ID)
		if !ok {
			resp.Diagnostics.AddError("Invalid Import Identifier",
				fmt.Sprintf("%q is not of the form name@vhost, such as orders@/. Write %%40 for an @ inside the virtual host's name.", req.ID))
			return
		}
		id = identityModel{VHost: types.StringValue(vhost), Name: types.StringValue(name)}
	} else {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		if id.VHost.IsNull() {
			id.VHost = types.StringValue("/")
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), id.Name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vhost"), id.VHost)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, id)...)
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
