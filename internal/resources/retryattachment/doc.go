// Package retryattachment is the resource rabbitmq_retry_attachment: its schema, its
// values, its objects, and how a queue is detached. The other operations are those of
// package lifecycle.
package retryattachment
