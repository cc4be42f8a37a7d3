package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// drainGrace is how long after its delay a tier is waited for.
const drainGrace = time.Minute

// ProofTime is what a proof that a queue is empty takes: two reads, and some time
// for them. With RabbitMQ's default statistics interval it is 15 s.
func ProofTime(client *broker.Client) time.Duration { return 3 * client.StatisticsInterval() }

// Drain waits for retired tiers to give back their messages, as long as the
// time of the update allows, and removes those that are empty. What is left
// goes on draining by itself; a later apply removes it.
type Drain struct {
	client *broker.Client
	// subject names the chain for people, such as `The chain "orders"`.
	subject  string
	vhost    string
	chain    retry.Chain
	features retry.Features
	// left are the tiers that are not removed yet.
	left []retry.Tier
	// counts is what was seen in them last.
	counts map[string]broker.Counts
	// began is when the last way into the tiers was removed.
	began time.Time
}

// NewDrain begins a drain of tiers of the chain into which nothing leads any
// more. subject names the chain for people, such as `The chain "orders"`.
func NewDrain(client *broker.Client, subject, vhost string, c retry.Chain, f retry.Features, retired []retry.Tier) *Drain {
	return &Drain{
		client: client, subject: subject, vhost: vhost, chain: c, features: f, left: retired, counts: map[string]broker.Counts{},
		began: time.Now(),
	}
}

// Run returns false when a tier was removed only in part. Tiers that are left
// it reports as a warning at the attribute draining.
func (d *Drain) Run(ctx context.Context, diags *diag.Diagnostics) bool {
	err := d.wait(ctx)
	var half *removalError
	switch {
	case errors.As(err, &half):
		diagnostics.AddError(diags, "Tiers Not Removed", half.err)
		return false
	case err != nil && ctx.Err() == nil:
		diags.AddAttributeWarning(path.Root("draining"), "Tiers Not Removed",
			fmt.Sprintf("%s is changed, and no new messages enter these tiers. They could not be proved empty and removed: %s.\n\n  "+
				"%s\n\nMend the cause and apply again.",
				d.subject, strings.TrimSuffix(err.Error(), "."), d.text()))
	case len(d.left) > 0:
		diags.AddAttributeWarning(path.Root("draining"), "Tiers Still Draining",
			fmt.Sprintf("%s is changed, and no new messages enter these tiers of before:\n\n  %s\n\nTheir messages come back to the "+
				"work queue when their delay is over. A later plan that finds a tier empty shows its removal.", d.subject, d.text()))
	}
	return true
}

// removalError says that the removal of an empty tier failed on its way.
type removalError struct{ err error }

func (e *removalError) Error() string { return e.err.Error() }

// text says of each tier that is left what was seen in it.
func (d *Drain) text() string {
	lines := make([]string, 0, len(d.left))
	for _, tier := range d.left {
		line := fmt.Sprintf("%s (delay %s)", tier.Queue, retry.FormatDuration(tier.Delay))
		if seen, known := d.counts[tier.Queue]; known {
			line += ": " + seen.String()
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n  ")
}

// wait proves tiers empty and removes them, again and again, until none is left
// that can become empty in time.
func (d *Drain) wait(ctx context.Context) error {
	for {
		_, rest, err := d.client.Emptiness(ctx, d.vhost, TierQueues(d.left))
		if err != nil {
			return err
		}
		if err := d.remove(ctx, rest); err != nil {
			return err
		}
		if !slices.ContainsFunc(d.left, func(t retry.Tier) bool { return d.worthWaiting(ctx, t) }) {
			return nil
		}
		if err := Sleep(ctx, d.client.StatisticsInterval()*2/5); err != nil {
			return err
		}
	}
}

// worthWaiting says whether the tier can be expected to be empty, and proved
// so, before the time of the update is over.
func (d *Drain) worthWaiting(ctx context.Context, tier retry.Tier) bool {
	over := d.began.Add(tier.Delay)
	if time.Now().After(over.Add(drainGrace)) {
		return false
	}
	deadline, limited := ctx.Deadline()
	proof := ProofTime(d.client)
	return !limited || over.Add(proof).Before(deadline) && time.Until(deadline) > proof
}

// remove removes all tiers but those that the proof left over, one by one. A
// tier that something entered meanwhile stays.
func (d *Drain) remove(ctx context.Context, rest []broker.Counts) error {
	full := map[string]bool{}
	for _, seen := range rest {
		d.counts[seen.Queue], full[seen.Queue] = seen, true
	}
	var left []retry.Tier
	for _, tier := range d.left {
		stays := full[tier.Queue]
		if !stays {
			var err error
			if stays, err = d.removeTier(ctx, tier); err != nil {
				return err
			}
		}
		if stays {
			left = append(left, tier)
		}
	}
	d.left = left
	return nil
}

// removalGrace is how long the removal of a tier, once begun, goes on after the time of
// the update is over or the run was interrupted. It is enough for the few calls.
const removalGrace = 4 * time.Second

// removeTier removes one tier, and says whether it stays because something has
// entered it or may do so.
func (d *Drain) removeTier(ctx context.Context, tier retry.Tier) (stays bool, err error) {
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	ctx, cancel := broker.Outlive(ctx, removalGrace)
	defer cancel()
	var actual *topology.Topology
	err = d.client.View(ctx, d.vhost, func(in *topology.Topology) { actual = d.chain.Actual(in, d.features) })
	if err != nil {
		return true, err
	}
	// Another state may have led messages into the tier since.
	if bound, err := d.client.Bound(ctx, d.vhost, tier.Queue); bound || err != nil {
		return true, err
	}
	steps := d.chain.RemoveTiers([]retry.Tier{tier}, actual, d.chain.Topology(d.features))
	err = d.client.Apply(ctx, d.vhost, steps, broker.OnlyIfEmpty, nil)
	var used *broker.InUseError
	var fed *broker.FedError
	switch {
	case errors.As(err, &used), errors.As(err, &fed):
		return true, nil
	case err != nil:
		return true, &removalError{err}
	default:
		return false, nil
	}
}

// Sleep returns early, with an error, when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// LooksEmpty says whether the tier seems to be empty. The counts of the API can
// be 5 s old, which would let a plan remove a tier that has just been filled, and
// so AMQP is asked as well. If it cannot be, nobody knows, and the tier goes on
// draining. A queue that an interrupted apply left half made is empty.
func LooksEmpty(ctx context.Context, client *broker.Client, vhost, queue string) (bool, error) {
	counts, err := client.Counts(ctx, vhost, queue)
	if err != nil {
		return false, err
	}
	if !counts.Complete() {
		return client.LooksHalfMade(ctx, vhost, queue)
	}
	if !counts.Empty() {
		return false, nil
	}
	dialer, err := client.AMQP(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	ready, err := dialer.ReadyCount(ctx, vhost, queue)
	return err == nil && ready == 0, nil
}
