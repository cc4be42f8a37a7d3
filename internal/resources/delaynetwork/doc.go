// Package delaynetwork is the resource rabbitmq_delay_network: its schema, its values and
// its objects. The operations are those of package lifecycle.
package delaynetwork
