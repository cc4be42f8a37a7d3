// Package parkedmessages is the data source rabbitmq_parked_messages. What it
// knows of dead letters it asks package deadletter.
package parkedmessages
