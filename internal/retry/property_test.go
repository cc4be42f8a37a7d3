package retry_test

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// A property is checked with rapid's default of 100 cases, and where every test runs
// with 500. The flag -rapid.checks sets another number.
func init() {
	if !rabbit.Full() {
		return
	}
	if err := flag.Set("rapid.checks", "500"); err != nil {
		panic(err)
	}
}

// brokerVersions are one version of each kind of behaviour.
var brokerVersions = []string{"3.10.8", "3.12.14", "3.13.7", "4.0.5", "4.2.9", "4.3.6"}

func featuresOf(version string) retry.Features {
	return retry.FeaturesOf(abilities.MustParse(version))
}

// errorsOf are the problems that refuse a chain.
func errorsOf(c retry.Chain, version string) []retry.Problem {
	problems := append(c.Problems(), c.BrokerProblems(version, featuresOf(version))...)
	return slices.DeleteFunc(problems, func(p retry.Problem) bool { return p.Warning })
}

// target is a chain and the broker it is meant for.
type target struct {
	version string
	chain   retry.Chain
	// exact: the chain is new.
	exact bool
}

// features are those with which the chain is made. Only a chain that is made
// without delays has an exact delivery limit.
func (x target) features() retry.Features {
	f := featuresOf(x.version)
	if x.exact {
		f = f.ForNew(x.chain)
	}
	return f
}

func (x target) topology() *topology.Topology { return x.chain.Topology(x.features()) }

// withSources is the topology of the chain with the other exchanges that
// feed its work queue.
func (x target) withSources() *topology.Topology {
	t := x.topology()
	for _, b := range x.chain.Work.Bindings {
		t.SetExchange(topology.Exchange{Name: b.Exchange, Type: topology.Topic, Durable: true})
	}
	if w := x.chain.Work; w.Existing {
		t.SetQueue(topology.Queue{Name: w.Name, Type: w.Type, Durable: true})
	}
	return t
}

var oddNames = []string{
	"orders", "orders.retry", "orders.return", "orders.retry.5s", "a b", "x/y%z#*", "héllo😀", "-", ".", "a.retry.first", strings.Repeat("n", 200),
}

var commonDelays = []time.Duration{
	0, time.Millisecond, 500 * time.Millisecond, time.Second, 5 * time.Second, 60 * time.Second, 90 * time.Second, 5 * time.Minute, time.Hour,
}

func genDelays() *rapid.Generator[[]time.Duration] {
	one := rapid.OneOf(
		rapid.SampledFrom(commonDelays),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(0, 72*3600*1000).Draw(t, "ms")) * time.Millisecond
		}),
	)
	return rapid.Custom(func(t *rapid.T) []time.Duration {
		delays := rapid.SliceOfN(one, 0, 8).Draw(t, "delays")
		if delays == nil {
			delays = []time.Duration{}
		}
		return delays
	})
}

// genTarget makes chains without errors for a broker.
func genTarget(change ...func(*rapid.T, *retry.Chain)) *rapid.Generator[target] {
	return rapid.Custom(func(t *rapid.T) target {
		version := rapid.SampledFrom(brokerVersions).Draw(t, "version")
		x := target{version: version, chain: genChain(t, featuresOf(version))}
		for _, f := range change {
			f(t, &x.chain)
		}
		return x
	}).Filter(func(x target) bool { return len(errorsOf(x.chain, x.version)) == 0 })
}

func genChain(t *rapid.T, f retry.Features) retry.Chain {
	name := rapid.SampledFrom(oddNames).Draw(t, "name")
	c := retry.Chain{
		Name:               name,
		Delays:             genDelays().Draw(t, "delays"),
		Strategy:           retry.RoutingKey,
		QueueType:          topology.Classic,
		DeadLetterStrategy: retry.AtMostOnce,
		Work:               retry.WorkQueue{Name: name, Arguments: topology.Arguments{}},
		Parking:            retry.ParkingQueue{Name: name + ".parking"},
		Policy:             retry.PolicySettings{Priority: retry.DefaultPriority, Shield: rapid.IntRange(0, 3).Draw(t, "shield") == 0},
	}
	if f.LastDeathHeaders && rapid.Bool().Draw(t, "headers") {
		c.Strategy = retry.Headers
	}
	if rapid.Bool().Draw(t, "quorum") {
		c.QueueType = topology.Quorum
		if rapid.Bool().Draw(t, "at least once") {
			c.DeadLetterStrategy, c.Work.Overflow = retry.AtLeastOnce, topology.RejectPublish
		}
	}
	if rapid.IntRange(0, 3).Draw(t, "names") == 0 {
		c.Work.Name, c.Parking.Name = name+" work", "lot"
	}
	if rapid.IntRange(0, 4).Draw(t, "existing") == 0 {
		kind := rapid.SampledFrom([]topology.QueueType{topology.Classic, topology.Quorum}).Draw(t, "type of the work queue")
		c.Work = retry.WorkQueue{Name: c.Work.Name, Existing: true, Type: kind, Arguments: topology.Arguments{}}
		if kind == topology.Classic && len(c.Delays) == 0 {
			c.DeadLetterStrategy = retry.DefaultDeadLetterStrategy(c.QueueType) // it has no effect at all
		}
		return c
	}
	genWorkQueue(t, &c, f)
	return c
}

func genWorkQueue(t *rapid.T, c *retry.Chain, f retry.Features) {
	if c.QueueType == topology.Quorum && f.DeliveryLimit && rapid.Bool().Draw(t, "limited") {
		c.Work.DeliveryLimit = new(rapid.SampledFrom([]int64{-1, 0, 1, 2, 20}).Draw(t, "delivery limit"))
	}
	if f.LastDeathHeaders && rapid.IntRange(0, 3).Draw(t, "expires") == 0 {
		c.Work.MessageTTL = new(time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "work ttl")) * time.Millisecond)
	}
	if rapid.IntRange(0, 3).Draw(t, "length") == 0 {
		c.Work.MaxLength = new(rapid.Int64Range(0, 20).Draw(t, "max length"))
	}
	if rapid.IntRange(0, 3).Draw(t, "bytes") == 0 {
		c.Work.MaxLengthBytes = new(rapid.Int64Range(0, 20).Draw(t, "max bytes"))
	}
	if c.DeadLetterStrategy == retry.AtMostOnce {
		c.Work.Overflow = rapid.SampledFrom([]string{"", topology.DropHead, topology.RejectPublish}).Draw(t, "overflow")
	}
	if rapid.IntRange(0, 3).Draw(t, "bound") == 0 {
		c.Work.Bindings = []retry.SourceBinding{{Exchange: "events", RoutingKey: "order.*", Arguments: topology.Arguments{}}}
	}
}

// withoutLimits leaves out what makes messages die otherwise than by rejection.
func withoutLimits(_ *rapid.T, c *retry.Chain) {
	c.Work.MessageTTL, c.Work.MaxLength, c.Work.MaxLengthBytes = nil, nil, nil
}

// reporter is a test of either kind.
type reporter interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newBroker(t reporter, version string, in *topology.Topology) *simulator.Broker {
	t.Helper()
	b, err := simulator.New(in, simulator.Options{Version: version})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return b
}

func publish(t reporter, b *simulator.Broker, p simulator.Publishing) simulator.ID {
	t.Helper()
	receipt, err := b.Publish(p)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if receipt.Outcome != simulator.Confirmed {
		t.Fatalf("publish of %+v was %s", p, receipt.Outcome)
	}
	return receipt.ID
}

func settle(t reporter, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// waitFor gets the next message of the queue, moving the clock until there is
// one, or returns false when the other queue has one first or nothing moves.
func waitFor(b *simulator.Broker, queue, other string) (simulator.Delivery, bool) {
	for range 200 {
		if d, ok := b.Get(queue); ok {
			return d, true
		}
		if b.Depth(other).Ready > 0 || !b.AdvanceToNextExpiry() {
			return simulator.Delivery{}, false
		}
	}
	return simulator.Delivery{}, false
}

// fail rejects the message until it parks, in the ways in which a consumer can,
// and returns the deliveries.
func fail(t reporter, b *simulator.Broker, c retry.Chain, most int) []simulator.Delivery {
	t.Helper()
	var deliveries []simulator.Delivery
	for len(deliveries) < most {
		d, ok := waitFor(b, c.Work.Name, c.Parking.Name)
		if !ok {
			return deliveries
		}
		deliveries = append(deliveries, d)
		if len(deliveries)%2 == 0 {
			settle(t, b.Nack(d, false))
		} else {
			settle(t, b.Reject(d, false))
		}
	}
	return deliveries
}

// queuesOf lists the queues that a message entered, in order.
func queuesOf(b *simulator.Broker, id simulator.ID) []string {
	var queues []string
	for _, e := range b.Journey(id) {
		if e.Kind == simulator.Enqueued {
			queues = append(queues, e.Queue)
		}
	}
	return queues
}

// isOnlyIn fails unless the message is in that queue and nowhere else.
func isOnlyIn(t reporter, b *simulator.Broker, id simulator.ID, queue string) {
	t.Helper()
	want := []simulator.Fate{{State: simulator.IsReady, Queue: queue}}
	if got := b.Fates(id); !slices.Equal(got, want) {
		t.Fatalf("message %d: %v, want %v\n%s", id, got, want, journey(b, id))
	}
}

func journey(b *simulator.Broker, id simulator.ID) string {
	var text strings.Builder
	for _, e := range b.Journey(id) {
		text.WriteString("  " + e.String() + "\n")
	}
	return text.String()
}

// path is the way of a message that always fails: work queue, tier, work
// queue, tier and so on, parking queue.
func path(c retry.Chain) []string {
	queues := []string{c.Work.Name}
	for _, tier := range c.Tiers() {
		queues = append(queues, tier.Queue, c.Work.Name)
	}
	return append(queues, c.Parking.Name)
}

// own are the headers of an application, which no broker may touch.
func own(headers topology.Arguments) topology.Arguments {
	kept := topology.Arguments{}
	for key, value := range headers {
		if !strings.HasPrefix(key, "x-") && key != "CC" {
			kept[key] = value
		}
	}
	return kept
}

// lossesOf are the messages of which something was lost.
func lossesOf(b *simulator.Broker) []simulator.ID {
	var ids []simulator.ID
	for id := range b.Account() {
		if len(b.Losses(id)) > 0 {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, cmp.Compare)
	return ids
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
