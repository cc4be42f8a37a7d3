package retryattachment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// bindGrace is how long after the end of a run a binding may take to be made again.
const bindGrace = 4 * time.Second

// grace is how long after its delay a message may take to come back.
const grace = 3 * time.Second

// remove detaches the queue as on_detach and the deletion policy say.
func (r *attachmentResource) remove(ctx context.Context, state model, f *facts, diags *diag.Diagnostics) {
	vhost, a := state.VHost.ValueString(), f.within(state.attachment())
	if state.DeletionPolicy.ValueString() == retain {
		diags.AddWarning("Queue Left Attached",
			fmt.Sprintf("The queue %q in virtual host %q stays attached to the retry tiers %q: the deletion_policy is \"retain\". Import the attachment to manage it again.", a.Work.Name, vhost, a.Tiers))
		return
	}
	actual, err := r.actual(ctx, vhost, a)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return
	}
	d := detachment{r: r, vhost: vhost, attachment: a, actual: actual, waits: state.OnDetach.ValueString() == waitThere}
	if d.mode = broker.OnlyIfEmpty; state.DeletionPolicy.ValueString() == deleteAll && !a.Work.Existing {
		d.mode, d.waits = broker.Always, false
	}
	addDetachError(diags, a, d.run(ctx))
}

func addDetachError(diags *diag.Diagnostics, a retry.Attachment, err error) {
	var full lifecycle.NotEmptyError
	var used *broker.InUseError
	switch {
	case errors.As(err, &full):
		diags.AddError("Queue Holds Messages", fmt.Sprintf("The queue %q was not detached from the retry tiers %q, because it holds messages or has consumers, or may:\n\n  %s\n\n"+
			"Nothing was changed. Stop publishers, let the consumers finish and stop them, and destroy again. To give the messages up, set deletion_policy = \"delete\", apply, and then "+
			"destroy: a destroy uses the policy that was applied last.", a.Work.Name, a.Tiers, diagnostics.CountsText(full)))
	case errors.As(err, &used):
		diags.AddError("Queue in Use", fmt.Sprintf("The queue %q was not deleted, because something arrived meanwhile: %s.\n\nNo message is lost. Stop publishers and destroy again.",
			a.Work.Name, strings.TrimSuffix(err.Error(), ".")))
	case err != nil:
		diagnostics.AddError(diags, "Queue Not Detached", err)
	}
}

// detachment is a removal under way. Wherever it ends early, every message still
// has a way.
type detachment struct {
	r          *attachmentResource
	vhost      string
	attachment retry.Attachment
	actual     *topology.Topology
	// waits: messages that are under way come back before the queue is detached.
	waits bool
	mode  broker.DeleteMode
}

func (d detachment) run(ctx context.Context) error {
	if d.actual.Empty() {
		return nil
	}
	// The bindings of a queue whose node is down cannot all be seen, nor deleted.
	if err := d.r.data.Client.Available(ctx, d.vhost, d.attachment.Work.Name); err != nil && d.mode != broker.Always {
		return err
	}
	begin := d.park
	if d.waits {
		begin = d.letReturn
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if err := d.r.noPendingDeadLetters(ctx, d.vhost, d.attachment, topology.New()); err != nil {
		return err
	}
	return d.apply(ctx, d.attachment.Removal(d.actual))
}

func (d detachment) apply(ctx context.Context, stages []topology.Stage) error {
	return d.r.data.Client.Apply(ctx, d.vhost, stages, d.mode, nil)
}

// park takes away the way back, so that what is under way is parked, and then
// proves that the queue is empty. If it is not, the way back is made again.
func (d detachment) park(ctx context.Context) error {
	every := func(topology.Binding) bool { return true }
	if err := d.apply(ctx, []topology.Stage{d.actual.UnbindAll(every)}); err != nil || d.mode == broker.Always {
		return err
	}
	err := d.proveEmpty(ctx)
	if err == nil {
		return nil
	}
	ctx, cancel := broker.Outlive(ctx, bindGrace)
	defer cancel()
	if undone := d.apply(ctx, []topology.Stage{d.actual.BindAll(every)}); undone != nil {
		// Not as err itself, which says that nothing was changed.
		return fmt.Errorf("%s; and the binding that leads messages back could not be made again: %w; messages that are under way are parked until an apply has made it", err.Error(), undone)
	}
	return err
}

// proveEmpty proves that a queue that the attachment declared holds nothing.
func (d detachment) proveEmpty(ctx context.Context) error {
	return lifecycle.ProveEmpty(ctx, d.r.data.Client, d.vhost, d.actual.Queues())
}

// letReturn closes the way into the tiers and waits until what is under way has
// come back. A queue that dead-letters by its arguments cannot be closed: it is
// proved once more to be empty and without consumers, so that nothing was
// rejected meanwhile.
func (d detachment) letReturn(ctx context.Context) error {
	if err := d.proveEmpty(ctx); err != nil {
		return err
	}
	tiers, err := d.tiers(ctx)
	if err != nil || len(tiers) == 0 {
		return err
	}
	longest := longestOf(tiers)
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < longest+grace {
		if full, err := d.r.data.Client.ProveEmpty(ctx, d.vhost, lifecycle.TierQueues(tiers)); err != nil || len(full) > 0 {
			return errors.Join(err, fmt.Errorf("messages that are under way can take up to %s to come back, and timeouts.delete leaves %s. Nothing was changed. Give it more time, apply and destroy again; or set "+
				"on_detach = \"park\", apply and destroy, and they are parked", retry.FormatDuration(longest), time.Until(deadline).Round(time.Second)))
		}
	}
	if err := d.close(ctx); err != nil {
		return err
	}
	if err := d.wait(ctx, tiers, longest); err != nil {
		return fmt.Errorf("the messages that are under way, for up to %s, were not waited for to the end: %w. Until the queue %q is detached, what it rejects is parked. Destroy again to go on, "+
			"or apply to attach the queue as before", retry.FormatDuration(longest), err, d.attachment.Work.Name)
	}
	return d.proveEmpty(ctx)
}

func (d detachment) close(ctx context.Context) error {
	stages := d.attachment.Closing(d.actual)
	if len(stages) == 0 {
		return nil
	}
	if err := d.apply(ctx, stages); err != nil {
		return err
	}
	return d.r.waitForPolicy(ctx, d.vhost, d.attachment, d.attachment.IsClosed)
}

// tiers are those that exist now; others may have changed them.
func (d detachment) tiers(ctx context.Context) ([]retry.Tier, error) {
	d.r.data.Client.Reload(d.vhost)
	var tiers []retry.Tier
	err := d.r.data.Client.View(ctx, d.vhost, func(in *topology.Topology) { tiers = retry.SharedTiersOn(d.attachment.Tiers, in) })
	return tiers, err
}

// wait returns when the longest delay is over, or earlier when all tiers are
// proved empty. A delay that is shorter than a proof is waited for without one.
func (d detachment) wait(ctx context.Context, tiers []retry.Tier, longest time.Duration) error {
	client := d.r.data.Client
	over := time.Now().Add(longest + grace)
	seen := fmt.Sprintf("tiers %q", d.attachment.Tiers)
	for longest > lifecycle.ProofTime(client) && time.Until(over) > 0 {
		full, err := client.ProveEmpty(ctx, d.vhost, lifecycle.TierQueues(tiers))
		if err != nil {
			return err
		}
		if len(full) == 0 {
			return nil
		}
		seen = diagnostics.CountsText(full)
		if err := lifecycle.Sleep(ctx, min(client.StatisticsInterval(), max(0, time.Until(over)))); err != nil {
			return fmt.Errorf("%w, last seen: %s", err, seen)
		}
	}
	if err := lifecycle.Sleep(ctx, max(0, time.Until(over))); err != nil {
		return fmt.Errorf("%w, last seen: %s", err, seen)
	}
	return nil
}

func longestOf(tiers []retry.Tier) time.Duration {
	var longest time.Duration
	for _, tier := range tiers {
		longest = max(longest, tier.Delay)
	}
	return longest
}
