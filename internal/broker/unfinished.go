package broker

import (
	"context"
	"errors"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Unfinished finds the queues that an interrupted apply or destroy may have left
// in a state that RabbitMQ does not show.
type Unfinished struct {
	// Actual is what is there of the resource, Wanted what this apply makes, and
	// Before what the last one made.
	Actual, Wanted, Before *topology.Topology
	// Internal says which queues get messages through the resource's own exchanges
	// only. To the others somebody may publish by name.
	Internal func(queue string) bool
}

// Remove removes them from the broker and from Actual, so that they are declared
// again. A queue that this apply is to bind and that nothing is bound to may lack
// a part of its configuration, see [Client.RemoveUnfinished]. When objects
// of the last apply are gone, a destroy may have been broken off, and every queue
// that is left may be dead, see [Client.RemoveHalfMade].
func (u Unfinished) Remove(ctx context.Context, client *Client, vhost string) error {
	lost := topology.Diff(u.Actual, u.Before).Missing
	broken := len(lost.Queues()) > 0 || len(lost.Exchanges()) > 0 || len(lost.Policies()) > 0
	var unfinished, others []topology.Queue
	for _, q := range u.Actual.Queues() {
		_, wanted := u.Wanted.Queue(q.Name)
		bound := len(u.Actual.To(topology.KindQueue, q.Name)) > 0
		switch {
		case !bound && wanted && u.Internal(q.Name):
			unfinished = append(unfinished, q)
		case !bound || broken:
			others = append(others, q)
		}
	}
	removed, err := client.RemoveUnfinished(ctx, vhost, unfinished)
	half, halfErr := client.RemoveHalfMade(ctx, vhost, others)
	for _, name := range append(removed, half...) {
		u.Actual.RemoveQueue(name)
	}
	return errors.Join(err, halfErr)
}
