// Package retry turns the description of a retry chain into the exchanges,
// queues and bindings that make it work, reads such a description back from
// the objects of a broker, and orders the steps that lead from one to the
// other without losing a message.
//
// The package is pure: it knows neither Terraform nor HTTP.
package retry
