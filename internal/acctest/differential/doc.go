// Package differential compares the simulator of internal/topology with real
// brokers: random topologies and messages go through both, and every delivery,
// with all its headers, must be the same. It holds tests only.
//
// Compared are chains of the strategies "headers", "routing_key", "republish" with
// its process, and "delayed_retry", with work queues of their own and of others;
// shared tiers with attached queues; delay networks; random graphs; and exchanges of
// every type. TestEveryCompositionIsDrawn keeps that true. Chains of strategy
// "delayed_exchange" are compared where RABBITMQ_TEST_DELAYED_ENDPOINTS names
// brokers with the plugin. Not compared are changes of a topology with messages in
// it, which the tests of the resources make on real brokers.
//
// The tests run when RABBITMQ_TEST_ENDPOINTS names brokers, and are skipped
// otherwise. RETRYCHAIN_DIFFERENTIAL_SEED sets the seed of the random cases and
// RETRYCHAIN_DIFFERENTIAL_CASES their number.
package differential
