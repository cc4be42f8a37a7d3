// Package delaynetwork is the resource rabbitmq_delay_network.
//
// A plan is a pure function of configuration, prior state and prior private
// state (plan.go); what the resource knows of topologies it asks package delay.
package delaynetwork
