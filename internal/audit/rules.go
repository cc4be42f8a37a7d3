package audit

// Rules are all rules, in the order of their IDs.
func Rules() []Rule {
	return []Rule{
		{
			ID: "alternate_exchange_no_route", Severities: []Severity{Error},
			Title:  "The alternate exchange leads to no queue: a message that no binding takes is deleted.",
			Source: "rabbit_exchange:process_alternate, 3.10 to 4.3; documentation: Alternate Exchanges",
			check:  (*graph).alternateExchangeNoRoute,
		},
		{
			ID: "at_least_once_without_reject_publish", Severities: []Severity{Warning},
			Title:  "A queue that is to dead-letter at least once falls back to at most once, because its overflow is not reject-publish.",
			Source: "rabbit_quorum_queue:dlh/5, since 3.10; documentation: Quorum Queues, Activating at-least-once dead-lettering",
			check:  (*graph).atLeastOnceWithoutRejectPublish,
		},
		{
			ID: "dead_letter_cycle", Severities: []Severity{Error},
			Title: "A message that dies otherwise than by a rejection would come back to a queue it died in: RabbitMQ drops it, " +
				"or an at-least-once queue holds it for ever.",
			Source: "rabbit_dead_letter:detect_cycles/3, mc:is_death_cycle/2, 3.10 to 4.3; documentation: Dead Letter Exchanges, " +
				"Automatic Cycle Detection",
			check: (*graph).deadLetterCycle,
		},
		{
			ID: "dead_letter_no_route", Severities: []Severity{Error, Warning},
			Title: "The dead-letter exchange leads a dead letter nowhere: it is dropped, or an at-least-once queue holds it. " +
				"A warning where keys in the headers CC and BCC may lead it to a queue.",
			Source: "rabbit_dead_letter:publish/5, rabbit_fifo_dlx_worker:forward/6, 3.10 to 4.3; documentation: Dead Letter " +
				"Exchanges, Safety",
			check: (*graph).deadLetterNoRoute,
		},
		{
			ID: "dead_letter_settings_without_exchange", Severities: []Severity{Warning},
			Title: "A dead-letter routing key or strategy is set without a dead-letter exchange and does nothing: a rejected message " +
				"is deleted.",
			Source: "rabbit_quorum_queue:dlh/5, rabbit_amqqueue_process:init_dlx/2, 3.10 to 4.3",
			check:  (*graph).deadLetterSettingsWithoutExchange,
		},
		{
			ID: "default_delivery_limit", Severities: []Severity{Warning},
			Title: "RabbitMQ's default delivery limit deletes a message that was delivered and put back 21 times, because there is no " +
				"dead-letter exchange.",
			Source: "rabbit_quorum_queue, DEFAULT_DELIVERY_LIMIT, since 4.0; release notes of 4.0.1",
			check:  (*graph).defaultDeliveryLimit,
		},
		{
			ID: "delayed_message_exchange", Severities: []Severity{Warning},
			Title:  "The delayed-message plugin has no release for RabbitMQ 4.3: an upgrade loses the messages that it holds.",
			Source: "rabbitmq-delayed-message-exchange, archived, last release 4.2.0; it keeps messages in Mnesia, which 4.3 removed",
			check:  (*graph).delayedMessageExchange,
		},
		{
			ID: "delayed_retry_ignored", Severities: []Severity{Warning},
			Title:  "The broker ignores the settings for delayed retries: a message that is put back is delivered again at once.",
			Source: "rabbit_quorum_queue, x-delayed-retry-*, since 4.3; earlier versions accept and ignore unknown arguments",
			check:  (*graph).delayedRetryIgnored,
		},
		{
			ID: "delivery_limit_without_dlx", Severities: []Severity{Warning},
			Title:  "A message that goes over the delivery limit is deleted, because there is no dead-letter exchange.",
			Source: "rabbit_fifo:return_one, 3.10 to 4.3; documentation: Quorum Queues, Poison Message Handling",
			check:  (*graph).deliveryLimitWithoutDLX,
		},
		{
			ID: "deprecated_feature", Severities: []Severity{Warning, Info},
			Title:  "A feature is in use that a later version removes.",
			Source: "documentation: Deprecated Features; GET /api/deprecated-features/used, since 3.13",
			check:  (*graph).deprecatedFeature,
		},
		{
			ID: "endless_retry", Severities: []Severity{Info},
			Title:  "A message that is rejected each time comes back for ever, after a wait.",
			Source: "rabbit_dead_letter:detect_cycles/3: a rejection in the cycle lets it go on, 3.10 to 4.3",
			check:  (*graph).endlessRetry,
		},
		{
			ID: "equal_priority_policies", Severities: []Severity{Warning},
			Title:  "Several policies match with the same priority: which of them applies is not specified.",
			Source: "rabbit_policy:match_all/3, 3.10 to 4.3; documentation: Policies, How Policies Work",
			check:  (*graph).equalPriorityPolicies,
		},
		{
			ID: "exchange_without_binding", Severities: []Severity{Warning},
			Title:  "An exchange has neither a binding nor an alternate exchange: every message that is published to it is deleted.",
			Source: "rabbit_exchange:route, 3.10 to 4.3; documentation: Publishers, Unroutable Message Handling",
			check:  (*graph).exchangeWithoutBinding,
		},
		{
			ID: "expiry_without_dlx", Severities: []Severity{Warning, Info},
			Title:  "A message that expires is deleted, because there is no dead-letter exchange.",
			Source: "documentation: Time-to-Live and Expiration, 3.10 to 4.3",
			check:  (*graph).expiryWithoutDLX,
		},
		{
			ID: "full_queue_refuses_dead_letters", Severities: []Severity{Warning},
			Title: "A classic queue with reject-publish refuses dead letters while it is full, and at-most-once dead-lettering " +
				"loses them.",
			Source: "rabbit_amqqueue_process:maybe_deliver_or_enqueue/4, 3.10 to 4.3",
			check:  (*graph).fullQueueRefusesDeadLetters,
		},
		{
			ID: "header_type_mismatch", Severities: []Severity{Warning, Info},
			Title:  "A headers exchange tells the number 1 from the text \"1\": a message with the other one is not routed.",
			Source: "rabbit_exchange_type_headers:match/2, 3.10 to 4.3",
			check:  (*graph).headerTypeMismatch,
		},
		{
			ID: "hidden_policy", Severities: []Severity{Warning, Info},
			Title:  "A policy is not in effect, because another one of higher priority matches.",
			Source: "rabbit_policy:match_all/3, 3.10 to 4.3; documentation: Policies, Policy Priorities",
			check:  (*graph).hiddenPolicy,
		},
		{
			ID: "hot_loop", Severities: []Severity{Warning},
			Title:  "A message that is rejected comes back at once, for ever, and keeps broker and consumer busy.",
			Source: "rabbit_dead_letter:detect_cycles/3: a rejection in the cycle lets it go on, 3.10 to 4.3",
			check:  (*graph).hotLoop,
		},
		{
			ID: "ignored_policy", Severities: []Severity{Warning},
			Title:  "A policy has no effect at all on queues that do not support one of its keys.",
			Source: "rabbit_queue_type:is_policy_applicable/2, 3.10 to 4.3",
			check:  (*graph).ignoredPolicy,
		},
		{
			ID: "limit_without_dlx", Severities: []Severity{Warning, Info},
			Title:  "A full queue deletes the message at its head, because there is no dead-letter exchange.",
			Source: "documentation: Queue Length Limit, Overflow Behaviour, 3.10 to 4.3",
			check:  (*graph).limitWithoutDLX,
		},
		{
			ID: "match_ignores_x_headers", Severities: []Severity{Warning},
			Title: "A binding compares headers that start with \"x-\", which x-match all and any skip: it takes too many messages, " +
				"or none.",
			Source: "rabbit_exchange_type_headers:match_x/2; all-with-x and any-with-x since 3.10",
			check:  (*graph).matchIgnoresXHeaders,
		},
		{
			ID: "missing_alternate_exchange", Severities: []Severity{Error},
			Title:  "The alternate exchange does not exist: a message that no binding takes is dropped.",
			Source: "rabbit_exchange:process_alternate, 3.10 to 4.3; documentation: Alternate Exchanges",
			check:  (*graph).missingAlternateExchange,
		},
		{
			ID: "missing_dead_letter_exchange", Severities: []Severity{Error},
			Title: "The dead-letter exchange does not exist: a message that dies is dropped, or an at-least-once queue holds it.",
			Source: "rabbit_dead_letter:publish/5, rabbit_fifo_dlx_worker:forward/6, 3.10 to 4.3; documentation: Dead Letter " +
				"Exchanges, Safety",
			check: (*graph).missingDeadLetterExchange,
		},
		{
			ID: "negative_delivery_limit", Severities: []Severity{Error},
			Title: "Before RabbitMQ 4.0 a negative delivery limit deletes or dead-letters a message when it is put back for the " +
				"first time.",
			Source: "rabbit_fifo:return_one, 3.10 to 3.13; from 4.0 on it means no limit",
			check:  (*graph).negativeDeliveryLimit,
		},
		{
			ID: "no_dead_letter_exchange", Severities: []Severity{Info},
			Title:  "A rejected message is deleted, because there is no dead-letter exchange.",
			Source: "documentation: Consumer Acknowledgements and Publisher Confirms, Negative Acknowledgement, 3.10 to 4.3",
			check:  (*graph).noDeadLetterExchange,
		},
		{
			ID: "parking_delivery_limit", Severities: []Severity{Error},
			Title:  "A queue that keeps dead letters has a delivery limit: looking at a message and putting it back deletes it in the end.",
			Source: "rabbit_fifo:return_one, 3.10 to 4.3; default limit of 20 since 4.0",
			check:  (*graph).parkingDeliveryLimit,
		},
		{
			ID: "retry_reaches_several_queues", Severities: []Severity{Warning},
			Title:  "A message that failed in one queue comes back to others as well, which handle it twice.",
			Source: "documentation: Dead Letter Exchanges, Routing Dead-Lettered Messages, 3.10 to 4.3",
			check:  (*graph).retryReachesSeveralQueues,
		},
		{
			ID: "shortened_wait", Severities: []Severity{Warning},
			Title: "A policy sets a shorter time-to-live than a waiting queue was declared with: messages come back too early.",
			Source: "rabbit_amqqueue_process:process_args_policy/1, rabbit_quorum_queue:gather_policy_config/2, 3.10 to 4.3: the " +
				"smaller value wins",
			check: (*graph).shortenedWait,
		},
		{
			ID: "shovel_without_acknowledgement", Severities: []Severity{Warning, Info},
			Title:  "A shovel with ack-mode no-ack loses the messages in flight when its connection ends.",
			Source: "documentation: Shovel Plugin, ack-mode; GET /api/parameters/shovel, 3.10 to 4.3",
			check:  (*graph).shovelWithoutAcknowledgement,
		},
		{
			ID: "stream_deletes_dead_letters", Severities: []Severity{Warning},
			Title:  "A stream that keeps dead letters deletes the oldest ones by age or size.",
			Source: "documentation: Streams, Data Retention, 3.10 to 4.3",
			check:  (*graph).streamDeletesDeadLetters,
		},
		{
			ID: "unknown_argument", Severities: []Severity{Warning, Info},
			Title:  "RabbitMQ accepts an argument that it does not know, and ignores it.",
			Source: "rabbit_amqqueue:check_declare_arguments/3, 3.10 to 4.3",
			check:  (*graph).unknownArgument,
		},
		{
			ID: "waiting_queue_expires", Severities: []Severity{Error},
			Title: "A queue that holds dead letters or delayed messages deletes itself with all of them when nobody uses it, or when " +
				"its last consumer leaves.",
			Source: "documentation: Time-to-Live and Expiration, Queue TTL: publishing is no use; Queues, Temporary Queues: " +
				"auto-delete; 3.10 to 4.3",
			check: (*graph).waitingQueueExpires,
		},
		{
			ID: "waiting_queue_limit", Severities: []Severity{Warning},
			Title: "A queue in which messages wait before a retry has a length limit: messages over it are lost, come back too early " +
				"or hold up others.",
			Source: "documentation: Queue Length Limit; rabbit_fifo:evaluate_limit, 3.10 to 4.3",
			check:  (*graph).waitingQueueLimit,
		},
		{
			ID: "work_queue_deletes_itself", Severities: []Severity{Warning},
			Title: "A queue with a dead-letter exchange deletes itself with its messages, without dead-lettering them, when nobody " +
				"uses it or its last consumer leaves.",
			Source: "documentation: Time-to-Live and Expiration, Queue TTL; Queues, Temporary Queues: auto-delete; 3.10 to 4.3",
			check:  (*graph).workQueueDeletesItself,
		},
	}
}
