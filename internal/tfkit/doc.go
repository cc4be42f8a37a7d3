// Package tfkit holds what the packages of Terraform objects share: what the
// provider hands to them, and the ways from errors and problems to diagnostics.
package tfkit
