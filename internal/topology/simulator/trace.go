package simulator

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Kind is what happened to a message.
type Kind string

// The kinds of event.
const (
	Published    Kind = "published"
	Returned     Kind = "returned" // unroutable
	Enqueued     Kind = "enqueued"
	RefusedBy    Kind = "refused" // by a full queue
	Delivered    Kind = "delivered"
	Requeued     Kind = "requeued"
	Acked        Kind = "acked"
	DeadLettered Kind = "dead-lettered"
	Held         Kind = "held"
	HeldBack     Kind = "held back" // by a delayed retry
	Lost         Kind = "lost"
)

// Event is one thing that happened to a message.
type Event struct {
	At      time.Duration
	Kind    Kind
	Message ID
	// Queue is where it happened, empty for what happens at an exchange.
	Queue string
	// Exchange and RoutingKey are those with which the message was published,
	// or came to the queue.
	Exchange, RoutingKey string
	// Reason is why the message died; Cause why it was held or lost.
	Reason, Cause string
}

// String describes the event in one line.
func (e Event) String() string {
	parts := []string{fmt.Sprintf("%v message %d %s", e.At, e.Message, e.Kind)}
	for _, detail := range []struct{ name, value string }{
		{"queue", e.Queue}, {"exchange", e.Exchange}, {"key", e.RoutingKey}, {"reason", e.Reason}, {"cause", e.Cause},
	} {
		if detail.value != "" {
			parts = append(parts, fmt.Sprintf("%s=%q", detail.name, detail.value))
		}
	}
	return strings.Join(parts, " ")
}

func (b *Broker) event(e Event) {
	e.At = b.now
	b.trace = append(b.trace, e)
}

// Trace returns everything that happened, in order.
func (b *Broker) Trace() []Event { return slices.Clone(b.trace) }

// Journey returns what happened to one message and its copies, in order.
func (b *Broker) Journey(id ID) []Event {
	return slices.DeleteFunc(slices.Clone(b.trace), func(e Event) bool { return e.Message != id })
}
