package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// removalAge is how old what is known of a virtual host may be before a removal: others
// attach queues and destinations at any time, and removals of one run share one look.
const removalAge = time.Second

// Delete removes the objects as the deletion policy says.
func (r *Resource) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	diags := &resp.Diagnostics
	state := r.New()
	diags.Append(req.State.Get(ctx, state)...)
	if diags.HasError() || !run.KnowsBroker(r.data, diags) {
		return
	}
	r.setID(state)
	timeout, d := state.Base().Timeouts.Delete(ctx, r.Timeouts.Delete)
	ctx, end, ok := r.begin(ctx, state, timeout, d, diags)
	if !ok {
		return
	}
	defer end()

	r.data.Client.Renew(vhost(state), removalAge)
	f := readFacts(ctx, req.Private, diags)
	if f == nil {
		f = &Facts{}
		if err := r.lookAround(ctx, state, f); err != nil && !diagnostics.IsGone(err) {
			diagnostics.AddVHostError(diags, err)
			return
		}
	}
	r.remove(ctx, state, state.Subject(f), diags)
	if !diags.HasError() {
		r.data.Names.Release(r.key(state))
	}
}

func (r *Resource) remove(ctx context.Context, state Model, s Subject, diags *diag.Diagnostics) {
	actual, err := r.actual(ctx, state, s)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return
	}
	if actual.Empty() {
		return // nothing is left, perhaps not even the virtual host
	}
	everything := state.Base().DeletionPolicy.ValueString() == DeleteAll
	remover, special := s.(Remover)
	switch {
	case state.Base().DeletionPolicy.ValueString() == Retain:
		diags.AddWarning(r.Words.Title+" Left on the Broker",
			fmt.Sprintf("%s goes on working: its deletion_policy is \"retain\".%s Import it to manage it again.", r.place(state),
				queueNames(actual)))
	case special:
		err = remover.Remove(ctx, r.data.Client, vhost(state), actual, everything)
	case everything:
		if err = r.mayRemove(ctx, state, s, actual, true); err == nil {
			err = r.data.Client.Apply(ctx, vhost(state), s.Removal(actual), broker.Always, nil)
		}
	default:
		err = r.removeEmpty(ctx, state, s, actual)
	}
	r.addRemovalError(state, err, diags)
}

// queueNames is a sentence with the names of the queues, or empty.
func queueNames(t *topology.Topology) string {
	var names []string
	for _, q := range t.Queues() {
		names = append(names, q.Name)
	}
	if len(names) == 0 {
		return ""
	}
	return " Its queues are " + strings.Join(names, ", ") + "."
}

func (r *Resource) addRemovalError(m Model, err error, diags *diag.Diagnostics) {
	var full broker.NotEmptyError
	var used *broker.InUseError
	var blocked *blockedError
	switch {
	case err == nil:
	case errors.As(err, &full):
		diags.AddError(r.Words.Full, fmt.Sprintf("%s was not deleted, because its queues hold messages, or may hold some:\n\n  %s\n\n"+
			"Nothing was changed. %s, and destroy again. To give the messages up, set deletion_policy = \"delete\", apply, and then "+
			"destroy: a destroy uses the policy that was applied last.", r.place(m), broker.CountsText(full), r.Words.Empty))
	case errors.As(err, &blocked):
		diags.AddError(r.Words.InUse, fmt.Sprintf("%s was not deleted. %s", r.place(m), diagnostics.Sentence(err.Error())))
	case errors.As(err, &used):
		diags.AddError(r.Words.InUse, fmt.Sprintf("%s was not deleted as a whole, because something arrived while it was being "+
			"deleted: %s.\n\nWhat is left holds its messages. RabbitMQ drops what reaches a queue in the moment of its deletion: stop "+
			"publishers and consumers and destroy again; an apply makes it whole again.", r.place(m), strings.TrimSuffix(err.Error(), ".")))
	default:
		diagnostics.AddError(diags, r.Words.NotDeleted, err)
	}
}

// removeEmpty removes the objects if all their queues are proved empty. Nothing is changed
// before the proof, so that what is not removed is still whole. What arrives between the
// proof and the removal of a queue is refused or put back by [broker.Client.DeleteQueue].
func (r *Resource) removeEmpty(ctx context.Context, m Model, s Subject, what *topology.Topology) error {
	if err := r.mayRemove(ctx, m, s, what, false); err != nil {
		return err
	}
	if err := r.data.Client.RequireEmpty(ctx, vhost(m), what.Queues()); err != nil {
		return err
	}
	// After the queues: a message that left one for the exchange since its proof
	// is seen here, and one that came back is refused by the removal of its queue.
	if err := r.nothingHeldBack(ctx, m, s, what); err != nil {
		return err
	}
	return r.data.Client.Apply(ctx, vhost(m), s.Removal(what), broker.OnlyIfEmpty, nil)
}

// blockedError says who keeps a resource from being removed.
type blockedError struct{ text string }

func (e *blockedError) Error() string { return e.text }

// mayRemove refuses a removal that takes something away from others: the way of dead
// letters out of their queue, or an exchange or a queue that they use.
func (r *Resource) mayRemove(ctx context.Context, m Model, s Subject, what *topology.Topology, everything bool) error {
	if err := r.noPendingDeadLetters(ctx, m, s, topology.New()); err != nil {
		return err
	}
	text := ""
	if err := r.data.Client.View(ctx, vhost(m), func(in *topology.Topology) { text = s.Blockers(in, what, everything) }); err != nil {
		return err
	}
	if text != "" {
		return &blockedError{text}
	}
	return nil
}

// nothingHeldBack refuses a removal while the exchange holds back messages, which would
// be lost with it.
func (r *Resource) nothingHeldBack(ctx context.Context, m Model, s Subject, what *topology.Topology) error {
	holder, is := s.(Holder)
	if !is {
		return nil
	}
	exchange, longest := holder.HeldBack(what)
	if exchange == "" {
		return nil
	}
	n, why, err := r.data.Client.HeldBack(ctx, vhost(m), exchange)
	switch {
	case err != nil:
		return err
	case why != "":
		return fmt.Errorf("it is not known how many messages the exchange %q holds back, and they would be lost with it: %s. Nothing "+
			"was changed. Stop publishers and consumers and wait %s, the longest delay: then it holds back none. Consume what came "+
			"back, set deletion_policy = \"delete\", apply, and destroy",
			exchange, why, retry.FormatDuration(longest))
	case n > 0:
		return fmt.Errorf("the exchange %q holds back %d messages, which would be lost with it. Nothing was changed. Wait until their "+
			"delays are over and destroy again", exchange, n)
	}
	return nil
}

// noPendingDeadLetters refuses a change of the policy, to the one in wanted or to none,
// that makes the queue of an application lose dead letters on their way.
func (r *Resource) noPendingDeadLetters(ctx context.Context, m Model, s Subject, wanted *topology.Topology) error {
	attacher, is := s.(Attacher)
	if !is {
		return nil
	}
	work, _ := attacher.Queues()
	return r.data.Client.RequireNoPendingDeadLetters(ctx, vhost(m), work.Name, func(in *topology.Topology) bool {
		return attacher.WeakensDeadLettering(in, wanted)
	})
}
