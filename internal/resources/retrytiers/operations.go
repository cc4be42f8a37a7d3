package retrytiers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// undoTimeout limits the removal of what a failed create has made.
const undoTimeout = 2 * time.Minute

// readTopology sets the attributes that say what is on the broker. It returns
// false when nothing of the tiers is there, or after an error.
func (r *tiersResource) readTopology(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) bool {
	c := m.chain()
	actual, err := r.actual(ctx, m.VHost.ValueString(), c, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	m.setNames()
	m.setSchedule()
	wanted := c.Topology(f.Features)
	rest, draining := c.Draining(actual, wanted)
	m.Topology = values.LinesValue(rest.Lines(wanted))
	m.Draining = lifecycle.TierNames(draining)
	return !actual.Empty()
}

// actual returns what is on the broker of the tiers: nothing, when the
// virtual host is certain not to exist.
func (r *tiersResource) actual(ctx context.Context, vhost string, c retry.Chain, f *facts) (*topology.Topology, error) {
	return lifecycle.Actual(ctx, r.data.Client, vhost, func(in *topology.Topology) *topology.Topology { return c.Actual(in, f.Features) })
}

// create makes the tiers. It never takes over an object: it looks at all of
// them before its first write, and an object that appears meanwhile ends it. It
// returns whether the state is to have the tiers, as the create of a chain does.
func (r *tiersResource) create(ctx context.Context, plan model, f *facts, diags *diag.Diagnostics) bool {
	vhost, c := plan.VHost.ValueString(), plan.chain()
	wanted := c.Topology(f.Features)
	if taken, by, ok := r.data.Names.Claim(lockName(plan), lifecycle.ObjectNames(vhost, wanted)); !ok {
		diags.AddAttributeError(path.Root("name"), "Object Claimed Twice",
			fmt.Sprintf("The set of retry tiers %q needs %s, which %q of this run has. Choose another name for one of them.", plan.ID.ValueString(), taken, by))
		return false
	}
	conflicts, err := lifecycle.Conflicts(ctx, r.data.Client, vhost, wanted)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
	} else if len(conflicts) > 0 {
		diags.AddAttributeError(path.Root("name"), "Object Already Exists", conflictText(plan, conflicts))
	}
	if diags.HasError() {
		r.data.Names.Release(lockName(plan))
		return false
	}
	made := lifecycle.NewRecorder("these retry tiers")
	err = r.data.Client.Apply(ctx, vhost, c.Transition(topology.New(), wanted, nil).Stages, broker.OnlyIfEmpty, made.Record)
	if err == nil {
		return true
	}
	if run.Interrupted(ctx) {
		run.AddInterrupted(diags, "Retry Tiers Not Created", err)
		return true
	}
	diagnostics.AddError(diags, "Retry Tiers Not Created", err)
	r.undo(ctx, plan, made.Topology(), diags)
	made.Unsure(diags)
	r.data.Names.Release(lockName(plan))
	return false
}

// undo removes what a failed create has made. When that fails too, the error
// says how to import what is left.
func (r *tiersResource) undo(ctx context.Context, plan model, made *topology.Topology, diags *diag.Diagnostics) {
	if made.Empty() {
		return
	}
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	if err := lifecycle.RemoveEmpty(ctx, r.data.Client, plan.VHost.ValueString(), made, plan.chain().Removal(made)); err != nil {
		lifecycle.AddHalfMade(diags, "Retry Tiers Left Half Made", plan.ID.ValueString(), err)
	}
}

// update repairs and changes the tiers. With draining it waits for tiers that
// retire and removes those that are empty.
func (r *tiersResource) update(ctx context.Context, state, plan model, f *facts, draining bool, diags *diag.Diagnostics) bool {
	vhost, c := plan.VHost.ValueString(), plan.chain()
	wanted := c.Topology(f.Features)
	actual, err := r.actual(ctx, vhost, c, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	unfinished := lifecycle.Unfinished{Actual: actual, Wanted: wanted, Before: state.chain().Topology(f.Features), Internal: c.Internal(actual)}
	if err := unfinished.Remove(ctx, r.data.Client, vhost); err != nil {
		diagnostics.AddError(diags, "Retry Tiers Not Updated", err)
		return false
	}
	rest, _ := c.Draining(actual, wanted)
	lifecycle.CheckForms(rest.Lines(wanted), wanted.Lines(nil), "the set of retry tiers", diags)
	if diags.HasError() {
		return false
	}
	transition := c.Transition(actual, wanted, state.chain().Tiers())
	if err := r.data.Client.Apply(ctx, vhost, transition.Stages, broker.OnlyIfEmpty, nil); err != nil {
		diagnostics.AddError(diags, "Retry Tiers Not Updated", err)
		return false
	}
	if !draining || len(transition.Retired) == 0 {
		return true
	}
	return lifecycle.NewDrain(r.data.Client, fmt.Sprintf("The set of retry tiers %q", c.Name), vhost, c, f.Features, transition.Retired).Run(ctx, diags)
}

// remove deletes the tiers as their deletion policy says, and only when no queue
// is attached.
func (r *tiersResource) remove(ctx context.Context, state model, f *facts, diags *diag.Diagnostics) {
	vhost, c := state.VHost.ValueString(), state.chain()
	policy := state.DeletionPolicy.ValueString()
	if policy == retain {
		diags.AddWarning("Retry Tiers Left on the Broker",
			fmt.Sprintf("The retry tiers %q in virtual host %q go on working: their deletion_policy is \"retain\". Import them to manage them again.", c.Name, vhost))
		return
	}
	r.data.Client.Reload(vhost) // other teams attach queues at any time
	actual, err := r.actual(ctx, vhost, c, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return
	}
	if actual.Empty() || !r.checkUnattached(ctx, vhost, c, diags) {
		return
	}
	if policy == deleteAll {
		if err := r.data.Client.Apply(ctx, vhost, c.Removal(actual), broker.Always, nil); err != nil {
			diagnostics.AddError(diags, "Retry Tiers Not Deleted", err)
		}
		return
	}
	addRemovalError(diags, state, lifecycle.RemoveEmpty(ctx, r.data.Client, vhost, actual, c.Removal(actual)))
}

// checkUnattached refuses to remove tiers that queues are attached to, whatever
// the deletion policy: it is about messages in the tiers, and not about those
// that fail in the queues of others.
func (r *tiersResource) checkUnattached(ctx context.Context, vhost string, c retry.Chain, diags *diag.Diagnostics) bool {
	var attached []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { attached = c.Attached(in) })
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
		return false
	case len(attached) > 0:
		diags.AddError("Retry Tiers in Use",
			fmt.Sprintf("These are attached to the retry tiers %q in virtual host %q:\n\n  %s\n\nNothing was changed. Without the tiers their rejected messages would be lost. Detach them first.",
				c.Name, vhost, strings.Join(attached, "\n  ")))
		return false
	}
	return true
}

func addRemovalError(diags *diag.Diagnostics, state model, err error) {
	var full lifecycle.NotEmptyError
	var used *broker.InUseError
	switch {
	case errors.As(err, &full):
		diags.AddError("Retry Tiers Hold Messages", fmt.Sprintf("The retry tiers %q were not deleted, because their queues hold messages, or may hold some:\n\n  %s\n\n"+
			"Nothing was changed. Wait until the delays are over, take what is in the parking queue, and destroy again. To give the messages up, set "+
			"deletion_policy = \"delete\", apply, and then destroy: a destroy uses the policy that was applied last.", state.ID.ValueString(), diagnostics.CountsText(full)))
	case errors.As(err, &used):
		diags.AddError("Retry Tiers in Use", fmt.Sprintf("The retry tiers %q were not deleted as a whole, because something arrived while they were being deleted: %s.\n\n"+
			"No message is lost. Destroy again; an apply makes the tiers whole again.", state.ID.ValueString(), strings.TrimSuffix(err.Error(), ".")))
	case err != nil:
		diagnostics.AddError(diags, "Retry Tiers Not Deleted", err)
	}
}

// conflictText says which objects exist and what to do about it.
func conflictText(m model, conflicts []string) string {
	return fmt.Sprintf("The set of retry tiers %q in virtual host %q needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are these tiers, import them:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If another address of this configuration has the tiers (after a rename), tell Terraform with a moved block. "+
		"Otherwise choose another name.",
		m.Name.ValueString(), m.VHost.ValueString(), strings.Join(conflicts, "\n  "), m.ID.ValueString())
}
