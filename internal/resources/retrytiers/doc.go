// Package retrytiers is the resource rabbitmq_retry_tiers: its schema, its values and its
// objects. The operations are those of package lifecycle.
package retrytiers
