package retry

import (
	"strconv"
	"time"

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
)

// DeadLetterStrategy is the guarantee with which the broker moves a message
// from one queue of the chain to the next.
type DeadLetterStrategy string

// The dead-letter strategies, named as RabbitMQ names them.
const (
	AtLeastOnce DeadLetterStrategy = "at-least-once"
	AtMostOnce  DeadLetterStrategy = "at-most-once"
)

// Overflow behaviours of a work queue.
const (
	DropHead      = "drop-head"
	RejectPublish = "reject-publish"
)

// MaxTiers is the largest number of delays in a chain.
const MaxTiers = 50

// DefaultDeliveryLimit is the delivery limit of a work queue that sets none.
// It is RabbitMQ's own default from 4.0 on.
const DefaultDeliveryLimit = 20

// Unlimited is the delivery limit that stands for no limit.
const Unlimited = -1

// Chain describes one retry chain.
type Chain struct {
	// Name is the prefix of every object of the chain.
	Name string
	// Delays are the waits before each retry, in order.
	Delays             []time.Duration
	Strategy           Strategy
	QueueType          topology.QueueType
	DeadLetterStrategy DeadLetterStrategy
	Work               WorkQueue
	Parking            ParkingQueue
}

// WorkQueue is the queue whose messages are retried.
type WorkQueue struct {
	Name string
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
	// Arguments are further queue arguments.
	Arguments topology.Arguments
	Bindings  []SourceBinding
}

// SourceBinding feeds the work queue from an exchange that is not the chain's.
type SourceBinding struct {
	Exchange   string
	RoutingKey string
	Headers    topology.Arguments
}

// ParkingQueue holds the messages that used up their attempts.
type ParkingQueue struct {
	Name       string
	MessageTTL *time.Duration
}

// Features are the abilities of a broker that decide the form of a chain.
type Features struct {
	// LastDeathHeaders: the broker writes x-last-death-* (3.13.3 and later;
	// 3.13.0 to 3.13.2 drop messages that a rejection started, server#11159).
	LastDeathHeaders bool
	// DeliveryLimit: the work queue can carry a delivery limit, because a
	// message over it can be told from a rejected one.
	DeliveryLimit bool
	// UnlimitedDelivery: -1 means no delivery limit (4.0 and later; on 3.x it
	// discards a message at its first return).
	UnlimitedDelivery bool
}

// FeaturesOf tells the features of a broker; atLeast answers whether it runs
// the given version or a later one.
func FeaturesOf(atLeast func(version string) bool) Features {
	return Features{
		LastDeathHeaders:  atLeast("3.13.3"),
		DeliveryLimit:     atLeast("3.13.3"),
		UnlimitedDelivery: atLeast("4.0.0"),
	}
}

// AsDeclared returns the features of a chain whose queues were declared on a
// broker with other features: what a queue was declared with cannot be changed
// by an upgrade of the broker, and so must not change the chain.
func (f Features) AsDeclared(then Features) Features {
	f.DeliveryLimit = then.DeliveryLimit
	f.UnlimitedDelivery = then.UnlimitedDelivery
	return f
}

// DependsOnBroker says whether the chain's topology differs between brokers.
func (c Chain) DependsOnBroker() bool {
	return c.QueueType == topology.Quorum || c.Strategy == RoutingKey
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

func (c Chain) tier(label string, delay time.Duration) Tier {
	if c.Strategy == RoutingKey {
		return Tier{Label: label, Delay: delay, Queue: c.attemptPrefix() + label, Return: c.ReturnExchange()}
	}
	return Tier{Label: label, Delay: delay, Queue: c.tierPrefix() + label, Return: c.returnPrefix() + label}
}

// Attempts is how often a message that always fails is delivered.
func (c Chain) Attempts() int { return len(c.Delays) + 1 }

// TotalDelay is the sum of all waits.
func (c Chain) TotalDelay() time.Duration {
	var total time.Duration
	for _, delay := range c.Delays {
		total += delay
	}
	return total
}

// RetryExchange is the dead-letter exchange of the work queue.
func (c Chain) RetryExchange() string { return c.Name + ".retry" }

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

// ReturnExchange leads from every tier to the work queue (strategy
// routing_key).
func (c Chain) ReturnExchange() string { return c.Name + ".return" }

// DefaultParkingQueue is the name of a parking queue that sets none.
func (c Chain) DefaultParkingQueue() string { return c.Name + ".parking" }

func (c Chain) returnPrefix() string  { return c.Name + ".return." }
func (c Chain) tierPrefix() string    { return c.Name + ".retry." }
func (c Chain) attemptPrefix() string { return c.Name + ".attempt." }

// SameBindings says whether both chains feed their work queue by the same
// bindings, in any order.
func (c Chain) SameBindings(other Chain) bool {
	count := map[string]int{}
	for _, b := range c.Work.Bindings {
		count[toQueue(b.Exchange, "", b.RoutingKey, b.Headers).ID()]++
	}
	for _, b := range other.Work.Bindings {
		count[toQueue(b.Exchange, "", b.RoutingKey, b.Headers).ID()]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return true
}
