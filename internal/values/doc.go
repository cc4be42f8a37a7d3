// Package values converts between the values of Terraform and those of the domain:
// durations, JSON arguments, and topologies as lines.
package values
