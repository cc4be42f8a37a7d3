package retrychain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

const (
	// undoTimeout limits the removal of what a failed create has made.
	undoTimeout = 2 * time.Minute
	// othersTime is enough for another run to finish a create that is under way.
	othersTime = 2 * time.Second
)

func (r *chainResource) liveFacts(ctx context.Context) (*facts, error) {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		return nil, err
	}
	f := factsOf(info)
	return &f, nil
}

// readTopology sets the attributes that say what is on the broker. It returns
// false when nothing of the chain is there, or after an error.
func (r *chainResource) readTopology(ctx context.Context, m *model, c retry.Chain, f retry.Features, diags *diag.Diagnostics) bool {
	actual, err := r.actual(ctx, m.VHost.ValueString(), c, f)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	wanted := c.Topology(f)
	rest, draining := c.Draining(actual, wanted)
	m.setNames()
	m.setSchedule()
	m.setTiers()
	m.Topology = topologyValue(rest, wanted)
	m.Draining = lifecycle.TierNames(draining)
	return !actual.Empty()
}

// actual returns what is on the broker of the chain: nothing, when the virtual
// host is certain not to exist. One that this user merely cannot see is an
// error, because everything may still be there.
func (r *chainResource) actual(ctx context.Context, vhost string, c retry.Chain, f retry.Features) (*topology.Topology, error) {
	return lifecycle.Actual(ctx, r.data.Client, vhost, func(in *topology.Topology) *topology.Topology { return c.Actual(in, f) })
}

// readImported reads the inputs of a chain that is being imported.
func (r *chainResource) readImported(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	var (
		c        retry.Chain
		features retry.Features
		readErr  error

		contradiction *retry.NotAChainError
	)
	info, err := r.data.Client.Info(ctx)
	if err == nil {
		err = r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
			c, features, readErr = retry.Read(m.Name.ValueString(), in, info.Version.AtLeast)
		})
	}
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
	case errors.As(readErr, &contradiction):
		diags.AddError("Not a Retry Chain",
			fmt.Sprintf("The objects named after %q in virtual host %q cannot be a retry chain: %s. Import only what has the form of a chain; for another topology, "+
				"declare a chain of another name and move publishers and consumers.", m.Name.ValueString(), m.VHost.ValueString(), contradiction.Reason))
	case errors.Is(readErr, retry.ErrNoChain):
		diags.AddError("Nothing to Import",
			fmt.Sprintf("Virtual host %q holds no object of a retry chain named %q: no exchange %s.retry, %s.parking or %s.redrive and no tier. "+
				"Check the name, or create the chain instead of importing it. For a queue that an application declares, create a chain with work_queue = { ownership = \"application\" }.",
				m.VHost.ValueString(), m.Name.ValueString(), m.Name.ValueString(), m.Name.ValueString(), m.Name.ValueString()))
	default:
		f.Features = features
		m.setInputs(c)
		m.setNames()
	}
}

// create makes the chain. It never takes over an object: it looks at all of
// them before its first write, and an object that appears meanwhile ends it. It
// returns whether the state is to have the chain: it is made, or the run was interrupted
// while it was being made.
func (r *chainResource) create(ctx context.Context, plan model, c retry.Chain, f facts, diags *diag.Diagnostics) bool {
	vhost, id, wanted := plan.VHost.ValueString(), plan.ID.ValueString(), c.Topology(f.Features)
	if taken, by, ok := r.data.Names.Claim(id, objectNames(vhost, c, wanted)); !ok {
		diags.AddAttributeError(path.Root("name"), "Object Claimed Twice",
			fmt.Sprintf("The chain %q needs %s, which the chain %q of this run has. Two chains cannot share an object: choose another name for one of them.", id, taken, by))
		return false
	}
	if !r.canCreate(ctx, plan, c, wanted, diags) {
		r.data.Names.Release(id)
		return false
	}
	if err := r.noPendingDeadLetters(ctx, vhost, c, wanted); err != nil {
		diagnostics.AddError(diags, "Chain Not Created", err)
		r.data.Names.Release(id)
		return false
	}
	made := lifecycle.NewRecorder("this chain")
	err := r.data.Client.Apply(ctx, vhost, c.Transition(topology.New(), wanted, nil).Stages, broker.OnlyIfEmpty, made.Record)
	applied := err == nil
	if applied {
		err = r.waitForAttachment(ctx, vhost, c)
	}
	if err == nil {
		return true
	}
	if run.Interrupted(ctx) {
		run.AddInterrupted(diags, "Chain Not Created", err)
		return true
	}
	diagnostics.AddError(diags, "Chain Not Created", err)
	if applied || !r.madeByOthers(ctx, plan, wanted, diags) {
		r.undo(ctx, plan, c, made.Topology(), diags)
		made.Unsure(diags)
	}
	r.data.Names.Release(id)
	return false
}

// madeByOthers says whether the chain is whole although this create failed:
// then another run made it at the same time. RabbitMQ tells two requests that
// arrive at once both that the object is new, and so this create may not remove
// what it takes for its own. It gives the other run a moment to get ready.
func (r *chainResource) madeByOthers(ctx context.Context, plan model, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	if err := lifecycle.Sleep(ctx, othersTime); err != nil {
		return false
	}
	vhost, whole := plan.VHost.ValueString(), false
	r.data.Client.Reload(vhost)
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { whole = holdsAll(in, wanted) })
	if err != nil || !whole {
		return false
	}
	diags.AddAttributeError(path.Root("name"), "Object Already Exists",
		fmt.Sprintf("The chain %q in virtual host %q is whole all the same: another run made it at the same time. This one removes nothing. If the chain is meant to be managed here, import it:\n\n"+
			"  terraform import <address of this resource> '%s'", plan.Name.ValueString(), vhost, plan.ID.ValueString()))
	return true
}

func holdsAll(in, wanted *topology.Topology) bool {
	for _, e := range wanted.Exchanges() {
		if have, exists := in.Exchange(e.Name); !exists || !have.Equal(e) {
			return false
		}
	}
	for _, q := range wanted.Queues() {
		if have, exists := in.Queue(q.Name); !exists || !have.Equal(q) {
			return false
		}
	}
	for _, p := range wanted.Policies() {
		if have, exists := in.Policy(p.Name); !exists || !have.Equal(p) {
			return false
		}
	}
	return !slices.ContainsFunc(wanted.Bindings(), func(b topology.Binding) bool { return !in.Has(b) })
}

func (r *chainResource) canCreate(ctx context.Context, plan model, c retry.Chain, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	vhost := plan.VHost.ValueString()
	var conflicts []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { conflicts = findConflicts(c, wanted, in) })
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if len(conflicts) > 0 {
		diags.AddAttributeError(path.Root("name"), "Object Already Exists", conflictText(plan, conflicts))
		return false
	}
	return lifecycle.RequireNeeds(ctx, r.data.Client, vhost, needs(c), diags)
}

// needs are the existing queues and the source exchanges.
func needs(c retry.Chain) []lifecycle.Need {
	var needs []lifecycle.Need
	queue := func(attribute, name string) {
		needs = append(needs, lifecycle.Need{
			Attribute: attribute, Kind: topology.KindQueue, Name: name, Summary: "Existing Queue Not Found",
			Otherwise: "Or leave \"ownership\" out, and the chain declares a queue of this name itself.",
		})
	}
	if c.Work.Existing {
		queue("work_queue.name", c.Work.Name)
	}
	if c.Parking.Existing {
		queue("parking_queue.name", c.Parking.Name)
	}
	for i, b := range c.Work.Bindings {
		attribute := fmt.Sprintf("work_queue.bindings[%d].exchange", i)
		needs = append(needs, lifecycle.Need{Attribute: attribute, Kind: topology.KindExchange, Name: b.Exchange, Summary: "Source Exchange Not Found"})
	}
	return needs
}

// undo removes what a failed create has made. When that fails too, it saves
// nothing: the error lists what is left, for an import.
func (r *chainResource) undo(ctx context.Context, plan model, c retry.Chain, made *topology.Topology, diags *diag.Diagnostics) {
	if made.Empty() {
		return
	}
	ctx, cancel := run.Afterwards(ctx, undoTimeout)
	defer cancel()
	vhost := plan.VHost.ValueString()
	if err := r.removeEmpty(ctx, vhost, c, made); err != nil {
		lifecycle.AddHalfMade(diags, "Chain Left Half Made", plan.ID.ValueString(), err)
	}
}

// objectNames are what only one chain can have: what it declares, and an
// existing work queue, which obeys one policy.
func objectNames(vhost string, c retry.Chain, t *topology.Topology) []string {
	var names []string
	if c.Work.Existing {
		names = append(names, fmt.Sprintf("queue %q in virtual host %q", c.Work.Name, vhost))
	}
	return append(names, lifecycle.ObjectNames(vhost, t)...)
}
