package retryattachment

import (
	"context"
	"fmt"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/drain"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// subject is an attachment on the broker that the facts describe.
type subject struct {
	retry.Attachment
	f lifecycle.Facts
	// waits: a removal waits for messages that are under way.
	waits bool
}

var (
	_ lifecycle.Attacher = subject{}
	_ lifecycle.Needer   = subject{}
	_ lifecycle.Remover  = subject{}
)

func (m *model) Subject(f *lifecycle.Facts) lifecycle.Subject {
	if f == nil {
		f = &lifecycle.Facts{}
	}
	a := m.attachment()
	a.Work, a.Policy = f.Within(a.Work, a.Policy)
	return subject{a, *f, m.OnDetach.ValueString() == waitThere}
}

// Queues is for [lifecycle.Attacher].
func (s subject) Queues() (retry.WorkQueue, retry.ParkingQueue) { return s.Work, retry.ParkingQueue{} }

// Inside is for [lifecycle.Attacher].
func (s subject) Inside(in *topology.Topology) (retry.WorkQueue, retry.PolicySettings) {
	a := s.Within(in)
	return a.Work, a.Policy
}

// AttachPolicy is for [lifecycle.Attacher].
func (s subject) AttachPolicy() string { return s.PolicyName() }

// Needs are the tiers and the existing queue.
func (s subject) Needs() []lifecycle.Need {
	needs := []lifecycle.Need{{Attribute: "tiers", Kind: topology.KindExchange, Name: s.ReturnExchange(), Summary: "Retry Tiers Not Found"}}
	if s.Work.Existing {
		needs = append(needs, lifecycle.Need{
			Attribute: "queue", Kind: topology.KindQueue, Name: s.Work.Name, Summary: "Existing Queue Not Found",
			Otherwise: "Or leave \"ownership\" out, and the attachment declares a queue of this name itself.",
		})
	}
	return needs
}

func (s subject) BrokerProblems() []retry.Problem {
	return retry.SharedBrokerProblems("tiers", s.f.Version, s.f.Features)
}

func (s subject) Surroundings(in *topology.Topology, _ lifecycle.Subject) []retry.Problem {
	return append(s.ExistingProblems(in, s.f.Features), s.PolicyProblems(in)...)
}

func (s subject) PolicyProblems(in *topology.Topology) []retry.Problem {
	return s.Attachment.PolicyProblems(in, s.f.Features)
}

func (s subject) DependsOnBroker() bool { return true }

func (s subject) Topology() *topology.Topology { return s.Attachment.Topology(s.f.Features) }

func (s subject) Conflicts(_, in *topology.Topology) (names []string, own bool) {
	actual := s.Actual(in)
	for _, q := range actual.Queues() {
		names = append(names, fmt.Sprintf("queue %q", q.Name))
	}
	for _, b := range actual.Bindings() {
		names = append(names, fmt.Sprintf("binding %q", b.Label()))
	}
	for _, p := range actual.Policies() {
		names = append(names, fmt.Sprintf("policy %q", p.Name))
	}
	return names, slices.ContainsFunc(actual.Bindings(), func(b topology.Binding) bool { return b.ID() == s.Return().ID() })
}

func (s subject) Fixed(string) bool { return true }

func (s subject) Transition(actual, wanted *topology.Topology, _ lifecycle.Subject) retry.Transition {
	return retry.Transition{Stages: s.Steps(actual, wanted)}
}

// Internal says that nobody has published to a queue whose import found no binding: its
// create was broken off.
func (s subject) Internal(actual *topology.Topology) func(queue string) bool {
	return func(string) bool { return s.f.Imported && !actual.Has(s.Return()) }
}

func (s subject) Blockers(_, _ *topology.Topology, _ bool) string { return "" }

// Remove detaches the queue as on_detach and the deletion policy say.
func (s subject) Remove(ctx context.Context, client *broker.Client, vhost string, actual *topology.Topology, everything bool) error {
	d := drain.Detachment{Client: client, VHost: vhost, Attachment: s.Attachment, Actual: actual, Waits: s.waits, Mode: broker.OnlyIfEmpty}
	if everything && !s.Work.Existing {
		d.Waits, d.Mode = false, broker.Always
	}
	return d.Run(ctx)
}
