package retrytiers

import (
	"fmt"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// subject is a set of tiers on the broker that the facts describe.
type subject struct {
	retry.Chain
	f lifecycle.Facts
}

func (m *model) Subject(f *lifecycle.Facts) lifecycle.Subject {
	if f == nil {
		f = &lifecycle.Facts{}
	}
	return subject{m.chain(), *f}
}

// Retiring is for [lifecycle.Drainer].
func (s subject) Retiring() retry.Chain { return s.Chain }

// Flags is for [lifecycle.Flagged].
func (s subject) Flags() (strategy retry.Strategy, attribute string) { return s.Strategy, "name" }

func (s subject) Problems() []retry.Problem { return s.SharedProblems() }

func (s subject) BrokerProblems() []retry.Problem {
	return retry.SharedBrokerProblems("name", s.f.Version, s.f.Features)
}

func (s subject) Surroundings(in *topology.Topology, _ lifecycle.Subject) []retry.Problem {
	return s.PolicyProblems(in)
}

// PolicyProblems names the attributes that tiers have.
func (s subject) PolicyProblems(in *topology.Topology) []retry.Problem {
	problems := s.Chain.PolicyProblems(in, s.f.Features)
	for i := range problems {
		if problems[i].Attribute != "delays" {
			problems[i].Attribute = "name"
		}
	}
	return problems
}

func (s subject) DependsOnBroker() bool { return s.QueueType == topology.Quorum }

func (s subject) Topology() *topology.Topology { return s.Chain.Topology(s.f.Features) }

func (s subject) Actual(in *topology.Topology) *topology.Topology {
	return s.Chain.Actual(in, s.f.Features)
}

func (s subject) Conflicts(wanted, in *topology.Topology) (names []string, own bool) {
	return lifecycle.Conflicts(s.Name, s.FirstExchange(), wanted, in)
}

func (s subject) Fixed(string) bool { return true }

func (s subject) Transition(actual, wanted *topology.Topology, before lifecycle.Subject) retry.Transition {
	var tiers []retry.Tier
	if old, is := before.(subject); is {
		tiers = old.Tiers()
	}
	return s.Chain.Transition(actual, wanted, tiers)
}

// Blockers refuses whatever the deletion policy: it is about messages in the tiers, and
// not about those that fail in application queues.
func (s subject) Blockers(in, _ *topology.Topology, _ bool) string {
	attached := s.Attached(in)
	if len(attached) == 0 {
		return ""
	}
	return fmt.Sprintf("These are attached to it:\n\n  %s\n\nNothing was changed. Without the tiers their rejected messages would be "+
		"lost. Detach them first.",
		strings.Join(attached, "\n  "))
}
