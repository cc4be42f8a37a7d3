package lifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

const (
	// undoTimeout limits the removal of what a failed create has made.
	undoTimeout = 2 * time.Minute
	// othersTime is enough for another run to finish a create that is under way.
	othersTime = 2 * time.Second
)

// Create declares what is planned.
func (r *Resource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	diags := &resp.Diagnostics
	plan := r.fromConfig(ctx, req.Config, nil, diags)
	if diags.HasError() || !run.KnowsBroker(r.data, diags) || !run.KnowsVHost(plan.Base().VHost, diags) {
		return
	}
	r.setID(plan)
	timeout, d := plan.Base().Timeouts.Create(ctx, r.Timeouts.Create)
	ctx, end, ok := r.begin(ctx, plan, timeout, d, diags)
	if !ok {
		return
	}
	defer end()

	plan, f := r.prepareCreate(ctx, req, plan, diags)
	if diags.HasError() || !r.create(ctx, plan, plan.Subject(f), diags) {
		return
	}
	if !diags.HasError() {
		r.readTopology(ctx, plan, f, diags)
	}
	f.write(ctx, resp.Private, diags)
	r.setIdentity(ctx, plan, resp.Identity, diags)
	diags.Append(resp.State.Set(ctx, plan)...)
}

// prepareCreate completes the plan and checks it as the plan did.
func (r *Resource) prepareCreate(ctx context.Context, req resource.CreateRequest, plan Model, diags *diag.Diagnostics) (Model, *Facts) {
	f := r.liveFacts(ctx, diags)
	if f == nil {
		return plan, nil
	}
	if newcomer, is := plan.(NewModel); is {
		newcomer.ForNew(f)
	}
	r.complete(plan, nil, f)
	s := plan.Subject(f)
	r.reloadExisting(plan, s)
	if err := r.lookAround(ctx, plan, f); err != nil {
		diagnostics.AddVHostError(diags, err)
		return plan, nil
	}
	if !RequireNeeds(ctx, r.data.Client, vhost(plan), needsOf(s), diags) {
		return plan, nil
	}
	plan = r.fromConfig(ctx, req.Config, nil, diags)
	r.complete(plan, nil, f)
	s = plan.Subject(f)
	diagnostics.AddProblems(diags, append(s.Problems(), s.BrokerProblems()...), false)
	diagnostics.AddVHostError(diags, r.checkSurroundings(ctx, plan, s, nil, f, false, diags))
	return plan, f
}

// reloadExisting reads the virtual host again if the resource uses a queue of an
// application: the same run may have created it after the virtual host was read.
func (r *Resource) reloadExisting(m Model, s Subject) {
	attacher, is := s.(Attacher)
	if !is {
		return
	}
	if work, parking := attacher.Queues(); work.Existing || parking.Existing {
		r.data.Client.Reload(vhost(m))
	}
}

// create declares the objects. It never takes over one: it looks at all of them before
// its first write, and an object that appears meanwhile ends it. It returns whether the
// state is to have the resource: it is created, or the run was interrupted meanwhile.
func (r *Resource) create(ctx context.Context, plan Model, s Subject, diags *diag.Diagnostics) bool {
	wanted := s.Topology()
	if taken, by, ok := r.data.Names.Claim(r.key(plan), claims(vhost(plan), s)); !ok {
		diags.AddAttributeError(path.Root(r.attribute()), "Object Claimed Twice",
			fmt.Sprintf("The %s %q needs %s, which %s of this run has. Two resources cannot have the same object: choose another name "+
				"for one of them.",
				r.Words.Noun, plan.Base().ID.ValueString(), taken, by))
		return false
	}
	if !r.canCreate(ctx, plan, s, wanted, diags) {
		r.data.Names.Release(r.key(plan))
		return false
	}
	made := broker.NewRecorder(r.Words.This)
	err := r.data.Client.Apply(ctx, vhost(plan), s.Transition(topology.New(), wanted, nil).Stages, broker.OnlyIfEmpty, made.Record)
	applied := err == nil
	if applied {
		err = r.waitForAttachment(ctx, plan, s)
	}
	if err == nil {
		return true
	}
	if run.Interrupted(ctx) {
		run.AddInterrupted(diags, r.Words.NotCreated, err)
		return true
	}
	diagnostics.AddError(diags, r.Words.NotCreated, err)
	if applied || !r.madeByOthers(ctx, plan, wanted, diags) {
		r.undo(ctx, plan, s, made.Topology(), diags)
		r.warnOfUnsure(made.Unsure(), diags)
	}
	r.data.Names.Release(r.key(plan))
	return false
}

func (r *Resource) canCreate(ctx context.Context, plan Model, s Subject, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	var conflicts []string
	err := r.data.Client.View(ctx, vhost(plan), func(in *topology.Topology) { conflicts, _ = s.Conflicts(wanted, in) })
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if len(conflicts) > 0 {
		diags.AddAttributeError(path.Root(r.attribute()), "Object Already Exists", r.conflictText(plan, conflicts))
		return false
	}
	if err := r.noPendingDeadLetters(ctx, plan, s, wanted); err != nil {
		diagnostics.AddError(diags, r.Words.NotCreated, err)
		return false
	}
	return true
}

// madeByOthers says whether everything is there although this create failed: then another
// run made it at the same time. RabbitMQ tells two requests that arrive at once both that
// the object is new, and so this create may not remove what it takes for its own. It
// gives the other run a moment to get ready.
func (r *Resource) madeByOthers(ctx context.Context, plan Model, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	if err := broker.Sleep(ctx, othersTime); err != nil {
		return false
	}
	whole := false
	r.data.Client.Reload(vhost(plan))
	err := r.data.Client.View(ctx, vhost(plan), func(in *topology.Topology) {
		d := topology.Diff(in, wanted)
		whole = d.Missing.Empty() && len(d.Exchanges)+len(d.Queues)+len(d.Policies) == 0
	})
	if err != nil || !whole {
		return false
	}
	diags.AddAttributeError(path.Root(r.attribute()), "Object Already Exists",
		fmt.Sprintf("%s is whole all the same: another run made it at the same time. This one removes nothing. If it is meant to be "+
			"managed here, import it:\n\n"+
			"  terraform import <address of this resource> '%s'", r.place(plan), plan.Base().ID.ValueString()))
	return true
}

// undo removes what a failed create has made. When that fails too, it saves nothing: the
// error says how to import what is left.
func (r *Resource) undo(ctx context.Context, plan Model, s Subject, made *topology.Topology, diags *diag.Diagnostics) {
	if made.Empty() {
		return
	}
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	if err := r.removeEmpty(ctx, plan, s, made); err != nil {
		AddHalfMade(diags, r.Words.Title+" Left Half Made", plan.Base().ID.ValueString(), err)
	}
}

// warnOfUnsure names the objects that an undo leaves.
func (r *Resource) warnOfUnsure(unsure []string, diags *diag.Diagnostics) {
	if len(unsure) > 0 {
		diags.AddWarning("Objects Left on the Broker",
			fmt.Sprintf("A request got no clear answer, and so either %s or another run made these objects:\n\n  %s\n\nThey were not "+
				"removed. If nobody else manages them, import them.", r.Words.This, lines(unsure)))
	}
}
