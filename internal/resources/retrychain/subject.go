package retrychain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// subject is a chain on the broker that the facts describe.
type subject struct {
	retry.Chain
	f lifecycle.Facts
}

var (
	_ lifecycle.Attacher = subject{}
	_ lifecycle.Drainer  = subject{}
	_ lifecycle.Flagged  = subject{}
	_ lifecycle.Holder   = subject{}
	_ lifecycle.Needer   = subject{}
	_ lifecycle.Stopper  = subject{}
)

func (m *model) Subject(f *lifecycle.Facts) lifecycle.Subject {
	if f == nil {
		f = &lifecycle.Facts{}
	}
	c := m.chain()
	c.Work, c.Policy = f.Within(c.Work, c.Policy)
	return subject{c, *f}
}

// Queues is for [lifecycle.Attacher].
func (s subject) Queues() (retry.WorkQueue, retry.ParkingQueue) { return s.Work, s.Parking }

// Inside is for [lifecycle.Attacher].
func (s subject) Inside(in *topology.Topology) (retry.WorkQueue, retry.PolicySettings) {
	c := s.Within(in)
	return c.Work, c.Policy
}

// Retiring is for [lifecycle.Drainer].
func (s subject) Retiring() retry.Chain { return s.Chain }

// Flags is for [lifecycle.Flagged].
func (s subject) Flags() (strategy retry.Strategy, attribute string) { return s.Strategy, "strategy" }

// Needs are the existing queues and the source exchanges.
func (s subject) Needs() []lifecycle.Need {
	var needs []lifecycle.Need
	queue := func(attribute, name string) {
		needs = append(needs, lifecycle.Need{
			Attribute: attribute, Kind: topology.KindQueue, Name: name, Summary: "Existing Queue Not Found",
			Otherwise: "Or leave \"ownership\" out, and the chain declares a queue of this name itself.",
		})
	}
	if s.Work.Existing {
		queue("work_queue.name", s.Work.Name)
	}
	if s.Parking.Existing {
		queue("parking_queue.name", s.Parking.Name)
	}
	for i, b := range s.Work.Bindings {
		attribute := fmt.Sprintf("work_queue.bindings[%d].exchange", i)
		needs = append(needs, lifecycle.Need{
			Attribute: attribute, Kind: topology.KindExchange, Name: b.Exchange,
			Summary: "Source Exchange Not Found",
		})
	}
	return needs
}

// HeldBack is for [lifecycle.Holder].
func (s subject) HeldBack(actual *topology.Topology) (exchange string, longest time.Duration) {
	if _, exists := actual.Exchange(s.WaitExchange()); !exists {
		return "", 0
	}
	return s.WaitExchange(), slices.Max(append([]time.Duration{0}, s.Delays...))
}

func (s subject) BrokerProblems() []retry.Problem {
	return append(s.Chain.BrokerProblems(s.f.Version, s.f.Features), s.ExchangeTypeProblems(s.f.ExchangeTypes, s.f.Features)...)
}

func (s subject) Surroundings(in *topology.Topology, before lifecycle.Subject) []retry.Problem {
	problems := append(s.ExistingProblems(in, s.f.Features), s.PolicyProblems(in)...)
	if old, is := before.(subject); is {
		problems = append(problems, s.TakeoverProblems(old.Chain, in, s.f.Features)...)
	}
	return problems
}

func (s subject) PolicyProblems(in *topology.Topology) []retry.Problem {
	return s.Chain.PolicyProblems(in, s.f.Features)
}

func (s subject) Topology() *topology.Topology { return s.Chain.Topology(s.f.Features) }

func (s subject) Actual(in *topology.Topology) *topology.Topology {
	return s.Chain.Actual(in, s.f.Features)
}

func (s subject) Conflicts(wanted, in *topology.Topology) (names []string, own bool) {
	return lifecycle.Conflicts(s.Name, s.FirstExchange(), wanted, in)
}

// Fixed: the queues behind the work queue are replaced when they are empty.
func (s subject) Fixed(queue string) bool { return queue == s.Work.Name || queue == s.Parking.Name }

func (s subject) Transition(actual, wanted *topology.Topology, before lifecycle.Subject) retry.Transition {
	var tiers []retry.Tier
	if old, is := before.(subject); is {
		tiers = old.Tiers()
	}
	return s.Chain.Transition(actual, wanted, tiers)
}

func (s subject) Blockers(in, actual *topology.Topology, _ bool) string {
	if _, owned := actual.Queue(s.Parking.Name); !owned {
		return ""
	}
	sources := s.OthersParkingHere(in)
	if len(sources) == 0 {
		return ""
	}
	return fmt.Sprintf("others use the parking queue %q of the chain %q: the exchanges %s lead to it. Nothing was changed. Remove "+
		"those chains or bindings first, or hand the queue over: set parking_queue.ownership = \"application\" here, apply, and then "+
		"destroy", s.Parking.Name, s.Name,
		strings.Join(sources, ", "))
}
