package retry

import (
	"reflect"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// FixedChange is an attribute that changes although it is fixed for the life of a chain.
type FixedChange struct {
	Attribute string
	// Reason says why, without a full stop.
	Reason        string
	before, after any
}

const (
	everyQueue   = "RabbitMQ fixes it when a queue is declared, and every queue of the chain has it"
	workArgument = "it is an argument of the work queue, which RabbitMQ fixes when the queue is declared"
)

// FixedChanges returns the attributes that a change to another chain changes although
// they are fixed, in the arguments of queues for example.
func (c Chain) FixedChanges(to Chain) []FixedChange {
	candidates := []FixedChange{
		{"strategy", strategyReason(c, to), true, c.SameFamily(to)},
		{"queue_type", everyQueue, c.QueueType, to.QueueType},
		{"dead_letter_strategy", everyQueue, c.DeadLetterStrategy, to.DeadLetterStrategy},
		{"work_queue.name", "messages that wait in a tier come back to the queue of the old name", c.Work.Name, to.Work.Name},
		{"parking_queue.name", "parked messages stay in the queue of the old name", c.Parking.Name, to.Parking.Name},
	}
	if c.SameDesign(to) && c.FailedToProcess() {
		candidates = append(candidates, FixedChange{
			"count_header", "messages that are under way count in the header of before",
			c.CountHeader, to.CountHeader,
		})
	}
	if c.DelaysAreArguments() && to.DelaysAreArguments() {
		candidates = append(candidates, FixedChange{
			"delays", "with strategy \"delayed_retry\" they are arguments of the work queue, which RabbitMQ fixes when the queue is " +
				"declared", c.Delays, to.Delays,
		})
	}
	candidates = append(candidates, workChanges(c, to)...)
	if !c.Parking.Existing && !to.Parking.Existing {
		candidates = append(candidates, FixedChange{
			"parking_queue.message_ttl", "it is an argument of the parking queue, which RabbitMQ fixes when the queue is declared",
			c.Parking.MessageTTL, to.Parking.MessageTTL,
		})
	}
	var changed []FixedChange
	for _, candidate := range candidates {
		if !reflect.DeepEqual(candidate.before, candidate.after) {
			changed = append(changed, candidate)
		}
	}
	return changed
}

// workChanges compares the work queues, if the chain declares both.
func workChanges(a, b Chain) []FixedChange {
	if a.Work.Existing || b.Work.Existing {
		return nil
	}
	var candidates []FixedChange
	if a.SameFamily(b) && (!a.DelaysAreArguments() || slices.Equal(a.Delays, b.Delays)) { // else it follows from these
		candidates = append(candidates, FixedChange{"work_queue.delivery_limit", workArgument, a.Work.DeliveryLimit, b.Work.DeliveryLimit})
	}
	after := b.Work.Settings()
	for i, s := range a.Work.Settings() {
		candidates = append(candidates, FixedChange{"work_queue." + s.Attribute, workArgument, s.Value, after[i].Value})
	}
	return append(candidates, FixedChange{"work_queue.arguments", workArgument, a.Work.Arguments, b.Work.Arguments})
}

// strategyReason says why a chain cannot change to a strategy of another family.
func strategyReason(a, b Chain) string {
	if a.FailedToProcess() && b.FailedToProcess() {
		return "messages that are under way are counted and moved by the processes of before"
	}
	if a.Work.Existing {
		return "the exchanges that its messages go through have other arguments with the other strategy, which RabbitMQ fixes when they " +
			"are declared, and messages that wait in a tier still need those of before"
	}
	return "the work queue dead-letters to another exchange, or by other arguments, which RabbitMQ fixes when it is declared"
}

// IsIdle says that no message of the chain can be under way before a change to another one,
// because a create was killed: there is no work queue, or one that was not attached yet,
// which an import takes for the chain's own. have is what is there.
func (c Chain) IsIdle(to Chain, have topology.Lines) bool {
	_, exists := have.Queues[c.Work.Name]
	return !c.Work.Existing && (!exists || to.Work.Existing && !to.deadLetters(have))
}

// deadLetters says whether the work queue dead-letters, by the chain's policy or by an
// argument.
func (c Chain) deadLetters(have topology.Lines) bool {
	_, attached := have.Policies[c.AttachPolicy()]
	return attached || strings.Contains(have.Queues[c.Work.Name], topology.DeadLetterExchange+"=")
}
