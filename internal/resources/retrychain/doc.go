// Package retrychain is the resource rabbitmq_retry_chain: its schema, its values and its
// objects. The operations are those of package lifecycle.
package retrychain
