// Package cluster tests the provider and what it creates on clusters of RabbitMQ while
// nodes are killed. It has tests only: "make test-cluster" runs them.
package cluster
