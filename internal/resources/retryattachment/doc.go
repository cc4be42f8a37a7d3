// Package retryattachment is the resource rabbitmq_retry_attachment: the work
// queue of one team and what attaches it to retry tiers, see package retrytiers.
// It knows Terraform; what an attachment is made of knows package retry.
package retryattachment
