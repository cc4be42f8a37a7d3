package retrychain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// remove deletes the chain as its deletion policy says.
func (r *chainResource) remove(ctx context.Context, state model, f *facts, diags *diag.Diagnostics) {
	vhost, c := state.VHost.ValueString(), f.within(state.chain())
	actual, err := r.actual(ctx, vhost, c, f.Features)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return
	}
	if actual.Empty() {
		return // nothing is left, perhaps not even the virtual host
	}
	switch state.DeletionPolicy.ValueString() {
	case retain:
		diags.AddWarning("Chain Left on the Broker",
			fmt.Sprintf("The chain %q in virtual host %q goes on working: its deletion_policy is \"retain\". Its queues are %s. Import it to manage it again.",
				c.Name, vhost, queueNames(actual)))
	case deleteAll:
		err := r.mayDetach(ctx, vhost, c, actual)
		if err == nil {
			err = r.data.Client.Apply(ctx, vhost, c.Removal(actual), broker.Always, nil)
		}
		if err != nil {
			diagnostics.AddError(diags, "Chain Not Deleted", err)
		}
	default:
		r.removeIfEmpty(ctx, vhost, c, actual, diags)
	}
}

func (r *chainResource) removeIfEmpty(ctx context.Context, vhost string, c retry.Chain, actual *topology.Topology, diags *diag.Diagnostics) {
	err := r.removeEmpty(ctx, vhost, c, actual)
	var full lifecycle.NotEmptyError
	var used *broker.InUseError
	switch {
	case errors.As(err, &full):
		diags.AddError("Chain Holds Messages", fmt.Sprintf("The chain %q in virtual host %q was not deleted, because its queues hold messages, or may hold some:\n\n  %s\n\n"+
			"Nothing was changed. Consume or move the messages, stop the consumers, and destroy again. To give them up, set deletion_policy = \"delete\", apply, and then "+
			"destroy: a destroy uses the policy that was applied last.", c.Name, vhost, diagnostics.CountsText(full)))
	case errors.As(err, &used):
		diags.AddError("Chain in Use", fmt.Sprintf("The chain %q in virtual host %q was not deleted as a whole, because something arrived while it was being deleted: %s.\n\n"+
			"What is left holds its messages. RabbitMQ drops what reaches a queue in the moment of its deletion: stop publishers and consumers and destroy again; an apply makes the chain whole again.", c.Name, vhost, strings.TrimSuffix(err.Error(), ".")))
	case err != nil:
		diagnostics.AddError(diags, "Chain Not Deleted", err)
	}
}

// removeEmpty removes the objects if all their queues are proved empty. Nothing
// is changed before the proof, so that a chain whose removal is refused is still
// whole. What arrives between the proof and the removal of a queue is refused
// or put back by [broker.Client.DeleteQueue].
func (r *chainResource) removeEmpty(ctx context.Context, vhost string, c retry.Chain, what *topology.Topology) error {
	if err := r.mayDetach(ctx, vhost, c, what); err != nil {
		return err
	}
	if err := lifecycle.ProveEmpty(ctx, r.data.Client, vhost, what.Queues()); err != nil {
		return err
	}
	// After the queues: a message that left one for the exchange since its proof
	// is seen here, and one that came back is refused by the removal of its queue.
	if err := r.nothingHeldBack(ctx, vhost, c, what); err != nil {
		return err
	}
	return r.data.Client.Apply(ctx, vhost, c.Removal(what), broker.OnlyIfEmpty, nil)
}

// nothingHeldBack refuses a removal while the chain's exchange holds back
// messages, which would go with it.
func (r *chainResource) nothingHeldBack(ctx context.Context, vhost string, c retry.Chain, what *topology.Topology) error {
	if _, exists := what.Exchange(c.WaitExchange()); !exists {
		return nil
	}
	n, why, err := r.data.Client.HeldBack(ctx, vhost, c.WaitExchange())
	switch {
	case err != nil:
		return err
	case why != "":
		return fmt.Errorf("it is not known how many messages the exchange %q holds back, and they would be lost with it: %s. Nothing was changed. "+
			"Stop publishers and consumers and wait %s, the longest delay: then it holds back none. Consume what came back, set deletion_policy = \"delete\", apply, and destroy",
			c.WaitExchange(), why, retry.FormatDuration(slices.Max(c.Delays)))
	case n > 0:
		return fmt.Errorf("the exchange %q holds back %d messages, which would be lost with it. Nothing was changed. Wait until their delays are over and destroy again", c.WaitExchange(), n)
	}
	return nil
}

// mayDetach refuses a removal that takes something away from others: the way of
// dead letters out of their queue, or a parking queue that other chains use.
func (r *chainResource) mayDetach(ctx context.Context, vhost string, c retry.Chain, what *topology.Topology) error {
	if err := r.noPendingDeadLetters(ctx, vhost, c, topology.New()); err != nil {
		return err
	}
	if _, owned := what.Queue(c.Parking.Name); !owned {
		return nil
	}
	var sources []string
	if err := r.data.Client.View(ctx, vhost, func(in *topology.Topology) { sources = c.OthersParkingHere(in) }); err != nil {
		return err
	}
	if len(sources) > 0 {
		return fmt.Errorf("others use the parking queue %q of the chain %q: the exchanges %s lead to it. Nothing was changed. Remove those chains or bindings first, or hand the queue over: "+
			"set parking_queue.ownership = \"application\" here, apply, and then destroy", c.Parking.Name, c.Name, strings.Join(sources, ", "))
	}
	return nil
}

func queueNames(t *topology.Topology) string {
	var names []string
	for _, q := range t.Queues() {
		names = append(names, q.Name)
	}
	return strings.Join(names, ", ")
}
