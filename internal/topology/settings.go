package topology

import (
	"maps"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

// Arguments of queues that have a name here because other code uses them. The table below
// says what they do.
const (
	ConsumerTimeout      = "x-consumer-timeout"
	DeadLetterExchange   = "x-dead-letter-exchange"
	DeadLetterRoutingKey = "x-dead-letter-routing-key"
	DeadLetterStrategy   = "x-dead-letter-strategy"
	DelayedRetryMax      = "x-delayed-retry-max"
	DelayedRetryMin      = "x-delayed-retry-min"
	DelayedRetryType     = "x-delayed-retry-type"
	DeliveryLimit        = "x-delivery-limit"
	Expires              = "x-expires"
	LeaderLocator        = "x-queue-leader-locator"
	MasterLocator        = "x-queue-master-locator"
	MaxAge               = "x-max-age"
	MaxLength            = "x-max-length"
	MaxLengthBytes       = "x-max-length-bytes"
	MessageTTL           = "x-message-ttl"
	Overflow             = "x-overflow"
	QueueMode            = "x-queue-mode"
	QueueTypeArgument    = "x-queue-type"
	QueueVersion         = "x-queue-version"
	SingleActiveConsumer = "x-single-active-consumer"
)

// Keys of a policy's definition that have a name here because other code uses them.
const (
	KeyConsumerTimeout      = "consumer-timeout"
	KeyDeadLetterExchange   = "dead-letter-exchange"
	KeyDeadLetterRoutingKey = "dead-letter-routing-key"
	KeyDeadLetterStrategy   = "dead-letter-strategy"
	KeyDelayedRetryMax      = "delayed-retry-max"
	KeyDelayedRetryMin      = "delayed-retry-min"
	KeyDelayedRetryType     = "delayed-retry-type"
	KeyDeliveryLimit        = "delivery-limit"
	KeyExpires              = "expires"
	KeyMaxLength            = "max-length"
	KeyMaxLengthBytes       = "max-length-bytes"
	KeyMessageTTL           = "message-ttl"
	KeyMirroring            = "ha-mode"
	KeyOverflow             = "overflow"
)

// ArgumentPrefix starts every argument of a queue that RabbitMQ gives a meaning. In
// bindings and headers it marks what RabbitMQ, and no application, sets.
const ArgumentPrefix = "x-"

// DelayedRetryDisabled is the value of [DelayedRetryType] that holds nothing back.
const DelayedRetryDisabled = "disabled"

// Values of [Overflow]: a full queue drops, or dead-letters, its oldest message, or it
// refuses new ones.
const (
	DropHead         = "drop-head"
	RejectPublish    = "reject-publish"
	RejectPublishDLX = "reject-publish-dlx"
)

// DefaultDeliveryLimit is that of quorum queues with [abilities.UnlimitedDelivery]
// (rabbit_quorum_queue:resolve_delivery_limit/2).
const DefaultDeliveryLimit = 20

// Setting is one thing that RabbitMQ can be told about a queue: by an argument, by a
// policy and by an operator policy.
type Setting struct {
	// Argument is the queue's argument. It is empty if there is none.
	Argument string
	// Key is the policy's key. It is empty if policies cannot set it.
	Key string
	// Value is what it is set to.
	Value ValueKind
	// Types are the types of queues that know it; nil means all.
	Types []QueueType
	// Tolerated: RabbitMQ applies a policy that has the key to queues of other types, too.
	// Otherwise it does not apply such a policy to them at all.
	Tolerated bool
	// InSomeVersions are those of Types that know the key in some versions only, so that
	// it is uncertain whether RabbitMQ applies the policy.
	InSomeVersions []QueueType
	// WithOperator says how the policy's value and an operator policy's combine. It is
	// empty if operator policies cannot set it.
	WithOperator Merge
	// WithArgument says how the queue's argument and the value of policies combine. It is
	// empty if it cannot be set by both.
	WithArgument Merge
	// In is the ability of brokers that know it; nil means all that are supported.
	In *abilities.Ability
	// ClassicIn is the ability of brokers that know it for classic queues, if that is
	// another one.
	ClassicIn *abilities.Ability
	// Source is where RabbitMQ's source says so, besides the general sources below.
	Source string
}

// ValueKind is the kind of a setting's value.
type ValueKind string

// The kinds of values.
const (
	Number       ValueKind = "number"
	Milliseconds ValueKind = "milliseconds"
	Text         ValueKind = "text"
	Flag         ValueKind = "flag"
)

// Merge says which of two values of a setting is in effect.
type Merge string

// The ways to merge. The second value is an operator policy's beside a policy's, or a
// policy's beside an argument's.
const (
	Smaller Merge = "the smaller"
	Larger  Merge = "the larger"
	// SmallerLimit: with [abilities.UnlimitedDelivery] a negative limit stands for none,
	// and the other one is in effect; without it, simply the smaller.
	SmallerLimit Merge = "the smaller that is not negative"
	First        Merge = "the first"
	Second       Merge = "the second"
	// SecondOfQuorum is the second for quorum queues, otherwise the first.
	SecondOfQuorum Merge = "the second for quorum queues, else the first"
)

// settings is all that RabbitMQ 3.10 to 4.3 can be told about queues.
//
// General sources: which keys policies accept: rabbit_policies:register/0. To which types
// a policy applies: unsupported_policies in the capabilities/0 of rabbit_classic_queue,
// rabbit_quorum_queue and rabbit_stream_queue. Policy and operator policy:
// rabbit_policies:merge_policy_value/3. Argument and policy:
// rabbit_amqqueue_process:process_args_policy/1 and
// rabbit_quorum_queue:gather_policy_config/2.
var settings = []Setting{
	// What happens to messages.
	{Argument: MessageTTL, Key: KeyMessageTTL, Value: Milliseconds, Types: classicAndQuorum, WithOperator: Smaller, WithArgument: Smaller},
	{Argument: Expires, Key: KeyExpires, Value: Milliseconds, Types: classicAndQuorum, WithOperator: Smaller, WithArgument: Smaller},
	{Argument: MaxLength, Key: KeyMaxLength, Value: Number, Types: classicAndQuorum, WithOperator: Smaller, WithArgument: Smaller},
	{Argument: MaxLengthBytes, Key: KeyMaxLengthBytes, Value: Number, WithOperator: Smaller, WithArgument: Smaller},
	{
		Argument: Overflow, Key: KeyOverflow, Value: Text, Types: classicAndQuorum, WithOperator: Second, WithArgument: SecondOfQuorum,
		Source: "rabbit_quorum_queue:overflow/3",
	},
	{Argument: DeadLetterExchange, Key: KeyDeadLetterExchange, Value: Text, Types: classicAndQuorum, WithArgument: First},
	{Argument: DeadLetterRoutingKey, Key: KeyDeadLetterRoutingKey, Value: Text, Types: classicAndQuorum, WithArgument: First},
	{Argument: DeadLetterStrategy, Key: KeyDeadLetterStrategy, Value: Text, Types: quorumOnly, WithArgument: First},
	{
		Argument: DeliveryLimit, Key: KeyDeliveryLimit, Value: Number, Types: quorumOnly,
		WithOperator: SmallerLimit, WithArgument: SmallerLimit,
		Source: "rabbit_quorum_queue:resolve_delivery_limit/2",
	},
	{
		Argument: ConsumerTimeout, Key: KeyConsumerTimeout, Value: Milliseconds, WithArgument: Smaller, In: abilities.ConsumerTimeout,
		ClassicIn: abilities.ClassicConsumerTimeout,
		Source:    "rabbit_channel:get_queue_consumer_timeout/2",
	},
	{
		Argument: "x-consumer-disconnected-timeout", Key: "consumer-disconnected-timeout",
		Value: Milliseconds, Types: quorumOnly, Tolerated: true,
	},
	{
		Argument: DelayedRetryType, Key: KeyDelayedRetryType, Value: Text, Types: quorumOnly, Tolerated: true,
		WithOperator: Second, WithArgument: SecondOfQuorum, In: abilities.DelayedRetryArguments,
		Source: "rabbit_quorum_queue:get_delayed_retry_config/1; policies since 4.3.1",
	},
	{
		Argument: DelayedRetryMin, Key: KeyDelayedRetryMin, Value: Milliseconds, Types: quorumOnly, Tolerated: true,
		WithOperator: Larger, WithArgument: Smaller, In: abilities.DelayedRetryArguments,
		Source: "rabbit_quorum_queue:get_delayed_retry_config/1; policies since 4.3.1",
	},
	{
		Argument: DelayedRetryMax, Key: KeyDelayedRetryMax, Value: Milliseconds, Types: quorumOnly, Tolerated: true,
		WithOperator: Smaller, WithArgument: Smaller, In: abilities.DelayedRetryArguments,
		Source: "rabbit_quorum_queue:get_delayed_retry_config/1; policies since 4.3.1",
	},
	{Argument: SingleActiveConsumer, Value: Flag},
	{Argument: "x-max-priority", Key: "max-priority", Value: Number, Types: classicOnly, WithArgument: First},

	// How a queue is kept, and where.
	{Argument: QueueTypeArgument, Value: Text},
	{
		Argument: LeaderLocator, Key: "queue-leader-locator", Value: Text, InSomeVersions: classicOnly,
		WithArgument: First, Source: "classic from 4.0 on",
	},
	{
		Argument: MasterLocator, Key: "queue-master-locator", Value: Text, Types: classicOnly, WithArgument: First,
		In: abilities.MasterLocator,
	},
	{Argument: QueueMode, Key: "queue-mode", Value: Text, Types: classicOnly, WithArgument: First},
	{
		Argument: QueueVersion, Key: "queue-version", Value: Number, Types: classicOnly, Tolerated: true,
		WithOperator: Second, WithArgument: First,
	},
	{
		Argument: "x-max-in-memory-length", Key: "max-in-memory-length", Value: Number, Types: classicAndQuorum,
		InSomeVersions: classicOnly,
		WithOperator:   Smaller, WithArgument: Smaller, Source: "classic up to a version of 3.12",
	},
	{
		Argument: "x-max-in-memory-bytes", Key: "max-in-memory-bytes", Value: Number, Types: classicAndQuorum, InSomeVersions: classicOnly,
		WithOperator: Smaller, WithArgument: Smaller, Source: "classic up to a version of 3.12",
	},
	{Argument: "x-quorum-initial-group-size", Value: Number, Types: quorumOnly},
	{
		Argument: "x-quorum-target-group-size", Key: "target-group-size", Value: Number, Types: quorumOnly,
		WithOperator: Larger, WithArgument: Larger,
		In: abilities.TargetGroupSize,
	},
	{Argument: "x-initial-cluster-size", Key: "initial-cluster-size", Value: Number, Types: streamOnly, WithArgument: First},
	{Argument: MaxAge, Key: "max-age", Value: Text, Types: streamOnly, WithArgument: First},
	{
		Argument: "x-stream-max-segment-size-bytes", Key: "stream-max-segment-size-bytes", Value: Number,
		Types: streamOnly, WithArgument: First,
	},
	{Argument: "x-stream-filter-size-bytes", Value: Number, Types: streamOnly},
	{Key: "selector-fields", Types: none, Value: Text},
	{Key: "selector-field-max-bytes", Types: none, Value: Number},
	{Key: KeyMirroring, Value: Text, Types: classicOnly, In: abilities.Mirroring},
	{Key: "ha-params", Value: Text, Types: classicOnly, In: abilities.Mirroring},
	{Key: "ha-sync-mode", Value: Text, Types: classicOnly, In: abilities.Mirroring},
	{Key: "ha-promote-on-failure", Value: Text, Types: classicOnly, In: abilities.Mirroring},
	{Key: "ha-promote-on-shutdown", Value: Text, Types: classicOnly, In: abilities.Mirroring},
	{Argument: "x-internal-owner", Value: Text},
	{Argument: "x-internal-purpose", Value: Text},
}

var (
	classicOnly      = []QueueType{Classic}
	quorumOnly       = []QueueType{Quorum}
	streamOnly       = []QueueType{Stream}
	classicAndQuorum = []QueueType{Classic, Quorum}
	none             = []QueueType{}
)

var byArgument, byKey = indexed(settings)

func indexed(settings []Setting) (byArgument, byKey map[string]Setting) {
	byArgument, byKey = map[string]Setting{}, map[string]Setting{}
	for _, s := range settings {
		if s.Argument != "" {
			byArgument[s.Argument] = s
		}
		if s.Key != "" {
			byKey[s.Key] = s
		}
	}
	return byArgument, byKey
}

// QueueArguments are the arguments that RabbitMQ gives a meaning for some type of queue.
func QueueArguments() []string { return slices.Sorted(maps.Keys(byArgument)) }

// SettingOf returns what the argument of a queue does.
func SettingOf(argument string) (s Setting, known bool) {
	s, known = byArgument[argument]
	return s, known
}

// ArgumentOf returns the argument of the same meaning as a policy's key.
func ArgumentOf(key string) string {
	if s := byKey[key]; s.Argument != "" {
		return s.Argument
	}
	return ArgumentPrefix + key
}

// KeyOf returns the policy's key of the same meaning as an argument.
func KeyOf(argument string) string {
	if s := byArgument[argument]; s.Key != "" {
		return s.Key
	}
	return strings.TrimPrefix(argument, ArgumentPrefix)
}

// WorksOn says whether a queue of the type does what it is told on a broker of the version.
func (s Setting) WorksOn(v abilities.Version, kind QueueType) bool {
	in := s.InFor(kind)
	return (in == nil || v.Has(in)) && s.known(kind)
}

// InFor is the ability of brokers that know the setting for queues of the type; nil means
// all that are supported.
func (s Setting) InFor(kind QueueType) *abilities.Ability {
	if kind == Classic && s.ClassicIn != nil {
		return s.ClassicIn
	}
	return s.In
}

func (s Setting) known(kind QueueType) bool { return s.Types == nil || slices.Contains(s.Types, kind) }

// HoldsBack says whether the argument is one of those that make a queue hold back what is
// returned to it.
func HoldsBack(argument string) bool { return strings.HasPrefix(argument, "x-delayed-retry-") }

// IsDeadLetterKey says whether the policy's key concerns dead-lettering.
func IsDeadLetterKey(key string) bool { return strings.HasPrefix(key, "dead-letter-") }

// Supports says whether RabbitMQ applies a policy that has the key to queues of the type,
// at least in some versions. Every type takes a key that is not in the table, and a type
// that is not known yet takes every key.
func (kind QueueType) Supports(key string) bool {
	s, is := byKey[key]
	return !is || s.Tolerated || kind == "" || s.known(kind)
}

// merged is the value in effect of two that are set. Where they are to be compared and
// either is not a number, the first one is.
func (s Merge) merged(first, second any, kind QueueType, unlimited bool) any {
	switch s {
	case Second:
		return second
	case SecondOfQuorum:
		if kind == Quorum {
			return second
		}
	case First, Smaller, Larger, SmallerLimit:
	}
	x, xIs := first.(int64)
	y, yIs := second.(int64)
	if !xIs || !yIs {
		return first
	}
	return s.number(x, y, unlimited)
}

func (s Merge) number(first, second int64, unlimited bool) int64 {
	switch {
	case s == Smaller:
		return min(first, second)
	case s == Larger:
		return max(first, second)
	case s == SmallerLimit && unlimited && (first < 0 || second < 0):
		return max(first, second)
	case s == SmallerLimit:
		return min(first, second)
	default:
		return first
	}
}
