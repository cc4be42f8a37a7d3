package lifecycle

import (
	"context"
	"errors"
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Read reads what is on the broker into the state, and what later plans must know of the
// broker into the private state. After an import it reads the inputs as well.
func (r *Resource) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	diags := &resp.Diagnostics
	state := r.New()
	diags.Append(req.State.Get(ctx, state)...)
	r.setIdentity(ctx, state, resp.Identity, diags)
	timeout, d := state.Base().Timeouts.Read(ctx, r.Timeouts.Read)
	diags.Append(d...)
	imported := state.Base().DeletionPolicy.IsNull()
	if diags.HasError() || r.data.Client == nil {
		if imported {
			run.KnowsBroker(r.data, diags) // an import has nothing to show for it
		}
		return // without a broker to ask, the state stays as it is
	}
	ctx, cancel := run.WithTimeout(ctx, timeout)
	defer cancel()
	before := copyOf(state)

	f := r.liveFacts(ctx, diags)
	if f == nil {
		return
	}
	if imported {
		r.readImported(ctx, state, f, diags)
	} else if last := readFacts(ctx, req.Private, diags); last != nil {
		f.Features, f.Imported = f.Features.AsDeclared(last.Features), last.Imported
		f.WorkType, f.Inheritable = last.WorkType, last.Inheritable
	}
	if diags.HasError() {
		return
	}
	r.setID(state)
	r.data.Names.MarkSeen(r.key(state))
	if !r.refresh(ctx, state, f, diags) {
		if !diags.HasError() {
			resp.State.RemoveResource(ctx)
		}
		return
	}
	f.write(ctx, resp.Private, diags)
	WarnDown(ctx, r.data.Client, vhost(state), state.Base().Topology, diags)
	if !reflect.DeepEqual(state, before) { // to set the values takes long
		diags.Append(resp.State.Set(ctx, state)...)
	}
}

// copyOf copies a model, whose values never change.
func copyOf(m Model) Model {
	clone := reflect.New(reflect.TypeOf(m).Elem())
	clone.Elem().Set(reflect.ValueOf(m).Elem())
	model, _ := clone.Interface().(Model)
	return model
}

// readImported reads the inputs of a resource that is being imported.
func (r *Resource) readImported(ctx context.Context, m Model, f *Facts, diags *diag.Diagnostics) {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		diagnostics.AddError(diags, "Broker Not Reached", err)
		return
	}
	var readErr error
	err = r.data.Client.View(ctx, vhost(m), func(in *topology.Topology) { readErr = m.Import(in, f, info.Version) })
	var none *ImportError
	switch {
	case err != nil:
		diagnostics.AddVHostError(diags, err)
	case errors.As(readErr, &none):
		diags.AddError(none.Title, none.Text)
	case readErr != nil:
		diagnostics.AddError(diags, "Nothing to Import", readErr)
	}
	f.Imported = true
	m.Base().DeletionPolicy = types.StringValue(IfEmpty)
}

// refresh reads what is on the broker into the state and the facts, other policies that
// endanger messages included. It returns false when nothing of the resource is there, or
// after an error.
func (r *Resource) refresh(ctx context.Context, state Model, f *Facts, diags *diag.Diagnostics) bool {
	var (
		dangers []retry.Problem
		targets []topology.Target
	)
	err := r.data.Client.View(ctx, vhost(state), func(in *topology.Topology) {
		f.look(state.Subject(f), in)
		s := state.Subject(f)
		dangers = s.PolicyProblems(in)
		if attacher, is := s.(Attacher); is {
			targets = attacher.Targets(in)
		}
	})
	if err != nil && !diagnostics.IsGone(err) {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	if !r.readTopology(ctx, state, f, diags) {
		return false
	}
	if len(targets) > 0 {
		ineffective, err := r.data.Client.Ineffective(ctx, vhost(state), targets, true)
		if err != nil {
			diagnostics.AddError(diags, "Policies in Effect Not Read", err)
			return false
		}
		state.Base().Topology = WithoutEffect(state.Base().Topology, ineffective)
	}
	state.Base().Topology = values.WithDangers(state.Base().Topology, dangers)
	return r.lookIntoDraining(ctx, state, f, diags)
}

// lookIntoDraining notes whether a draining tier is empty. Only then does a refresh count
// messages.
func (r *Resource) lookIntoDraining(ctx context.Context, state Model, f *Facts, diags *diag.Diagnostics) bool {
	draining, is := state.(DrainingModel)
	if !is {
		return true
	}
	for _, queue := range values.Texts(*draining.DrainingTiers()) {
		empty, err := r.data.Client.LooksEmpty(ctx, vhost(state), queue)
		if err != nil {
			diagnostics.AddError(diags, "Draining Tier Not Counted", err)
			return false
		}
		f.Drained = f.Drained || empty
	}
	return true
}
