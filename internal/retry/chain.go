package retry

import (
	"slices"
	"strconv"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Strategy is the way in which a chain knows which attempt a message is at.
type Strategy string

// The strategies.
const (
	// Headers counts by the exchange through which the message last entered
	// the work queue (x-last-death-exchange, RabbitMQ 3.13.3 and later).
	Headers Strategy = "headers"
	// RoutingKey counts by a dead-letter routing key that names the tier.
	RoutingKey Strategy = "routing_key"
	// Republish counts by an integer header that a process of the user writes: it
	// takes failed messages and publishes them to the retry exchange.
	Republish Strategy = "republish"
	// DelayedRetry is the broker's own: a quorum queue that holds back messages
	// that were returned to it (RabbitMQ 4.3.1 and later).
	DelayedRetry Strategy = "delayed_retry"
	// DelayedExchange counts by a header that processes of the user write, and
	// holds messages back in an exchange of type x-delayed-message, which a plugin
	// brings (RabbitMQ before 4.3).
	DelayedExchange Strategy = "delayed_exchange"
)

// DeadLetterStrategy is the guarantee with which the broker moves a message
// from one queue of the chain to the next.
type DeadLetterStrategy string

// The dead-letter strategies, named as RabbitMQ names them.
const (
	AtLeastOnce DeadLetterStrategy = "at-least-once"
	AtMostOnce  DeadLetterStrategy = "at-most-once"
)

// MaxTiers is the largest number of delays in a chain.
const MaxTiers = 50

// DefaultDeliveryLimit is the delivery limit of a work queue that sets none, RabbitMQ's own
// default.
const DefaultDeliveryLimit = topology.DefaultDeliveryLimit

// Unlimited is the delivery limit that stands for no limit.
const Unlimited = -1

// Chain describes one retry chain.
type Chain struct {
	// Name is the prefix of every object of the chain.
	Name string
	// Delays are the waits before each retry, in order.
	Delays   []time.Duration
	Strategy Strategy
	// CountHeader is the header in which strategy "republish" counts.
	CountHeader        string
	QueueType          topology.QueueType
	DeadLetterStrategy DeadLetterStrategy
	Work               WorkQueue
	Parking            ParkingQueue
	Policy             PolicySettings
	// Shared: the tiers and the parking queue serve any number of work queues,
	// each of which an [Attachment] leads here. The chain has no work queue of its
	// own, and its strategy is [Headers].
	Shared bool
}

// WorkQueue is the queue whose messages are retried.
type WorkQueue struct {
	Name string
	// Existing: the queue belongs to an application. It is neither declared nor
	// changed nor deleted, and the chain attaches to it by a policy.
	Existing bool
	// Type of an existing queue; empty while nobody knows it.
	Type topology.QueueType
	// DeliveryLimit is how often a message may go back to the queue without
	// being rejected (a crash, a requeue) before it parks; nil when the queue
	// carries no limit, [Unlimited] for none on purpose.
	DeliveryLimit  *int64
	MessageTTL     *time.Duration
	MaxLength      *int64
	MaxLengthBytes *int64
	// Overflow is empty for the broker's default.
	Overflow             string
	SingleActiveConsumer bool
	// ConsumerTimeout is how long a consumer may hold a message without settling it.
	ConsumerTimeout *time.Duration
	// Arguments are further queue arguments.
	Arguments topology.Arguments
	Bindings  []SourceBinding
}

// SourceBinding feeds the work queue from an exchange that is not the chain's.
type SourceBinding struct {
	Exchange   string
	RoutingKey string
	Arguments  topology.Arguments
}

// ParkingQueue holds the messages that used up their attempts.
type ParkingQueue struct {
	Name string
	// Existing: the queue belongs to an application, and several chains may share
	// it.
	Existing   bool
	MessageTTL *time.Duration
}

// PolicySettings say how the chain's own policies stand among those of others.
type PolicySettings struct {
	// Priority of the policies that the chain makes.
	Priority int64
	// Inherit: the policy of an existing work queue carries the keys of the one
	// that it displaces.
	Inherit bool
	// Inherited are these keys, see [Chain.Within].
	Inherited topology.Arguments
	// Shield: a harmless policy keeps those of others away from the queues that
	// the chain declares.
	Shield bool
}

// DefaultPriority is the priority of a chain's policies that set none. It is
// high, because another policy that hides one of the chain's loses messages
// at once.
const DefaultPriority = 1000

// Features are the abilities of a broker that decide the form of a chain. They are kept in
// private state, because a queue keeps what it was declared with.
type Features struct {
	// LastDeathHeaders: the broker has [abilities.LastDeath].
	LastDeathHeaders bool
	// DeliveryLimit: the work queue can carry a delivery limit, because a
	// message over it can be told from a rejected one.
	DeliveryLimit bool
	// UnlimitedDelivery: the broker has [abilities.UnlimitedDelivery].
	UnlimitedDelivery bool
	// DelayedRetry: the broker has [abilities.DelayedRetry].
	DelayedRetry bool
	// NoMnesia: the broker lacks [abilities.DelayedMessagePlugin].
	NoMnesia bool
	// ExactLimit: the work queue's delivery limit leaves no room for the rounds
	// through tiers, because the chain was made without any. Not the broker but
	// the making of the chain decides this, see [Features.ForNew].
	ExactLimit bool
}

// FeaturesOf returns the features of a broker of the version.
func FeaturesOf(v abilities.Version) Features {
	return Features{
		LastDeathHeaders:  v.Has(abilities.LastDeath),
		DeliveryLimit:     v.Has(abilities.LastDeath),
		UnlimitedDelivery: v.Has(abilities.UnlimitedDelivery),
		DelayedRetry:      v.Has(abilities.DelayedRetry),
		NoMnesia:          !v.Has(abilities.DelayedMessagePlugin),
	}
}

// ForNew returns the features with which a new chain is made. One that has no
// delays gets its delivery limit to the letter.
func (f Features) ForNew(c Chain) Features {
	f.ExactLimit = len(c.Delays) == 0
	return f
}

// AsDeclared returns the features of a chain whose queues were declared on a
// broker with other features: what a queue was declared with cannot be changed
// by an upgrade of the broker, and so must not change the chain.
func (f Features) AsDeclared(then Features) Features {
	f.DeliveryLimit = then.DeliveryLimit
	f.UnlimitedDelivery = then.UnlimitedDelivery
	f.ExactLimit = then.ExactLimit
	return f
}

// DependsOnBroker says whether the chain's topology differs between brokers.
func (c Chain) DependsOnBroker() bool {
	return c.QueueType == topology.Quorum || c.design().DependsOnBroker
}

// Tier is one wait of a chain.
type Tier struct {
	// Label is the canonical delay, with ".2", ".3" and so on where the same
	// delay comes again.
	Label string
	Delay time.Duration
	Queue string
	// Return is the exchange through which the message leaves the tier.
	Return string
}

// Tiers returns the waits in the order in which a message meets them. They are
// named by their delay and not by their position, so that a new delay leaves
// the other tiers alone.
func (c Chain) Tiers() []Tier {
	if c.design().Tier == nil {
		return nil // the work queue or an exchange holds the messages back
	}
	seen := map[string]int{}
	tiers := make([]Tier, 0, len(c.Delays))
	for _, delay := range c.Delays {
		label := FormatDuration(delay)
		seen[label]++
		if n := seen[label]; n > 1 {
			label += "." + strconv.Itoa(n)
		}
		tiers = append(tiers, c.tier(label, delay))
	}
	return tiers
}

// TierQueues returns the queues of the tiers, of which it knows only the names.
func TierQueues(tiers []Tier) []topology.Queue {
	queues := make([]topology.Queue, 0, len(tiers))
	for _, tier := range tiers {
		queues = append(queues, topology.Queue{Name: tier.Queue})
	}
	return queues
}

// Internal returns a function that says whether a queue gets messages only
// through the exchanges of the chain, of which actual is there. A tier does. So
// does every queue of a chain that has no binding yet.
func (c Chain) Internal(actual *topology.Topology) func(queue string) bool {
	begun := len(actual.Bindings()) == 0
	return func(queue string) bool {
		return begun || slices.ContainsFunc(c.Tiers(), func(t Tier) bool { return t.Queue == queue })
	}
}

// tier is a tier of the chain's design, which must have tiers.
func (c Chain) tier(label string, delay time.Duration) Tier { return c.design().Tier(c, label, delay) }

// isTier says whether the chain's design names a tier like this.
func (c Chain) isTier(t Tier) bool { return c.design().Tier != nil && c.tier(t.Label, t.Delay) == t }

// Attempts is how often a message that always fails is delivered.
func (c Chain) Attempts() int { return len(c.Delays) + 1 }

// RetryExchange is the dead-letter exchange of the work queue.
func (c Chain) RetryExchange() string { return c.Name + ".retry" }

// brokerCounts says whether the steps between the tiers tell the attempt, and
// not a header that a process writes.
func (c Chain) brokerCounts() bool { return c.design().Steps != nil }

// FailedToProcess says whether a process of the user takes the failed messages.
func (c Chain) FailedToProcess() bool { return len(c.stores()) > 0 }

// FailedExchange leads to the queue of failed messages (strategies republish
// and delayed_exchange).
func (c Chain) FailedExchange() string { return c.Name + ".failed" }

// FailedQueue holds the messages that the user's process must publish again
// (strategies republish and delayed_exchange).
func (c Chain) FailedQueue() string { return c.Name + ".failed" }

// WaitExchange holds messages back (strategy delayed_exchange).
func (c Chain) WaitExchange() string { return c.Name + ".wait" }

// RequeueQueue holds the messages whose delay is over (strategy
// delayed_exchange).
func (c Chain) RequeueQueue() string { return c.Name + ".requeue" }

// stores lists the queues from which a process of the user takes messages.
func (c Chain) stores() []string {
	if d := c.design(); d.Stores != nil {
		return d.Stores(c)
	}
	return nil
}

// deadLetterExchange is where the work queue's dead letters go.
func (c Chain) deadLetterExchange() string {
	if d := c.design(); d.DeadLetterExchange != nil {
		return d.DeadLetterExchange(c)
	}
	return ""
}

// FirstExchange takes what no step of the retry exchange matched: messages at
// their first failure, and those that must not be retried.
func (c Chain) FirstExchange() string { return c.Name + ".retry.first" }

// KeysExchange routes by the tier that a message waited in last (strategy
// routing_key).
func (c Chain) KeysExchange() string { return c.Name + ".retry.keys" }

// ParkingExchange leads to the parking queue.
func (c Chain) ParkingExchange() string { return c.Name + ".parking" }

// RedriveExchange leads to the work queue, for messages taken out of parking.
func (c Chain) RedriveExchange() string { return c.Name + ".redrive" }

// ReturnExchange leads from every tier, or from the process that takes its
// place, to the work queue (strategies routing_key, republish and
// delayed_exchange), or to the work queue that the routing key names (shared
// tiers).
func (c Chain) ReturnExchange() string { return c.Name + ".return" }

// DefaultParkingQueue is the name of a parking queue that sets none.
func (c Chain) DefaultParkingQueue() string { return c.Name + ".parking" }

// AttachPolicy is the name of the policy that gives an existing work queue its
// dead-letter exchange.
func (c Chain) AttachPolicy() string {
	if c.Shared {
		return c.attachPrefix() + c.Work.Name
	}
	return c.RetryExchange()
}

// ShieldPolicy is the name of the policy that keeps those of others away.
func (c Chain) ShieldPolicy() string { return c.Name + ".shield" }

func (c Chain) returnPrefix() string  { return c.Name + ".return." }
func (c Chain) tierPrefix() string    { return c.Name + ".retry." }
func (c Chain) attemptPrefix() string { return c.Name + ".attempt." }
func (c Chain) waitPrefix() string    { return c.Name + ".wait." }
func (c Chain) attachPrefix() string  { return c.Name + ".attach." }

// SameBindings says whether both chains feed their work queue by the same
// bindings, in any order.
func (c Chain) SameBindings(other Chain) bool {
	count := map[string]int{}
	for _, b := range c.Work.Bindings {
		count[toQueue(b.Exchange, "", b.RoutingKey, b.Arguments).ID()]++
	}
	for _, b := range other.Work.Bindings {
		count[toQueue(b.Exchange, "", b.RoutingKey, b.Arguments).ID()]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
