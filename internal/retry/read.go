package retry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ErrNoChain says that a virtual host holds nothing of a chain of that name.
var ErrNoChain = errors.New("no object of a retry chain of this name exists")

// NotAChainError says that objects of a chain's names exist and cannot be one.
type NotAChainError struct{ Reason string }

func (e *NotAChainError) Error() string { return "no retry chain: " + e.Reason }

// Read reads a chain back from the objects of a virtual host, for an import.
// A graph that is only half there is read as far as it goes: what cannot be
// read gets the value it would have by default. The features tell what the
// queues were declared with.
func Read(name string, in *topology.Topology, live abilities.Version) (Chain, Features, error) {
	c := Chain{Name: name, Strategy: DefaultStrategy}
	tiers := c.tiersOnBroker(in)
	if !c.anythingIn(in, tiers) {
		return Chain{}, Features{}, ErrNoChain
	}
	if reason := c.contradiction(in); reason != "" {
		return Chain{}, Features{}, &NotAChainError{reason}
	}
	c.Strategy = c.readStrategy(in, tiers)
	tiers = slices.DeleteFunc(tiers, func(t Tier) bool { return !c.isTier(t) })
	c.Work.Name = c.readWorkQueueName(in)
	c.Parking.Name = c.readParkingQueueName(in)
	_, c.Work.Existing = in.Policy(c.AttachPolicy())
	c.QueueType, c.DeadLetterStrategy = c.readQueueType(in, tiers)
	c.Delays = c.readDelays(in, tiers)
	if d := c.design(); d.NamesHeader {
		c.CountHeader = d.CountHeader(c, in)
	}
	c.readPolicies(in)
	c.readWorkQueue(in)
	c.readParkingQueue(in)
	return c, c.readFeatures(in, live), nil
}

func (c Chain) anythingIn(in *topology.Topology, tiers []Tier) bool {
	for name := range c.ownExchanges() {
		if _, exists := in.Exchange(name); exists {
			return true
		}
	}
	for _, name := range []string{c.AttachPolicy(), c.ShieldPolicy()} {
		if _, exists := in.Policy(name); exists && !c.Shared {
			return true
		}
	}
	return len(tiers) > 0 || len(c.returnExchanges(in)) > 0
}

// contradiction says why the objects that have names of the chain cannot be one.
func (c Chain) contradiction(in *topology.Topology) string {
	for name, kind := range c.exchangeTypes() {
		if e, exists := in.Exchange(name); exists && e.Type != kind {
			return fmt.Sprintf("exchange %q is a %s exchange; a chain needs a %s exchange of this name", name, e.Type, kind)
		}
	}
	work := ""
	for _, source := range c.leadingToWork(in) {
		for _, b := range in.From(source) {
			switch {
			case b.DestinationKind != topology.KindQueue:
				return fmt.Sprintf("exchange %q leads to the exchange %q; in a chain it leads to the work queue "+
					"only", source, b.Destination)
			case work != "" && b.Destination != work:
				return fmt.Sprintf("exchange %q leads to the queue %q, and others of the chain lead to %q; a chain has one work "+
					"queue", source, b.Destination, work)
			}
			work = b.Destination
		}
	}
	return ""
}

// leadingToWork names the exchanges of the chain that lead to nothing but the
// work queue.
func (c Chain) leadingToWork(in *topology.Topology) []string {
	return append([]string{c.RedriveExchange(), c.ReturnExchange()}, c.returnExchanges(in)...)
}

// readPolicies reads the chain's own policies. One that attaches the work queue
// means that the queue belongs to an application.
func (c *Chain) readPolicies(in *topology.Topology) {
	c.Policy.Priority = DefaultPriority
	if p, exists := in.Policy(c.ShieldPolicy()); exists {
		c.Policy.Shield, c.Policy.Priority = true, p.Priority
	}
	p, exists := in.Policy(c.AttachPolicy())
	if !exists {
		return
	}
	c.Policy.Priority = p.Priority
	for _, s := range workSettings {
		if value, set := p.Definition[topology.KeyOf(s.argument)]; set && s.byPolicy {
			s.read(&c.Work, topology.Arguments{s.argument: value})
		}
	}
	*c = c.Within(in)
	c.Policy.Inherit = len(p.Definition) > len(c.attachmentKeys())
}

// readStrategy asks every design whether the objects are its own.
func (c Chain) readStrategy(in *topology.Topology, tiers []Tier) Strategy {
	for _, d := range designs {
		if recognise := d.Recognise; recognise != nil && recognise(c, in, tiers) {
			return d.Strategy
		}
	}
	for _, d := range designs {
		other := c
		other.Strategy = d.Strategy
		if len(tiers) > 0 && !slices.ContainsFunc(tiers, func(t Tier) bool { return !other.isTier(t) }) {
			return other.Strategy
		}
	}
	return DefaultStrategy
}

// readDeadLetterExchange is where the work queue's dead letters go, by an
// argument or by the chain's policy.
func (c Chain) readDeadLetterExchange(in *topology.Topology) string {
	if p, exists := in.Policy(c.AttachPolicy()); exists {
		return p.Definition.String(topology.KeyDeadLetterExchange)
	}
	q, _ := in.Queue(c.readWorkQueueName(in))
	return q.Arguments.String(topology.DeadLetterExchange)
}

// readCountHeader finds the header in which strategy "republish" counts.
func (c Chain) readCountHeader(in *topology.Topology) string {
	for _, b := range in.From(c.RetryExchange()) {
		for _, key := range slices.Sorted(maps.Keys(b.Arguments)) {
			if !strings.HasPrefix(key, topology.ArgumentPrefix) {
				return key
			}
		}
	}
	return DefaultCountHeader
}

// readWorkQueueName follows the exchanges that lead only to the work queue,
// and else looks for a queue that dead-letters into the chain.
func (c Chain) readWorkQueueName(in *topology.Topology) string {
	for _, source := range c.leadingToWork(in) {
		if name := onlyQueue(in.From(source)); name != "" {
			return name
		}
	}
	var own []string
	for _, d := range designs {
		own = append(own, d.DeadLetterExchange(c))
	}
	feeds := func(q topology.Queue) bool {
		return slices.Contains(own, q.Arguments.String(topology.DeadLetterExchange))
	}
	if q, exists := in.Queue(c.Name); exists && feeds(q) {
		return c.Name
	}
	for _, q := range in.Queues() {
		if feeds(q) {
			return q.Name
		}
	}
	return c.Name
}

func (c Chain) readParkingQueueName(in *topology.Topology) string {
	return cmp.Or(onlyQueue(in.From(c.ParkingExchange())), c.DefaultParkingQueue())
}

// onlyQueue returns the queue to which all bindings lead, or "".
func onlyQueue(bindings []topology.Binding) string {
	name := ""
	for _, b := range bindings {
		if b.DestinationKind != topology.KindQueue || (name != "" && name != b.Destination) {
			return ""
		}
		name = b.Destination
	}
	return name
}

func (c Chain) readQueueType(in *topology.Topology, tiers []Tier) (topology.QueueType, DeadLetterStrategy) {
	var names []string
	for _, tier := range tiers { // they are the chain's own in any case
		names = append(names, tier.Queue)
	}
	if !c.Work.Existing {
		names = append(names, c.Work.Name)
	}
	names = append(names, c.Parking.Name)
	queueType, strategy := topology.QueueType(""), DeadLetterStrategy("")
	for _, name := range names {
		q, exists := in.Queue(name)
		if !exists {
			continue
		}
		queueType = cmp.Or(queueType, q.Type)
		if name != c.Parking.Name && q.Type == topology.Quorum {
			strategy = cmp.Or(strategy, DeadLetterStrategy(q.Arguments.String(topology.DeadLetterStrategy)), AtMostOnce)
		}
	}
	queueType = cmp.Or(queueType, topology.Quorum)
	if attachment, exists := in.Policy(c.AttachPolicy()); exists && queueType == topology.Quorum {
		strategy = cmp.Or(strategy, DeadLetterStrategy(attachment.Definition.String(topology.KeyDeadLetterStrategy)))
	}
	if strategy == "" {
		strategy = DefaultDeadLetterStrategy(queueType)
	}
	return queueType, strategy
}

// DefaultDeadLetterStrategy is the strategy of a chain that names none.
func DefaultDeadLetterStrategy(queueType topology.QueueType) DeadLetterStrategy {
	if queueType == topology.Quorum {
		return AtLeastOnce
	}
	return AtMostOnce
}

// readDelays reads the delays in their order.
func (c Chain) readDelays(in *topology.Topology, tiers []Tier) []time.Duration {
	if d := c.design(); d.ReadDelays != nil {
		return d.ReadDelays(c, in, tiers)
	}
	return nil
}

// readSteppedDelays follows the steps from the first tier to the last, as a message
// does. Tiers that no step leads to come after those, the shortest first.
func (c Chain) readSteppedDelays(in *topology.Topology, tiers []Tier) []time.Duration {
	byQueue := map[string]Tier{}
	for _, tier := range tiers {
		byQueue[tier.Queue] = tier
	}
	delays := []time.Duration{}
	visit := func(tier Tier) {
		delays = append(delays, tier.Delay)
		delete(byQueue, tier.Queue)
	}
	whole := false
	at, found := nextTier(in.From(c.FirstExchange()), byQueue, func(topology.Binding) bool { return true })
	for found {
		visit(at)
		next, _ := c.nextQueue(at.Queue, in, nil)
		whole = next == c.Parking.Name
		at, found = byQueue[next]
	}
	rest := make([]Tier, 0, len(byQueue))
	for _, tier := range byQueue {
		// In a chain that works, a tier into which nothing leads is draining.
		if !whole || len(in.To(topology.KindQueue, tier.Queue)) > 0 {
			rest = append(rest, tier)
		}
	}
	slices.SortFunc(rest, func(a, b Tier) int {
		return cmp.Or(cmp.Compare(a.Delay, b.Delay), cmp.Compare(len(a.Label), len(b.Label)), cmp.Compare(a.Label, b.Label))
	})
	for _, tier := range rest {
		visit(tier)
	}
	return delays
}

// readCountedDelays orders the tiers of strategy "republish" by the counts that
// lead to them.
func (c Chain) readCountedDelays(in *topology.Topology, tiers []Tier) []time.Duration {
	header := c.readCountHeader(in)
	counts := map[string]int64{}
	for _, b := range in.From(c.RetryExchange()) {
		if count, set := b.Arguments.Int(header); set {
			counts[b.Destination] = count
		}
	}
	tiers = slices.DeleteFunc(slices.Clone(tiers), func(t Tier) bool { return counts[t.Queue] == 0 && len(counts) > 0 })
	slices.SortFunc(tiers, func(a, b Tier) int {
		return cmp.Or(cmp.Compare(counts[a.Queue], counts[b.Queue]), cmp.Compare(a.Delay, b.Delay))
	})
	delays := []time.Duration{}
	for _, tier := range tiers {
		delays = append(delays, tier.Delay)
	}
	return delays
}

// readRamp reads the delays of strategy "delayed_retry" off the work queue, or
// off the policy that attaches it.
func (c Chain) readRamp(in *topology.Topology, _ []Tier) []time.Duration {
	settings := topology.Arguments{}
	if q, exists := in.Queue(c.Work.Name); exists {
		settings = q.Arguments
	}
	if p, exists := in.Policy(c.AttachPolicy()); exists {
		settings = p.Arguments()
	}
	first, isFirst := settings.Int(topology.DelayedRetryMin)
	last, isLast := settings.Int(topology.DelayedRetryMax)
	n, limited := settings.Int(topology.DeliveryLimit)
	if !isFirst || !isLast || !limited || n < 0 || n > MaxTiers {
		return []time.Duration{}
	}
	return ramp(time.Duration(first)*time.Millisecond, time.Duration(last)*time.Millisecond, int(n))
}

func nextTier(bindings []topology.Binding, tiers map[string]Tier, matches func(topology.Binding) bool) (Tier, bool) {
	for _, b := range bindings {
		if tier, exists := tiers[b.Destination]; exists && matches(b) {
			return tier, true
		}
	}
	return Tier{}, false
}

func labelDelay(label string) time.Duration {
	base, _, _ := strings.Cut(label, ".")
	d, err := ParseDuration(base)
	if err != nil {
		return 0
	}
	return d
}

func (c *Chain) readWorkQueue(in *topology.Topology) {
	w := &c.Work
	w.Arguments = topology.Arguments{}
	q, exists := in.Queue(w.Name)
	if !exists || w.Existing {
		return
	}
	for key, value := range q.Arguments {
		ramped := c.design().HoldsBack() && topology.HoldsBack(key)
		if ownerOf(key) == "" && !ramped {
			w.Arguments[key] = value
		}
	}
	if !c.design().HoldsBack() || len(c.Delays) == 0 {
		w.DeliveryLimit = readDeliveryLimit(q, c.limitIsExact(q))
	}
	for _, s := range workSettings {
		s.read(w, q.Arguments)
	}
	w.Bindings = c.readBindings(in)
}

func (c Chain) readBindings(in *topology.Topology) []SourceBinding {
	own := c.ownExchanges()
	var bindings []SourceBinding
	for _, b := range in.To(topology.KindQueue, c.Work.Name) {
		if !own[b.Source] && !strings.HasPrefix(b.Source, c.returnPrefix()) {
			bindings = append(bindings, SourceBinding{Exchange: b.Source, RoutingKey: b.RoutingKey, Arguments: b.Arguments})
		}
	}
	slices.SortFunc(bindings, func(a, b SourceBinding) int {
		return cmp.Or(
			cmp.Compare(a.Exchange, b.Exchange),
			cmp.Compare(a.RoutingKey, b.RoutingKey),
			cmp.Compare(a.Arguments.Text(), b.Arguments.Text()),
		)
	})
	return bindings
}

func (c *Chain) readParkingQueue(in *topology.Topology) {
	q, exists := in.Queue(c.Parking.Name)
	if !exists {
		return
	}
	if c.Parking.Existing = len(c.OthersParkingHere(in)) > 0; !c.Parking.Existing {
		c.Parking.MessageTTL = readDuration(q.Arguments, topology.MessageTTL)
	}
}

// OthersParkingHere names the other exchanges that lead to the parking
// queue.
func (c Chain) OthersParkingHere(in *topology.Topology) []string {
	own := c.ownExchanges()
	var sources []string
	for _, b := range in.To(topology.KindQueue, c.Parking.Name) {
		if !own[b.Source] {
			sources = append(sources, b.Source)
		}
	}
	slices.Sort(sources)
	return slices.Compact(sources)
}

// readFeatures tells what the chain's queues were declared with. A queue that
// is missing is declared again, with what the broker can do now.
func (c Chain) readFeatures(in *topology.Topology, live abilities.Version) Features {
	f := FeaturesOf(live)
	if q, exists := in.Queue(c.Parking.Name); exists && q.Type == topology.Quorum {
		_, f.UnlimitedDelivery = q.Arguments.Int(topology.DeliveryLimit)
	}
	if q, exists := in.Queue(c.Work.Name); exists && q.Type == topology.Quorum {
		_, f.DeliveryLimit = q.Arguments.Int(topology.DeliveryLimit)
		f.ExactLimit = c.limitIsExact(q)
	}
	return f
}

// limitIsExact tells from the delivery limit of a work queue whether it leaves
// room for rounds through tiers. Without tiers 50 and more can mean both; 70 is
// taken for the default of a chain whose delays were removed later.
func (c Chain) limitIsExact(q topology.Queue) bool {
	limit, set := q.Arguments.Int(topology.DeliveryLimit)
	if !set || limit < 0 {
		return false
	}
	return limit < deliveryHeadroom || len(c.Delays) == 0 && limit != DefaultDeliveryLimit+deliveryHeadroom
}

func readDeliveryLimit(q topology.Queue, exact bool) *int64 {
	limit, set := q.Arguments.Int(topology.DeliveryLimit)
	switch {
	case !set:
		return nil
	case limit < 0:
		limit = Unlimited
	case !exact:
		limit -= deliveryHeadroom
	}
	return &limit
}
