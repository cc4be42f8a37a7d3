// Package toy_test adds a design to package retry from outside, and runs a chain of it.
package toy_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

const toy retry.Strategy = "toy"

func init() {
	retry.Register(&retry.Design{
		Strategy: toy,
		Summary:  "(3.13.3 or later): by the exchange of the tier, which leads back through one exchange for all.",
		Exchanges: func(c retry.Chain) map[string]string {
			return map[string]string{sorter(c): topology.Headers, first(c): topology.Headers}
		},
		DeadLetterExchange: sorter,
		Tier: func(c retry.Chain, label string, delay time.Duration) retry.Tier {
			return retry.Tier{Label: label, Delay: delay, Queue: c.Name + ".toy." + label, Return: c.Name + ".toy.back." + label}
		},
		Expand: expand,
		Steps: &retry.Steps{
			Exchange: sorter,
			Out: func(c retry.Chain, tier retry.Tier, next string) topology.Binding {
				return step(c, tier.Return, next)
			},
			Label: func(c retry.Chain, b topology.Binding) string {
				label, _ := strings.CutPrefix(b.Arguments.String(topology.LastDeathSource), c.Name+".toy.back.")
				return label
			},
		},
		Recognise: func(c retry.Chain, in *topology.Topology, _ []retry.Tier) bool {
			_, exists := in.Exchange(sorter(c))
			return exists
		},
		ReadDelays: func(_ retry.Chain, _ *topology.Topology, tiers []retry.Tier) []time.Duration {
			delays := make([]time.Duration, len(tiers))
			for i, tier := range tiers {
				delays[i] = tier.Delay
			}
			slices.Sort(delays)
			return delays
		},
	})
}

func sorter(c retry.Chain) string { return c.Name + ".toy" }
func first(c retry.Chain) string  { return c.Name + ".toy.first" }

func expand(c retry.Chain, t *topology.Topology, _ retry.Features) {
	setExchange(t, sorter(c), topology.Headers, first(c))
	setExchange(t, first(c), topology.Headers, c.ParkingExchange())
	next := c.Parking.Name
	tiers := c.Tiers()
	for i, tier := range slices.Backward(tiers) {
		setExchange(t, tier.Return, topology.Fanout, c.ParkingExchange())
		bind(t, tier.Return, c.Work.Name, nil)
		t.SetQueue(topology.Queue{Name: tier.Queue, Type: c.QueueType, Durable: true, Arguments: topology.Arguments{
			topology.DeadLetterExchange: tier.Return, topology.MessageTTL: tier.Delay.Milliseconds(),
		}})
		t.Bind(step(c, tier.Return, next))
		next = tier.Queue
		if i == 0 {
			bind(t, first(c), next, topology.Arguments{topology.LastDeathReason: "rejected"})
		}
	}
}

// step leads a message that came back through the exchange to the next queue.
func step(c retry.Chain, from, next string) topology.Binding {
	return topology.Binding{
		Source: sorter(c), Destination: next, DestinationKind: topology.KindQueue,
		Arguments: topology.Arguments{topology.Match: topology.MatchAllWithX, topology.LastDeathSource: from},
	}
}

func setExchange(t *topology.Topology, name, kind, alternate string) {
	t.SetExchange(topology.Exchange{
		Name: name, Type: kind, Durable: true, Arguments: topology.Arguments{topology.AlternateExchange: alternate},
	})
}

func bind(t *topology.Topology, source, queue string, match topology.Arguments) {
	if match != nil {
		match[topology.Match] = topology.MatchAllWithX
	}
	t.Bind(topology.Binding{Source: source, Destination: queue, DestinationKind: topology.KindQueue, Arguments: match})
}

func chain() retry.Chain {
	c := retry.Chain{
		Name: "orders", Strategy: toy, QueueType: topology.Classic, DeadLetterStrategy: retry.AtMostOnce,
		Delays: []time.Duration{time.Second, time.Minute},
	}
	c.Work.Name, c.Parking.Name = c.Name, c.DefaultParkingQueue()
	return c
}

var version = abilities.MustParse("4.3.6")

// A message that fails every time goes through all tiers of the new design and is parked.
func TestNewDesignRetriesAndParks(t *testing.T) {
	c := chain()
	if problems := c.Problems(); len(problems) > 0 {
		t.Fatal(problems)
	}
	b, err := simulator.New(c.Topology(retry.FeaturesOf(version)), simulator.Options{Version: "4.3.6"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Publish(simulator.Publishing{RoutingKey: c.Work.Name, Body: "1"}); err != nil {
		t.Fatal(err)
	}
	deliveries := 0
	for {
		if d, got := b.Get(c.Work.Name); got {
			deliveries++
			if err := b.Reject(d, false); err != nil {
				t.Fatal(err)
			}
		} else if !b.AdvanceToNextExpiry() {
			break
		}
	}
	d, parked := b.Get(c.Parking.Name)
	if deliveries != c.Attempts() || !parked || d.Body != "1" {
		t.Errorf("%d deliveries of %d, parked: %t", deliveries, c.Attempts(), parked)
	}
}

// The rest of the package knows the new design as well: import, drift, names.
func TestNewDesignIsRead(t *testing.T) {
	c, v := chain(), version
	f := retry.FeaturesOf(v)
	wanted := c.Topology(f)
	read, _, err := retry.Read(c.Name, wanted, v)
	if err != nil || read.Strategy != toy || !slices.Equal(read.Delays, c.Delays) || read.Work.Name != c.Work.Name {
		t.Errorf("read %+v, %v", read, err)
	}
	if d := topology.Diff(c.Actual(wanted, f), wanted); !d.Empty() {
		t.Errorf("differs: %+v", d)
	}
	for _, q := range wanted.Queues() {
		if owner := retry.OwnerOf(topology.KindQueue, q.Name, wanted); owner != c.Name {
			t.Errorf("queue %q belongs to %q", q.Name, owner)
		}
	}
	if !slices.Contains(retry.Strategies(), string(toy)) {
		t.Error("not listed")
	}
}

// A tier of the new design that is not wanted any more still leads on.
func TestNewDesignRetiresTiers(t *testing.T) {
	before, after := chain(), chain()
	after.Delays = after.Delays[1:]
	f := retry.FeaturesOf(version)
	wanted := after.Topology(f)
	transition := after.Transition(before.Topology(f), wanted, before.Tiers())
	if len(transition.Retired) != 1 || transition.Retired[0].Label != "1s" {
		t.Errorf("retired %v", transition.Retired)
	}
	left := before.Topology(f).Clone()
	for _, stage := range transition.Stages {
		for _, s := range stage {
			if s.Unbind != nil {
				left.Unbind(*s.Unbind)
			}
			if s.Bind != nil {
				left.Bind(*s.Bind)
			}
		}
	}
	out := step(after, "orders.toy.back.1s", "orders.toy.1m")
	if !left.Has(out) || len(left.To(topology.KindQueue, "orders.toy.1s")) > 0 {
		t.Errorf("the step out of the tier is missing, or something still leads into it:\n%v", left.Lines(nil).Bindings)
	}
}

// An unknown strategy is refused and makes nothing.
func TestUnknownStrategy(t *testing.T) {
	for _, strategy := range []retry.Strategy{"", "header"} {
		c := chain()
		c.Strategy = strategy
		if problems := c.Problems(); len(problems) != 1 || problems[0].Attribute != "strategy" || problems[0].Warning {
			t.Errorf("%q: %v", strategy, problems)
		}
		if made := c.Topology(retry.FeaturesOf(version)); !made.Empty() {
			t.Errorf("%q makes %v", strategy, made.Lines(nil))
		}
		if tiers := c.Tiers(); len(tiers) > 0 {
			t.Errorf("%q has tiers %v", strategy, tiers)
		}
	}
}

func TestRegisterRefusesHalfADesign(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("registered")
		}
	}()
	retry.Register(&retry.Design{Strategy: "half", Summary: "nothing"})
}
