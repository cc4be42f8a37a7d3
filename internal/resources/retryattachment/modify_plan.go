package retryattachment

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// ValidateConfig reports what is wrong whatever the broker.
func (r *attachmentResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if config.VHost.IsNull() {
		config.VHost = types.StringValue("/")
	}
	if config.Ownership.IsNull() {
		config.Ownership = types.StringValue(ownedByAttachment)
	}
	config = complete(config, nil)
	if attribute.IsApplication(config.Ownership) && config.DeadLetterStrategy.IsUnknown() {
		config.DeadLetterStrategy = types.StringValue(string(retry.AtLeastOnce)) // any will do
	}
	if config.isKnown() {
		diagnostics.AddProblems(&resp.Diagnostics, config.attachment().Problems(), false)
	}
}

// ModifyPlan completes the plan and checks whether it can be carried out.
func (r *attachmentResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	var config, plan model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	resp.Diagnostics.Append(req.Plan.Get(ctx, &plan)...)
	prior := priorOf(ctx, req, plan, &resp.Diagnostics)
	checkMove(ctx, req, plan, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	// Terraform offers the prior value for what the configuration leaves out;
	// a default must not depend on it.
	plan.QueueType, plan.DeadLetterStrategy, plan.DeliveryLimit = config.QueueType, config.DeadLetterStrategy, config.DeliveryLimit
	plan.Policy = config.Policy
	f := r.planFacts(ctx, req, prior, plan, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	planned := complete(plan, f)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &planned)...)
	changes := prior == nil || !resp.Plan.Raw.Equal(req.State.Raw)
	if prior != nil && changes {
		checkUpdate(*prior, planned, &resp.Diagnostics)
	}
	if changes {
		r.checkNeeds(ctx, planned, f, &resp.Diagnostics)
	}
	if resp.Diagnostics.HasError() || !planned.isKnown() {
		return
	}
	diagnostics.AddProblems(&resp.Diagnostics, f.problems(planned.attachment()), false)
	if resp.Diagnostics.HasError() {
		return
	}
	r.checkPlan(ctx, req, prior, planned, f, changes, &resp.Diagnostics)
}

// checkNeeds warns of missing objects that must exist before the apply. The tiers and the
// queue are often known when what follows from the queue is not.
func (r *attachmentResource) checkNeeds(ctx context.Context, planned model, f *facts, diags *diag.Diagnostics) {
	if f == nil || r.data == nil || r.data.Client == nil || planned.ID.IsUnknown() || planned.Ownership.IsUnknown() || diags.HasError() {
		return
	}
	lifecycle.WarnOfNeeds(ctx, r.data, planned.VHost.ValueString(), needs(planned.attachment()), diags)
}

// checkPlan looks for what keeps the plan from being carried out.
func (r *attachmentResource) checkPlan(
	ctx context.Context, req resource.ModifyPlanRequest, prior *model, planned model, f *facts, changes bool, diags *diag.Diagnostics,
) {
	replaces := prior == nil && !req.State.Raw.IsNull()
	asks := f != nil && r.data != nil && r.data.Client != nil
	if replaces {
		return // what is there now is not what the create finds
	}
	if prior == nil && asks {
		r.checkNew(ctx, planned, f, diags)
	}
	if asks && (changes || r.data.Names.Seen(lockName(planned))) && !diags.HasError() {
		diagnostics.AddPlanError(diags, r.checkSurroundings(ctx, planned, f, changes, diags))
	}
	if asks && changes && !diags.HasError() {
		r.data.Names.MarkPlanned(lifecycle.ObjectNames(planned.VHost.ValueString(), f.within(planned.attachment()).Topology(f.Features)))
	}
}

// priorOf returns the state that the plan changes in place. It is nil for a new
// attachment and for one that is replaced.
func priorOf(ctx context.Context, req resource.ModifyPlanRequest, plan model, diags *diag.Diagnostics) *model {
	if req.State.Raw.IsNull() {
		return nil
	}
	var prior model
	diags.Append(req.State.Get(ctx, &prior)...)
	if plan.identity() != prior.identity() {
		return nil
	}
	return &prior
}

// checkMove refuses other tiers for the same queue. Terraform would detach it
// first, and what its consumers reject until it is attached again would be lost.
func checkMove(ctx context.Context, req resource.ModifyPlanRequest, plan model, diags *diag.Diagnostics) {
	if req.State.Raw.IsNull() || plan.Tiers.IsUnknown() {
		return
	}
	var before model
	diags.Append(req.State.Get(ctx, &before)...)
	if plan.Tiers.Equal(before.Tiers) || !plan.Queue.Equal(before.Queue) || !plan.VHost.Equal(before.VHost) {
		return
	}
	diags.AddAttributeError(path.Root("tiers"), "Change Not Possible in Place",
		fmt.Sprintf("tiers of the living attachment of the queue %q cannot change in place: the queue would be attached to none for a while, and what its consumers reject meanwhile would be lost. Undo the change; "+
			"or attach a queue of another name to the tiers %q, move publishers and then consumers there, and remove this attachment when its queue is empty. A queue of an application can move "+
			"while nobody consumes it: remove its attachment, apply, and attach it again.", before.Queue.ValueString(), plan.Tiers.ValueString()))
}

// planFacts returns what the plan may rely on: for an existing attachment what
// the last refresh wrote down, for a new one what the broker says now. It returns
// nil when the broker is known only after apply.
func (r *attachmentResource) planFacts(ctx context.Context, req resource.ModifyPlanRequest, prior *model, plan model, diags *diag.Diagnostics) *facts {
	if prior != nil {
		if f := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, diags); f != nil {
			return f
		}
	}
	if r.data == nil || r.data.Client == nil {
		return nil
	}
	f, err := r.liveFacts(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return nil
	}
	if attribute.IsApplication(plan.Ownership) && !plan.Queue.IsUnknown() && !plan.Tiers.IsUnknown() && !plan.VHost.IsUnknown() {
		diagnostics.AddPlanError(diags, r.lookAround(ctx, f, plan))
	}
	return f
}

// lookAround notes what the attachment takes from the virtual host.
func (r *attachmentResource) lookAround(ctx context.Context, f *facts, m model) error {
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) { f.look(m.attachment(), in) })
}

// checkSurroundings looks at the existing queue and for policies of others that
// endanger its messages. These can change at any time, and so it looks again at
// apply. It returns an error if the virtual host cannot be read.
func (r *attachmentResource) checkSurroundings(ctx context.Context, m model, f *facts, warnings bool, diags *diag.Diagnostics) error {
	a := f.within(m.attachment())
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, append(a.ExistingProblems(in, f.Features), a.PolicyProblems(in, f.Features)...), warnings)
	})
}

// checkNew looks for what would make a create fail. It is a courtesy: the
// create itself looks again, and its answer counts.
func (r *attachmentResource) checkNew(ctx context.Context, planned model, f *facts, diags *diag.Diagnostics) {
	a, vhost := f.within(planned.attachment()), planned.VHost.ValueString()
	conflicts, err := r.conflicts(ctx, vhost, a)
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	lifecycle.CheckPermissions(ctx, r.data.Client, vhost, a.Topology(f.Features), "this attachment", diags)
	if len(conflicts) == 0 || r.data.Names.Seen(lockName(planned)) {
		return
	}
	text := conflictText(planned, conflicts)
	if !r.data.Names.AnySeen() {
		// This may be the process that applies a replacement with
		// create_before_destroy: Terraform puts the old attachment back only if the
		// create fails, not if this plan does.
		diags.AddAttributeWarning(path.Root("queue"), "Attachment Already Exists", "The apply will fail, unless it removes the old one first. "+text)
		return
	}
	diags.AddAttributeError(path.Root("queue"), "Object Already Exists", text)
}

// checkUpdate refuses changes that RabbitMQ cannot make in place.
func checkUpdate(prior, planned model, diags *diag.Diagnostics) {
	before := values.LinesOf(prior.Topology)
	name := planned.Queue.ValueString()
	have, exists := before.Queues[name]
	if !exists && !attribute.IsApplication(prior.Ownership) {
		return // a queue that is gone, or a create that was killed
	}
	const argument = "it is an argument of the queue, which RabbitMQ fixes when the queue is declared"
	owned := !attribute.IsApplication(planned.Ownership)
	changed := false
	for _, c := range []struct {
		attribute, reason string
		before, after     attr.Value
	}{
		{"ownership", "a declared queue dead-letters by its arguments, which RabbitMQ fixes, and an existing one by a policy", prior.Ownership, planned.Ownership},
		{"queue_type", argument, prior.QueueType, planned.QueueType},
		{"dead_letter_strategy", argument, prior.DeadLetterStrategy, planned.DeadLetterStrategy},
		{"delivery_limit", argument, prior.DeliveryLimit, planned.DeliveryLimit},
		{"arguments", argument, prior.Arguments, planned.Arguments},
	} {
		byPolicy := c.attribute == "dead_letter_strategy" && !owned
		if c.after.IsUnknown() || c.before.Equal(c.after) || byPolicy {
			continue
		}
		changed = true
		diags.AddAttributeError(path.Root(c.attribute), "Change Not Possible in Place",
			fmt.Sprintf("%s of the living attachment of the queue %q cannot change in place: %s. Undo the change; or attach a queue of another name with the new value, move publishers and then consumers there, "+
				"and remove this attachment when its queue is empty.", c.attribute, name, c.reason))
	}
	if want := values.LinesOf(planned.Topology).Queues[name]; !changed && owned && !planned.Topology.IsUnknown() {
		checkForm(name, have, want, diags)
	}
}

// checkForm refuses a queue that can only be deleted and declared again.
func checkForm(name, have, want string, diags *diag.Diagnostics) bool {
	if have == "" || have == want {
		return true
	}
	diags.AddAttributeError(path.Root("topology"), "Queue Exists in Another Form",
		lifecycle.FormText("Queue", name, have, "the attachment", want))
	return false
}
