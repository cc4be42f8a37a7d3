package retry

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ErrNoChain says that a virtual host holds nothing of a chain of that name.
var ErrNoChain = errors.New("no object of a retry chain of this name exists")

// Read reads a chain back from the objects of a virtual host, for an import.
// A graph that is only half there is read as far as it goes: what cannot be
// read gets the value it would have by default. The features tell what the
// queues were declared with.
func Read(name string, in *topology.Topology, live func(version string) bool) (Chain, Features, error) {
	c := Chain{Name: name, Strategy: Headers}
	tiers := c.tiersOnBroker(in)
	if !c.anythingIn(in, tiers) {
		return Chain{}, Features{}, ErrNoChain
	}
	c.Strategy = c.readStrategy(in, tiers)
	tiers = slices.DeleteFunc(tiers, func(t Tier) bool { return t != c.tier(t.Label, t.Delay) })
	c.Work.Name = c.readWorkQueueName(in)
	c.Parking.Name = c.readParkingQueueName(in)
	c.QueueType, c.DeadLetterStrategy = c.readQueueType(in, tiers)
	c.Delays = c.readDelays(in, tiers)
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
	return len(tiers) > 0 || len(c.returnExchanges(in)) > 0
}

func (c Chain) readStrategy(in *topology.Topology, tiers []Tier) Strategy {
	if _, exists := in.Exchange(c.KeysExchange()); exists {
		return RoutingKey
	}
	headers := func(t Tier) bool { return strings.HasPrefix(t.Queue, c.tierPrefix()) }
	if len(tiers) > 0 && !slices.ContainsFunc(tiers, headers) {
		return RoutingKey
	}
	return Headers
}

// readWorkQueueName follows the exchanges that lead only to the work queue,
// and else looks for a queue that dead-letters into the chain.
func (c Chain) readWorkQueueName(in *topology.Topology) string {
	sources := append([]string{c.RedriveExchange(), c.ReturnExchange()}, in.ExchangesWithPrefix(c.returnPrefix())...)
	for _, source := range sources {
		if name := onlyQueue(in.From(source)); name != "" {
			return name
		}
	}
	if q, exists := in.Queue(c.Name); exists && q.Arguments.String(topology.DeadLetterExchange) == c.RetryExchange() {
		return c.Name
	}
	for _, q := range in.Queues() {
		if q.Arguments.String(topology.DeadLetterExchange) == c.RetryExchange() {
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
	names := []string{c.Work.Name}
	for _, tier := range tiers {
		names = append(names, tier.Queue)
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

// readDelays follows the steps from the first tier to the last, as a message
// does. Tiers that no step leads to come after those, the shortest first.
func (c Chain) readDelays(in *topology.Topology, tiers []Tier) []time.Duration {
	byQueue := map[string]Tier{}
	for _, tier := range tiers {
		byQueue[tier.Queue] = tier
	}
	delays := []time.Duration{}
	visit := func(tier Tier) {
		delays = append(delays, tier.Delay)
		delete(byQueue, tier.Queue)
	}
	at, found := nextTier(in.From(c.FirstExchange()), byQueue, func(topology.Binding) bool { return true })
	for found {
		visit(at)
		at, found = c.step(in, at, byQueue)
	}
	rest := make([]Tier, 0, len(byQueue))
	for _, tier := range byQueue {
		rest = append(rest, tier)
	}
	slices.SortFunc(rest, func(a, b Tier) int {
		return cmp.Or(cmp.Compare(a.Delay, b.Delay), cmp.Compare(len(a.Label), len(b.Label)), cmp.Compare(a.Label, b.Label))
	})
	for _, tier := range rest {
		visit(tier)
	}
	return delays
}

// step finds the tier to which a message goes that failed after it came out of
// the given one.
func (c Chain) step(in *topology.Topology, from Tier, tiers map[string]Tier) (Tier, bool) {
	if c.Strategy == RoutingKey {
		return nextTier(in.From(c.KeysExchange()), tiers, func(b topology.Binding) bool { return b.RoutingKey == from.Queue })
	}
	return nextTier(in.From(c.RetryExchange()), tiers, func(b topology.Binding) bool {
		return b.Arguments.String(topology.LastDeathSource) == from.Return
	})
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
	if !exists {
		return
	}
	for key, value := range q.Arguments {
		if _, owned := ownedArguments[key]; !owned {
			w.Arguments[key] = value
		}
	}
	w.DeliveryLimit = readDeliveryLimit(q)
	w.MessageTTL = readTTL(q)
	w.MaxLength = readInt(q, topology.MaxLength)
	w.MaxLengthBytes = readInt(q, topology.MaxLengthBytes)
	w.SingleActiveConsumer = q.Arguments[topology.SingleActiveConsumer] == true
	w.Overflow = q.Arguments.String(topology.Overflow)
	w.Bindings = c.readBindings(in)
}

func (c Chain) readBindings(in *topology.Topology) []SourceBinding {
	own := c.ownExchanges()
	var bindings []SourceBinding
	for _, b := range in.To(topology.KindQueue, c.Work.Name) {
		if !own[b.Source] && !strings.HasPrefix(b.Source, c.returnPrefix()) {
			bindings = append(bindings, SourceBinding{Exchange: b.Source, RoutingKey: b.RoutingKey, Headers: b.Arguments})
		}
	}
	slices.SortFunc(bindings, func(a, b SourceBinding) int {
		return cmp.Or(cmp.Compare(a.Exchange, b.Exchange), cmp.Compare(a.RoutingKey, b.RoutingKey), cmp.Compare(a.Headers.Text(), b.Headers.Text()))
	})
	return bindings
}

func (c *Chain) readParkingQueue(in *topology.Topology) {
	if q, exists := in.Queue(c.Parking.Name); exists {
		c.Parking.MessageTTL = readTTL(q)
	}
}

// readFeatures tells what the chain's queues were declared with. A queue that
// is missing is declared anew, with what the broker can do now.
func (c Chain) readFeatures(in *topology.Topology, live func(version string) bool) Features {
	f := FeaturesOf(live)
	if q, exists := in.Queue(c.Parking.Name); exists && q.Type == topology.Quorum {
		_, f.UnlimitedDelivery = q.Arguments.Int(topology.DeliveryLimit)
	}
	if q, exists := in.Queue(c.Work.Name); exists && q.Type == topology.Quorum {
		_, f.DeliveryLimit = q.Arguments.Int(topology.DeliveryLimit)
	}
	return f
}

func readDeliveryLimit(q topology.Queue) *int64 {
	limit, set := q.Arguments.Int(topology.DeliveryLimit)
	switch {
	case !set:
		return nil
	case limit < 0:
		limit = Unlimited
	default:
		limit = max(0, limit-deliveryHeadroom)
	}
	return &limit
}

func readTTL(q topology.Queue) *time.Duration {
	ms, set := q.Arguments.Int(topology.MessageTTL)
	if !set {
		return nil
	}
	d := time.Duration(ms) * time.Millisecond
	return &d
}

func readInt(q topology.Queue, key string) *int64 {
	if n, set := q.Arguments.Int(key); set {
		return &n
	}
	return nil
}
