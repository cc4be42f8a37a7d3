// Package redrive holds the actions and resources rabbitmq_redrive and
// rabbitmq_discard, which move parked messages and delete them. An action and a
// resource of one name do the same; resources work with every CLI.
package redrive
