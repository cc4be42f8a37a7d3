package retrychain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/tfkit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// undoTimeout limits the removal of what a failed create has made.
const undoTimeout = 2 * time.Minute

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
		addVHostError(diags, err)
		return false
	}
	wanted := c.Topology(f)
	m.setNames()
	m.setSchedule()
	m.setTiers()
	m.Topology = topologyValue(actual, wanted)
	m.Diagram = types.StringValue(wanted.Mermaid())
	return !actual.Empty()
}

// actual returns what is on the broker of the chain: nothing, when the virtual
// host is certain not to exist. One that this user merely cannot see is an
// error, because everything may still be there.
func (r *chainResource) actual(ctx context.Context, vhost string, c retry.Chain, f retry.Features) (*topology.Topology, error) {
	var actual *topology.Topology
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { actual = c.Actual(in, f) })
	var missing *broker.VhostError
	if errors.As(err, &missing) && missing.All && !missing.Exists {
		return topology.New(), nil
	}
	return actual, err
}

// readImported reads the inputs of a chain that is being imported.
func (r *chainResource) readImported(ctx context.Context, m *model, f *facts, diags *diag.Diagnostics) {
	var (
		c        retry.Chain
		features retry.Features
		readErr  error
	)
	info, err := r.data.Client.Info(ctx)
	if err == nil {
		err = r.data.Client.View(ctx, m.VHost.ValueString(), func(in *topology.Topology) {
			c, features, readErr = retry.Read(m.Name.ValueString(), in, info.Version.AtLeast)
		})
	}
	switch {
	case err != nil:
		addVHostError(diags, err)
	case errors.Is(readErr, retry.ErrNoChain):
		diags.AddError("Nothing to Import",
			fmt.Sprintf("Virtual host %q holds no object of a retry chain named %q: no exchange %s.retry, %s.parking or %s.redrive and no tier. "+
				"Check the name, or create the chain instead of importing it.",
				m.VHost.ValueString(), m.Name.ValueString(), m.Name.ValueString(), m.Name.ValueString(), m.Name.ValueString()))
	default:
		f.Features = features
		m.setInputs(c)
		m.setNames()
	}
}

// create makes the chain. It never takes over an object: it looks at all of
// them before its first write, and an object that appears meanwhile ends it.
func (r *chainResource) create(ctx context.Context, plan model, c retry.Chain, f facts, diags *diag.Diagnostics) bool {
	vhost, id, wanted := plan.VHost.ValueString(), plan.ID.ValueString(), c.Topology(f.Features)
	if taken, by, ok := r.data.Names.Claim(id, objectNames(vhost, wanted)); !ok {
		diags.AddAttributeError(path.Root("name"), "Object Claimed Twice",
			fmt.Sprintf("The chain %q needs %s, which the chain %q of this run has. Two chains cannot share an object: choose another name for one of them.", id, taken, by))
		return false
	}
	if !r.canCreate(ctx, plan, c, wanted, diags) {
		r.data.Names.Release(id)
		return false
	}
	made := newRecorder()
	err := r.data.Client.Apply(ctx, vhost, c.Plan(topology.New(), wanted), broker.OnlyIfEmpty, made.record)
	if err == nil {
		return true
	}
	tfkit.AddError(diags, "Chain Not Created", err)
	r.undo(ctx, plan, c, made.topology, diags)
	r.data.Names.Release(id)
	return false
}

func (r *chainResource) canCreate(ctx context.Context, plan model, c retry.Chain, wanted *topology.Topology, diags *diag.Diagnostics) bool {
	vhost := plan.VHost.ValueString()
	var conflicts []string
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { conflicts = findConflicts(c, wanted, in) })
	if err != nil {
		addVHostError(diags, err)
		return false
	}
	if len(conflicts) > 0 {
		diags.AddAttributeError(path.Root("name"), "Object Already Exists", conflictText(plan, conflicts))
		return false
	}
	return r.sourcesExist(ctx, vhost, c, diags)
}

// sourcesExist asks for the source exchanges by themselves: another provider
// may have made them in this run.
func (r *chainResource) sourcesExist(ctx context.Context, vhost string, c retry.Chain, diags *diag.Diagnostics) bool {
	for i, b := range c.Work.Bindings {
		_, exists, err := r.data.Client.Exchange(ctx, vhost, b.Exchange)
		if err != nil {
			tfkit.AddError(diags, "Source Exchange Not Read", err)
			return false
		}
		if !exists {
			diags.AddAttributeError(tfkit.Path(fmt.Sprintf("work_queue.bindings[%d].exchange", i)), "Source Exchange Not Found",
				fmt.Sprintf("Exchange %q does not exist in virtual host %q, and so %q cannot be bound to it. Create it first; if the same run creates it, "+
					"refer to its resource here, so that Terraform knows the order.", b.Exchange, vhost, c.Work.Name))
			return false
		}
	}
	return true
}

// undo removes what a failed create has made. When that fails too, it saves
// nothing: the error lists what is left, for an import.
func (r *chainResource) undo(ctx context.Context, plan model, c retry.Chain, made *topology.Topology, diags *diag.Diagnostics) {
	if made.Empty() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	vhost := plan.VHost.ValueString()
	if err := r.removeEmpty(ctx, vhost, c, made); err != nil {
		diags.AddError("Chain Left Half Made",
			fmt.Sprintf("What this create had made could not be removed again: %s.\n\nNo message is lost. Mend the cause, then import what is there and apply:\n\n"+
				"  terraform import <address of this resource> '%s'", strings.TrimSuffix(err.Error(), "."), plan.ID.ValueString()))
	}
}

// update repairs and changes the chain. It proves queues empty before it
// deletes anything.
func (r *chainResource) update(ctx context.Context, plan model, c retry.Chain, f retry.Features, diags *diag.Diagnostics) bool {
	vhost, wanted := plan.VHost.ValueString(), c.Topology(f)
	actual, err := r.actual(ctx, vhost, c, f)
	if err != nil {
		addVHostError(diags, err)
		return false
	}
	var full []broker.Counts
	if doomed := retry.Deleted(actual, wanted); len(doomed) > 0 {
		if full, err = r.data.Client.ProveEmpty(ctx, vhost, doomed); err != nil {
			tfkit.AddError(diags, "Queues Not Proved Empty", err)
			return false
		}
	}
	if len(full) > 0 {
		diags.AddError("Queue Holds Messages",
			fmt.Sprintf("Queues that this update would have to delete hold messages, or may hold some:\n\n  %s\n\nNothing was changed. A tier empties by itself "+
				"when its delay is over: wait and apply again.", countsText(full)))
		return false
	}
	if !r.sourcesExist(ctx, vhost, c, diags) {
		return false
	}
	if err := r.data.Client.Apply(ctx, vhost, c.Plan(actual, wanted), broker.OnlyIfEmpty, nil); err != nil {
		tfkit.AddError(diags, "Chain Not Updated", err)
		return false
	}
	return true
}

// remove deletes the chain as its deletion policy says.
func (r *chainResource) remove(ctx context.Context, state model, c retry.Chain, f retry.Features, diags *diag.Diagnostics) {
	vhost := state.VHost.ValueString()
	actual, err := r.actual(ctx, vhost, c, f)
	if err != nil {
		addVHostError(diags, err)
		return
	}
	switch state.DeletionPolicy.ValueString() {
	case retain:
		diags.AddWarning("Chain Left on the Broker",
			fmt.Sprintf("The chain %q in virtual host %q goes on working: its deletion_policy is \"retain\". Its queues are %s. Import it to manage it again.",
				c.Name, vhost, queueNames(actual)))
	case deleteAll:
		if err := r.data.Client.Apply(ctx, vhost, c.Removal(actual), broker.Always, nil); err != nil {
			tfkit.AddError(diags, "Chain Not Deleted", err)
		}
	default:
		if err := r.removeEmpty(ctx, vhost, c, actual); err != nil {
			var full notEmptyError
			if errors.As(err, &full) {
				diags.AddError("Chain Holds Messages", fmt.Sprintf("The chain %q in virtual host %q was not deleted, because its queues hold messages, or may hold some:\n\n  %s\n\n"+
					"Nothing was changed. Consume or move the messages and destroy again. To give them up, set deletion_policy = \"delete\", apply, and then "+
					"destroy: a destroy uses the policy that was applied last.", c.Name, vhost, countsText(full)))
				return
			}
			tfkit.AddError(diags, "Chain Not Deleted", err)
		}
	}
}

// notEmptyError says which queues kept a removal from starting.
type notEmptyError []broker.Counts

func (e notEmptyError) Error() string { return "queues hold messages: " + countsText(e) }

// removeEmpty removes the objects if all their queues are proved empty.
func (r *chainResource) removeEmpty(ctx context.Context, vhost string, c retry.Chain, what *topology.Topology) error {
	if queues := what.Queues(); len(queues) > 0 {
		full, err := r.data.Client.ProveEmpty(ctx, vhost, queues)
		if err != nil {
			return err
		}
		if len(full) > 0 {
			return notEmptyError(full)
		}
	}
	return r.data.Client.Apply(ctx, vhost, c.Removal(what), broker.OnlyIfEmpty, nil)
}

// recorder remembers what a create has made.
type recorder struct {
	mu       sync.Mutex
	topology *topology.Topology
}

func newRecorder() *recorder { return &recorder{topology: topology.New()} }

// record takes a step that is done. An object that was there already is not
// the create's own, which ends it.
func (r *recorder) record(step topology.Step, created bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case step.DeclareExchange != nil && created:
		r.topology.SetExchange(*step.DeclareExchange)
	case step.DeclareQueue != nil && created:
		r.topology.SetQueue(*step.DeclareQueue)
	case step.DeclareExchange != nil:
		return fmt.Errorf("exchange %q was made by somebody else while this chain was being created", step.DeclareExchange.Name)
	case step.DeclareQueue != nil:
		return fmt.Errorf("queue %q was made by somebody else while this chain was being created", step.DeclareQueue.Name)
	}
	return nil
}

func objectNames(vhost string, t *topology.Topology) []string {
	var names []string
	for _, e := range t.Exchanges() {
		names = append(names, fmt.Sprintf("exchange %q in virtual host %q", e.Name, vhost))
	}
	for _, q := range t.Queues() {
		names = append(names, fmt.Sprintf("queue %q in virtual host %q", q.Name, vhost))
	}
	return names
}

func queueNames(t *topology.Topology) string {
	var names []string
	for _, q := range t.Queues() {
		names = append(names, q.Name)
	}
	return strings.Join(names, ", ")
}

func countsText(counts []broker.Counts) string {
	lines := make([]string, 0, len(counts))
	for _, c := range counts {
		lines = append(lines, fmt.Sprintf("%s: %s", c.Queue, c))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n  ")
}
