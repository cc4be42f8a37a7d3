package parked

import (
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Destination says where redriven messages go. The zero value is the queue that
// each message failed in. Only one of Queue and Exchange may be set.
type Destination struct{ Queue, Exchange string }

// WorkQueues says of the tiers and the parking queue of every chain which work queue they
// belong to. The topology is used only here, and not kept.
func WorkQueues(t *topology.Topology) func(queue string) string {
	return retry.FindEntries(t).WorkQueue
}

// From says where the messages of the queue go.
func (to Destination) From(queue string) broker.Routes {
	return func(t *topology.Topology) func(deadletter.Message) (messages.Route, bool) { return to.routes(t, queue) }
}

// routes keeps nothing of the topology.
func (to Destination) routes(t *topology.Topology, queue string) func(deadletter.Message) (messages.Route, bool) {
	entries := retry.FindEntries(t)
	through := func(e retry.Entry) (messages.Route, bool) {
		r := messages.Route{Exchange: e.Exchange, Fanout: true}
		if e.CountHeader != "" {
			r.Drop = []string{e.CountHeader}
		}
		return r, e.Queue != queue
	}
	switch entry, found := entries.For(to.Queue, ""); {
	case to.Exchange != "":
		exchange, _ := t.Exchange(to.Exchange)
		r := messages.Route{Exchange: to.Exchange, Topic: exchange.Type == topology.Topic}
		return func(deadletter.Message) (messages.Route, bool) { return r, true }
	case to.Queue != "" && found && entry.Queue == to.Queue:
		return func(deadletter.Message) (messages.Route, bool) { return through(entry) }
	case to.Queue != "":
		return func(deadletter.Message) (messages.Route, bool) { return messages.Route{RoutingKey: to.Queue}, true }
	}
	exists := map[string]bool{}
	for _, q := range t.Queues() {
		exists[q.Name] = true
	}
	return func(m deadletter.Message) (messages.Route, bool) {
		if entry, found := entries.For(m.OriginQueue, m.Through()); found {
			return through(entry)
		}
		return messages.Route{RoutingKey: m.OriginQueue}, exists[m.OriginQueue] && m.OriginQueue != queue
	}
}
