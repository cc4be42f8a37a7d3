package audit

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// Severity says how bad a finding is.
type Severity string

// The severities.
const (
	// Error: messages are lost, or stop for good, whenever the case occurs that
	// the finding describes.
	Error Severity = "error"
	// Warning: messages may be lost, or somebody's settings do not do what they
	// seem to.
	Warning Severity = "warning"
	// Info: worth knowing; often so on purpose.
	Info Severity = "info"
)

// Severities are all severities, the worst first.
func Severities() []Severity { return []Severity{Error, Warning, Info} }

// AtLeast says whether s is as bad as the minimum or worse.
func (s Severity) AtLeast(minimum Severity) bool {
	return slices.Index(Severities(), s) <= slices.Index(Severities(), minimum)
}

// Object is what a finding is about. The kind is "queue", "exchange",
// "binding", "policy", "operator policy", "shovel" or "broker".
type Object struct {
	Kind, Name string
}

// Finding is one way in which the virtual host loses messages or does not do
// what it seems to.
type Finding struct {
	Severity Severity
	// Rule is the ID of a [Rule].
	Rule   string
	Object Object
	// Queues are all queues that a finding about several is about.
	Queues []string
	// Message says what happens to a message.
	Message string
	// Fix says how to mend it.
	Fix string
	// Source is where RabbitMQ says so.
	Source string
}

// Rule looks for one kind of finding.
type Rule struct {
	ID string
	// Severities are those that its findings can have, the worst first. The first
	// is that of a finding that does not say otherwise.
	Severities []Severity
	// Title says in one sentence what happens to a message.
	Title string
	// Source is the part of RabbitMQ, and the versions, that the fact comes from.
	Source string
	check  func(*graph) []Finding
}

// Broker is what the rules must know of the broker besides the virtual host.
type Broker struct {
	Version abilities.Version
	// Deprecated are the names of deprecated features that are in use, as far as
	// the broker tells.
	Deprecated []string
	// Shovels are the dynamic shovels of the virtual host.
	Shovels []Shovel
	// ShovelsUnknown says why they could not be read. It is empty if they were.
	ShovelsUnknown string
}

// Shovel is a dynamic shovel: it moves messages from one queue or exchange to another.
type Shovel struct {
	Name string
	// AckMode is "on-confirm", the default, "on-publish" or "no-ack".
	AckMode string
}

// Run applies all rules to a virtual host. The findings are in the order of
// their severity, rule and object. It changes t, which nobody else may use meanwhile.
// It fails for a version that is none, and when ctx ends.
func Run(ctx context.Context, t *topology.Topology, b Broker) ([]Finding, error) {
	g, err := newGraph(ctx, t.Until(ctx.Done()), b)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, rule := range Rules() {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		for _, f := range rule.check(g) {
			f.Rule, f.Source = rule.ID, rule.Source
			f.Severity = cmp.Or(f.Severity, rule.Severities[0])
			findings = append(findings, f)
		}
	}
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(slices.Index(Severities(), a.Severity), slices.Index(Severities(), b.Severity)),
			strings.Compare(a.Rule, b.Rule),
			strings.Compare(a.Object.Kind, b.Object.Kind),
			strings.Compare(a.Object.Name, b.Object.Name),
		)
	})
	return findings, nil
}

// graph is a virtual host with what several rules ask for.
type graph struct {
	*topology.Topology
	broker   Broker
	follower *simulator.Follower
	queues   []queue
	byName   map[string]*queue
	journeys []journey
	// fed are the queues that dead letters reach.
	fed map[string]bool
	// sorted are what into was asked for.
	sorted map[target][]bound
	// asking and leading are what asksForHeaders and leadsToQueues found out.
	asking, leading map[string]bool
}

func newGraph(ctx context.Context, t *topology.Topology, b Broker) (*graph, error) {
	addAlternates(t)
	follower, err := simulator.NewFollower(t, simulator.Options{Version: b.Version.String()})
	if err != nil {
		return nil, err
	}
	g := &graph{
		Topology: t, broker: b, follower: follower, byName: map[string]*queue{}, fed: map[string]bool{},
		sorted: map[target][]bound{}, asking: map[string]bool{}, leading: map[string]bool{},
	}
	for _, q := range t.Queues() {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		settings := follower.Settings(q.Name)
		settings.MaxLen, settings.MaxBytes = reachable(settings.MaxLen), reachable(settings.MaxBytes)
		g.queues = append(g.queues, queue{
			Queue: q, Settings: settings, effective: follower.Effective(q),
			policies: matchesOf(t, q, false), operators: matchesOf(t, q, true),
		})
	}
	for i := range g.queues {
		g.byName[g.queues[i].Name] = &g.queues[i]
	}
	err = g.follow(ctx)
	return g, err
}

func matchesOf(t *topology.Topology, q topology.Queue, operator bool) matches {
	return matches{t.Matching(q.Name, q.Type, operator), t.Governing(q.Name, q.Type, operator)}
}

// reachable returns nil for a length limit that stands for none, such as that of
// the policy with which a retry chain keeps others away from its queues.
func reachable(limit *int64) *int64 {
	if limit != nil && *limit >= retry.UnreachableLimit {
		return nil
	}
	return limit
}

// addAlternates gives exchanges the alternate exchange that a policy gives them. An
// argument wins (rabbit_exchange:process_alternate, 3.10 to 4.3).
func addAlternates(t *topology.Topology) {
	for _, e := range t.Exchanges() {
		if e.Alternate() != "" {
			continue
		}
		p, has := t.ExchangePolicy(e.Name)
		if alternate := p.Definition.String(topology.AlternateExchange); has && alternate != "" {
			e.Arguments = e.Arguments.Clone()
			e.Arguments[topology.AlternateExchange] = alternate
			t.SetExchange(e)
		}
	}
}

// queue is a queue with what is in effect for it.
type queue struct {
	topology.Queue
	simulator.Settings
	effective topology.Arguments
	// policies are those that match the queue, and operators the operator policies.
	policies, operators matches
}

// matches are the policies of one kind that match a queue.
type matches struct {
	// all match for certain; see [topology.Topology.Matching].
	all []topology.PolicyMatch
	// governing are those that may be in effect; see [topology.Topology.Governing].
	governing []topology.Policy
}

// waits says whether messages leave the queue by themselves after a time.
func (q *queue) waits() bool { return q.TTL != nil && q.DeadLetterExchange != nil }

// deadLetters says whether the queue has a dead-letter exchange.
func (q *queue) deadLetters() bool { return q.DeadLetterExchange != nil }

// dropsHead says whether the queue has a length limit and makes room by taking
// messages out.
func (q *queue) dropsHead() bool {
	return q.isLimited() && (q.Overflow == topology.DropHead || q.Overflow == topology.RejectPublishDLX)
}

// isLimited says whether the queue has a length limit.
func (q *queue) isLimited() bool { return q.MaxLen != nil || q.MaxBytes != nil }

// isPassing says whether the queue goes away with a connection or a consumer,
// so that nobody expects it to keep messages.
func (q *queue) isPassing() bool { return q.Exclusive || q.AutoDelete }

// keepsForOthers says whether messages that died elsewhere stay in the queue.
func (g *graph) keepsForOthers(q *queue) bool { return g.fed[q.Name] && !q.deadLetters() }

// each collects what a rule finds in the queues, streams left out: they keep
// messages as a log and dead-letter none.
func (g *graph) each(find func(q *queue) *Finding) []Finding {
	var findings []Finding
	for i := range g.queues {
		q := &g.queues[i]
		if q.Type != topology.Classic && q.Type != topology.Quorum {
			continue
		}
		if f := find(q); f != nil {
			f.Object = Object{"queue", q.Name}
			findings = append(findings, *f)
		}
	}
	return findings
}
