package drain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// bindGrace is how long after the end of a run a binding may take to be made again.
const bindGrace = 4 * time.Second

// returnGrace is how long after its delay a message may take to come back.
const returnGrace = 3 * time.Second

// Detachment leads a queue out of shared tiers. Wherever it ends early, every message
// still has a way.
type Detachment struct {
	Client     *broker.Client
	VHost      string
	Attachment retry.Attachment
	// Actual is what is there of the attachment.
	Actual *topology.Topology
	// Waits: messages that are under way come back before the queue is detached. Else they
	// are parked.
	Waits bool
	// Mode says whether a queue that the attachment declared goes with its messages.
	Mode broker.DeleteMode
}

// Run detaches the queue.
func (d Detachment) Run(ctx context.Context) error {
	// The bindings of a queue whose node is down cannot all be seen, nor deleted.
	if err := d.Client.Available(ctx, d.VHost, d.Attachment.Work.Name); err != nil && d.Mode != broker.Always {
		return err
	}
	begin := d.park
	if d.Waits {
		begin = d.letReturn
	}
	if err := begin(ctx); err != nil {
		return err
	}
	weakens := func(in *topology.Topology) bool { return d.Attachment.WeakensDeadLettering(in, topology.New()) }
	if err := d.Client.RequireNoPendingDeadLetters(ctx, d.VHost, d.Attachment.Work.Name, weakens); err != nil {
		return err
	}
	return d.apply(ctx, d.Attachment.Removal(d.Actual))
}

func (d Detachment) apply(ctx context.Context, stages []topology.Stage) error {
	return d.Client.Apply(ctx, d.VHost, stages, d.Mode, nil)
}

// park takes away the way back, so that what is under way is parked, and then
// proves that the queue is empty. If it is not, the way back is made again.
func (d Detachment) park(ctx context.Context) error {
	every := func(topology.Binding) bool { return true }
	if err := d.apply(ctx, []topology.Stage{d.Actual.UnbindAll(every)}); err != nil || d.Mode == broker.Always {
		return err
	}
	err := d.proveEmpty(ctx)
	if err == nil {
		return nil
	}
	ctx, cancel := broker.Outlive(ctx, bindGrace)
	defer cancel()
	if undone := d.apply(ctx, []topology.Stage{d.Actual.BindAll(every)}); undone != nil {
		// Not as err itself, which says that nothing was changed.
		return fmt.Errorf("%s; and the binding that leads messages back could not be made again: %w; messages that are under way are "+
			"parked until an apply has made it", err.Error(), undone)
	}
	return err
}

// proveEmpty proves that a queue that the attachment declared holds nothing.
func (d Detachment) proveEmpty(ctx context.Context) error {
	return d.Client.RequireEmpty(ctx, d.VHost, d.Actual.Queues())
}

// letReturn closes the way into the tiers and waits until what is under way has
// come back. A queue that dead-letters by its arguments cannot be closed: it is
// proved again to be empty and without consumers, so that nothing was
// rejected meanwhile.
func (d Detachment) letReturn(ctx context.Context) error {
	if err := d.proveEmpty(ctx); err != nil {
		return err
	}
	tiers, err := d.tiers(ctx)
	if err != nil || len(tiers) == 0 {
		return err
	}
	longest := longestOf(tiers)
	if deadline, limited := ctx.Deadline(); limited && time.Until(deadline) < longest+returnGrace {
		if full, err := d.Client.ProveEmpty(ctx, d.VHost, retry.TierQueues(tiers)); err != nil || len(full) > 0 {
			return errors.Join(err, fmt.Errorf("messages that are under way can take up to %s to come back, and timeouts.delete "+
				"leaves %s. Nothing was changed. Give it more time, apply and destroy again; or set on_detach = \"park\", apply and "+
				"destroy, and they are parked", retry.FormatDuration(longest),
				time.Until(deadline).Round(time.Second)))
		}
	}
	if err := d.close(ctx); err != nil {
		return err
	}
	if err := d.wait(ctx, tiers, longest); err != nil {
		return fmt.Errorf("the messages that are under way, for up to %s, were not waited for to the end: %w. Until the queue %q is "+
			"detached, what it rejects is parked. Destroy again to go on, or apply to attach the queue as before",
			retry.FormatDuration(longest), err, d.Attachment.Work.Name)
	}
	return d.proveEmpty(ctx)
}

func (d Detachment) close(ctx context.Context) error {
	stages := d.Attachment.Closing(d.Actual)
	if len(stages) == 0 {
		return nil
	}
	if err := d.apply(ctx, stages); err != nil {
		return err
	}
	return d.Client.AwaitPolicy(ctx, d.VHost, d.Attachment.PolicyName(), d.Attachment.Work.Name, d.Attachment.IsClosed)
}

// tiers are those that exist now; others may have changed them.
func (d Detachment) tiers(ctx context.Context) ([]retry.Tier, error) {
	d.Client.Reload(d.VHost)
	var tiers []retry.Tier
	err := d.Client.View(ctx, d.VHost, func(in *topology.Topology) { tiers = retry.SharedTiersOn(d.Attachment.Tiers, in) })
	return tiers, err
}

// wait returns when the longest delay is over, or earlier when all tiers are
// proved empty. A delay that is shorter than a proof is waited for without one.
func (d Detachment) wait(ctx context.Context, tiers []retry.Tier, longest time.Duration) error {
	client := d.Client
	over := time.Now().Add(longest + returnGrace)
	seen := fmt.Sprintf("tiers %q", d.Attachment.Tiers)
	for longest > client.ProofTime() && time.Until(over) > 0 {
		full, err := client.ProveEmpty(ctx, d.VHost, retry.TierQueues(tiers))
		if err != nil {
			return err
		}
		if len(full) == 0 {
			return nil
		}
		seen = broker.CountsText(full)
		if err := broker.Sleep(ctx, min(client.StatisticsInterval(), max(0, time.Until(over)))); err != nil {
			return fmt.Errorf("%w, last seen: %s", err, seen)
		}
	}
	if err := broker.Sleep(ctx, max(0, time.Until(over))); err != nil {
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
