package delaynetwork

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// ValidateConfig reports what is wrong whatever the broker.
func (r *networkResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var config model
	resp.Diagnostics.Append(req.Config.Get(ctx, &config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	config.applyDefaults()
	config = complete(config, nil, nil)
	if config.isKnown() {
		diagnostics.AddProblems(&resp.Diagnostics, config.network().Problems(), false)
	}
}

// applyDefaults fills in what the schema would, for a configuration that is
// validated without a plan.
func (m *model) applyDefaults() {
	for value, text := range map[*types.String]string{
		&m.VHost: "/", &m.Unit: retry.FormatDuration(delay.DefaultUnit), &m.QueueType: string(topology.Quorum),
	} {
		if value.IsNull() {
			*value = types.StringValue(text)
		}
	}
	if m.Levels.IsNull() {
		m.Levels = types.Int64Value(delay.DefaultLevels)
	}
}

// ModifyPlan completes the plan and checks whether it can be carried out.
func (r *networkResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
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
func (r *networkResource) checkPlan(
	ctx context.Context, req resource.ModifyPlanRequest, prior *model, planned model, f *facts, changes bool, diags *diag.Diagnostics,
) {
	diagnostics.AddProblems(diags, planned.network().Problems(), false)
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
		diagnostics.AddPlanError(diags, r.checkPolicies(ctx, planned, diags))
	}
	if asks && changes && !diags.HasError() {
		r.data.Names.MarkPlanned(lifecycle.ObjectNames(planned.VHost.ValueString(), planned.network().Topology(f.Features)))
	}
}

// priorOf returns the state that the plan changes in place. It is nil for a new
// network and for one that is replaced because its name or virtual host
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

// planFacts returns what the plan may rely on: for an existing network what the
// last refresh wrote down, for a new one what the broker says now. It returns
// nil when the broker is known only after apply.
func (r *networkResource) planFacts(ctx context.Context, req resource.ModifyPlanRequest, prior *model, diags *diag.Diagnostics) *facts {
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

// checkPolicies looks for policies of others that endanger the network's
// messages. These can change at any time, and so it looks again at apply.
func (r *networkResource) checkPolicies(ctx context.Context, m model, diags *diag.Diagnostics) error {
	return r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, m.network().PolicyProblems(in), false)
	})
}

// checkNew looks for what would make a create fail. It is a courtesy: the
// create itself looks again, and its answer counts.
func (r *networkResource) checkNew(ctx context.Context, req resource.ModifyPlanRequest, planned model, f *facts, diags *diag.Diagnostics) {
	vhost, wanted := planned.VHost.ValueString(), planned.network().Topology(f.Features)
	conflicts, err := lifecycle.Conflicts(ctx, r.data.Client, vhost, wanted)
	if err != nil {
		diagnostics.AddPlanError(diags, err)
		return
	}
	lifecycle.CheckPermissions(ctx, r.data.Client, vhost, wanted, "this delay network", diags)
	replaced := lifecycle.ReadPrivate[facts](ctx, req.Private, factsKey, diags) != nil || r.data.Names.Seen(lockName(planned))
	if len(conflicts) == 0 || replaced {
		return
	}
	text := conflictText(planned, conflicts)
	if !r.data.Names.AnySeen() {
		// This may be the process that applies a replacement with
		// create_before_destroy: Terraform puts the old network back only if the
		// create fails, not if this plan does.
		diags.AddAttributeWarning(path.Root("name"), "Delay Network Already Exists", "The apply will fail, unless it removes the old network first. "+text)
		return
	}
	diags.AddAttributeError(path.Root("name"), "Object Already Exists", text)
}

// checkUpdate refuses changes that RabbitMQ cannot make in place.
func checkUpdate(prior, planned model, diags *diag.Diagnostics) {
	before := values.LinesOf(prior.Topology)
	// Without queues or bindings no message can be under way: a create was
	// killed, and what it had not made cannot be read.
	idle := len(before.Queues) == 0 || len(before.Bindings) == 0
	const argument = "it is an argument of every queue, which RabbitMQ fixes when the queue is declared"
	changed := false
	for _, c := range []struct {
		attribute, reason string
		same              bool
	}{
		{"unit", "the queues hold messages for the unit times a power of two, which RabbitMQ fixes when they are declared", prior.unit() == planned.unit()},
		{"levels", "the routing keys of messages that are under way, and the bindings of destinations, have one word per level", prior.Levels.Equal(planned.Levels)},
		{"queue_type", argument, prior.QueueType.Equal(planned.QueueType)},
		{"dead_letter_strategy", argument, prior.DeadLetterStrategy.Equal(planned.DeadLetterStrategy)},
	} {
		if c.same || idle {
			continue
		}
		changed = true
		diags.AddAttributeError(path.Root(c.attribute), "Change Not Possible in Place",
			fmt.Sprintf("%s of the living delay network %q cannot change in place: %s. Undo the change; or add a network of another name with the new value, attach the destinations to both, "+
				"move the senders, and remove this one when it is empty.", c.attribute, planned.Name.ValueString(), c.reason))
	}
	if !changed && !planned.Topology.IsUnknown() {
		lifecycle.CheckForms(before, values.LinesOf(planned.Topology), "the delay network", diags)
	}
}
