package lifecycle

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// planning is a plan under way.
type planning struct {
	*Resource
	req resource.ModifyPlanRequest
	// state is what the last apply or refresh left, and prior the same unless the plan
	// replaces it; both can be nil.
	state, prior Model
	planned      Model
	// f is nil when the broker is known only after apply.
	f *Facts
	// changes: the plan changes something. Only then are there warnings.
	changes bool
	diags   *diag.Diagnostics
}

// ModifyPlan completes the plan and checks whether it can be carried out. What it finds
// on the broker can be different at apply, which looks again.
func (r *Resource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	p := &planning{Resource: r, req: req, diags: &resp.Diagnostics}
	if !req.State.Raw.IsNull() {
		p.state = r.New()
		resp.Diagnostics.Append(req.State.Get(ctx, p.state)...)
	}
	p.planned = r.fromConfig(ctx, req.Config, p.state, p.diags)
	if resp.Diagnostics.HasError() {
		return
	}
	if p.state != nil {
		p.compareNames(resp)
	}
	if resp.Diagnostics.HasError() || !p.complete(ctx) {
		return
	}
	if p.prior != nil && reflect.DeepEqual(p.planned, p.prior) {
		resp.Plan.Raw = req.State.Raw // to set the values takes long
	} else {
		resp.Diagnostics.Append(resp.Plan.Set(ctx, p.planned)...)
		p.changes = p.prior == nil || !resp.Plan.Raw.Equal(req.State.Raw)
	}
	switch {
	case resp.Diagnostics.HasError():
	case p.planned.Known():
		p.check(ctx)
	case p.changes:
		p.checkUnknown(ctx)
	}
}

// compareNames decides whether the plan replaces the resource.
func (p *planning) compareNames(resp *resource.ModifyPlanResponse) {
	before := p.Identity.values(p.state.Base().VHost, p.state.Names())
	for name, value := range p.Identity.values(p.planned.Base().VHost, p.planned.Names()) {
		if !value.Equal(before[name]) {
			resp.RequiresReplace = append(resp.RequiresReplace, path.Root(name))
		}
	}
	if len(resp.RequiresReplace) == 0 {
		p.prior = p.state
	}
	if mover, is := p.planned.(Mover); is {
		p.refuse(mover.Moves(p.state), p.state)
	}
}

// complete fills in the plan. An existing resource relies on what the last refresh wrote
// down, a new one on what the broker says now.
func (p *planning) complete(ctx context.Context) bool {
	if p.prior != nil {
		p.f = readFacts(ctx, p.req.Private, p.diags)
	}
	asks := p.data != nil && p.data.Client != nil
	if p.f == nil && asks {
		if p.f = p.liveFacts(ctx, p.diags); p.f == nil {
			return false
		}
	}
	if newcomer, is := p.planned.(NewModel); is && p.prior == nil && p.f != nil {
		newcomer.ForNew(p.f)
	}
	p.Resource.complete(p.planned, p.prior, p.f)
	if p.f == nil || !asks || p.f.WorkType != "" || !knowsWorkQueue(p.planned) {
		return true
	}
	diagnostics.AddPlanError(p.diags, p.lookAround(ctx, p.planned, p.f))
	p.planned = p.fromConfig(ctx, p.req.Config, p.state, p.diags)
	p.Resource.complete(p.planned, p.prior, p.f)
	return !p.diags.HasError()
}

// knowsWorkQueue says whether an existing work queue can be looked at.
func knowsWorkQueue(m Model) bool {
	looker, is := m.(Looker)
	return is && looker.KnowsWorkQueue()
}

// asks says whether the broker can be asked.
func (p *planning) asks() bool { return p.f != nil && p.data != nil && p.data.Client != nil }

// check looks for what keeps the plan from being carried out, and for what its owner
// should know before.
func (p *planning) check(ctx context.Context) {
	s := p.planned.Subject(p.f)
	diagnostics.AddProblems(p.diags, s.Problems(), p.changes)
	if p.f != nil && p.changes {
		diagnostics.AddProblems(p.diags, s.BrokerProblems(), true)
	}
	if p.diags.HasError() {
		return
	}
	switch {
	case p.prior == nil:
		p.checkReplacement(ctx)
		p.checkNew(ctx, s)
	case p.changes:
		p.reportDrift()
		p.checkUpdate(s)
		p.checkAdditions(ctx, s)
		p.warnOfRetiring(ctx, s)
	}
	if p.asks() && (p.changes || p.data.Names.Seen(p.key(p.planned))) && !p.diags.HasError() {
		diagnostics.AddPlanError(p.diags, p.checkSurroundings(ctx, p.planned, s, p.prior, p.f, p.changes, p.diags))
	}
	if p.asks() && p.changes && !p.diags.HasError() {
		p.checkNeeds(ctx, s)
	}
}

// checkUnknown checks a plan of which a part is known only after apply.
func (p *planning) checkUnknown(ctx context.Context) {
	if p.prior != nil {
		if changes, idle := p.planned.Changes(p.prior); !idle {
			p.refuse(changes, p.planned)
		}
	}
	if needing, is := p.planned.(NeedingModel); is && p.asks() && !p.diags.HasError() {
		if needs := needing.KnownNeeds(); len(needs) > 0 {
			WarnOfNeeds(ctx, p.data, vhost(p.planned), needs, p.diags)
		}
	}
}

// checkNeeds looks for features and objects that must exist before the apply, and notes
// what the resource creates for others.
func (p *planning) checkNeeds(ctx context.Context, s Subject) {
	if flagged, is := s.(Flagged); is {
		strategy, attribute := flagged.Flags()
		CheckFlags(ctx, p.data.Client, strategy, attribute, p.diags)
	}
	if needs := needsOf(s); len(needs) > 0 {
		WarnOfNeeds(ctx, p.data, vhost(p.planned), needs, p.diags)
	}
	p.data.Names.MarkPlanned(ObjectNames(vhost(p.planned), s.Topology()))
}

func needsOf(s Subject) []Need {
	if needer, is := s.(Needer); is {
		return needer.Needs()
	}
	return nil
}

// checkSurroundings looks for other objects that endanger the resource's messages. They
// can change at any time, and so the apply looks again. It returns an error if the
// virtual host cannot be read.
func (r *Resource) checkSurroundings(
	ctx context.Context, m Model, s Subject, prior Model, f *Facts, warnings bool, diags *diag.Diagnostics,
) error {
	var before Subject
	if prior != nil {
		before = prior.Subject(f)
	}
	return r.data.Client.View(ctx, vhost(m), func(in *topology.Topology) {
		diagnostics.AddProblems(diags, s.Surroundings(in, before), warnings)
		if prior != nil {
			r.addForeign(m, s, prior, in, diags)
		}
	})
}

// addForeign refuses a change that needs names which others use: the state does not know
// the objects, and they are not of the form that is needed. Without this an update would
// take a queue for a tier that drifted, and recreate it.
func (r *Resource) addForeign(m Model, s Subject, prior Model, in *topology.Topology, diags *diag.Diagnostics) {
	known := values.LinesOf(prior.Base().Topology)
	if draining, is := prior.(DrainingModel); is {
		for _, queue := range values.Texts(*draining.DrainingTiers()) {
			known.Queues[queue] = "draining"
		}
	}
	if attacher, is := prior.Subject(&Facts{}).(Attacher); is { // TakeoverProblems are about these
		work, parking := attacher.Queues()
		known.Queues[work.Name], known.Queues[parking.Name] = "existing", "existing"
	}
	var foreign []string
	wanted := s.Topology()
	for _, e := range wanted.Exchanges() {
		have, exists := in.Exchange(e.Name)
		if _, ours := known.Exchanges[e.Name]; exists && !ours && !have.Equal(e) {
			foreign = append(foreign, withOwner(name(m), topology.KindExchange, e.Name, in)+": "+have.Line())
		}
	}
	for _, q := range wanted.Queues() {
		have, exists := in.Queue(q.Name)
		if _, ours := known.Queues[q.Name]; exists && !ours && !have.Equal(q) {
			foreign = append(foreign, withOwner(name(m), topology.KindQueue, q.Name, in)+": "+have.Line())
		}
	}
	if len(foreign) > 0 {
		diags.AddAttributeError(path.Root(r.attribute()), "Object Already Exists",
			fmt.Sprintf("This change of %s needs names that others use:\n\n  %s\n\n"+
				"The provider never takes over what it did not make, and nothing was changed. Choose other delays.", lower(r.place(m)),
				lines(foreign)))
	}
}

func lower(text string) string { return strings.ToLower(text[:1]) + text[1:] }

// checkReplacement looks at what a plan destroys because its name or virtual host
// changes. The destroy looks again.
func (p *planning) checkReplacement(ctx context.Context) {
	if p.state == nil || p.data == nil || p.data.Client == nil {
		return
	}
	id := p.state.Base().ID.ValueString()
	switch p.state.Base().DeletionPolicy.ValueString() {
	case Retain:
		p.diags.AddAttributeError(path.Root("deletion_policy"), "Replacement Would Leave the Old "+p.Words.Title,
			fmt.Sprintf("A new name or virtual host creates a new %s, and deletion_policy = \"retain\" would leave the old one, %q, "+
				"at work beside it. Set deletion_policy = \"if_empty\" and apply that first; or take the old one out of the "+
				"configuration and give the new one a resource of its own.",
				p.Words.Noun, id))
	case IfEmpty:
		if full := p.countOld(ctx); len(full) > 0 {
			p.diags.AddAttributeError(path.Root(p.attribute()), p.Words.Title+" to Be Replaced Holds Messages",
				fmt.Sprintf("A new name or virtual host creates a new %s and destroys the old one, %q, whose queues hold messages:\n\n"+
					"  %s\n\nConsume or move the messages first. Or give the new one a resource of its own beside this one, and "+
					"remove this one when it is empty.",
					p.Words.Noun, id, broker.CountsText(full)))
		}
	}
}

// countOld returns the queues of the old resource that hold messages.
func (p *planning) countOld(ctx context.Context) (full []broker.Counts) {
	f := readFacts(ctx, p.req.Private, p.diags)
	if f == nil {
		return nil
	}
	actual, err := p.actual(ctx, p.state, p.state.Subject(f))
	if err != nil {
		diagnostics.AddPlanError(p.diags, err)
		return nil
	}
	for _, q := range actual.Queues() {
		counts, err := p.data.Client.Counts(ctx, vhost(p.state), q.Name)
		if err != nil {
			diagnostics.AddError(p.diags, "Queues Not Counted", err)
			return nil
		}
		if counts.Complete() && !counts.Empty() {
			full = append(full, counts)
		}
	}
	return full
}

// checkNew looks for what would make a create fail.
func (p *planning) checkNew(ctx context.Context, s Subject) {
	if !p.asks() {
		return
	}
	wanted := s.Topology()
	var conflicts []string
	own := false
	err := p.data.Client.View(ctx, vhost(p.planned), func(in *topology.Topology) { conflicts, own = s.Conflicts(wanted, in) })
	if err != nil {
		diagnostics.AddPlanError(p.diags, err)
		return
	}
	CheckPermissions(ctx, p.data.Client, vhost(p.planned), wanted, p.Words.This, p.diags)
	replaced := readFacts(ctx, p.req.Private, p.diags) != nil || p.data.Names.Seen(p.key(p.planned))
	// An object that another resource of this run has made is not reported here: the
	// create says which one has it.
	claimed := p.data.Names.Claimed(claims(vhost(p.planned), s))
	if len(conflicts) == 0 || replaced || claimed {
		return
	}
	text := p.conflictText(p.planned, conflicts)
	if own && !p.data.Names.AnySeen() {
		// This may be the process that applies a replacement with
		// create_before_destroy. Terraform plans it again after it has set the old
		// one aside, and puts that back only if the create fails, not if this plan does.
		p.diags.AddAttributeWarning(path.Root(p.attribute()), p.Words.Exists,
			"The apply will fail, unless it removes the old one first. "+text)
		return
	}
	p.diags.AddAttributeError(path.Root(p.attribute()), "Object Already Exists", text)
}

// conflictText says which objects exist and what to do about it.
func (r *Resource) conflictText(m Model, conflicts []string) string {
	text := fmt.Sprintf("%s needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are %s, import it:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If another address of this configuration has it (after a rename), tell Terraform with a moved block. ",
		r.place(m), lines(conflicts), r.Words.This, m.Base().ID.ValueString())
	if r.Words.Conflict != "" {
		text += r.Words.Conflict + " "
	}
	return text + "Otherwise choose another name."
}

// reportDrift says what is missing that was there, what stops the resource first.
func (p *planning) reportDrift() {
	if p.prior.Base().Topology.IsNull() || p.f == nil {
		return
	}
	s := p.prior.Subject(p.f)
	have, wanted := values.LinesOf(p.prior.Base().Topology), s.Topology()
	if stopper, is := s.(Stopper); is {
		if text := stopper.Stopped(have, wanted); text != "" {
			p.diags.AddAttributeWarning(path.Root("topology"), p.Words.Title+" Does Not Work", text)
		}
	}
	var gone []string
	for _, q := range wanted.Queues() {
		if _, exists := have.Queues[q.Name]; !exists {
			gone = append(gone, q.Name)
		}
	}
	if len(gone) > 0 {
		p.diags.AddAttributeWarning(path.Root("topology"), "Queue Is Gone",
			fmt.Sprintf("Queues of %s are not on the broker, or were never made:\n\n  %s\n\nThis plan declares them again. What was "+
				"in them when they were deleted is lost: RabbitMQ dead-letters nothing when a queue is deleted.",
				lower(p.label(p.prior)), lines(gone)))
	}
}

// checkUpdate refuses changes that RabbitMQ cannot make in place and that no order of
// steps makes without a gap for messages.
func (p *planning) checkUpdate(s Subject) {
	changes, idle := p.planned.Changes(p.prior)
	switch {
	case len(changes) > 0 && !idle:
		p.refuse(changes, p.planned)
	case len(changes) == 0 && !p.planned.Base().Topology.IsUnknown():
		CheckForms(values.LinesOf(p.prior.Base().Topology), values.LinesOf(p.planned.Base().Topology), s.Fixed, p.theThing(), p.diags)
	}
}

func (r *Resource) theThing() string { return "the " + r.Words.Noun }

func (p *planning) refuse(changes []Change, m Model) {
	living := p.Words.Noun
	if p.Words.Living != "" {
		living = p.Words.Living
	}
	for _, c := range changes {
		p.diags.AddAttributeError(diagnostics.Path(c.Attribute), "Change Not Possible in Place",
			diagnostics.Locate(c.Attribute, fmt.Sprintf("%s of the living %s %q cannot change in place: %s. %s",
				c.Attribute, living, name(m), c.Reason, c.Instead)))
	}
}

// Fixed is an attribute that queues are declared with, before and after a change.
type Fixed struct {
	Name, Reason  string
	Before, After attr.Value
}

// Differences lists those that change.
func Differences(instead string, attributes ...Fixed) (changes []Change) {
	for _, a := range attributes {
		if !a.After.IsUnknown() && !a.Before.Equal(a.After) {
			changes = append(changes, Change{Attribute: a.Name, Reason: a.Reason, Instead: instead})
		}
	}
	return changes
}

// checkAdditions looks whether the user may make what a change adds.
func (p *planning) checkAdditions(ctx context.Context, s Subject) {
	if !p.asks() || p.diags.HasError() {
		return
	}
	missing := topology.New()
	err := p.data.Client.View(ctx, vhost(p.planned), func(in *topology.Topology) {
		missing = topology.Diff(s.Actual(in), s.Topology()).Missing
	})
	if err == nil && !missing.Empty() { // else the surroundings tell
		CheckPermissions(ctx, p.data.Client, vhost(p.planned), missing, p.Words.This, p.diags)
	}
}

// Conflicts lists the exchanges, queues and policies of wanted that exist, each with the
// chain that it seems to belong to. They look like the chain of that name if mark, one of
// its exchanges, is among them.
func Conflicts(name, mark string, wanted, in *topology.Topology) (conflicts []string, own bool) {
	for _, e := range wanted.Exchanges() {
		if _, exists := in.Exchange(e.Name); exists {
			conflicts = append(conflicts, withOwner(name, topology.KindExchange, e.Name, in))
		}
	}
	for _, q := range wanted.Queues() {
		if _, exists := in.Queue(q.Name); exists {
			conflicts = append(conflicts, withOwner(name, topology.KindQueue, q.Name, in))
		}
	}
	for _, policy := range wanted.Policies() {
		if _, exists := in.Policy(policy.Name); exists {
			conflicts = append(conflicts, fmt.Sprintf("policy %q", policy.Name))
		}
	}
	return conflicts, slices.Contains(conflicts, fmt.Sprintf("%s %q", topology.KindExchange, mark))
}

// withOwner names an object and another chain that it seems to belong to.
func withOwner(name string, kind topology.Kind, object string, in *topology.Topology) string {
	text := fmt.Sprintf("%s %q", kind, object)
	if owner := retry.OwnerOf(kind, object, in); owner != "" && owner != name {
		text += fmt.Sprintf(" (of the retry chain %q)", owner)
	}
	return text
}

// claims are what only one resource can have: what it declares, and the work queue of an
// application, which obeys one policy.
func claims(vhost string, s Subject) []string {
	names := ObjectNames(vhost, s.Topology())
	if _, queue, attaches := attached(s); attaches {
		names = append([]string{objectName(topology.KindQueue, queue, vhost)}, names...)
	}
	return names
}
