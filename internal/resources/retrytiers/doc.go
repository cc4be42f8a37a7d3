// Package retrytiers is the resource rabbitmq_retry_tiers: tiers and a parking
// queue that any number of work queues share, see package retryattachment. It
// knows Terraform; what the tiers are made of knows package retry.
package retrytiers
