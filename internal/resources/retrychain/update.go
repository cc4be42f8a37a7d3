package retrychain

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// update repairs and changes the chain. With draining it waits for tiers that
// retire and removes those that are empty.
func (r *chainResource) update(ctx context.Context, state, plan model, f *facts, draining bool, diags *diag.Diagnostics) bool {
	vhost, c := plan.VHost.ValueString(), f.within(plan.chain())
	wanted := c.Topology(f.Features)
	actual, err := r.actual(ctx, vhost, c, f.Features)
	before := f.within(state.chain()).Topology(f.Features)
	if err == nil {
		err = r.addFormerSources(ctx, vhost, before, actual)
	}
	if err == nil {
		err = lifecycle.DropIneffective(ctx, r.data.Client, vhost, c.Targets, actual)
	}
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	unfinished := lifecycle.Unfinished{Actual: actual, Wanted: wanted, Before: before, Internal: c.Internal(actual)}
	if err := unfinished.Remove(ctx, r.data.Client, vhost); err != nil {
		diagnostics.AddError(diags, "Chain Not Updated", err)
		return false
	}
	transition := c.Transition(actual, wanted, f.within(state.chain()).Tiers())
	if !r.provedEmpty(ctx, vhost, transition.Replaced, diags) || !lifecycle.RequireNeeds(ctx, r.data.Client, vhost, needs(c), diags) {
		return false
	}
	if err := r.noPendingDeadLetters(ctx, vhost, c, wanted); err != nil {
		diagnostics.AddError(diags, "Chain Not Updated", err)
		return false
	}
	err = r.data.Client.Apply(ctx, vhost, transition.Stages, broker.OnlyIfEmpty, nil)
	if err == nil {
		err = r.waitForAttachment(ctx, vhost, c)
	}
	if err != nil {
		diagnostics.AddError(diags, "Chain Not Updated", err)
		return false
	}
	if !draining || len(transition.Retired) == 0 {
		return true
	}
	return lifecycle.NewDrain(r.data.Client, fmt.Sprintf("The chain %q", c.Name), vhost, c, f.Features, transition.Retired).Run(ctx, diags)
}

// addFormerSources adds the bindings that led from exchanges of others to the
// work queue before this update. Only the state tells that they are the chain's.
func (r *chainResource) addFormerSources(ctx context.Context, vhost string, before, actual *topology.Topology) error {
	return r.data.Client.View(ctx, vhost, func(in *topology.Topology) {
		for _, b := range before.Bindings() {
			if _, own := before.Exchange(b.Source); !own && in.Has(b) {
				actual.Bind(b)
			}
		}
	})
}

// provedEmpty proves that queues can be deleted and declared again.
func (r *chainResource) provedEmpty(ctx context.Context, vhost string, queues []topology.Queue, diags *diag.Diagnostics) bool {
	if len(queues) == 0 {
		return true
	}
	full, err := r.data.Client.ProveEmpty(ctx, vhost, queues)
	if err != nil {
		diagnostics.AddError(diags, "Queues Not Proved Empty", err)
		return false
	}
	if len(full) > 0 {
		diags.AddError("Queue Holds Messages",
			fmt.Sprintf("Queues that this update would have to delete and declare again hold messages, or may hold some:\n\n  %s\n\nNothing was changed. A tier empties by itself "+
				"when its delay is over: wait and apply again.", diagnostics.CountsText(full)))
		return false
	}
	return true
}

// waitForAttachment waits until an existing work queue obeys the chain's policy.
func (r *chainResource) waitForAttachment(ctx context.Context, vhost string, c retry.Chain) error {
	if !c.Work.Existing {
		return nil
	}
	if c.Work.Type == "" {
		return fmt.Errorf("queue %q was not there when the chain was planned to be attached to it; apply again", c.Work.Name)
	}
	return lifecycle.AwaitPolicy(ctx, r.data.Client, vhost, c.AttachPolicy(), c.Work.Name, c.InEffect)
}

// noPendingDeadLetters refuses a change of the chain's policy, to the one in
// wanted or to none, that makes an existing quorum queue stop to dead-letter at
// least once while dead letters are on their way.
func (r *chainResource) noPendingDeadLetters(ctx context.Context, vhost string, c retry.Chain, wanted *topology.Topology) error {
	weakens := false
	err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { weakens = c.WeakensDeadLettering(in, wanted) })
	if err != nil || !weakens {
		return err
	}
	pending, counts, err := r.data.Client.PendingDeadLetters(ctx, vhost, c.Work.Name)
	if err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("queue %q has %s, and RabbitMQ deletes dead letters on their way when the queue does not dead-letter at least once any more. Nothing was changed. "+
			"Wait until they have arrived, which they do at once if their route is complete and after 180 seconds if it was mended just now, and apply again", c.Work.Name, counts)
	}
	return nil
}
