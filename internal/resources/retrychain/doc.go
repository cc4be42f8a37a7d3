// Package retrychain is the resource rabbitmq_retry_chain.
//
// A plan is a pure function of configuration, prior state and prior private
// state (plan.go); what the resource knows of topologies it asks package retry.
package retrychain
