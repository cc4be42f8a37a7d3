package simulator

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// The values that a broker has by default for at-least-once dead-lettering
// (deps/rabbit/Makefile, dead_letter_worker_*, 3.10 to 4.3).
const (
	// HoldPeriod is how long a held message waits for the next try.
	HoldPeriod = 180 * time.Second
	// HoldSlots is how many held messages stop a queue's dead-lettering.
	HoldSlots = 32
)

// ErrNotSimulated says that a topology holds what this package cannot follow.
var ErrNotSimulated = errors.New("not simulated")

// Options say which broker is simulated.
type Options struct {
	// Version is a version of RabbitMQ, such as "4.0.5". From 3.10 on all are
	// known as far as their differences were measured or read.
	Version string
}

// Broker is one virtual host of a broker.
type Broker struct {
	rules    rules
	topology *topology.Topology
	queues   map[string]*queue
	now      time.Duration
	lastID   ID
	lastSeq  int64
	trace    []Event
	fates    fates
	// waiting are the messages that exchanges hold back, in the order in which
	// their time comes.
	waiting []*waiting
}

// New returns a broker with the given exchanges, queues and bindings and no
// messages. The broker keeps a copy; [Broker.Apply] changes it.
func New(t *topology.Topology, o Options) (*Broker, error) {
	r, err := rulesOf(o.Version)
	if err != nil {
		return nil, err
	}
	b := &Broker{rules: r, topology: topology.New(), queues: map[string]*queue{}, fates: newFates()}
	for _, stage := range []topology.Stage{
		t.DeclareExchanges(),
		t.DeclareQueues(func(topology.Queue) bool { return true }),
		t.BindAll(func(topology.Binding) bool { return true }),
		t.SetPolicies(),
	} {
		for _, step := range stage {
			if err := b.Apply(step); err != nil {
				return nil, err
			}
		}
	}
	return b, nil
}

// Topology returns a copy of what the broker holds now.
func (b *Broker) Topology() *topology.Topology { return b.topology.Clone() }

// Now returns the virtual time since the broker was made.
func (b *Broker) Now() time.Duration { return b.now }

// Advance moves the virtual clock and does what falls due on the way, in the
// order in which it does.
func (b *Broker) Advance(d time.Duration) {
	end := b.now + d
	for {
		next, exists := b.nextTimer()
		if !exists || next > end {
			break
		}
		b.now = max(b.now, next)
		b.settle()
	}
	b.now = end
}

// AdvanceToNextExpiry moves the clock to the next moment at which something
// happens by itself: a message expires or a held one is tried again. It returns
// false, and moves nothing, when no such moment is in sight.
func (b *Broker) AdvanceToNextExpiry() bool {
	next, exists := b.nextTimer()
	if exists {
		b.Advance(max(0, next-b.now))
	}
	return exists
}

func (b *Broker) nextTimer() (time.Duration, bool) {
	var earliest time.Duration
	found := false
	consider := func(at time.Duration) {
		if !found || at < earliest {
			earliest, found = at, true
		}
	}
	if len(b.waiting) > 0 {
		consider(b.waiting[0].due)
	}
	for _, q := range b.queues {
		for _, e := range b.heads(q) {
			if e.expires != nil {
				consider(*e.expires)
			}
		}
		if len(q.delayed) > 0 {
			consider(q.delayed[0].readyAt)
		}
		if len(q.held) > 0 {
			consider(q.retryAt)
		}
	}
	return earliest, found
}

// settle does everything that is due at the present time: it expires messages
// and tries held ones again, until nothing is left to do. It ends, because the
// broker lets no message go round without a rejection.
func (b *Broker) settle() {
	for again := true; again; {
		again = b.passOn()
		for _, name := range slices.Sorted(maps.Keys(b.queues)) {
			if q, exists := b.queues[name]; exists && (b.release(q) || b.expire(q) || b.retryHeld(q)) {
				again = true
			}
		}
	}
}

func (b *Broker) queue(name string) (*queue, error) {
	q, exists := b.queues[name]
	if !exists {
		return nil, fmt.Errorf("no queue %q", name)
	}
	return q, nil
}
