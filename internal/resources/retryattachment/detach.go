package retryattachment

import (
	"context"
	"errors"
	"fmt"
	"time"

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

// Remove detaches the queue as on_detach and the deletion policy say.
func (s subject) Remove(ctx context.Context, client *broker.Client, vhost string, actual *topology.Topology, everything bool) error {
	d := detachment{client: client, vhost: vhost, subject: s, actual: actual, waits: s.waits}
	if d.mode = broker.OnlyIfEmpty; everything && !s.Work.Existing {
		d.mode, d.waits = broker.Always, false
	}
	return d.run(ctx)
}

// detachment is a removal under way. Wherever it ends early, every message still
// has a way.
type detachment struct {
	client  *broker.Client
	vhost   string
	subject subject
	actual  *topology.Topology
	// waits: messages that are under way come back before the queue is detached.
	waits bool
	mode  broker.DeleteMode
}

func (d detachment) run(ctx context.Context) error {
	// The bindings of a queue whose node is down cannot all be seen, nor deleted.
	if err := d.client.Available(ctx, d.vhost, d.subject.Work.Name); err != nil && d.mode != broker.Always {
		return err
	}
	begin := d.park
	if d.waits {
		begin = d.letReturn
	}
	if err := begin(ctx); err != nil {
		return err
	}
	if err := lifecycle.NoPendingDeadLetters(ctx, d.client, d.vhost, d.subject, topology.New()); err != nil {
		return err
	}
	return d.apply(ctx, d.subject.Removal(d.actual))
}

func (d detachment) apply(ctx context.Context, stages []topology.Stage) error {
	return d.client.Apply(ctx, d.vhost, stages, d.mode, nil)
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
		return fmt.Errorf("%s; and the binding that leads messages back could not be made again: %w; messages that are under way are "+
			"parked until an apply has made it", err.Error(), undone)
	}
	return err
}

// proveEmpty proves that a queue that the attachment declared holds nothing.
func (d detachment) proveEmpty(ctx context.Context) error {
	return lifecycle.ProveEmpty(ctx, d.client, d.vhost, d.actual.Queues())
}

// letReturn closes the way into the tiers and waits until what is under way has
// come back. A queue that dead-letters by its arguments cannot be closed: it is
// proved again to be empty and without consumers, so that nothing was
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
		if full, err := d.client.ProveEmpty(ctx, d.vhost, lifecycle.TierQueues(tiers)); err != nil || len(full) > 0 {
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
			retry.FormatDuration(longest), err, d.subject.Work.Name)
	}
	return d.proveEmpty(ctx)
}

func (d detachment) close(ctx context.Context) error {
	stages := d.subject.Closing(d.actual)
	if len(stages) == 0 {
		return nil
	}
	if err := d.apply(ctx, stages); err != nil {
		return err
	}
	return lifecycle.AwaitPolicy(ctx, d.client, d.vhost, d.subject.PolicyName(), d.subject.Work.Name, d.subject.IsClosed)
}

// tiers are those that exist now; others may have changed them.
func (d detachment) tiers(ctx context.Context) ([]retry.Tier, error) {
	d.client.Reload(d.vhost)
	var tiers []retry.Tier
	err := d.client.View(ctx, d.vhost, func(in *topology.Topology) { tiers = retry.SharedTiersOn(d.subject.Tiers, in) })
	return tiers, err
}

// wait returns when the longest delay is over, or earlier when all tiers are
// proved empty. A delay that is shorter than a proof is waited for without one.
func (d detachment) wait(ctx context.Context, tiers []retry.Tier, longest time.Duration) error {
	client := d.client
	over := time.Now().Add(longest + grace)
	seen := fmt.Sprintf("tiers %q", d.subject.Tiers)
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
