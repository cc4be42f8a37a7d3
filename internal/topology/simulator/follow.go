package simulator

import (
	"slices"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Follower follows single messages through a topology step by step: the caller
// says by what a message dies, and the follower where it goes then. There is no
// clock, and no queue is ever full.
type Follower struct {
	broker *Broker
	// effective and settings of the queues that were asked for.
	effective map[string]topology.Arguments
	settings  map[string]settings
}

// NewFollower returns a follower for the topology, which it neither changes nor
// copies, and which must not change. Unlike [New] it takes queues and exchanges of any type.
func NewFollower(t *topology.Topology, o Options) (*Follower, error) {
	r, err := rulesOf(o.Version)
	if err != nil {
		return nil, err
	}
	r.delayedExchange = false // headers that nobody knows decide what it does
	b := &Broker{rules: r, topology: t.Indexed(), fates: newFates()}
	return &Follower{b, map[string]topology.Arguments{}, map[string]settings{}}, nil
}

// Settings are what is in effect for a queue: its arguments, merged with the
// policies that apply to it.
type Settings struct {
	// TTL is nil for none, as are the other pointers.
	TTL *time.Duration
	// DeadLetterExchange is "" for the default exchange; Key is the routing key
	// that dead letters get in place of their own.
	DeadLetterExchange, Key *string
	// AtLeastOnce: at-least-once dead-lettering works, with all that it needs.
	AtLeastOnce bool
	// Overflow is what happens to a message too many, "drop-head" by default.
	Overflow         string
	MaxLen, MaxBytes *int64
	// DeliveryLimit is the default one, too, where RabbitMQ has one.
	DeliveryLimit *int64
}

// Settings returns what is in effect for the queue.
func (f *Follower) Settings(name string) Settings {
	s := f.of(name)
	settings := Settings{
		TTL: s.ttl, AtLeastOnce: s.atLeast, Overflow: s.overflow, MaxLen: s.maxLen, MaxBytes: s.maxBytes, DeliveryLimit: s.limit,
	}
	if s.target != nil {
		settings.DeadLetterExchange, settings.Key = &s.target.exchange, s.target.key
	}
	return settings
}

// of returns the settings of the queue, which are looked up once.
func (f *Follower) of(name string) settings {
	s, known := f.settings[name]
	if !known {
		declared, _ := f.broker.topology.Queue(name)
		s = f.broker.settingsOf(declared, f.Effective(declared))
		f.settings[name] = s
	}
	return s
}

// Effective returns the arguments that are in effect for the queue. The caller
// must not change them.
func (f *Follower) Effective(q topology.Queue) topology.Arguments {
	a, known := f.effective[q.Name]
	if !known {
		a = f.broker.topology.Effective(q, f.broker.rules.defaultLimit)
		f.effective[q.Name] = a
	}
	return a
}

// Letter is a message in a queue.
type Letter struct {
	Queue   string
	message *message
}

// Put returns a message that was published in this way and is in the queue.
func (f *Follower) Put(queueName string, p Publishing) Letter {
	return Letter{Queue: queueName, message: f.broker.message(p)}
}

// RoutingKey is the first routing key of the message.
func (l Letter) RoutingKey() string { return l.message.keys[0] }

// SameState says whether two letters will go the same way: whether all that
// decides it is the same. The numbers in their histories do not.
func (l Letter) SameState(other Letter) bool {
	a, b := l.message, other.message
	sameDeath := func(x, y Death) bool { return x.Queue == y.Queue && x.Reason == y.Reason }
	return l.Queue == other.Queue && a.exchange == b.exchange && slices.Equal(a.keys, b.keys) &&
		slices.EqualFunc(a.deaths, b.deaths, sameDeath) && withoutHistory(a.headers).Equal(withoutHistory(b.headers))
}

func withoutHistory(headers topology.Arguments) topology.Arguments {
	headers = headers.Clone()
	delete(headers, "x-death")
	return headers
}

// DeathOutcome is what becomes of a message that dies.
type DeathOutcome struct {
	// Letters are the message in the queues that take it.
	Letters []Letter
	// Cyclic are the queues that it was routed to and must not go to.
	Cyclic []string
	// Cause is why there are no letters: [NoDeadLetterExchange],
	// [MissingExchange], [NoRoute] or [Cycle]. It is empty if there are any, and
	// [Unknown] where the way leads through an exchange whose type is not known
	// here.
	Cause string
}

// Unknown is the cause of a death whose outcome cannot be told.
const Unknown = "unknown"

// Die dead-letters the message for the reason.
func (f *Follower) Die(l Letter, reason string) DeathOutcome {
	b, s := f.broker, f.of(l.Queue)
	if s.target == nil {
		return DeathOutcome{Cause: NoDeadLetterExchange}
	}
	dead := l.message.died(b, l.Queue, reason, *s.target)
	routed, cause := b.deadLetterTargets(dead, reason)
	switch {
	case cause == MissingExchange:
		return DeathOutcome{Cause: cause}
	case cause != "":
		return DeathOutcome{Cause: Unknown}
	}
	out := DeathOutcome{Cyclic: routed.cyclic}
	for _, name := range routed.open {
		out.Letters = append(out.Letters, Letter{Queue: name, message: dead})
	}
	if len(out.Letters) == 0 {
		out.Cause = routed.cause()
	}
	return out
}
