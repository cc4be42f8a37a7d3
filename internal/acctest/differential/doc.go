// Package differential compares the simulator of internal/topology with real
// brokers: random topologies and messages go through both, and every delivery,
// with all its headers, has to be the same. It holds tests only.
//
// The tests run when RABBITMQ_TEST_ENDPOINTS names brokers, and are skipped
// otherwise. RETRYCHAIN_DIFFERENTIAL_SEED sets the seed of the random cases and
// RETRYCHAIN_DIFFERENTIAL_CASES their number.
package differential
