package lifecycle

import (
	"context"
	"slices"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

var (
	_ resource.ResourceWithConfigure      = (*Resource)(nil)
	_ resource.ResourceWithIdentity       = (*Resource)(nil)
	_ resource.ResourceWithImportState    = (*Resource)(nil)
	_ resource.ResourceWithModifyPlan     = (*Resource)(nil)
	_ resource.ResourceWithUpgradeState   = (*Resource)(nil)
	_ resource.ResourceWithValidateConfig = (*Resource)(nil)
)

// Resource is a resource of a kind.
type Resource struct {
	Kind
	data *run.Data
}

// New returns a resource of the kind.
func New(kind Kind) resource.Resource { return &Resource{Kind: kind} }

// Metadata tells the resource's name.
func (r *Resource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.Type
}

// Schema tells the attributes.
func (r *Resource) Schema(ctx context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = r.Kind.Schema(ctx)
}

// IdentitySchema tells the parts of the identity.
func (r *Resource) IdentitySchema(_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse) {
	resp.IdentitySchema = r.Identity.Schema()
}

// Configure takes over what the provider knows.
func (r *Resource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// UpgradeState brings states of earlier versions of the schema up to date.
func (r *Resource) UpgradeState(context.Context) map[int64]resource.StateUpgrader { return r.Upgraders }

// ImportState takes the identifier or the identity; the read that follows fills in
// the rest from the broker.
func (r *Resource) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	if parts, ok := r.Identity.ReadImport(ctx, r.data, req, &resp.Diagnostics); ok {
		r.Identity.WriteImport(ctx, parts, resp)
	}
}

// ValidateConfig reports what is wrong whatever the broker; warnings are left to the
// plan.
func (r *Resource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config := r.New()
	resp.Diagnostics.Append(req.Config.Get(ctx, config)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if base := config.Base(); base.VHost.IsNull() {
		base.VHost = types.StringValue("/")
	}
	// Any type will do for a work queue that is not known.
	f := &Facts{WorkType: topology.Quorum}
	r.complete(config, nil, f)
	if config.Known() {
		diagnostics.AddProblems(&resp.Diagnostics, config.Subject(f).Problems(), false)
	}
}

// complete turns a configuration into a plan.
func (r *Resource) complete(m, prior Model, f *Facts) {
	base := m.Base()
	if base.DeletionPolicy.IsNull() {
		base.DeletionPolicy = types.StringValue(IfEmpty)
	}
	m.Complete(prior, f)
	r.setID(m)
	m.SetOutputs()
	wanted := wantedTopology(m, f)
	base.Topology = plannedTopology(m, f, wanted)
	if declaring, is := m.(DeclaringModel); is {
		declaring.SetDeclared(wanted)
	}
	draining, drains := m.(DrainingModel)
	if !drains {
		return
	}
	*draining.DrainingTiers() = TierNames(nil)
	if before, is := prior.(DrainingModel); is {
		*draining.DrainingTiers() = PlanDraining(*before.DrainingTiers(), prior.Base().Topology, base.Topology, f != nil && f.Drained)
	}
}

// wantedTopology is nil while it is not known.
func wantedTopology(m Model, f *Facts) *topology.Topology {
	if !m.Known() {
		return nil
	}
	broker := f != nil
	if !broker {
		f = &Facts{}
	}
	s := m.Subject(f)
	isError := func(p retry.Problem) bool { return !p.Warning }
	if !broker && s.DependsOnBroker() || slices.ContainsFunc(s.Problems(), isError) {
		return nil
	}
	return s.Topology()
}

func plannedTopology(m Model, f *Facts, wanted *topology.Topology) types.Object {
	if wanted == nil {
		return types.ObjectUnknown(values.LinesTypes)
	}
	planned := values.LinesValue(wanted.Lines(nil))
	if f == nil {
		f = &Facts{}
	}
	if _, _, attaches := attached(m.Subject(f)); attaches && f.WorkType == "" {
		return values.WithUnknownPolicies(planned)
	}
	return planned
}

func (r *Resource) setID(m Model) { m.Base().ID = r.Identity.ID(m.Base().VHost, m.Names()) }

// setIdentity writes the identity, which every resource of a state must have.
func (r *Resource) setIdentity(ctx context.Context, m Model, identity *tfsdk.ResourceIdentity, diags *diag.Diagnostics) {
	r.Identity.write(ctx, identity, r.Identity.values(m.Base().VHost, m.Names()), diags)
}

// begin starts an operation: it limits its time and locks the resource's name.
func (r *Resource) begin(
	ctx context.Context, m Model, limit time.Duration, d diag.Diagnostics, diags *diag.Diagnostics,
) (inside context.Context, end func(), ok bool) {
	diags.Append(d...)
	if diags.HasError() {
		return nil, nil, false
	}
	ctx, cancel := run.WithTimeout(ctx, limit)
	unlock, ok := r.data.Names.Lock(ctx, r.key(m), diags)
	if !ok {
		cancel()
		return nil, nil, false
	}
	return ctx, func() {
		unlock()
		cancel()
	}, true
}

// fromConfig reads a configuration and decides its virtual host.
func (r *Resource) fromConfig(ctx context.Context, config tfsdk.Config, state Model, diags *diag.Diagnostics) Model {
	m := r.New()
	diags.Append(config.Get(ctx, m)...)
	before := types.StringNull()
	if state != nil {
		before = state.Base().VHost
	}
	m.Base().VHost = r.data.PlannedVHost(m.Base().VHost, before)
	return m
}

// actual returns what is on the broker of the subject: nothing, when the virtual host is
// certain not to exist. One that this user merely cannot see is an error, because
// everything may still be there.
func (r *Resource) actual(ctx context.Context, m Model, s Subject) (*topology.Topology, error) {
	return Actual(ctx, r.data.Client, vhost(m), s.Actual)
}

// readTopology sets what is on the broker. It returns false when nothing of the
// resource is there, or after an error.
func (r *Resource) readTopology(ctx context.Context, m Model, f *Facts, diags *diag.Diagnostics) bool {
	s := m.Subject(f)
	actual, err := r.actual(ctx, m, s)
	if err != nil {
		diagnostics.AddVHostError(diags, err)
		return false
	}
	r.setID(m)
	m.SetOutputs()
	wanted := s.Topology()
	rest, draining := split(s, actual, wanted)
	m.Base().Topology = values.LinesValue(rest.Lines(wanted))
	if declaring, is := m.(DeclaringModel); is {
		declaring.SetDeclared(wanted)
	}
	if model, drains := m.(DrainingModel); drains {
		*model.DrainingTiers() = TierNames(draining)
	}
	return !actual.Empty()
}

// split tells apart what only drains.
func split(s Subject, actual, wanted *topology.Topology) (rest *topology.Topology, draining []retry.Tier) {
	if drainer, is := s.(Drainer); is {
		return drainer.Draining(actual, wanted)
	}
	return actual, nil
}
