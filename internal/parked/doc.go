// Package parked reads the messages of a parking queue for data sources, ephemeral
// resources and actions, and selects them by a filter.
package parked
