package differential

import (
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

const (
	// beforeConsuming is how long messages lie before anybody looks at them;
	// shorter expirations of their own take effect in the queue they are sent to.
	beforeConsuming = 200 * time.Millisecond
	// betweenLooks is how often a consumer asks for a message.
	betweenLooks = 50 * time.Millisecond
	// slack is how late a real broker may be.
	slack = 700 * time.Millisecond
	// mostDeliveries ends a case whose messages multiply.
	mostDeliveries = 100
)

var errTooMany = errors.New("too many deliveries")

// testCase is a topology, messages, and consumers that decide by what they see.
type testCase struct {
	name     string
	seed     int64
	topology *topology.Topology
	messages []simulator.Publishing
	// consumed are the queues that consumers look at. Times-to-live there are
	// longer than a consumer needs.
	consumed []string
	outcomes []outcome
	// choose, if set, decides on the n-th delivery instead of a draw from
	// outcomes.
	choose func(n int) outcome
	// republished is a chain of strategy "republish", whose process is part of
	// the case.
	republished *retry.Chain
	// heldBack is a chain of strategy "delayed_exchange", likewise.
	heldBack *retry.Chain
	// attached: a policy leads the dead letters of an application's queue into a chain.
	attached bool
	// longest is the longest time that a message waits.
	longest time.Duration
}

// run plays the case until nothing has happened for longer than anything in it
// takes, and then empties all queues.
func (c testCase) run(w world) (record, error) {
	var r record
	for _, p := range c.messages {
		o, err := w.publish(p)
		if err != nil {
			return r, err
		}
		r.outcomes = append(r.outcomes, o)
	}
	w.wait(beforeConsuming)
	left := map[string]bool{}
	for idle := time.Duration(0); idle < c.longest+slack; {
		seen := len(r.deliveries)
		for _, queue := range c.consumed {
			if left[queue] {
				continue
			}
			if err := c.consume(w, queue, &r, left); err != nil {
				return r, err
			}
		}
		if err := c.process(w, &r); err != nil {
			return r, err
		}
		if len(r.deliveries) > mostDeliveries {
			return r, errTooMany
		}
		w.wait(betweenLooks)
		idle += betweenLooks
		if len(r.deliveries) > seen {
			idle = 0
		}
	}
	return r, c.empty(w, &r)
}

func (c testCase) consume(w world, queue string, r *record, left map[string]bool) error {
	o, ok, err := w.get(queue)
	if err != nil || !ok {
		return err
	}
	how := c.decide(o, len(r.deliveries)+1)
	left[queue] = how == leave
	r.deliveries = append(r.deliveries, o.String()+" -> "+string(how))
	return w.settle(how)
}

// process lets the processes of the chain, if it needs any, move a message each.
func (c testCase) process(w world, r *record) error {
	if c.republished != nil {
		return move(w, r, c.republished.FailedQueue(), c.republish)
	}
	if c.heldBack == nil {
		return nil
	}
	if err := move(w, r, c.heldBack.FailedQueue(), c.holdBack); err != nil {
		return err
	}
	return move(w, r, c.heldBack.RequeueQueue(), func(_ observation, p *simulator.Publishing) { p.Exchange = c.heldBack.ReturnExchange() })
}

// move publishes the next message of the queue again, without the headers of the
// broker, as next says, and then takes it out.
func move(w world, r *record, queue string, next func(observation, *simulator.Publishing)) error {
	o, ok, err := w.get(queue)
	if err != nil || !ok {
		return err
	}
	p := simulator.Publishing{RoutingKey: o.RoutingKey, Body: o.Body, Headers: topology.Arguments{}}
	for key, value := range o.Headers {
		if !strings.HasPrefix(key, "x-") {
			p.Headers[key] = value
		}
	}
	next(o, &p)
	how, err := w.publish(p)
	if err != nil {
		return err
	}
	r.deliveries = append(r.deliveries, fmt.Sprintf("%s -> to %q: %s", o, p.Exchange, how))
	return w.settle(ack)
}

// republish does what the process of strategy "republish" does with a failed
// message: it counts in a header and publishes it to the retry exchange.
func (c testCase) republish(_ observation, p *simulator.Publishing) {
	count, _ := p.Headers.Int(c.republished.CountHeader)
	p.Headers[c.republished.CountHeader] = count + 1
	p.Exchange = c.republished.RetryExchange()
}

// holdBack does what the error consumer of strategy "delayed_exchange" does with
// a failed message: it counts, and has it held back for the next delay, or parked
// after the last and when it was not rejected.
func (c testCase) holdBack(o observation, p *simulator.Publishing) {
	count, _ := p.Headers.Int("count")
	p.Headers["count"] = count + 1
	p.Exchange = c.heldBack.ParkingExchange()
	if count < int64(len(c.heldBack.Delays)) && o.Headers.String("x-first-death-reason") == simulator.Rejected {
		p.Headers[topology.DelayHeader] = c.heldBack.Delays[count].Milliseconds()
		p.Exchange = c.heldBack.WaitExchange()
	}
}

// decide draws an outcome by what the consumer sees, so that the order of
// deliveries from different queues does not matter. It ends every loop.
func (c testCase) decide(o observation, n int) outcome {
	if c.choose != nil {
		return c.choose(n)
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(o.String()))
	how := c.outcomes[(hash.Sum64()>>7^uint64(c.seed))%uint64(len(c.outcomes))]
	count := int64(0)
	for _, header := range []string{"x-acquired-count", "x-delivery-count"} {
		n, _ := o.Headers.Int(header)
		count = max(count, n)
	}
	requeues := how == rejectRequeue || how == nackRequeue || how == crash || how == leave
	switch {
	case o.deaths() > 8:
		return ack
	case requeues && o.Redelivered && (count == 0 || count > 4):
		return reject
	}
	return how
}

// empty takes out what is left in every queue.
func (c testCase) empty(w world, r *record) error {
	for _, q := range c.topology.Queues() {
		for {
			o, ok, err := w.get(q.Name)
			if err != nil {
				return err
			}
			if !ok {
				break
			}
			r.left = append(r.left, o.String())
			if err := w.settle(ack); err != nil {
				return err
			}
		}
	}
	return nil
}
