package retryattachment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
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
	_ resource.ResourceWithConfigure      = (*attachmentResource)(nil)
	_ resource.ResourceWithIdentity       = (*attachmentResource)(nil)
	_ resource.ResourceWithImportState    = (*attachmentResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*attachmentResource)(nil)
	_ resource.ResourceWithValidateConfig = (*attachmentResource)(nil)
)

// Time limits of a resource that sets none.
const (
	createTimeout = 5 * time.Minute
	readTimeout   = 2 * time.Minute
	updateTimeout = 5 * time.Minute
	deleteTimeout = 10 * time.Minute
)

type attachmentResource struct {
	data *run.Data
}

// NewResource returns the resource rabbitmq_retry_attachment.
func NewResource() resource.Resource { return &attachmentResource{} }

func (r *attachmentResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_retry_attachment"
}

func (r *attachmentResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

func (r *attachmentResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
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
	if attribute.IsApplication(plan.Ownership) {
		// The same run may have made the queue, after the virtual host was read.
		r.data.Client.Reload(plan.VHost.ValueString())
		diagnostics.AddVHostError(&resp.Diagnostics, r.lookAround(ctx, f, plan))
	}
	if resp.Diagnostics.HasError() || !lifecycle.RequireNeeds(ctx, r.data.Client, plan.VHost.ValueString(), needs(plan.attachment()), &resp.Diagnostics) {
		return
	}
	plan = complete(plan, f)
	diagnostics.AddProblems(&resp.Diagnostics, f.problems(plan.attachment()), false)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkSurroundings(ctx, plan, f, false, &resp.Diagnostics))
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

func (r *attachmentResource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var state model
	resp.Diagnostics.Append(req.State.Get(ctx, &state)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, state.identity())...)
	timeout, d := state.Timeouts.Read(ctx, readTimeout)
	resp.Diagnostics.Append(d...)
	imported := state.OnDetach.IsNull()
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
		f.WorkType, f.Inheritable = before.WorkType, before.Inheritable
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
// endanger messages included. It returns false when nothing of the attachment is
// there, or after an error.
func (r *attachmentResource) refresh(ctx context.Context, state *model, f *facts, diags *diag.Diagnostics) bool {
	var (
		dangers []retry.Problem
		targets []topology.Target
	)
	err := r.data.Client.View(ctx, state.VHost.ValueString(), func(in *topology.Topology) {
		f.look(state.attachment(), in)
		a := f.within(state.attachment())
		dangers, targets = a.PolicyProblems(in, f.Features), a.Targets(in)
	})
	if err != nil && !diagnostics.IsGone(err) {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if !r.readTopology(ctx, state, f, diags) {
		return false
	}
	ineffective, err := r.data.Client.Ineffective(ctx, state.VHost.ValueString(), targets, true)
	if err != nil {
		diagnostics.AddError(diags, "Policies in Effect Not Read", err)
		return false
	}
	state.Topology = values.WithDangers(lifecycle.WithoutEffect(state.Topology, ineffective), dangers)
	return true
}

func (r *attachmentResource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
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
		diagnostics.AddVHostError(&resp.Diagnostics, r.lookAround(ctx, f, plan))
	}
	plan = complete(plan, f)
	diagnostics.AddVHostError(&resp.Diagnostics, r.checkSurroundings(ctx, plan, f, false, &resp.Diagnostics))
	result := plan
	if resp.Diagnostics.HasError() || !r.update(ctx, plan, f, &resp.Diagnostics) {
		result = state // the inputs of before, with what is really there
	} else {
		f.Imported = false
	}
	r.readResult(ctx, &result, f, &resp.Diagnostics)
	lifecycle.WritePrivate(ctx, resp.Private, factsKey, f, &resp.Diagnostics)
	resp.Diagnostics.Append(resp.State.Set(ctx, &result)...)
}

// readResult reads what an update has left, also when its time is over.
func (r *attachmentResource) readResult(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, readTimeout)
	defer cancel()
	r.readTopology(ctx, m, f, diags)
}

func (r *attachmentResource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
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
		diagnostics.AddVHostError(&resp.Diagnostics, r.lookAround(ctx, f, state))
	}
	r.remove(ctx, state, f, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.data.Names.Release(lockName(state))
	}
}

// lockName keeps the operations on one attachment apart from each other.
func lockName(m model) string { return "retry attachment " + m.ID.ValueString() }

// ImportState takes tiers/queue@vhost or the identity; the read that follows
// fills in the rest from the broker.
func (r *attachmentResource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	var id identityModel
	if req.ID != "" {
		var ok bool
		if id, ok = parseID(req.ID); !ok {
			resp.Diagnostics.AddError("Invalid Import Identifier",
				fmt.Sprintf("%q is not of the form tiers/queue@vhost, such as retries/orders@/. Inside the first two parts write %%2F for / and %%40 for @.", req.ID))
			return
		}
	} else {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		if id.VHost.IsNull() {
			id.VHost = types.StringValue("/")
		}
	}
	if resp.Diagnostics.HasError() {
		return
	}
	for name, value := range map[string]types.String{"vhost": id.VHost, "tiers": id.Tiers, "queue": id.Queue} {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
	resp.Diagnostics.Append(resp.Identity.Set(ctx, id)...)
}

// readImported reads the inputs of an attachment that is being imported.
func (r *attachmentResource) readImported(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	tiers, queue, vhost := m.Tiers.ValueString(), m.Queue.ValueString(), m.VHost.ValueString()
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return
	}
	var a retry.Attachment
	var readErr error
	err = r.data.Client.View(ctx, vhost, func(in *topology.Topology) {
		a, f.Features, readErr = retry.ReadAttachment(tiers, queue, in, info.Version.AtLeast)
	})
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
	case errors.Is(readErr, retry.ErrNotAttached):
		diags.AddError("Nothing to Import", fmt.Sprintf("Virtual host %q holds nothing that attaches a queue %q to retry tiers %q, such as a binding of the exchange %s. "+
			"Check the parts of the identifier, or create the attachment instead of importing it; with ownership = \"application\" for a queue that an application declares.", vhost, queue, tiers, retry.NewShared(tiers).ReturnExchange()))
	default:
		m.setInputs(a)
		m.setID()
	}
}
