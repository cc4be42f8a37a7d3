// Package run holds what the resources, data sources and actions of one process
// share: the client, the names that they lock and claim, and their time limits.
package run
