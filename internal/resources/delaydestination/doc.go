// Package delaydestination is the resource rabbitmq_delay_destination: the
// binding that attaches a queue to a delay network.
package delaydestination
