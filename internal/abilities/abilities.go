// Package abilities knows which version of RabbitMQ can do what. It is the only place
// that compares versions: other code asks [Version.Has] for an ability by its name. A
// difference between versions is one row of the table.
package abilities

import "slices"

// Ability is something that some versions of RabbitMQ do and others do not.
type Ability struct {
	// In are the versions that have it.
	In Releases
	// Does continues "RabbitMQ …".
	Does string
	// Source is where the fact comes from: a function of RabbitMQ's source, an issue of
	// rabbitmq-server, its documentation or a measurement.
	Source string
	// Enables are the features of the provider, as Markdown, that need the ability. Only
	// abilities with some are in the documentation.
	Enables []string
}

var table []*Ability

func add(a Ability) *Ability {
	table = append(table, &a)
	return &a
}

// Table returns all abilities, in the order of the table below.
func Table() []*Ability { return slices.Clone(table) }

// What decides the form of chains, tiers and delay networks.
var (
	// Minimum is the oldest supported version.
	Minimum = add(Ability{
		In:     since("3.10.0"),
		Does:   "dead-letters at least once from quorum queues and matches headers that start with `x-`",
		Source: "release notes of 3.10.0: dead-letter-strategy, x-match=all-with-x",
		Enables: []string{
			"`rabbitmq_retry_chain` with strategy `routing_key` or `republish`", "`rabbitmq_delay_network`, `rabbitmq_delay_destination`",
			"`rabbitmq_redrive`, `rabbitmq_parked_messages`, `rabbitmq_retry_audit`",
		},
	})
	// LastDeath is what routing by the last death needs.
	LastDeath = add(Ability{
		In:     since("3.13.3"),
		Does:   "writes `x-last-death-*` and keeps a message that was rejected once",
		Source: "mc:record_death/3; 3.13.0 to 3.13.2 drop messages that a rejection started (server#11159)",
		Enables: []string{
			"`rabbitmq_retry_chain` with strategy `headers`, the default", "`rabbitmq_retry_tiers`, `rabbitmq_retry_attachment`",
			"a delivery limit, a message TTL or a `drop-head` length limit on the work queue of strategy `routing_key`",
		},
	})
	// LastDeathFlag: the feature flag message_containers, without which the broker does
	// not write x-last-death-*, can be disabled.
	LastDeathFlag = add(Ability{
		In:     between("3.13.0", "4.0.0"),
		Does:   "can have the feature flag message_containers disabled, as after a rolling upgrade",
		Source: "rabbit_core_ff: message_containers, optional in 3.13, required since 4.0",
	})
	// UnlimitedDelivery is a default limit of 20, which a negative limit removes. Before,
	// a negative limit discards a message at its first return.
	UnlimitedDelivery = add(Ability{
		In:     since("4.0.0"),
		Does:   "gives quorum queues a delivery limit of 20 by default; a negative limit stands for none",
		Source: "rabbit_quorum_queue:resolve_delivery_limit/2; earlier rabbit_fifo:update_config/2",
	})
	// DelayedRetry is from the version on that has it in policies, too.
	DelayedRetry = add(Ability{
		In:      since("4.3.1"),
		Does:    "holds back messages that are returned to a quorum queue, by argument or policy",
		Source:  "rabbit_quorum_queue: x-delayed-retry-*, 4.3.0; rabbit_policies accepts delayed-retry-* since 4.3.1",
		Enables: []string{"`rabbitmq_retry_chain` with strategy `delayed_retry`"},
	})
	// DelayedMessagePlugin is that the plugin can run.
	DelayedMessagePlugin = add(Ability{
		In:      before("4.3.0"),
		Does:    "can run the plugin rabbitmq_delayed_message_exchange, which keeps messages in Mnesia",
		Source:  "4.3 has no Mnesia; the plugin is archived, its last release is 4.2.0",
		Enables: []string{"`rabbitmq_retry_chain` with strategy `delayed_exchange`, with the plugin"},
	})
	// ConsumerTimeout is the consumer timeout of a queue in policies.
	ConsumerTimeout = add(Ability{
		In:      since("3.12.0"),
		Does:    "takes a consumer timeout for each queue",
		Source:  "rabbit_policies: consumer-timeout",
		Enables: []string{"a consumer timeout of a quorum work queue"},
	})
)

// ClassicConsumerTimeout is that of classic queues: 4.3 refuses the argument for classic queues.
var ClassicConsumerTimeout = add(Ability{
	In:      between("3.12.0", "4.3.0"),
	Does:    "takes a consumer timeout for a classic queue",
	Source:  "rabbit_channel:get_queue_consumer_timeout/2 until 4.2; 4.3.6: invalid arg for queue of type rabbit_classic_queue",
	Enables: []string{"a consumer timeout of a classic work queue"},
})

// What the management API does.
var (
	// DeprecatedFeatures is GET /api/deprecated-features/used.
	DeprecatedFeatures = add(Ability{
		In:      since("3.13.0"),
		Does:    "reports the deprecated features that are in use",
		Source:  "documentation: Deprecated Features; `GET /api/deprecated-features/used`",
		Enables: []string{"all findings of the rule `deprecated_feature` of `rabbitmq_retry_audit`"},
	})
	// RaftStatus is GET /api/queues/quorum/{vhost}/{queue}/status.
	RaftStatus = add(Ability{
		In:     since("4.0.0"),
		Does:   "shows the Raft members of a quorum queue",
		Source: "rabbit_quorum_queue:status/2; GET /api/queues/quorum/{vhost}/{queue}/status",
	})
	// FindsDownQueues: a request for one queue finds it while its node is down.
	FindsDownQueues = add(Ability{
		In:     since("4.0.0"),
		Does:   "answers a request for one queue although its node is down",
		Source: "measured on 3.10.8 and 4.0.5",
	})
	// StartsConfigured: a quorum queue whose declaration was broken off is not there, or whole.
	StartsConfigured = add(Ability{
		In:     since("4.1.0"),
		Does:   "starts the Raft servers of a quorum queue with their configuration",
		Source: "rabbit_quorum_queue:start_cluster/1",
	})
)

// What can be told of queues, by arguments and policies.
var (
	// MasterLocator chooses the node of a classic queue.
	MasterLocator = add(Ability{
		In: before("4.3.0"), Does: "takes x-queue-master-locator", Source: "documentation: Deprecated Features, queue_master_locator",
	})
	// Mirroring of classic queues.
	Mirroring = add(Ability{
		In: before("4.0.0"), Does: "mirrors classic queues", Source: "documentation: Deprecated Features, classic_queue_mirroring",
	})
	// TargetGroupSize is the number of members that a quorum queue should have.
	TargetGroupSize = add(Ability{
		In: since("3.13.0"), Does: "takes a target group size of quorum queues", Source: "rabbit_policies: target-group-size",
	})
)

// What the audit reports.
var (
	// DelayedRetryArguments are those of queues; policies follow with [DelayedRetry].
	DelayedRetryArguments = add(Ability{
		In:     since("4.3.0"),
		Does:   "holds back messages that are returned to a quorum queue, by argument",
		Source: "rabbit_quorum_queue: x-delayed-retry-*; measured on 4.3.6",
	})
	// IgnoresQueueMode: classic queues have no modes any more.
	IgnoresQueueMode = add(Ability{
		In:     since("3.12.0"),
		Does:   "ignores x-queue-mode",
		Source: "documentation: Classic Queues; no effect from 3.12 on",
	})
)

// What happens to a message, for the simulator.
var (
	// LastDeathHeaders are x-last-death-*, in whatever quality: see [LastDeath].
	LastDeathHeaders = add(Ability{In: since("3.13.0"), Does: "writes x-last-death-*", Source: "mc:record_death/3"})
	// NumericHeaders: a headers exchange takes 1 for 1.0.
	NumericHeaders = add(Ability{
		In: before("3.13.0"), Does: "compares header values as numbers",
		Source: "rabbit_exchange_type_headers:match/2: == until 3.12, =:= from 3.13 on",
	})
	// KeyRemovesCC: the documentation of later versions still says so; their tests say
	// otherwise.
	KeyRemovesCC = add(Ability{
		In: before("3.13.0"), Does: "removes the header CC if there is a dead-letter routing key", Source: "dead_lettering_SUITE",
	})
	// TrustsClients: the x-death of a publisher is taken for history.
	TrustsClients = add(Ability{
		In: before("3.13.0").or(between("3.13.3", "4.0.0")), Does: "takes the x-death of a publisher for history",
		Source: "server#10709; release notes of 4.0.1",
	})
	// ShufflesDeaths: every further death reverses the entries before it, so that the
	// history is not in the order of time.
	ShufflesDeaths = add(Ability{
		In: before("3.13.0"), Does: "reverses older entries of x-death",
		Source: "rabbit_dead_letter:group_by_queue_and_reason; measured on 3.10.8",
	})
	// KeepsDelay: a message that was held back has the delay in a classic queue as it was
	// published. A quorum queue there and both types on 4.0.5 show it with its sign turned.
	KeepsDelay = add(Ability{
		In: before("3.13.0"), Does: "leaves x-delay as it was published, in classic queues", Source: "measured on 3.10.8 and 4.0.5",
	})
	// KeepsOwn: an at-least-once queue that dead-letters into itself keeps the message
	// that it delivered.
	KeepsOwn = add(Ability{
		In:     before("3.11.20").or(between("3.12.0", "3.12.2")),
		Does:   "never settles messages that an at-least-once queue dead-letters into itself",
		Source: "server#8799; measured on 3.10.8",
	})
	// CarriesCount: the delivery count of a quorum queue goes with a dead letter.
	CarriesCount = add(Ability{
		In: since("4.0.0"), Does: "carries the delivery count over to the next queue", Source: "rabbit_fifo; measured on 4.0.5",
	})
	// CountsAcquired: a quorum queue counts how often a message was taken out beside how
	// often its delivery failed.
	CountsAcquired = add(Ability{
		In: since("4.0.0"), Does: "writes x-acquired-count", Source: "rabbit_fifo; measured on 4.0.5",
	})
	// LimitsAcquired: the delivery limit applies to what [CountsAcquired] counts.
	LimitsAcquired = add(Ability{
		In: between("4.0.0", "4.3.0"), Does: "applies the delivery limit to the acquired count",
		Source: "rabbit_fifo:return_one; measured on 4.0.5",
	})
	// GetSetsCount: basic.get on a quorum queue always shows x-delivery-count, 0 included.
	GetSetsCount = add(Ability{
		In: before("4.0.0"), Does: "writes x-delivery-count of 0 for basic.get", Source: "rabbit_fifo_client:dequeue",
	})
	// RejectFails: basic.reject with requeue is a failed delivery.
	RejectFails = add(Ability{
		In: before("4.0.0").or(since("4.3.0")), Does: "counts basic.reject with requeue as a failed delivery",
		Source: "rabbit_fifo; measured on 3.10.8, 4.0.5 and 4.3.6",
	})
	// NackIsRelease: basic.nack with requeue is not a failed delivery.
	NackIsRelease = add(Ability{
		In: since("4.3.0"), Does: "does not count basic.nack with requeue", Source: "rabbit_fifo; measured on 4.3.6",
	})
	// ClassicCounts: classic queues count failed deliveries, too, and pass the count on.
	ClassicCounts = add(Ability{
		In: since("4.3.0"), Does: "counts failed deliveries in classic queues", Source: "rabbit_variable_queue; measured on 4.3.6",
	})
	// RequeuesBehind: a quorum queue without a delivery limit puts a message that is
	// requeued at its end. One that comes back because a channel closed goes to the front.
	RequeuesBehind = add(Ability{
		In: before("4.3.0"), Does: "requeues at the end of a quorum queue without a delivery limit",
		Source: "rabbit_fifo; measured on 3.10.8 and 4.0.5",
	})
	// ExpiresReturned: returned messages do not stand between an expired message and the
	// head of a quorum queue.
	ExpiresReturned = add(Ability{
		In: since("4.3.0"), Does: "expires messages behind returned ones", Source: "rabbit_fifo:expire_batch",
	})
)
