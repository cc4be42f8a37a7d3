package retry

import (
	"slices"
	"strconv"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Actual picks from the topology of a virtual host what belongs to the chain:
// every object that the chain wants, in the form in which it exists; tiers and
// exchanges of the chain that it does not want (any more); and every binding
// that starts at one of its exchanges. Bindings from other exchanges belong to
// the chain only if it wants them.
func (c Chain) Actual(in *topology.Topology, f Features) *topology.Topology {
	wanted := c.Topology(f)
	actual := topology.New()
	for _, e := range wanted.Exchanges() {
		copyExchange(actual, in, e.Name)
	}
	for _, q := range wanted.Queues() {
		copyQueue(actual, in, q.Name)
	}
	c.addUnwanted(actual, in)
	c.addPolicies(actual, in)
	for _, e := range actual.Exchanges() {
		if !c.Shared || e.Name != c.ReturnExchange() { // else its bindings belong to the attachments
			for _, b := range in.From(e.Name) {
				actual.Bind(b)
			}
		}
	}
	for _, b := range wanted.Bindings() {
		if in.Has(b) {
			actual.Bind(b)
		}
	}
	return actual
}

// addPolicies adds the chain's own policies; shared tiers have none.
func (c Chain) addPolicies(actual, in *topology.Topology) {
	for _, name := range []string{c.AttachPolicy(), c.ShieldPolicy()} {
		if p, exists := in.Policy(name); exists && !c.Shared {
			actual.SetPolicy(p)
		}
	}
}

// addUnwanted adds tiers and exchanges that only this chain can have made: a
// run of the provider that was killed leaves them behind. A queue is taken for
// a tier only if it returns through an exchange of the chain, and an exchange
// only if it has the form that a chain gives it: others may use these names.
func (c Chain) addUnwanted(actual, in *topology.Topology) {
	for _, d := range designs {
		if leftovers := d.Leftovers; leftovers != nil {
			copyEqual(actual, in, leftovers(c))
		}
	}
	for _, name := range c.returnExchanges(in) {
		copyExchange(actual, in, name)
	}
	for _, tier := range c.tiersOnBroker(in) {
		copyQueue(actual, in, tier.Queue)
	}
}

// returnExchanges finds the exchanges through which tiers of strategy "headers"
// return.
func (c Chain) returnExchanges(in *topology.Topology) []string {
	return slices.DeleteFunc(in.ExchangesWithPrefix(c.returnPrefix()), func(name string) bool {
		e, _ := in.Exchange(name)
		return !isLabel(name[len(c.returnPrefix()):]) || !e.Equal(exchange(name, topology.Fanout, c.ParkingExchange()))
	})
}

// tiersOnBroker finds the tier queues of the chain, of all designs.
func (c Chain) tiersOnBroker(in *topology.Topology) []Tier {
	var tiers []Tier
	for _, d := range designs {
		if d.Tier == nil {
			continue
		}
		other := c
		other.Strategy = d.Strategy
		prefix := other.tier("", 0).Queue
		for _, name := range in.QueuesWithPrefix(prefix) {
			label := name[len(prefix):]
			q, _ := in.Queue(name)
			tier := other.tier(label, labelDelay(label))
			if isLabel(label) && q.Arguments.String(topology.DeadLetterExchange) == tier.Return {
				tiers = append(tiers, tier)
			}
		}
	}
	return tiers
}

// copyEqual copies the exchanges that exist in the very form.
func copyEqual(to, from *topology.Topology, exchanges []topology.Exchange) {
	for _, e := range exchanges {
		if found, exists := from.Exchange(e.Name); exists && found.Equal(e) {
			to.SetExchange(found)
		}
	}
}

func copyExchange(to, from *topology.Topology, name string) {
	if e, exists := from.Exchange(name); exists {
		to.SetExchange(e)
	}
}

func copyQueue(to, from *topology.Topology, name string) {
	if q, exists := from.Queue(name); exists {
		to.SetQueue(q)
	}
}

// isLabel says whether the text can be the label of a tier: a duration in its
// canonical form, with ".2" or higher for a repeated one.
func isLabel(text string) bool {
	base, number, repeated := strings.Cut(text, ".")
	if repeated {
		if n, err := strconv.Atoi(number); err != nil || n < 2 || strconv.Itoa(n) != number {
			return false
		}
	}
	d, err := ParseDuration(base)
	return err == nil && FormatDuration(d) == base
}

// OwnerOf guesses from an object's name to which chain of the virtual host it
// belongs, or returns "".
func OwnerOf(kind topology.Kind, name string, in *topology.Topology) string {
	for _, suffix := range suffixes() {
		if base, ok := strings.CutSuffix(name, suffix); ok && isChain(base, in) {
			return base
		}
	}
	for _, infix := range infixes() {
		if i := strings.LastIndex(name, infix); i > 0 && isLabel(name[i+len(infix):]) && isChain(name[:i], in) {
			return name[:i]
		}
	}
	if q, exists := in.Queue(name); kind == topology.KindQueue && exists {
		if base, ok := chainOf(q.Arguments, in); ok {
			return base
		}
	}
	return ""
}

// suffixes are what the names of objects of a chain end with, behind its own.
func suffixes() []string {
	var c Chain
	names := []string{c.DefaultParkingQueue()}
	for name := range c.exchangeTypes() {
		names = append(names, name)
	}
	for _, d := range designs {
		if d.Stores != nil {
			names = append(names, d.Stores(c)...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// infixes are what stands between the name of a chain and the label of a tier.
func infixes() []string {
	var names []string
	for _, d := range designs {
		if d.Tier != nil {
			tier := d.Tier(Chain{}, "", 0)
			names = append(names, tier.Queue, tier.Return)
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".") })
}

// isChain guesses by two exchanges whether there is a chain of that name: either
// pair of them belongs to a chain of strategy "headers" or "routing_key", and
// the second one to chains of every strategy.
func isChain(name string, in *topology.Topology) bool {
	c := Chain{Name: name}
	have := func(exchange string) bool {
		_, exists := in.Exchange(exchange)
		return exists
	}
	return have(c.RetryExchange()) && have(c.FirstExchange()) || have(c.ParkingExchange()) && have(c.RedriveExchange())
}

// chainOf returns the name of the chain whose work queues have these arguments,
// if they look like it.
func chainOf(work topology.Arguments, in *topology.Topology) (string, bool) {
	_, holds := work[topology.DelayedRetryType]
	for _, d := range designs {
		name, is := strings.CutSuffix(work.String(topology.DeadLetterExchange), d.DeadLetterExchange(Chain{}))
		if is && d.HoldsBack() == holds && isChain(name, in) { // others may dead-letter into a parking exchange as well
			return name, true
		}
	}
	return "", false
}
