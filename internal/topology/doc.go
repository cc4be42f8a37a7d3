// Package topology describes exchanges, queues and bindings of one RabbitMQ
// virtual host, compares two such descriptions, routes messages through them
// and draws them.
//
// The package is pure: it knows neither Terraform nor HTTP. Facts about the
// broker's behaviour name the version or the part of RabbitMQ's documentation
// that they come from.
package topology
