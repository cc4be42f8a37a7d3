package retrytiers

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// ValidateConfig reports what is wrong whatever the broker.
func (r *tiersResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.applyDefaults()
	config = complete(config, nil, nil)
	if config.isKnown() {
		diagnostics.AddProblems(&resp.Diagnostics, config.chain().SharedProblems(), false)
	}
}

// applyDefaults fills in what the schema would, for a configuration that is
// validated without a plan.
func (m *model) applyDefaults() {
	for value, text := range map[*types.String]string{
		&m.VHost: "/", &m.QueueType: string(topology.Quorum),
	} {
		if value.IsNull() {
			*value = types.StringValue(text)
		}
	}
}

// ModifyPlan completes the plan and checks whether it can be carried out.
func (r *tiersResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
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
	plan.DeadLetterStrategy = config.DeadLetterStrategy
	f := r.planFacts(ctx, req, prior, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	planned := complete(plan, prior, f)
	resp.Diagnostics.Append(resp.Plan.Set(ctx, &planned)...)
	if resp.Diagnostics.HasError() || !planned.isKnown() {
		return
	}
	r.checkPlan(ctx, req, prior, planned, f, prior == nil || !resp.Plan.Raw.Equal(req.State.Raw), &resp.Diagnostics)
}

// checkPlan looks for what keeps the plan from being carried out.
func (r *tiersResource) checkPlan(
	ctx context.Context, req resource.ModifyPlanRequest, prior *model, planned model, f *facts, changes bool, diags *diag.Diagnostics,
) {
	diagnostics.AddProblems(diags, f.problems(planned.chain()), false)
	if diags.HasError() {
		return
	}
	asks := f != nil && r.data != nil && r.data.Client != nil
	switch {
	case prior == nil && asks:
		r.checkNew(ctx, req, planned, f, diags)
	case prior != nil && changes:
		checkUpdate(*prior, planned, diags)
	}
	if asks && (changes || r.data.Names.Seen(lockName(planned))) && !diags.HasError() {
		diagnostics.AddPlanError(diags, r.checkPolicies(ctx, planned, f, diags))
	}
	if asks && changes && !diags.HasError() {
		lifecycle.CheckFlags(ctx, r.data.Client, retry.Headers, "name", diags)
		r.data.Names.MarkPlanned(lifecycle.ObjectNames(planned.VHost.ValueString(), planned.chain().Topology(f.Features)))
	}
}

// priorOf returns the state that the plan changes in place. It is nil for a new
// set of tiers and for one that is replaced because its name or virtual host
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

// planFacts returns what the plan may rely on: for an existing one what the
// last refresh wrote down, for a new one what the broker says now. It returns
// nil when the broker is known only after apply.
func (r *tiersResource) planFacts(ctx context.Context, req resource.ModifyPlanRequest, prior *model, diags *diag.Diagnostics) *facts {
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
	return f
}

// checkPolicies looks for policies of others that endanger the tiers's
// messages. These can change at any time, and so it looks again at apply.
func (r *tiersResource) checkPolicies(ctx context.Context, m model, f *facts, diags *diag.Diagnostics) error {
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, tiersProblems(m.chain().PolicyProblems(in, f.Features)), false)
	})
}

// checkNew looks for what would make a create fail. It is a courtesy: the
// create itself looks again, and its answer counts.
func (r *tiersResource) checkNew(ctx context.Context, req resource.ModifyPlanRequest, planned model, f *facts, diags *diag.Diagnostics) {
	vhost, wanted := planned.VHost.ValueString(), planned.chain().Topology(f.Features)
	conflicts, err := lifecycle.Conflicts(ctx, r.data.Client, vhost, wanted)
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	lifecycle.CheckPermissions(ctx, r.data.Client, vhost, wanted, "this set of retry tiers", diags)
	replaced := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, diags) != nil || r.data.Names.Seen(lockName(planned))
	if len(conflicts) == 0 || replaced {
		return
	}
	text := conflictText(planned, conflicts)
	if !r.data.Names.AnySeen() {
		// This may be the process that applies a replacement with
		// create_before_destroy: Terraform puts the old ones back only if the
		// create fails, not if this plan does.
		diags.AddAttributeWarning(path.Root("name"), "Retry Tiers Already Exist", "The apply will fail, unless it removes the old ones first. "+text)
		return
	}
	diags.AddAttributeError(path.Root("name"), "Object Already Exists", text)
}

// checkUpdate refuses changes that RabbitMQ cannot make in place.
func checkUpdate(prior, planned model, diags *diag.Diagnostics) {
	before := values.LinesOf(prior.Topology)
	if len(before.Queues) == 0 {
		return // no message can be under way: a create that was killed
	}
	const argument = "it is an argument of every queue, which RabbitMQ fixes when the queue is declared"
	changed := false
	for _, c := range []struct {
		attribute, reason string
		same              bool
	}{
		{"queue_type", argument, prior.QueueType.Equal(planned.QueueType)},
		{"dead_letter_strategy", argument, prior.DeadLetterStrategy.Equal(planned.DeadLetterStrategy)},
	} {
		if c.same {
			continue
		}
		changed = true
		diags.AddAttributeError(path.Root(c.attribute), "Change Not Possible in Place",
			fmt.Sprintf("%s of the living retry tiers %q cannot change in place: %s. Undo the change; or add tiers of another name with the new value, and move the attachments there.", c.attribute, planned.Name.ValueString(), c.reason))
	}
	if !changed && !planned.Topology.IsUnknown() {
		lifecycle.CheckForms(before, values.LinesOf(planned.Topology), "the set of retry tiers", diags)
	}
}

// tiersProblems names the attributes that tiers have.
func tiersProblems(problems []retry.Problem) []retry.Problem {
	for i := range problems {
		if problems[i].Attribute != "delays" {
			problems[i].Attribute = "name"
		}
	}
	return problems
}
