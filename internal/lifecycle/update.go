package lifecycle

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/drain"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Update repairs and changes the objects. When it fails, the state keeps the inputs of
// before, with what is really there.
func (r *Resource) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	diags := &resp.Diagnostics
	state := r.New()
	diags.Append(req.State.Get(ctx, state)...)
	plan := r.updateFrom(ctx, req.Config, state, diags)
	r.setIdentity(ctx, plan, resp.Identity, diags)
	if diags.HasError() || !run.KnowsBroker(r.data, diags) {
		return
	}
	r.setID(plan)
	timeout, d := plan.Base().Timeouts.Update(ctx, r.Timeouts.Update)
	ctx, end, ok := r.begin(ctx, plan, timeout, d, diags)
	if !ok {
		return
	}
	defer end()

	f := readFacts(ctx, req.Private, diags)
	if f == nil {
		if f = r.liveFacts(ctx, diags); f == nil {
			return
		}
	}
	plan = r.prepareUpdate(ctx, req, plan, state, f, diags)
	var draining types.List
	_, drains := plan.(DrainingModel)
	if drains {
		diags.Append(req.Plan.GetAttribute(ctx, path.Root("draining"), &draining)...)
	}
	result := plan
	if diags.HasError() || !r.update(ctx, state, plan, f, draining.IsUnknown(), diags) {
		result = state
	} else {
		f.Imported = false
	}
	f.Drained = false // the next refresh looks again
	r.readResult(ctx, result, f, diags)
	if model, is := result.(DrainingModel); is && !draining.IsUnknown() && !diags.HasError() {
		*model.DrainingTiers() = draining // what another state retires meanwhile is for the next refresh
	}
	f.write(ctx, resp.Private, diags)
	diags.Append(resp.State.Set(ctx, result)...)
}

// updateFrom reads the configuration of an update, which never leaves the virtual host: the
// plan may not have known the provider's default, and would have been a replacement.
func (r *Resource) updateFrom(ctx context.Context, config tfsdk.Config, state Model, diags *diag.Diagnostics) Model {
	m := r.fromConfig(ctx, config, state, diags)
	m.Base().VHost = state.Base().VHost
	return m
}

// prepareUpdate completes the plan and looks at what can have changed since.
func (r *Resource) prepareUpdate(
	ctx context.Context, req resource.UpdateRequest, plan, state Model, f *Facts, diags *diag.Diagnostics,
) Model {
	r.complete(plan, state, f)
	r.reloadExisting(plan, plan.Subject(f))
	if f.WorkType == "" && knowsWorkQueue(plan) {
		diagnostics.AddVHostError(diags, r.lookAround(ctx, plan, f))
		plan = r.updateFrom(ctx, req.Config, state, diags)
		r.complete(plan, state, f)
	}
	diagnostics.AddVHostError(diags, r.checkSurroundings(ctx, plan, plan.Subject(f), state, f, false, diags))
	return plan
}

// readResult reads what an update has left, also when its time is over.
func (r *Resource) readResult(ctx context.Context, m Model, f *Facts, diags *diag.Diagnostics) {
	ctx, cancel := run.Afterwards(ctx, r.Timeouts.Read)
	defer cancel()
	r.readTopology(ctx, m, f, diags)
}

// update leads from what is there to what is wanted. With draining it waits for tiers
// that retire and removes those that are empty.
func (r *Resource) update(ctx context.Context, state, plan Model, f *Facts, draining bool, diags *diag.Diagnostics) bool {
	s, client := plan.Subject(f), r.data.Client
	if !RequireNeeds(ctx, client, vhost(plan), needsOf(s), diags) {
		return false
	}
	old := state.Subject(f)
	wanted, before := s.Topology(), old.Topology()
	actual, err := r.actualBefore(ctx, plan, s, before)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if f.Imported {
		before = wanted // the state only has what the import could read
	}
	unfinished := broker.Unfinished{Actual: actual, Wanted: wanted, Before: before, Internal: s.Internal(actual)}
	err = unfinished.Remove(ctx, client, vhost(plan))
	if err != nil {
		diagnostics.AddError(diags, r.Words.NotUpdated, err)
		return false
	}
	rest, _ := split(s, actual, wanted)
	CheckForms(rest.Lines(wanted), wanted.Lines(nil), s.Fixed, r.theThing(), diags)
	if diags.HasError() {
		return false
	}
	transition := s.Transition(actual, wanted, old)
	if !r.provedEmpty(ctx, plan, transition.Replaced, diags) {
		return false
	}
	if err := r.carryOut(ctx, plan, s, wanted, transition.Stages); err != nil {
		diagnostics.AddError(diags, r.Words.NotUpdated, err)
		return false
	}
	drainer, drains := s.(Drainer)
	if !drains || !draining || len(transition.Retired) == 0 {
		return true
	}
	return r.drain(ctx, plan, drain.New(client, vhost(plan), drainer.Retiring(), f.Features, transition.Retired), diags)
}

func (r *Resource) carryOut(ctx context.Context, m Model, s Subject, wanted *topology.Topology, stages []topology.Stage) error {
	if err := r.noPendingDeadLetters(ctx, m, s, wanted); err != nil {
		return err
	}
	if err := r.data.Client.Apply(ctx, vhost(m), stages, broker.OnlyIfEmpty, nil); err != nil {
		return err
	}
	return r.waitForAttachment(ctx, m, s)
}

// actualBefore returns what is there before an update, without policies that are not in
// effect: they are set again.
func (r *Resource) actualBefore(ctx context.Context, m Model, s Subject, before *topology.Topology) (*topology.Topology, error) {
	actual, err := r.actual(ctx, m, s)
	if err == nil {
		err = addFormerSources(ctx, r.data.Client, vhost(m), before, actual)
	}
	if attacher, is := s.(Attacher); is && err == nil {
		err = r.data.Client.DropIneffective(ctx, vhost(m), attacher.Targets, actual)
	}
	return actual, err
}

// addFormerSources adds the bindings that led from other exchanges to the resource's
// queue before this update. Only the state tells that they are the resource's.
func addFormerSources(ctx context.Context, client *broker.Client, vhost string, before, actual *topology.Topology) error {
	return client.View(ctx, vhost, func(in *topology.Topology) {
		for _, b := range before.Bindings() {
			if _, own := before.Exchange(b.Source); !own && in.Has(b) {
				actual.Bind(b)
			}
		}
	})
}

// provedEmpty proves that queues can be deleted and declared again.
func (r *Resource) provedEmpty(ctx context.Context, m Model, queues []topology.Queue, diags *diag.Diagnostics) bool {
	if len(queues) == 0 {
		return true
	}
	full, err := r.data.Client.ProveEmpty(ctx, vhost(m), queues)
	if err != nil {
		diagnostics.AddError(diags, "Queues Not Proved Empty", err)
		return false
	}
	if len(full) > 0 {
		diags.AddError("Queue Holds Messages",
			fmt.Sprintf("Queues that this update would have to delete and declare again hold messages, or may hold some:\n\n  %s\n\n"+
				"Nothing was changed. A tier empties by itself when its delay is over: wait and apply again.",
				broker.CountsText(full)))
		return false
	}
	return true
}

// waitForAttachment waits until the work queue of an application obeys the resource's
// policy.
func (r *Resource) waitForAttachment(ctx context.Context, m Model, s Subject) error {
	attacher, queue, attaches := attached(s)
	if !attaches {
		return nil
	}
	if _, set := s.Topology().Policy(attacher.AttachPolicy()); !set {
		return fmt.Errorf("queue %q was not there when it was planned to be attached; apply again", queue)
	}
	return r.data.Client.AwaitPolicy(ctx, vhost(m), attacher.AttachPolicy(), queue, attacher.InEffect)
}
