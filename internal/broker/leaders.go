package broker

import (
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// leaderNodes takes turns between the nodes of the cluster.
type leaderNodes struct {
	running cache[[]string]
	turn    atomic.Int64
}

// leaderNode returns the node that a new queue is declared on, or "" for the node that
// answers. RabbitMQ puts the leader of a quorum queue on the node that it is declared
// on (rabbit_queue_location, locator client-local, 3.10 to 4.3), and so the leaders of
// all queues of one apply would be on one node. The body of the request can name
// another node (rabbit_mgmt_util:direct_request/6). That is not an argument of the queue:
// existing queues and declarations by applications stay equivalent.
//
// Classic queues stay together on the node that answers: dead letters for a classic
// queue whose node is down are lost. A user who may not see the nodes (tag monitoring)
// gets "", too.
func (c *Client) leaderNode(ctx context.Context, q topology.Queue) string {
	if _, chosen := q.Arguments[topology.LeaderLocator]; chosen || q.Type != topology.Quorum {
		return ""
	}
	running, err := c.leaders.running.get(ctx, "", func(ctx context.Context, running *[]string) error {
		nodes, _ := c.nodes(ctx)
		for _, n := range nodes {
			if n.Running && !n.Drained {
				*running = append(*running, n.Name)
			}
		}
		slices.Sort(*running)
		if len(*running) > 0 {
			// Chains in states of their own do not all begin on the same node.
			name := fnv.New32a()
			_, _ = name.Write([]byte(q.Name))
			c.leaders.turn.Store(int64(name.Sum32()))
		}
		return nil
	})
	if err != nil || len(*running) < 2 {
		return ""
	}
	return (*running)[c.leaders.turn.Add(1)%int64(len(*running))]
}

// lostNode says whether the node that a request named is down
// (rabbit_mgmt_util:direct_request/6, 3.10 to 4.3).
func lostNode(err error) bool {
	var answer *APIError
	return errors.As(err, &answer) && strings.HasSuffix(answer.Reason, "could not be contacted")
}
