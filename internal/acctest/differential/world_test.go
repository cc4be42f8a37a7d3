package differential

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// world is a broker that a case runs on: a real one or the simulator.
type world interface {
	// publish returns "confirmed", "refused" or "unroutable".
	publish(p simulator.Publishing) (simulator.Outcome, error)
	// get takes the next message out of a queue, if there is one.
	get(queue string) (observation, bool, error)
	// settle settles what get returned last.
	settle(outcome) error
	wait(d time.Duration)
}

// outcome is what a consumer does with a delivery.
type outcome string

const (
	ack           outcome = "ack"
	reject        outcome = "reject"
	nack          outcome = "nack"
	rejectRequeue outcome = "reject with requeue"
	nackRequeue   outcome = "nack with requeue"
	crash         outcome = "crash"
	// leave requeues the message and never looks at its queue again.
	leave outcome = "nack with requeue, then leave"
)

// observation is what a consumer sees of a message.
type observation struct {
	Queue, Exchange, RoutingKey string
	Redelivered                 bool
	// Expiration is "" for none, else milliseconds.
	Expiration string
	Body       string
	// Headers leave out the times in x-death.
	Headers topology.Arguments
}

func (o observation) String() string {
	return fmt.Sprintf("queue=%q exchange=%q key=%q redelivered=%v expiration=%q body=%q {%s}",
		o.Queue, o.Exchange, o.RoutingKey, o.Redelivered, o.Expiration, o.Body, o.Headers.Text())
}

// deaths counts all deaths in the history.
func (o observation) deaths() int64 {
	var total int64
	list, _ := o.Headers["x-death"].([]any)
	for _, element := range list {
		entry, _ := element.(map[string]any)
		n, _ := entry["count"].(int64)
		total += n
	}
	return total
}

// withoutTimes removes the times from x-death, the only thing in which two
// brokers differ.
func withoutTimes(headers topology.Arguments) topology.Arguments {
	list, ok := headers["x-death"].([]any)
	if !ok {
		return headers
	}
	var entries []any
	for _, element := range list {
		if entry, ok := element.(map[string]any); ok {
			entry = maps.Clone(entry)
			delete(entry, "time")
			element = entry
		}
		entries = append(entries, element)
	}
	clone := headers.Clone()
	clone["x-death"] = entries
	return clone
}

// simulated is the simulator as a world.
type simulated struct {
	broker *simulator.Broker
	last   simulator.Delivery
}

func (s *simulated) publish(p simulator.Publishing) (simulator.Outcome, error) {
	receipt, err := s.broker.Publish(p)
	return receipt.Outcome, err
}

func (s *simulated) get(queue string) (observation, bool, error) {
	d, ok := s.broker.Get(queue)
	if !ok {
		return observation{}, false, nil
	}
	s.last = d
	o := observation{
		Queue: d.Queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered, Body: d.Body,
		Headers: withoutTimes(d.Headers),
	}
	if d.Expiration != nil {
		o.Expiration = fmt.Sprint(d.Expiration.Milliseconds())
	}
	return o, true, nil
}

func (s *simulated) settle(how outcome) error {
	switch how {
	case ack:
		return s.broker.Ack(s.last)
	case reject, rejectRequeue:
		return s.broker.Reject(s.last, how == rejectRequeue)
	case nack:
		return s.broker.Nack(s.last, false)
	case nackRequeue, leave:
		return s.broker.Nack(s.last, true)
	default:
		return s.broker.Crash(s.last)
	}
}

func (s *simulated) wait(d time.Duration) { s.broker.Advance(d) }

// held counts the messages that at-least-once queues hold.
func (s *simulated) held(t *topology.Topology) map[string]int {
	held := map[string]int{}
	for _, q := range t.Queues() {
		if n := s.broker.Depth(q.Name).Held; n > 0 {
			held[q.Name] = n
		}
	}
	return held
}

// record is everything that a run of a case shows.
type record struct {
	outcomes   []simulator.Outcome
	deliveries []string
	// left are the messages that remain in the queues.
	left []string
}

func (r record) String() string {
	var text strings.Builder
	for _, o := range r.outcomes {
		fmt.Fprintf(&text, "  publish: %s\n", o)
	}
	for _, part := range []struct {
		name  string
		lines []string
	}{{"delivery", r.deliveries}, {"left", r.left}} {
		for _, line := range slices.Sorted(slices.Values(part.lines)) {
			fmt.Fprintf(&text, "  %s: %s\n", part.name, line)
		}
	}
	return text.String()
}
