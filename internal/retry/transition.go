package retry

import (
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Transition is the way from what is there of a chain to what is wanted. No
// message that is under way is ever without a route, wherever the way ends
// early.
type Transition struct {
	// Stages make and move everything, but for what still may hold messages.
	Stages []topology.Stage
	// Replaced are queues of other arguments than the wanted ones, which the
	// stages delete and declare again. They must be proved empty before.
	Replaced []topology.Queue
	// Retired are the tiers into which nothing leads after the stages. Their
	// messages come back by themselves when the delay is over; then
	// [Chain.RemoveTiers] removes them.
	Retired []Tier
}

// Transition plans the way from the actual topology of the chain, as
// [Chain.Actual] returns it, to the wanted one. before are the tiers in the
// order of an earlier form of the chain, or nil: where the broker does not tell
// where messages of a retired tier went next, they do.
//
// An exchange, the work queue or the parking queue that exists in another form
// is left alone; the caller must refuse it.
func (c Chain) Transition(actual, wanted *topology.Topology, before []Tier) Transition {
	retired := c.Retired(actual, wanted)
	target := wanted.Clone()
	for _, tier := range retired {
		c.keep(target, actual, tier, c.after(tier, actual, wanted, before))
	}
	d := topology.Diff(actual, target)
	t := Transition{Stages: c.stages(d, actual, target), Retired: retired}
	for _, change := range d.Queues {
		if change.Actual.Name != c.Work.Name && change.Actual.Name != c.Parking.Name {
			t.Replaced = append(t.Replaced, change.Actual)
		}
	}
	return t
}

// Retired lists the tiers that exist and are not wanted.
func (c Chain) Retired(actual, wanted *topology.Topology) []Tier {
	return slices.DeleteFunc(c.tiersOnBroker(actual), func(t Tier) bool {
		_, stays := wanted.Queue(t.Queue)
		return stays
	})
}

// keep adds to the target what a retired tier needs until it is empty: its
// return exchange, the way from there to the work queue, and the step out for
// messages that fail again. A tier of another strategy has no such step: its
// messages start again at the first tier.
func (c Chain) keep(target, actual *topology.Topology, tier Tier, next string) {
	copyQueue(target, actual, tier.Queue)
	if _, wanted := target.Exchange(tier.Return); !wanted {
		target.SetExchange(exchange(tier.Return, topology.Fanout, c.ParkingExchange()))
		copyExchange(target, actual, tier.Return)
		target.Bind(c.back(tier.Return))
	}
	if c.leadsOn(tier) {
		target.Bind(c.stepOut(tier, next))
	}
}

// leadsOn says whether the tier itself decides where its messages go when they
// fail again. Where a process counts, the count does.
func (c Chain) leadsOn(tier Tier) bool {
	return c.brokerCounts() && c.isTier(tier)
}

// stepOut leads a message that failed after it came out of the tier to the next
// queue.
func (c Chain) stepOut(tier Tier, next string) topology.Binding {
	return c.design().Steps.Out(c, tier, next)
}

// after finds the queue for messages that fail after they came out of a retired
// tier: the first later tier that stays, else the parking queue. Where they went
// so far says the broker, and where it does not, the order of before.
func (c Chain) after(tier Tier, actual, wanted *topology.Topology, before []Tier) string {
	stays := func(queue string) bool {
		_, is := wanted.Queue(queue)
		return is && queue != c.Parking.Name && queue != c.Work.Name
	}
	visited := map[string]bool{}
	for at := tier.Queue; !visited[at]; {
		visited[at] = true
		next, known := c.nextQueue(at, actual, before)
		switch {
		case !known:
			return c.Parking.Name
		case stays(next):
			return next
		}
		at = next
	}
	return c.Parking.Name
}

// steps are the bindings of all exchanges from which steps lead on.
func (c Chain) steps(in *topology.Topology) []topology.Binding {
	var bindings []topology.Binding
	for _, name := range c.stepExchanges() {
		bindings = append(bindings, in.From(name)...)
	}
	return bindings
}

// nextQueue follows one step of the chain as it is on the broker, or else as it
// was before.
func (c Chain) nextQueue(queue string, actual *topology.Topology, before []Tier) (string, bool) {
	for _, b := range c.steps(actual) {
		if tier, is := c.steppedFrom(b); is && tier.Queue == queue {
			return b.Destination, true
		}
	}
	i := slices.IndexFunc(before, func(t Tier) bool { return t.Queue == queue })
	if i >= 0 && i+1 < len(before) {
		return before[i+1].Queue, true
	}
	return "", false
}

// steppedFrom tells from which tier a binding leads on, if it is a step of the
// chain.
func (c Chain) steppedFrom(b topology.Binding) (Tier, bool) {
	steps := c.design().Steps
	if steps == nil || b.DestinationKind != topology.KindQueue || b.Source != steps.Exchange(c) {
		return Tier{}, false
	}
	label := steps.Label(c, b)
	if label == "" {
		return Tier{}, false
	}
	tier := c.tier(label, labelDelay(label))
	return tier, c.stepOut(tier, b.Destination).ID() == b.ID()
}

// cutLabel returns the label behind the prefix, or "" if the text is not the
// name of a tier.
func cutLabel(text, prefix string) string {
	label, found := strings.CutPrefix(text, prefix)
	if !found || !isLabel(label) {
		return ""
	}
	return label
}

// RemoveTiers orders the steps that remove retired tiers that are proved empty:
// the queues, and then the exchanges through which their messages came back,
// unless another tier needs them. The steps out of the tiers stay: a consumer
// may still hold messages that came out of them, and without its step such a
// message would start again at the first tier. They only match a name, and the
// next change removes them.
func (c Chain) RemoveTiers(empty []Tier, actual, wanted *topology.Topology) []topology.Stage {
	var queues, exchanges topology.Stage
	left := actual.Clone()
	for _, tier := range empty {
		if q, exists := left.Queue(tier.Queue); exists {
			queues = append(queues, topology.Step{DeleteQueue: &q})
			left.RemoveQueue(tier.Queue)
		}
	}
	needed := map[string]bool{}
	for _, tier := range c.Retired(left, wanted) {
		needed[tier.Return] = true
	}
	for _, tier := range empty {
		_, stays := wanted.Exchange(tier.Return)
		if e, exists := left.Exchange(tier.Return); exists && !stays && !needed[tier.Return] {
			exchanges = append(exchanges, c.deleteReturn(e))
			left.RemoveExchange(tier.Return)
		}
	}
	return withoutEmpty([]topology.Stage{queues, exchanges})
}

// Draining tells apart what is on the broker only until its last messages are
// through: tiers that are not wanted and into which nothing leads any more, with
// what they need to give back their messages, and steps out of tiers that are
// gone. The rest is what must be compared with the wanted topology.
func (c Chain) Draining(actual, wanted *topology.Topology) (rest *topology.Topology, draining []Tier) {
	rest = actual.Clone()
	gone := map[string]bool{}
	for _, tier := range c.Retired(actual, wanted) {
		if len(actual.To(topology.KindQueue, tier.Queue)) > 0 {
			continue
		}
		draining = append(draining, tier)
		gone[tier.Queue] = true
		rest.RemoveQueue(tier.Queue)
	}
	for _, tier := range draining {
		if _, needed := wanted.Exchange(tier.Return); !needed {
			rest.RemoveExchange(tier.Return)
		}
	}
	for _, b := range c.steps(actual) {
		if tier, is := c.steppedFrom(b); is && !wanted.Has(b) && c.spent(tier, actual, gone) {
			rest.Unbind(b)
		}
	}
	return rest, draining
}

// spent says whether nothing enters the tier any more: it is draining or gone.
func (c Chain) spent(tier Tier, actual *topology.Topology, draining map[string]bool) bool {
	_, exists := actual.Queue(tier.Queue)
	return !exists || draining[tier.Queue]
}

// stages orders what must be done. Exchanges come first, then the queues
// behind the work queue and what leads back from them, the steps between them,
// the work queue, and at last what brings traffic: the policy that attaches an
// existing work queue, and the bindings to sources. What is not wanted goes at
// the end.
func (c Chain) stages(d topology.Difference, actual, target *topology.Topology) []topology.Stage {
	is := c.roles(actual, target)
	work := func(q topology.Queue) bool { return q.Name == c.Work.Name }
	others := func(q topology.Queue) bool { return !work(q) }
	shields, attachment := c.policySteps(d)
	returning := d.Missing.BindAll(is.returning)
	_, missing := d.Missing.Queue(c.Work.Name)
	stages := []topology.Stage{shields, d.Missing.DeclareExchanges(), d.Missing.DeclareQueues(others)}
	if !missing { // else there is nothing to lead back to yet
		stages = append(stages, returning)
	}
	stages = append(stages, c.replace(d, actual, target)...)
	stages = append(stages, c.moveSteps(d, is)...)
	stages = append(stages, d.Missing.DeclareQueues(work))
	if missing {
		stages = append(stages, returning)
	}
	orphan := func(b topology.Binding) bool { // goes with its exchange
		_, extra := d.Extra.Exchange(b.Source)
		return extra && is.returning(b)
	}
	return withoutEmpty(append(
		stages,
		attachment,
		d.Missing.BindAll(is.source),
		d.Extra.UnbindAll(func(b topology.Binding) bool { return !is.inside(b) && !orphan(b) }),
		d.Extra.DeleteQueues(),
		c.deleteExchanges(d.Extra),
		d.Extra.DeletePolicies(),
	))
}

// deleteExchanges deletes the exchanges. One that a single tier returns through
// goes only if that tier is not there: another apply may be making it, and a
// snapshot can show the exchange before the queue.
func (c Chain) deleteExchanges(extra *topology.Topology) topology.Stage {
	var stage topology.Stage
	for _, e := range extra.Exchanges() {
		stage = append(stage, c.deleteReturn(e))
	}
	return stage
}

func (c Chain) deleteReturn(e topology.Exchange) topology.Step {
	label := cutLabel(e.Name, c.returnPrefix())
	if label == "" {
		return topology.Step{DeleteExchange: &e}
	}
	return topology.Step{DeleteUnfed: &topology.Unfed{Exchange: e, Queue: c.tierPrefix() + label}}
}

// policySteps makes or changes the chain's own policies. A shield comes before
// what it protects, the attachment when everything behind it is ready.
func (c Chain) policySteps(d topology.Difference) (shields, attachment topology.Stage) {
	wanted := d.Missing.Policies()
	for _, change := range d.Policies {
		wanted = append(wanted, change.Wanted)
	}
	for _, p := range wanted {
		if p.Name == c.AttachPolicy() {
			attachment = append(attachment, topology.Step{SetPolicy: &p})
		} else {
			shields = append(shields, topology.Step{SetPolicy: &p})
		}
	}
	return shields, attachment
}

// moveSteps changes the bindings between the chain's own objects. On the
// exchanges that know a message's last tier the old binding goes before the new
// one comes: a message in between matches nothing and is retried from the first
// tier, where two bindings would double it. Anywhere else the new one comes
// first: a message in between would be parked too early. Where a process counts
// that is so everywhere.
func (c Chain) moveSteps(d topology.Difference, is roles) []topology.Stage {
	step := func(b topology.Binding) bool {
		return is.inside(b) && c.brokerCounts() && slices.Contains(c.stepExchanges(), b.Source)
	}
	elsewhere := func(b topology.Binding) bool { return is.inside(b) && !step(b) }
	return []topology.Stage{
		d.Extra.UnbindAll(step),
		d.Missing.BindAll(is.inside),
		d.Extra.UnbindAll(elsewhere),
	}
}

// replace deletes tiers whose arguments differ and declares them again. Their
// incoming bindings go first, so that a message takes the alternate exchange
// instead of a way to a queue that is gone.
func (c Chain) replace(d topology.Difference, actual, target *topology.Topology) []topology.Stage {
	var unbind, remove, declare, bind topology.Stage
	for _, change := range d.Queues {
		if change.Actual.Name == c.Work.Name || change.Actual.Name == c.Parking.Name {
			continue
		}
		for _, b := range actual.To(topology.KindQueue, change.Actual.Name) {
			unbind = append(unbind, topology.Step{Unbind: &b})
		}
		remove = append(remove, topology.Step{DeleteQueue: &change.Actual})
		declare = append(declare, topology.Step{DeclareQueue: &change.Wanted})
		for _, b := range target.To(topology.KindQueue, change.Wanted.Name) {
			bind = append(bind, topology.Step{Bind: &b})
		}
	}
	return []topology.Stage{unbind, remove, declare, bind}
}

// Removal orders the steps that remove the whole chain: first what brings
// traffic, which is the policy of an existing work queue, or the work queue
// itself with all its bindings; then the tiers, the parking queue and the
// exchanges. Bindings are not removed by themselves: if a queue turns out to
// hold a message, the chain in front of it is still whole.
//
// The caller must prove every queue empty first, unless its messages are
// given up.
func (c Chain) Removal(actual *topology.Topology) []topology.Stage {
	var attachment, shields, work, tiers, parking topology.Stage
	for _, step := range actual.DeletePolicies() {
		if step.DeletePolicy.Name == c.AttachPolicy() {
			attachment = append(attachment, step)
		} else {
			shields = append(shields, step)
		}
	}
	for _, step := range actual.DeleteQueues() {
		switch step.DeleteQueue.Name {
		case c.Work.Name:
			work = append(work, step)
		case c.Parking.Name:
			parking = append(parking, step)
		default:
			tiers = append(tiers, step)
		}
	}
	// Exchanges that are bound to each other go one after the other: when they
	// are deleted at once, 3.10 sometimes keeps one and 4.0 sometimes fails.
	var sources, exchanges, destinations topology.Stage
	for _, step := range actual.DeleteExchanges() {
		switch name := step.DeleteExchange.Name; {
		case name == c.RetryExchange():
			sources = append(sources, step)
		case c.Shared && name == c.ReturnExchange():
			destinations = append(destinations, step)
		default:
			exchanges = append(exchanges, step)
		}
	}
	return withoutEmpty([]topology.Stage{attachment, work, tiers, parking, sources, exchanges, destinations, shields})
}

// roles tells the bindings of a chain apart by what they do.
type roles struct {
	// source: from another exchange to the work queue.
	source func(topology.Binding) bool
	// returning: from an exchange of the chain to the work queue.
	returning func(topology.Binding) bool
	// inside: from an exchange of the chain to anything else.
	inside func(topology.Binding) bool
}

func (c Chain) roles(topologies ...*topology.Topology) roles {
	own := func(b topology.Binding) bool {
		return slices.ContainsFunc(topologies, func(t *topology.Topology) bool {
			_, exists := t.Exchange(b.Source)
			return exists
		})
	}
	return roles{
		source:    func(b topology.Binding) bool { return !own(b) },
		returning: func(b topology.Binding) bool { return own(b) && c.leadsBack(b) },
		inside:    func(b topology.Binding) bool { return own(b) && !c.leadsBack(b) },
	}
}

func withoutEmpty(stages []topology.Stage) []topology.Stage {
	return slices.DeleteFunc(stages, func(s topology.Stage) bool { return len(s) == 0 })
}
