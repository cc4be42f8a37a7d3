// Package drain waits for messages that are under way before what they need is removed:
// tiers that a change retires, and the attachment of a queue to shared tiers.
package drain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// tierGrace is how long after its delay a tier is waited for.
const tierGrace = time.Minute

// Drain waits for retired tiers to give back their messages, as long as the
// time of the update allows, and removes those that are empty. What is left
// goes on draining by itself; a later apply removes it.
type Drain struct {
	client   *broker.Client
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

// New begins a drain of tiers of the chain into which nothing leads any more.
func New(client *broker.Client, vhost string, c retry.Chain, f retry.Features, retired []retry.Tier) *Drain {
	return &Drain{
		client: client, vhost: vhost, chain: c, features: f, left: retired, counts: map[string]broker.Counts{}, began: time.Now(),
	}
}

// RemovalError says that the removal of an empty tier failed on its way.
type RemovalError struct{ Err error }

func (e *RemovalError) Error() string { return e.Err.Error() }

// Left says of each tier that is left what was seen in it.
func (d *Drain) Left() []string {
	lines := make([]string, 0, len(d.left))
	for _, tier := range d.left {
		line := fmt.Sprintf("%s (delay %s)", tier.Queue, retry.FormatDuration(tier.Delay))
		if seen, known := d.counts[tier.Queue]; known {
			line += ": " + seen.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// Wait proves tiers empty and removes them, again and again, until none is left
// that can become empty in time. A tier that was removed only in part is a
// [RemovalError]; after any other error the tiers that are left are whole.
func (d *Drain) Wait(ctx context.Context) error {
	for {
		_, rest, err := d.client.Emptiness(ctx, d.vhost, retry.TierQueues(d.left))
		if err != nil {
			return err
		}
		if err := d.remove(ctx, rest); err != nil {
			return err
		}
		if !slices.ContainsFunc(d.left, func(t retry.Tier) bool { return d.worthWaiting(ctx, t) }) {
			return nil
		}
		if err := broker.Sleep(ctx, d.client.StatisticsInterval()*2/5); err != nil {
			return err
		}
	}
}

// worthWaiting says whether the tier can be expected to be empty, and proved
// so, before the time of the update is over.
func (d *Drain) worthWaiting(ctx context.Context, tier retry.Tier) bool {
	over := d.began.Add(tier.Delay)
	if time.Now().After(over.Add(tierGrace)) {
		return false
	}
	deadline, limited := ctx.Deadline()
	proof := d.client.ProofTime()
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
		return true, &RemovalError{err}
	default:
		return false, nil
	}
}
