package delaynetwork

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// undoTimeout limits the removal of what a failed create has made.
const undoTimeout = 2 * time.Minute

// readTopology sets the attributes that say what is on the broker. It returns
// false when nothing of the network is there, or after an error.
func (r *networkResource) readTopology(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) bool {
	n := m.network()
	actual, err := r.actual(ctx, m.VHost.ValueString(), n, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	m.setNames()
	m.setMaximum()
	m.Topology = values.LinesValue(actual.Lines(n.Topology(f.Features)))
	return !actual.Empty()
}

// actual returns what is on the broker of the network: nothing, when the
// virtual host is certain not to exist.
func (r *networkResource) actual(ctx context.Context, vhost string, n delay.Network, f *facts) (*topology.Topology, error) {
	return lifecycle.Actual(ctx, r.data.Client, vhost, func(in *topology.Topology) *topology.Topology { return n.Actual(in, f.Features) })
}

// create makes the network. It never takes over an object: it looks at all of
// them before its first write, and an object that appears meanwhile ends it. It
// returns whether the state is to have the network, as the create of a chain does.
func (r *networkResource) create(ctx context.Context, plan model, f *facts, diags *diag.Diagnostics) bool {
	vhost, n := plan.VHost.ValueString(), plan.network()
	wanted := n.Topology(f.Features)
	if taken, by, ok := r.data.Names.Claim(lockName(plan), lifecycle.ObjectNames(vhost, wanted)); !ok {
		diags.AddAttributeError(path.Root("name"), "Object Claimed Twice",
			fmt.Sprintf("The delay network %q needs %s, which %q of this run has. Choose another name for one of them.", plan.ID.ValueString(), taken, by))
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
	made := lifecycle.NewRecorder("this delay network")
	err = r.data.Client.Apply(ctx, vhost, n.Repair(topology.New(), wanted), broker.OnlyIfEmpty, made.Record)
	if err == nil {
		return true
	}
	if run.Interrupted(ctx) {
		run.AddInterrupted(diags, "Delay Network Not Created", err)
		return true
	}
	diagnostics.AddError(diags, "Delay Network Not Created", err)
	r.undo(ctx, plan, made.Topology(), diags)
	made.Unsure(diags)
	r.data.Names.Release(lockName(plan))
	return false
}

// undo removes what a failed create has made. When that fails too, the error
// says how to import what is left.
func (r *networkResource) undo(ctx context.Context, plan model, made *topology.Topology, diags *diag.Diagnostics) {
	if made.Empty() {
		return
	}
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	if err := lifecycle.RemoveEmpty(ctx, r.data.Client, plan.VHost.ValueString(), made, plan.network().Removal(made)); err != nil {
		lifecycle.AddHalfMade(diags, "Delay Network Left Half Made", plan.ID.ValueString(), err)
	}
}

// repair makes what is missing and removes bindings that should not be there.
func (r *networkResource) repair(ctx context.Context, plan model, f *facts, diags *diag.Diagnostics) bool {
	vhost, n := plan.VHost.ValueString(), plan.network()
	actual, err := r.actual(ctx, vhost, n, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	wanted := n.Topology(f.Features)
	unfinished := lifecycle.Unfinished{Actual: actual, Wanted: wanted, Before: wanted, Internal: func(string) bool { return true }}
	if err := unfinished.Remove(ctx, r.data.Client, vhost); err != nil {
		diagnostics.AddError(diags, "Delay Network Not Updated", err)
		return false
	}
	lifecycle.CheckForms(actual.Lines(wanted), wanted.Lines(nil), "the delay network", diags)
	if diags.HasError() {
		return false
	}
	stages := n.Repair(actual, wanted)
	if f.Imported {
		stages = n.Complete(actual, wanted)
	}
	if err := r.data.Client.Apply(ctx, vhost, stages, broker.OnlyIfEmpty, nil); err != nil {
		diagnostics.AddError(diags, "Delay Network Not Updated", err)
		return false
	}
	return true
}

// remove deletes the network as its deletion policy says.
func (r *networkResource) remove(ctx context.Context, state model, diags *diag.Diagnostics) {
	vhost, n := state.VHost.ValueString(), state.network()
	policy := state.DeletionPolicy.ValueString()
	if policy == retain {
		diags.AddWarning("Delay Network Left on the Broker",
			fmt.Sprintf("The delay network %q in virtual host %q goes on working: its deletion_policy is \"retain\". Import it to manage it again.", n.Name, vhost))
		return
	}
	r.data.Client.Reload(vhost) // other teams attach destinations at any time
	actual, err := r.actual(ctx, vhost, n, &facts{})
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return
	}
	if policy == deleteAll {
		if err := r.data.Client.Apply(ctx, vhost, n.Removal(actual), broker.Always, nil); err != nil {
			diagnostics.AddError(diags, "Delay Network Not Deleted", err)
		}
		return
	}
	if !actual.Empty() && r.checkUnattached(ctx, vhost, n, diags) {
		addRemovalError(diags, state, lifecycle.RemoveEmpty(ctx, r.data.Client, vhost, actual, n.Removal(actual)))
	}
}

// checkUnattached refuses to remove a network that has destinations.
func (r *networkResource) checkUnattached(ctx context.Context, vhost string, n delay.Network, diags *diag.Diagnostics) bool {
	var attached []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) {
		for _, b := range n.Attached(in) {
			attached = append(attached, b.Label())
		}
	})
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
		return false
	case len(attached) > 0:
		diags.AddError("Delay Network in Use",
			fmt.Sprintf("Destinations are attached to the delay network %q in virtual host %q:\n\n  %s\n\nNothing was changed. Remove them first. To remove the network all the same, "+
				"set deletion_policy = \"delete\", apply, and then destroy.", n.Name, vhost, strings.Join(attached, "\n  ")))
		return false
	}
	return true
}

func addRemovalError(diags *diag.Diagnostics, state model, err error) {
	var full lifecycle.NotEmptyError
	var used *broker.InUseError
	switch {
	case errors.As(err, &full):
		diags.AddError("Delay Network Holds Messages", fmt.Sprintf("The delay network %q was not deleted, because its queues hold messages, or may hold some:\n\n  %s\n\n"+
			"Nothing was changed. Wait until the delays are over, take what is in the queue for unrouted messages, and destroy again. To give the messages up, set "+
			"deletion_policy = \"delete\", apply, and then destroy: a destroy uses the policy that was applied last.", state.ID.ValueString(), diagnostics.CountsText(full)))
	case errors.As(err, &used):
		diags.AddError("Delay Network in Use", fmt.Sprintf("The delay network %q was not deleted as a whole, because something arrived while it was being deleted: %s.\n\n"+
			"No message is lost. Stop publishers and destroy again; an apply makes the network whole again.", state.ID.ValueString(), strings.TrimSuffix(err.Error(), ".")))
	case err != nil:
		diagnostics.AddError(diags, "Delay Network Not Deleted", err)
	}
}

// conflictText says which objects exist and what to do about it.
func conflictText(m model, conflicts []string) string {
	return fmt.Sprintf("The delay network %q in virtual host %q needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are this network, import it:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If another address of this configuration has the network (after a rename), tell Terraform with a moved block. "+
		"Otherwise choose another name.",
		m.Name.ValueString(), m.VHost.ValueString(), strings.Join(conflicts, "\n  "), m.ID.ValueString())
}
