package retrychain

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

func (m *model) Changes(prior lifecycle.Model) (changes []lifecycle.Change, idle bool) {
	before, is := prior.(*model)
	if !is || !m.Known() {
		return nil, false
	}
	old, c, have := before.chain(), m.chain(), values.LinesOf(before.Topology)
	what, queue := "A queue", "its work queue"
	if old.Work.Existing {
		what, queue = "An exchange or a queue", "the queue that it is for, which has to be another one"
	}
	for _, change := range immutableChanges(old, c) {
		changes = append(changes, lifecycle.Change{
			Attribute: change.attribute, Reason: change.reason,
			Instead: fmt.Sprintf("%s would have to be deleted and declared again, and messages that arrive in between would be lost. "+
				"Undo the change, or make it by hand without a gap: add a chain of another name with the new value, move publishers "+
				"and then consumers to %s, and remove this chain when its queues are empty.", what, queue),
		})
	}
	return changes, isIdle(old, c, have)
}

// isIdle says that no message can be under way, because a create was killed: there is no
// work queue, or one that was not attached yet, which an import takes for the chain's own.
func isIdle(old, c retry.Chain, have topology.Lines) bool {
	_, exists := have.Queues[old.Work.Name]
	return !old.Work.Existing && (!exists || c.Work.Existing && !deadLetters(have, c))
}

// deadLetters says whether the work queue dead-letters, by the chain's policy or by an
// argument.
func deadLetters(have topology.Lines, c retry.Chain) bool {
	_, attached := have.Policies[c.AttachPolicy()]
	return attached || strings.Contains(have.Queues[c.Work.Name], topology.DeadLetterExchange+"=")
}

// immutable is an attribute that changed and that the chain's queues were
// declared with.
type immutable struct {
	attribute string
	reason    string
	before    any
	after     any
}

const (
	everyQueue   = "RabbitMQ fixes it when a queue is declared, and every queue of the chain has it"
	workArgument = "it is an argument of the work queue, which RabbitMQ fixes when the queue is declared"
)

// immutableChanges returns the attributes that differ and are fixed in the
// arguments of queues.
func immutableChanges(a, b retry.Chain) []immutable {
	candidates := []immutable{
		{"strategy", strategyReason(a, b), true, a.SameFamily(b)},
		{"queue_type", everyQueue, a.QueueType, b.QueueType},
		{"dead_letter_strategy", everyQueue, a.DeadLetterStrategy, b.DeadLetterStrategy},
		{"work_queue.name", "messages that wait in a tier come back to the queue of the old name", a.Work.Name, b.Work.Name},
		{"parking_queue.name", "parked messages stay in the queue of the old name", a.Parking.Name, b.Parking.Name},
	}
	if a.SameDesign(b) && a.FailedToProcess() {
		candidates = append(candidates, immutable{
			"count_header", "messages that are under way count in the header of before",
			a.CountHeader, b.CountHeader,
		})
	}
	if a.DelaysAreArguments() && b.DelaysAreArguments() {
		candidates = append(candidates, immutable{"delays", "with strategy \"delayed_retry\" they are arguments of the work queue, which " +
			"RabbitMQ fixes when the queue is declared", a.Delays, b.Delays})
	}
	candidates = append(candidates, workChanges(a, b)...)
	if !a.Parking.Existing && !b.Parking.Existing {
		candidates = append(candidates,
			immutable{
				"parking_queue.message_ttl",
				"it is an argument of the parking queue, which RabbitMQ fixes when the queue is declared", a.Parking.MessageTTL,
				b.Parking.MessageTTL,
			})
	}
	var changed []immutable
	for _, c := range candidates {
		if !reflect.DeepEqual(c.before, c.after) {
			changed = append(changed, c)
		}
	}
	return changed
}

// workChanges compares the work queues, if the chain declares both.
func workChanges(a, b retry.Chain) []immutable {
	if a.Work.Existing || b.Work.Existing {
		return nil
	}
	var candidates []immutable
	if a.SameFamily(b) && (!a.DelaysAreArguments() || slices.Equal(a.Delays, b.Delays)) { // else it follows from these
		candidates = append(candidates, immutable{"work_queue.delivery_limit", workArgument, a.Work.DeliveryLimit, b.Work.DeliveryLimit})
	}
	after := b.Work.Settings()
	for i, s := range a.Work.Settings() {
		candidates = append(candidates, immutable{"work_queue." + s.Attribute, workArgument, s.Value, after[i].Value})
	}
	return append(candidates, immutable{"work_queue.arguments", workArgument, a.Work.Arguments, b.Work.Arguments})
}

// strategyReason says why a chain cannot change to a strategy of another family.
func strategyReason(a, b retry.Chain) string {
	if a.FailedToProcess() && b.FailedToProcess() {
		return "messages that are under way are counted and moved by the processes of before"
	}
	if a.Work.Existing {
		return "the exchanges that its messages go through have other arguments with the other strategy, which RabbitMQ fixes when they " +
			"are declared, and messages that wait in a tier still need those of before"
	}
	return "the work queue dead-letters to another exchange, or by other arguments, which RabbitMQ fixes when it is declared"
}

// Stopped is for [lifecycle.Stopper].
func (s subject) Stopped(have topology.Lines, wanted *topology.Topology) string {
	stopped := stopping(s.Chain, have, wanted)
	if len(stopped) == 0 {
		return ""
	}
	return fmt.Sprintf("Objects are missing without which the chain %q does not work:\n\n  %s\n\nUntil this plan is applied, %s.",
		s.Name, strings.Join(stopped, "\n  "), fateOf(s.Chain, have, wanted))
}

// fateOf says what happens to messages that fail while parts of the chain are
// missing. Where only the ways back to the work queue are, as after an
// application has declared its queue again, the exchange of each tier parks what it
// cannot route.
func fateOf(c retry.Chain, have topology.Lines, wanted *topology.Topology) string {
	whole := have
	whole.Bindings = maps.Clone(have.Bindings)
	for _, b := range wanted.Bindings() {
		if e, _ := wanted.Exchange(b.Source); isWayBack(c, b, wanted) && e.Alternate() == c.ParkingExchange() {
			whole.Bindings[b.Label()] = ""
		}
	}
	if len(stopping(c, whole, wanted)) == 0 {
		return "messages that come back from a tier are parked"
	}
	return "messages that fail are lost or wait where they are"
}

// isWayBack says whether a binding leads from one of the chain's tiers to the work queue.
func isWayBack(c retry.Chain, b topology.Binding, wanted *topology.Topology) bool {
	return b.Destination == c.Work.Name && b.Source != c.RedriveExchange() && ownExchange(wanted, b.Source)
}

// stopping lists the missing objects without which no message is retried or
// parked: the exchanges behind the work queue, the ways back to it, the way into
// the parking queue, and the policy that attaches an existing work queue.
func stopping(c retry.Chain, have topology.Lines, wanted *topology.Topology) []string {
	var missing []string
	for _, name := range []string{c.RetryExchange(), c.FirstExchange(), c.FailedExchange(), c.WaitExchange(), c.ParkingExchange()} {
		if _, exists := have.Exchanges[name]; !exists && ownExchange(wanted, name) {
			missing = append(missing, fmt.Sprintf("exchange %q", name))
		}
	}
	if _, exists := have.Policies[c.AttachPolicy()]; c.Work.Existing && !exists {
		missing = append(missing, fmt.Sprintf("policy %q", c.AttachPolicy()))
	}
	for _, b := range wanted.Bindings() {
		_, exists := have.Bindings[b.Label()]
		if !exists && (isWayBack(c, b, wanted) || b.Source == c.ParkingExchange()) {
			missing = append(missing, fmt.Sprintf("binding %q", b.Label()))
		}
	}
	return missing
}

func ownExchange(wanted *topology.Topology, name string) bool {
	_, own := wanted.Exchange(name)
	return own
}
