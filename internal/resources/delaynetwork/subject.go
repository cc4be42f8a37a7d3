package delaynetwork

import (
	"fmt"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// subject is a network on the broker that the facts describe.
type subject struct {
	delay.Network
	f lifecycle.Facts
}

func (m *model) Subject(f *lifecycle.Facts) lifecycle.Subject {
	if f == nil {
		f = &lifecycle.Facts{}
	}
	return subject{m.network(), *f}
}

func (s subject) BrokerProblems() []retry.Problem { return nil }

func (s subject) Surroundings(in *topology.Topology, _ lifecycle.Subject) []retry.Problem {
	return s.PolicyProblems(in)
}

func (s subject) DependsOnBroker() bool { return s.QueueType == topology.Quorum }

func (s subject) Topology() *topology.Topology { return s.Network.Topology(s.f.Features) }

func (s subject) Actual(in *topology.Topology) *topology.Topology {
	return s.Network.Actual(in, s.f.Features)
}

func (s subject) Conflicts(wanted, in *topology.Topology) (names []string, own bool) {
	return lifecycle.Conflicts(s.Name, s.EntryExchange(), wanted, in)
}

func (s subject) Fixed(string) bool { return true }

func (s subject) Transition(actual, wanted *topology.Topology, _ lifecycle.Subject) retry.Transition {
	if s.f.Imported {
		return retry.Transition{Stages: s.Complete(actual, wanted)}
	}
	return retry.Transition{Stages: s.Repair(actual, wanted)}
}

func (s subject) Internal(*topology.Topology) func(queue string) bool {
	return func(string) bool { return true }
}

func (s subject) Blockers(in, _ *topology.Topology, everything bool) string {
	var attached []string
	for _, b := range s.Attached(in) {
		attached = append(attached, b.Label())
	}
	if everything || len(attached) == 0 {
		return ""
	}
	return fmt.Sprintf("Destinations are attached to it:\n\n  %s\n\nNothing was changed. Remove them first. To remove the network all "+
		"the same, set deletion_policy = \"delete\", apply, and then destroy.", strings.Join(attached, "\n  "))
}
