package retryattachment

import (
	"context"
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
// false when nothing of the attachment is there, or after an error.
func (r *attachmentResource) readTopology(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) bool {
	a := f.within(m.attachment())
	actual, err := r.actual(ctx, m.VHost.ValueString(), a)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	m.setID()
	m.Topology = values.LinesValue(actual.Lines(a.Topology(f.Features)))
	return !actual.Empty()
}

// actual returns what is on the broker of the attachment: nothing, when the
// virtual host is certain not to exist.
func (r *attachmentResource) actual(ctx context.Context, vhost string, a retry.Attachment) (*topology.Topology, error) {
	return lifecycle.Actual(ctx, r.data.Client, vhost, a.Actual)
}

// needs are the tiers and the existing queue.
func needs(a retry.Attachment) []lifecycle.Need {
	needs := []lifecycle.Need{{Attribute: "tiers", Kind: topology.KindExchange, Name: a.ReturnExchange(), Summary: "Retry Tiers Not Found"}}
	if a.Work.Existing {
		needs = append(needs, lifecycle.Need{
			Attribute: "queue", Kind: topology.KindQueue, Name: a.Work.Name, Summary: "Existing Queue Not Found",
			Otherwise: "Or leave \"ownership\" out, and the attachment declares a queue of this name itself.",
		})
	}
	return needs
}

// create makes the attachment. It never takes over an object: it looks at all of
// them before its first write, and one that appears meanwhile ends it. It returns
// whether the state is to have the attachment, as the create of a chain does.
func (r *attachmentResource) create(ctx context.Context, plan model, f *facts, diags *diag.Diagnostics) bool {
	vhost, a := plan.VHost.ValueString(), f.within(plan.attachment())
	wanted := a.Topology(f.Features)
	claim := fmt.Sprintf("queue %q in virtual host %q", a.Work.Name, vhost)
	if taken, by, ok := r.data.Names.Claim(lockName(plan), []string{claim}); !ok {
		diags.AddAttributeError(path.Root("queue"), "Object Claimed Twice",
			fmt.Sprintf("The attachment %q needs %s, which %q of this run has. A queue can be attached once.", plan.ID.ValueString(), taken, by))
		return false
	}
	if !r.canCreate(ctx, plan, a, wanted, diags) {
		r.data.Names.Release(lockName(plan))
		return false
	}
	made := lifecycle.NewRecorder("this attachment")
	err := r.data.Client.Apply(ctx, vhost, a.Steps(topology.New(), wanted), broker.OnlyIfEmpty, made.Record)
	if err == nil {
		err = r.waitForPolicy(ctx, vhost, a, a.InEffect)
	}
	if err == nil {
		return true
	}
	if run.Interrupted(ctx) {
		run.AddInterrupted(diags, "Queue Not Attached", err)
		return true
	}
	diagnostics.AddError(diags, "Queue Not Attached", err)
	r.undo(ctx, plan, a, made.Topology(), diags)
	made.Unsure(diags)
	r.data.Names.Release(lockName(plan))
	return false
}

func (r *attachmentResource) canCreate(ctx context.Context, plan model, a retry.Attachment, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	vhost := plan.VHost.ValueString()
	conflicts, err := r.conflicts(ctx, vhost, a)
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
		return false
	case len(conflicts) > 0:
		diags.AddAttributeError(path.Root("queue"), "Object Already Exists", conflictText(plan, conflicts))
		return false
	}
	if err := r.noPendingDeadLetters(ctx, vhost, a, wanted); err != nil {
		diagnostics.AddError(diags, "Queue Not Attached", err)
		return false
	}
	return true
}

// undo removes what a failed create has made, the binding in any case. When that
// fails too, the error says how to import what is left.
func (r *attachmentResource) undo(ctx context.Context, plan model, a retry.Attachment, made *topology.Topology, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	vhost := plan.VHost.ValueString()
	if _, declared := made.Queue(a.Work.Name); !a.Work.Existing && !declared {
		return // nothing was bound either
	}
	made.Bind(a.Return())
	full, err := r.data.Client.ProveEmpty(ctx, vhost, made.Queues())
	if err == nil && len(full) > 0 {
		err = fmt.Errorf("the queue holds messages: %s", diagnostics.CountsText(full))
	}
	if err == nil {
		err = r.data.Client.Apply(ctx, vhost, a.Removal(made), broker.OnlyIfEmpty, nil)
	}
	if err != nil {
		lifecycle.AddHalfMade(diags, "Attachment Left Half Made", plan.ID.ValueString(), err)
	}
}

// update makes what is missing, and changes the policy.
func (r *attachmentResource) update(ctx context.Context, plan model, f *facts, diags *diag.Diagnostics) bool {
	vhost, a := plan.VHost.ValueString(), f.within(plan.attachment())
	if !lifecycle.RequireNeeds(ctx, r.data.Client, vhost, needs(a), diags) {
		return false
	}
	actual, err := r.actual(ctx, vhost, a)
	if err == nil {
		err = lifecycle.DropIneffective(ctx, r.data.Client, vhost, a.Targets, actual)
	}
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	wanted := a.Topology(f.Features)
	begun := func(string) bool { return f.Imported && !actual.Has(a.Return()) }
	err = lifecycle.Unfinished{Actual: actual, Wanted: wanted, Before: wanted, Internal: begun}.Remove(ctx, r.data.Client, vhost)
	if err == nil {
		err = r.noPendingDeadLetters(ctx, vhost, a, wanted)
	}
	if err != nil {
		diagnostics.AddError(diags, "Attachment Not Updated", err)
		return false
	}
	if q, exists := actual.Queue(a.Work.Name); exists {
		if want, _ := wanted.Queue(a.Work.Name); !checkForm(q.Name, q.Line(), want.Line(), diags) {
			return false
		}
	}
	err = r.data.Client.Apply(ctx, vhost, a.Steps(actual, wanted), broker.OnlyIfEmpty, nil)
	if err == nil {
		err = r.waitForPolicy(ctx, vhost, a, a.InEffect)
	}
	if err != nil {
		diagnostics.AddError(diags, "Attachment Not Updated", err)
		return false
	}
	return true
}

// waitForPolicy waits until the existing queue obeys the attachment's policy.
func (r *attachmentResource) waitForPolicy(ctx context.Context, vhost string, a retry.Attachment, inEffect func(topology.Arguments) bool) error {
	if !a.Work.Existing {
		return nil
	}
	return lifecycle.AwaitPolicy(ctx, r.data.Client, vhost, a.PolicyName(), a.Work.Name, inEffect)
}

// noPendingDeadLetters waits until no dead letter is on its way out of an
// existing quorum queue, if a change of the policies, to the one in wanted or to
// none, would make RabbitMQ delete it.
func (r *attachmentResource) noPendingDeadLetters(ctx context.Context, vhost string, a retry.Attachment, wanted *topology.Topology) error {
	weakens := false
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { weakens = a.WeakensDeadLettering(in, wanted) })
	if err != nil || !weakens {
		return err
	}
	pending, counts, err := r.data.Client.PendingDeadLetters(ctx, vhost, a.Work.Name)
	if err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("queue %q has %s, and RabbitMQ deletes dead letters on their way when the queue does not dead-letter at least once any more. "+
			"Wait until they have arrived, which they do at once if their route is complete and after 180 seconds if it was mended just now, and try again", a.Work.Name, counts)
	}
	return nil
}

// conflicts lists the objects of the attachment that exist already.
func (r *attachmentResource) conflicts(ctx context.Context, vhost string, a retry.Attachment) ([]string, error) {
	actual, err := r.actual(ctx, vhost, a)
	if err != nil {
		return nil, err
	}
	var conflicts []string
	for _, q := range actual.Queues() {
		conflicts = append(conflicts, fmt.Sprintf("queue %q", q.Name))
	}
	for _, b := range actual.Bindings() {
		conflicts = append(conflicts, fmt.Sprintf("binding %q", b.Label()))
	}
	for _, p := range actual.Policies() {
		conflicts = append(conflicts, fmt.Sprintf("policy %q", p.Name))
	}
	return conflicts, nil
}

// conflictText says which objects exist and what to do about it.
func conflictText(m model, conflicts []string) string {
	return fmt.Sprintf("The attachment of the queue %q in virtual host %q needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are this attachment, import it:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If the queue belongs to an application, set ownership = \"application\". If another address of this configuration has the attachment (after a rename), tell Terraform with a moved block. "+
		"Otherwise choose another name.",
		m.Queue.ValueString(), m.VHost.ValueString(), strings.Join(conflicts, "\n  "), m.ID.ValueString())
}
