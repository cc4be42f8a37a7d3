// Package retryaudit is the data source rabbitmq_retry_audit: the ways in which
// a virtual host loses messages. What they are is decided in package audit.
package retryaudit
