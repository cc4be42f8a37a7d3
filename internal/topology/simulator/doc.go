// Package simulator follows messages through a topology as a RabbitMQ broker
// moves them: routing, times-to-live, length limits, delivery limits and
// dead-lettering, on a virtual clock that only the caller moves.
//
// It is deterministic and single-threaded: every call runs until nothing more
// can happen at the present virtual time. What differs between versions of
// RabbitMQ is in one place, the type rules. The behaviour was compared with
// brokers 3.10.8, 4.0.5 and 4.3.x (internal/acctest/differential). Exchanges of
// type x-delayed-message, until 4.2, are written down from the plugin's source, and
// compared where a broker with it is given. What a node that is killed takes along
// of the messages that they hold is not simulated.
//
// Not simulated: consumers (a test gets messages, as basic.get does), message
// priorities, streams, queues that expire or delete themselves, single active
// consumer, transactions, policies other than through
// [Broker.Reconfigure], and the metadata that 4.x counts towards
// x-max-length-bytes of quorum queues.
package simulator
