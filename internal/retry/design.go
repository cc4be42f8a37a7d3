package retry

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Design is what one strategy makes of a chain. Everything that differs between
// strategies is here, and nothing else asks which strategy a chain has. A function that is
// nil stands for "nothing of that kind"; only Summary, Exchanges, DeadLetterExchange, Expand
// and ReadDelays are required, and CountHeader with NamesHeader.
type Design struct {
	// Strategy is what a configuration calls the design.
	Strategy Strategy
	// Family is the same for designs between which a living chain can change. Empty: no
	// other design has it.
	Family Strategy
	// Summary says for the documentation what tells the attempt, with the versions of
	// RabbitMQ. It follows the name of the strategy.
	Summary string

	// Exchanges are those that the chain can have for this design, each with its type.
	Exchanges func(c Chain) map[string]string
	// Leftovers are exchanges that only a chain can have made: a run that was killed may
	// leave them behind, in this very form.
	Leftovers func(c Chain) []topology.Exchange
	// DeadLetterExchange is where the work queue's dead letters go.
	DeadLetterExchange func(c Chain) string
	// Stores are the queues from which a process of the user takes messages.
	Stores func(c Chain) []string
	// Tier names the queue that holds messages for a delay. Nil: the chain has no tiers,
	// something else holds the messages back.
	Tier func(c Chain, label string, delay time.Duration) Tier
	// Expand adds the tiers and what routes between them.
	Expand func(c Chain, t *topology.Topology, f Features)
	// WorkArguments make the work queue itself hold messages back, for the delays. Then
	// the delays say how often it delivers a message.
	WorkArguments func(c Chain) topology.Arguments
	// Steps are the bindings that lead from tier to tier. Nil: a tier does not decide where
	// its messages go next; a process of the user counts, or there are no tiers.
	Steps *Steps

	// NamesHeader: the user chooses the header in which the process counts.
	NamesHeader bool
	// CountHeader reads the header in which the process counts. A message that starts
	// again must not keep it.
	CountHeader func(c Chain, in *topology.Topology) string

	// Recognise says whether the objects of a virtual host are those of a chain of this
	// design. Where no design is recognised, the names of the tiers decide.
	Recognise func(c Chain, in *topology.Topology, tiers []Tier) bool
	// ReadDelays reads the delays back, in their order.
	ReadDelays func(c Chain, in *topology.Topology, tiers []Tier) []time.Duration

	// Problems is a part of [Chain.Problems], BrokerProblems of [Chain.BrokerProblems],
	// and ExchangeTypeProblems is [Chain.ExchangeTypeProblems].
	Problems             func(c Chain) []Problem
	BrokerProblems       func(c Chain, version string, f Features) []Problem
	ExchangeTypeProblems func(c Chain, types []string, f Features) []Problem
	// ConfusesDeaths says whether a broker lets a message that dies otherwise than by a
	// rejection go through the tiers.
	ConfusesDeaths func(f Features) bool

	// DependsOnBroker: the topology differs between brokers even with classic queues.
	DependsOnBroker bool
	// NeedsLastDeath: the design needs the headers x-last-death-*, for which 3.13 has a
	// feature flag.
	NeedsLastDeath bool
	// KeyCounts: the routing key tells the attempt, and the tiers set it.
	KeyCounts bool
}

// Steps are the bindings by which the broker counts.
type Steps struct {
	// Exchange has the bindings.
	Exchange func(c Chain) string
	// Out leads a message that failed after it came out of the tier to the next queue.
	Out func(c Chain, tier Tier, next string) topology.Binding
	// Label is the label of the tier from which a binding of Exchange leads on, or "".
	Label func(c Chain, b topology.Binding) string
}

// DefaultStrategy is the strategy of a chain that names none.
const DefaultStrategy = Headers

// designs are all that there are, in the order of the documentation.
var designs []*Design

func init() {
	for _, d := range []*Design{headers(), routingKey(), republish(), delayedRetry(), delayedExchange()} {
		Register(d)
	}
}

// Register adds a design. It panics if the strategy exists or a function is missing that
// every design needs: that is a mistake in the program.
func Register(d *Design) {
	_, exists := DesignOf(d.Strategy)
	if exists || !d.complete() {
		panic(fmt.Sprintf("design %q exists or is not complete", d.Strategy))
	}
	designs = append(designs, d)
}

// complete says whether all functions are there that others rely on.
func (d *Design) complete() bool {
	steps := d.Steps == nil || d.Steps.Exchange != nil && d.Steps.Out != nil && d.Steps.Label != nil
	return d.Strategy != "" && d.Summary != "" && d.Exchanges != nil && d.DeadLetterExchange != nil && d.Expand != nil &&
		d.ReadDelays != nil && steps && (!d.NamesHeader || d.CountHeader != nil)
}

// Designs returns all designs.
func Designs() []*Design { return slices.Clone(designs) }

// DesignOf returns the design of a strategy. An unknown one has the zero Design, which
// makes nothing.
func DesignOf(s Strategy) (d *Design, known bool) {
	for _, d := range designs {
		if d.Strategy == s {
			return d, true
		}
	}
	return &Design{}, false
}

// Strategies are the names of all designs.
func Strategies() []string {
	names := make([]string, len(designs))
	for i, d := range designs {
		names[i] = string(d.Strategy)
	}
	return names
}

// HoldsBack says whether the work queue itself holds messages back.
func (d *Design) HoldsBack() bool { return d.WorkArguments != nil }

// design returns the design of the chain, the zero Design for an unknown strategy.
func (c Chain) design() *Design {
	d, _ := DesignOf(c.Strategy)
	return d
}

// checkStrategy refuses a strategy that no design has.
func (c Chain) checkStrategy(p *problems) (known bool) {
	if _, known = DesignOf(c.Strategy); !known {
		p.errorf("strategy", "Unknown Strategy", "There is no strategy %q. Use one of %s.", c.Strategy, strings.Join(Strategies(), ", "))
	}
	return known
}

// SameDesign says whether both chains have the same strategy.
func (c Chain) SameDesign(other Chain) bool { return c.Strategy == other.Strategy }

// SameFamily says whether a living chain can change between the strategies of both.
func (c Chain) SameFamily(other Chain) bool { return c.design().family() == other.design().family() }

func (d *Design) family() Strategy {
	if d.Family != "" {
		return d.Family
	}
	return d.Strategy
}

// DelaysAreArguments says whether the delays are arguments of the work queue.
func (c Chain) DelaysAreArguments() bool { return c.design().HoldsBack() && !c.Work.Existing }

// HasRetryExchange says whether dead letters go through [Chain.RetryExchange].
func (c Chain) HasRetryExchange() bool {
	d := c.design()
	if d.Exchanges == nil {
		return false
	}
	_, has := d.Exchanges(c)[c.RetryExchange()]
	return has
}

// exchangeTypes are the types of all exchanges that a chain can have, with any design.
func (c Chain) exchangeTypes() map[string]string {
	kinds := map[string]string{c.ParkingExchange(): topology.Fanout, c.RedriveExchange(): topology.Fanout}
	for _, d := range designs {
		for name, kind := range d.Exchanges(c) {
			kinds[name] = kind
		}
	}
	return kinds
}

// stepExchanges are the exchanges from which steps lead on, with any design.
func (c Chain) stepExchanges() []string {
	var names []string
	for _, d := range designs {
		if steps := d.Steps; steps != nil {
			names = append(names, steps.Exchange(c))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
