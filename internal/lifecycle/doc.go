// Package lifecycle creates, reads, updates, deletes, plans and imports what a
// resource declares on the broker.
package lifecycle
