// Package lifecycle creates, reads, updates, deletes, plans and imports what a
// resource declares on the broker. The invariants of these operations are here, once; a
// resource describes itself by a [Kind], its values by a [Model] and its objects by a
// [Subject].
package lifecycle

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework-timeouts/resource/timeouts"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Kind describes a kind of resource.
type Kind struct {
	// Type is the name of the resource without the provider's, such as "retry_tiers".
	Type      string
	Schema    func(context.Context) schema.Schema
	Identity  Identity
	Words     Words
	Timeouts  Timeouts
	New       func() Model
	Upgraders map[int64]resource.StateUpgrader
}

// Timeouts are the time limits of a resource that sets none.
type Timeouts struct{ Create, Read, Update, Delete time.Duration }

// Words are what the diagnostics of a kind of resource say.
type Words struct {
	// Title is what titles begin with, such as "Delay Network".
	Title string
	// Noun precedes the name, such as "delay network".
	Noun string
	// Living is Noun in "the living …", if that is another word.
	Living string
	// This is the resource without its name, such as "this delay network".
	This string
	// Titles of errors and warnings.
	NotCreated, NotUpdated, NotDeleted, InUse, Full, Exists string
	// Conflict is the way out if objects exist that belong to an application, or empty.
	Conflict string
	// Empty says how to empty the queues, as an instruction without a full stop.
	Empty string
}

// Common are the attributes of every resource.
type Common struct {
	VHost          types.String   `tfsdk:"vhost"`
	DeletionPolicy types.String   `tfsdk:"deletion_policy"`
	Timeouts       timeouts.Value `tfsdk:"timeouts"`
	ID             types.String   `tfsdk:"id"`
	Topology       types.Object   `tfsdk:"topology"`
}

// Base returns the attributes themselves.
func (c *Common) Base() *Common { return c }

// Values of deletion_policy.
const (
	IfEmpty   = "if_empty"
	DeleteAll = "delete"
	Retain    = "retain"
)

// Model is a pointer to the values of a resource, which embed [Common].
type Model interface {
	Base() *Common
	// Names are the parts of the identity without the virtual host, in the order of
	// the identifier.
	Names() []types.String
	// Complete fills in the defaults of the inputs. What follows from a value that is
	// known only after apply, or from a broker that cannot be asked yet (f is nil),
	// stays unknown. prior is the state that a plan changes in place, or nil. It is a pure
	// function: Terraform plans again at apply, in another process, and the answer must
	// be the same.
	Complete(prior Model, f *Facts)
	// SetOutputs sets what follows from the inputs, known or not.
	SetOutputs()
	// Known says whether no input is known only after apply.
	Known() bool
	// Subject converts the inputs, all of which must be known.
	Subject(f *Facts) Subject
	// Changes lists the changes of prior that RabbitMQ cannot make in place. idle: no
	// message can be under way, so that they are possible all the same.
	Changes(prior Model) (changes []Change, idle bool)
	// Import fills the inputs from what Names name in the virtual host. An error that is
	// meant for the user is an [*ImportError].
	Import(in *topology.Topology, f *Facts, version abilities.Version) error
}

// DeclaringModel is a model that shows with which arguments a queue is declared.
type DeclaringModel interface {
	Model
	// SetDeclared takes them from what is wanted, which is nil while nobody knows it.
	SetDeclared(wanted *topology.Topology)
}

// Change is an attribute that cannot change in place.
type Change struct {
	Attribute, Reason string
	// Instead is what to do, in sentences.
	Instead string
}

// ImportError says why nothing can be imported.
type ImportError struct{ Title, Text string }

func (e *ImportError) Error() string { return e.Text }

// Subject is what a resource declares, in terms of the domain.
type Subject interface {
	// Problems are those that need no look at a broker, BrokerProblems those that
	// come from the broker's version.
	Problems() []retry.Problem
	BrokerProblems() []retry.Problem
	// Surroundings are problems that other objects of the virtual host cause; before is
	// nil for a new resource.
	Surroundings(in *topology.Topology, before Subject) []retry.Problem
	// PolicyProblems are those of Surroundings that come from policies.
	PolicyProblems(in *topology.Topology) []retry.Problem
	// DependsOnBroker says whether Topology differs between brokers.
	DependsOnBroker() bool
	Topology() *topology.Topology
	// Actual picks from a virtual host what belongs to the subject.
	Actual(in *topology.Topology) *topology.Topology
	// Conflicts names the objects of wanted that exist, and says whether they look like
	// this very subject.
	Conflicts(wanted, in *topology.Topology) (names []string, own bool)
	// Fixed says whether a queue of another form must be refused. Others are replaced when
	// they are proved empty.
	Fixed(queue string) bool
	// Transition leads from actual to wanted; before is nil for a new resource.
	Transition(actual, wanted *topology.Topology, before Subject) retry.Transition
	// Internal says which queues get messages through the subject's own exchanges only.
	Internal(actual *topology.Topology) func(queue string) bool
	Removal(actual *topology.Topology) []topology.Stage
	// Blockers says why the subject must not be removed, in sentences, or returns "".
	// everything: its messages are given up.
	Blockers(in, actual *topology.Topology, everything bool) string
}

// What only some kinds of resource have.
type (
	// Attacher uses queues of applications, or has policies.
	Attacher interface {
		Subject
		// Queues are those that can belong to an application. Such a work queue is attached
		// by a policy. The parking queue of an attachment has no name.
		Queues() (retry.WorkQueue, retry.ParkingQueue)
		// Inside completes work queue and policy with what they take from the virtual host.
		Inside(in *topology.Topology) (retry.WorkQueue, retry.PolicySettings)
		AttachPolicy() string
		InEffect(definition topology.Arguments) bool
		WeakensDeadLettering(in, wanted *topology.Topology) bool
		Targets(in *topology.Topology) []topology.Target
	}
	// Needer uses objects that something else creates.
	Needer interface{ Needs() []Need }
	// Flagged needs feature flags; attribute is where a missing one shows.
	Flagged interface {
		Flags() (strategy retry.Strategy, attribute string)
	}
	// Drainer has tiers that are removed when their last messages have left.
	Drainer interface {
		Draining(actual, wanted *topology.Topology) (rest *topology.Topology, draining []retry.Tier)
		Retiring() retry.Chain
	}
	// DrainingModel is the model of a [Drainer].
	DrainingModel interface{ DrainingTiers() *types.List }
	// NewModel notes how a new resource is made.
	NewModel interface{ ForNew(f *Facts) }
	// Looker is a model that says whether the queue that it attaches is known. Its other
	// inputs may depend on that queue's type.
	Looker interface{ KnowsWorkQueue() bool }
	// Mover refuses changes of names that would leave a gap.
	Mover interface{ Moves(state Model) []Change }
	// NeedingModel lists needs while inputs are unknown.
	NeedingModel interface{ KnownNeeds() []Need }
	// Stopper says what does not work without the missing objects, or returns "".
	Stopper interface {
		Stopped(have topology.Lines, wanted *topology.Topology) string
	}
	// Holder has an exchange that holds messages back for at most a duration.
	Holder interface {
		HeldBack(actual *topology.Topology) (exchange string, longest time.Duration)
	}
	// Remover is removed in a way of its own.
	Remover interface {
		Remove(ctx context.Context, client *broker.Client, vhost string, actual *topology.Topology, everything bool) error
	}
)

// attached returns the work queue of an application that the subject attaches by a policy.
func attached(s Subject) (a Attacher, queue string, is bool) {
	a, is = s.(Attacher)
	if !is {
		return nil, "", false
	}
	work, _ := a.Queues()
	return a, work.Name, work.Existing
}

// label names a resource for people, such as `The chain "orders"`.
func (r *Resource) label(m Model) string {
	return fmt.Sprintf("The %s %q", r.Words.Noun, name(m))
}

// place is [Resource.label] with the virtual host.
func (r *Resource) place(m Model) string {
	return fmt.Sprintf("%s in virtual host %q", r.label(m), vhost(m))
}

// key is under which name a resource is locked and claims its objects.
func (r *Resource) key(m Model) string {
	return fmt.Sprintf("the %s %q", r.Words.Noun, m.Base().ID.ValueString())
}

// attribute is the last part of the identity, where conflicts show.
func (r *Resource) attribute() string { return r.Identity.Parts[len(r.Identity.Parts)-1].Name }

func name(m Model) string {
	names := m.Names()
	return names[len(names)-1].ValueString()
}

func vhost(m Model) string { return m.Base().VHost.ValueString() }

func lines(texts []string) string { return strings.Join(texts, "\n  ") }
