// Package delaydestination is the resource rabbitmq_delay_destination: the
// binding that attaches a queue to a delay network.
package delaydestination

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

var (
	_ resource.ResourceWithConfigure      = (*destinationResource)(nil)
	_ resource.ResourceWithIdentity       = (*destinationResource)(nil)
	_ resource.ResourceWithImportState    = (*destinationResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*destinationResource)(nil)
	_ resource.ResourceWithValidateConfig = (*destinationResource)(nil)
)

// timeout limits every operation, which is a few requests.
const timeout = 2 * time.Minute

type destinationResource struct {
	data *run.Data
}

// NewResource returns the resource rabbitmq_delay_destination.
func NewResource() resource.Resource { return &destinationResource{} }

func (r *destinationResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_delay_destination"
}

func (r *destinationResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// ValidateConfig reports what is wrong whatever the broker.
func (r *destinationResource) ValidateConfig(
	ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse,
) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	config.Levels = types.Int64Unknown()
	config.complete()
	if !resp.Diagnostics.HasError() && config.isKnown() {
		diagnostics.AddProblems(&resp.Diagnostics, config.destination().Problems(), false)
	}
}

// ModifyPlan completes the plan. Every change makes a new binding.
func (r *destinationResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	if resp.Diagnostics.HasError() {
		return
	}
	plan.Name = config.Name // and not the prior value
	var state model
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	}
	plan.VHost = r.data.PlannedVHost(config.VHost, state.VHost)
	plan.complete()
	plan.Levels = r.planLevels(ctx, state, plan)
	plan.complete()
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &plan)...)
	if !req.State.Raw.IsNull() {
		resp.RequiresReplace = append(resp.RequiresReplace, changes(state, plan)...)
	}
	if resp.Diagnostics.HasError() || !plan.isKnown() {
		return
	}
	diagnostics.AddProblems(&resp.Diagnostics, plan.destination().Problems(), false)
	if !resp.Diagnostics.HasError() && r.data != nil && r.data.Client != nil {
		r.checkExisting(ctx, plan, !resp.Plan.Raw.Equal(req.State.Raw), &resp.Diagnostics)
	}
}

// planLevels returns the levels of the network, as far as it is on the broker and whole.
// A destination that is attached keeps those that it has until then.
func (r *destinationResource) planLevels(ctx context.Context, state, plan model) types.Int64 {
	levels := 0
	if plan.isKnown() && r.data != nil && r.data.Client != nil {
		// That the virtual host cannot be read says checkExisting.
		_ = r.data.Client.View(ctx, plan.VHost.ValueString(), func(in *topology.Topology) {
			levels = delay.FinalLevels(plan.Network.ValueString(), in)
		})
	}
	switch {
	case levels > 0:
		return types.Int64Value(int64(levels))
	case plan.isKnown() && state.Network.Equal(plan.Network) && state.VHost.Equal(plan.VHost):
		return state.Levels
	default:
		return types.Int64Unknown()
	}
}

// changes lists the inputs that differ, and levels: they are part of the binding.
func changes(state, plan model) path.Paths {
	var changed path.Paths
	for _, input := range []struct {
		name          string
		before, after attr.Value
	}{
		{"network", state.Network, plan.Network},
		{"vhost", state.VHost, plan.VHost},
		{"levels", state.Levels, plan.Levels},
		{"name", state.Name, plan.Name},
		{"queue", state.Queue, plan.Queue},
	} {
		if !input.before.Equal(input.after) {
			changed = append(changed, path.Root(input.name))
		}
	}
	return changed
}

func (r *destinationResource) checkExisting(ctx context.Context, m model, warnings bool, diags *diag.Diagnostics) {
	err := r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, m.destination().ExistingProblems(in), warnings)
	})
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	if warnings {
		lifecycle.WarnOfNeeds(ctx, r.data, m.VHost.ValueString(), needs(m.destination()), diags)
	}
}

func (r *destinationResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var plan model
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	resp.Diagnostics.Append(req.Config.GetAttribute(ctx, path.Root("vhost"), &plan.VHost)...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	plan.VHost = r.data.VHost(plan.VHost) // the plan may not have known it
	plan.complete()
	unlock, ok := r.data.Names.Lock(ctx, "delay destination "+plan.ID.ValueString(), &resp.Diagnostics)
	if !ok {
		return
	}
	defer unlock()

	diagnostics.AddProblems(&resp.Diagnostics, plan.destination().Problems(), false)
	if resp.Diagnostics.HasError() || !lifecycle.RequireNeeds(ctx, r.data.Client, plan.VHost.ValueString(), needs(plan.destination()),
		&resp.Diagnostics) ||
		!r.learnLevels(ctx, &plan, &resp.Diagnostics) || !r.isNew(ctx, plan, &resp.Diagnostics) {
		return
	}
	if err := r.data.Client.Bind(ctx, plan.VHost.ValueString(), plan.destination().Binding()); err != nil {
		diagnostics.AddError(&resp.Diagnostics, "Destination Not Attached", err)
		return
	}
	identity.Write(ctx, resp.Identity, plan.VHost, plan.names(), &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &plan)...)
}

// needs are the network's exchange and the queue.
func needs(d delay.Destination) []lifecycle.Need {
	return []lifecycle.Need{
		{Attribute: "network", Kind: topology.KindExchange, Name: d.Binding().Source, Summary: "Delay Network Not Found"},
		{Attribute: "queue", Kind: topology.KindQueue, Name: d.Queue, Summary: "Queue Not Found"},
	}
}

// learnLevels reads the levels of a network that the plan did not know.
func (r *destinationResource) learnLevels(ctx context.Context, m *model, diags *diag.Diagnostics) bool {
	if !m.Levels.IsUnknown() {
		return true
	}
	r.data.Client.Reload(m.VHost.ValueString()) // another provider may have made the network meanwhile
	levels := 0
	err := r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		levels = delay.FinalLevels(m.Network.ValueString(), in)
	})
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
		return false
	case levels == 0:
		diags.AddAttributeError(path.Root("network"), "Delay Network Incomplete",
			fmt.Sprintf("The delay network %q has no way in, and so nobody knows how many levels it will have. Apply the network "+
				"first.", m.Network.ValueString()))
		return false
	}
	m.Levels = types.Int64Value(int64(levels))
	m.complete()
	diagnostics.AddProblems(diags, m.destination().Problems(), false)
	return !diags.HasError()
}

// isNew looks for a binding that is there already.
func (r *destinationResource) isNew(ctx context.Context, m model, diags *diag.Diagnostics) bool {
	d := m.destination()
	err := r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, d.ExistingProblems(in), false)
		if in.Has(d.Binding()) {
			diags.AddAttributeError(path.Root("queue"), "Destination Already Attached",
				fmt.Sprintf("The %s is attached already and not in this state. The provider never takes over what it did not make. "+
					"Import it:\n\n  terraform import <address of this resource> '%s'", d, m.ID.ValueString()))
		}
	})
	if err != nil {
		diagnostics.AddVHostError(diags, err)
	}
	return !diags.HasError()
}

func (r *destinationResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	identity.Write(ctx, resp.Identity, state.VHost, state.names(), &resp.Diagnostics)
	imported := state.Levels.IsNull()
	if resp.Diagnostics.HasError() || r.data.Client == nil {
		if imported {
			run.KnowsBroker(r.data, &resp.Diagnostics)
		}
		return // without a broker to ask, the state stays as it is
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	exists := false
	err := r.data.Client.View(ctx, state.VHost.ValueString(), func(in *topology.Topology) {
		if imported {
			state.Levels = types.Int64Value(int64(delay.Levels(state.Network.ValueString(), in)))
		}
		exists = in.Has(state.destination().Binding())
	})
	switch {
	case err != nil && (imported || !diagnostics.IsGone(err)):
		diagnostics.AddVHostError(&resp.Diagnostics, err)
	case imported && !exists:
		resp.Diagnostics.AddError("Nothing to Import", fmt.Sprintf("In virtual host %q there is no %s. Check the parts of the "+
			"identifier, or create the destination instead of importing it.",
			state.VHost.ValueString(), state.destination()))
	case !exists:
		resp.State.RemoveResource(ctx)
	default:
		state.complete()
		resp.Diagnostics.Append(resp.State.Set(ctx, &state)...)
	}
}

// Update is never called: every change makes a new binding.
func (r *destinationResource) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {
}

func (r *destinationResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	if resp.Diagnostics.HasError() || !run.KnowsBroker(r.data, &resp.Diagnostics) {
		return
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	if err := r.data.Client.Unbind(ctx, state.VHost.ValueString(), state.destination().Binding()); err != nil && !diagnostics.IsGone(err) {
		diagnostics.AddError(&resp.Diagnostics, "Destination Not Detached", err)
	}
}

// ImportState takes network/name/queue@vhost or the identity; the read that
// follows looks for the binding.
func (r *destinationResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	parts, ok := identity.ReadImport(ctx, r.data, req, &resp.Diagnostics)
	if !ok {
		return
	}
	if parts["name"].IsNull() {
		parts["name"] = parts["queue"]
	}
	identity.WriteImport(ctx, parts, resp)
}
