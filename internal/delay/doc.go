// Package delay knows what a delay network is made of: queues that hold a
// message for powers of two of a unit of time, and topic exchanges that lead it
// through those that add up to its delay.
//
// The package is pure: it neither asks a broker nor knows Terraform.
package delay
