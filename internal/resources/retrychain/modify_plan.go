package retrychain

import (
	"context"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ValidateConfig reports what is wrong whatever the broker; warnings are left
// to the plan.
func (r *chainResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.applyDefaults()
	config = completeInputs(config, &facts{})
	if config.isKnown(ctx) {
		diagnostics.AddProblems(&resp.Diagnostics, config.chain().Problems(), false)
	}
}

// ModifyPlan completes the plan and checks whether it can be carried out.
func (r *chainResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	prior := priorOf(ctx, req, plan, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	// Terraform offers the prior value for what the configuration leaves out;
	// a default must not depend on it.
	plan.CountHeader, plan.DeadLetterStrategy = config.CountHeader, config.DeadLetterStrategy
	plan.WorkQueue, plan.ParkingQueue, plan.Policy = config.WorkQueue, config.ParkingQueue, config.Policy

	f := r.planFacts(ctx, req, plan, prior, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	planned := complete(ctx, plan, prior, f)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &planned)...)
	if resp.Diagnostics.HasError() || !planned.isKnown(ctx) {
		return
	}
	r.checkPlan(ctx, req, prior, planned, f, prior == nil || !resp.Plan.Raw.Equal(req.State.Raw), &resp.Diagnostics)
}

// checkPlan looks for what keeps the plan from being carried out, and for what
// its owner should know before.
func (r *chainResource) checkPlan(
	ctx context.Context, req resource.ModifyPlanRequest, prior *model, planned model, f *facts, changes bool, diags *diag.Diagnostics,
) {
	c := planned.chain()
	if f != nil {
		c = f.within(c)
	}
	diagnostics.AddProblems(diags, c.Problems(), changes)
	if f != nil && changes {
		diagnostics.AddProblems(diags, f.problems(c), true)
	}
	if diags.HasError() {
		return
	}
	if prior == nil {
		r.checkReplacement(ctx, req, diags)
		r.checkNew(ctx, req, planned, c, f, diags)
	} else if changes {
		if f != nil {
			reportDrift(*prior, *f, diags)
		}
		checkUpdate(*prior, planned, diags)
		r.checkMissing(ctx, planned, c, f, diags)
	}
	if changes || r.data.Names.Seen(planned.ID.ValueString()) {
		diagnostics.AddPlanError(diags, r.checkSurroundings(ctx, prior, planned, c, f, changes, diags))
	}
	if changes {
		r.checkNeeds(ctx, planned, c, f, diags)
	}
}

// checkNeeds looks for features and objects that must exist before the apply, and
// notes what the chain creates for other resources.
func (r *chainResource) checkNeeds(ctx context.Context, planned model, c retry.Chain, f *facts, diags *diag.Diagnostics) {
	if f == nil || r.data == nil || r.data.Client == nil || diags.HasError() {
		return
	}
	vhost := planned.VHost.ValueString()
	lifecycle.CheckFlags(ctx, r.data.Client, c.Strategy, "strategy", diags)
	lifecycle.WarnOfNeeds(ctx, r.data, vhost, needs(c), diags)
	r.data.Names.MarkPlanned(lifecycle.ObjectNames(vhost, c.Topology(f.Features)))
}

// checkSurroundings looks for other objects that endanger the chain's
// messages. They can change at any time, and so it looks again at apply. It
// returns an error if the virtual host cannot be read.
func (r *chainResource) checkSurroundings(ctx context.Context, before *model, m model, c retry.Chain, f *facts, warnings bool, diags *diag.Diagnostics) error {
	if f == nil || r.data == nil || r.data.Client == nil || diags.HasError() {
		return nil
	}
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, c.ExistingProblems(in, f.Features), warnings)
		diagnostics.AddProblems(diags, c.PolicyProblems(in, f.Features), warnings)
		if before != nil {
			diagnostics.AddProblems(diags, c.TakeoverProblems(before.chain(), in, f.Features), warnings)
			addForeign(*before, c, c.Topology(f.Features), in, diags)
		}
	})
}

// priorOf returns the state that the plan changes in place. It is nil for a
// new chain and for one that is replaced because its name or virtual host
// changes.
func priorOf(ctx context.Context, req resource.ModifyPlanRequest, plan model, diags *diag.Diagnostics) *model {
	if req.State.Raw.IsNull() {
		return nil
	}
	var prior model
	diags.Append(req.State.Get(ctx, &prior)...)
	if !plan.Name.Equal(prior.Name) || !plan.VHost.Equal(prior.VHost) {
		return nil
	}
	return &prior
}

// planFacts returns what the plan may rely on: for an existing chain what the
// last refresh wrote down, for a new one what the broker says now. It returns
// nil when the broker is known only after apply.
func (r *chainResource) planFacts(ctx context.Context, req resource.ModifyPlanRequest, plan model, prior *model, diags *diag.Diagnostics) *facts {
	var f *facts
	if prior != nil {
		f = readFacts(ctx, req.Private, diags)
	}
	if r.data == nil || r.data.Client == nil {
		return f
	}
	if f == nil {
		info, err := r.data.Client.Info(ctx)
		if err != nil {
			diagnostics.AddError(diags, "Broker Not Reached", err)
			return nil
		}
		f = new(factsOf(info))
	}
	if prior == nil {
		f.forNew(plan)
	}
	inputs := completeInputs(plan, f)
	if f.WorkType == "" && inputs.isKnown(ctx) && attribute.IsApplication(inputs.workQueue().Ownership) {
		diagnostics.AddPlanError(diags, r.lookAround(ctx, f, inputs))
	}
	return f
}

// lookAround notes what the chain takes from its virtual host.
func (r *chainResource) lookAround(ctx context.Context, f *facts, m model) error {
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) { f.look(m.chain(), in) })
}

// checkReplacement looks at the chain that a plan destroys because its name or
// virtual host changes. What it finds can be different at apply, where the
// destroy looks again.
func (r *chainResource) checkReplacement(ctx context.Context, req resource.ModifyPlanRequest, diags *diag.Diagnostics) {
	if req.State.Raw.IsNull() || r.data == nil || r.data.Client == nil {
		return
	}
	var old model
	diags.Append(req.State.Get(ctx, &old)...)
	if diags.HasError() {
		return
	}
	switch old.DeletionPolicy.ValueString() {
	case retain:
		diags.AddAttributeError(path.Root("deletion_policy"), "Replacement Would Leave the Old Chain",
			fmt.Sprintf("A new name or virtual host makes a new chain, and deletion_policy = \"retain\" would leave the old one, %q, at work beside it. "+
				"Set deletion_policy = \"if_empty\" and apply that first; or take the old chain out of the configuration and give the new one a resource of its own.", old.ID.ValueString()))
	case ifEmpty:
		r.checkEmptied(ctx, old, readFacts(ctx, req.Private, diags), diags)
	}
}

// checkEmptied refuses to plan the removal of a chain that holds messages.
func (r *chainResource) checkEmptied(ctx context.Context, old model, f *facts, diags *diag.Diagnostics) {
	if f == nil {
		return
	}
	vhost := old.VHost.ValueString()
	actual, err := r.actual(ctx, vhost, f.within(old.chain()), f.Features)
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	var full []broker.Counts
	for _, q := range actual.Queues() {
		counts, err := r.data.Client.Counts(ctx, vhost, q.Name)
		if err != nil {
			diagnostics.AddError(diags, "Queues Not Counted", err)
			return
		}
		if counts.Complete() && !counts.Empty() {
			full = append(full, counts)
		}
	}
	if len(full) > 0 {
		diags.AddAttributeError(path.Root("name"), "Chain to Be Replaced Holds Messages",
			fmt.Sprintf("A new name or virtual host makes a new chain and destroys the old one, %q, whose queues hold messages:\n\n  %s\n\n"+
				"Consume or move the messages first. Or give the new chain a resource of its own beside this one, and remove this one when it is empty.",
				old.ID.ValueString(), diagnostics.CountsText(full)))
	}
}

// checkNew looks for what would make a create fail. It is a courtesy: the
// create itself looks again, and its answer counts.
func (r *chainResource) checkNew(ctx context.Context, req resource.ModifyPlanRequest, planned model, c retry.Chain, f *facts, diags *diag.Diagnostics) {
	if f == nil || r.data == nil || r.data.Client == nil {
		return
	}
	vhost, wanted := planned.VHost.ValueString(), c.Topology(f.Features)
	var conflicts []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { conflicts = findConflicts(c, wanted, in) })
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	lifecycle.CheckPermissions(ctx, r.data.Client, vhost, wanted, "this chain", diags)
	replaced := readFacts(ctx, req.Private, diags) != nil || r.data.Names.Seen(planned.ID.ValueString())
	// An object that another resource of this run has made is not reported here: the
	// create says which one has it.
	claimed := r.data.Names.Claimed(objectNames(vhost, c, wanted))
	if len(conflicts) > 0 && !replaced && !claimed {
		r.addConflict(planned, c, conflicts, diags)
	}
}

// checkMissing looks whether the user may make what a change adds.
func (r *chainResource) checkMissing(ctx context.Context, planned model, c retry.Chain, f *facts, diags *diag.Diagnostics) {
	if f == nil || r.data == nil || r.data.Client == nil || diags.HasError() {
		return
	}
	vhost, missing := planned.VHost.ValueString(), topology.New()
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) {
		missing = topology.Diff(c.Actual(in, f.Features), c.Topology(f.Features)).Missing
	})
	if err == nil { // else the surroundings tell
		lifecycle.CheckPermissions(ctx, r.data.Client, vhost, missing, "this chain", diags)
	}
}

// addConflict refuses a plan whose objects exist already. It only warns when
// they look like this very chain and nothing was read in this process: then the
// process may be the one that applies a replacement with create_before_destroy.
// Terraform plans it once more after it has set the old chain aside, and puts
// that back only if the create fails, not if this plan does.
func (r *chainResource) addConflict(planned model, c retry.Chain, conflicts []string, diags *diag.Diagnostics) {
	text := conflictText(planned, conflicts)
	own := slices.Contains(conflicts, fmt.Sprintf("%s %q", topology.KindExchange, c.FirstExchange()))
	if own && !r.data.Names.AnySeen() {
		diags.AddAttributeWarning(path.Root("name"), "Chain Already Exists", "The apply will fail, unless it removes the old chain first. "+text)
		return
	}
	diags.AddAttributeError(path.Root("name"), "Object Already Exists", text)
}
