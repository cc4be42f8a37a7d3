package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
)

// nodesTime limits a look at the nodes, which only adds to an error or a plan.
const nodesTime = 3 * time.Second

// NodesDown returns the names of the cluster's nodes that do not run, sorted. known is
// false if the broker does not say: RabbitMQ lists nodes only for users with the tag
// monitoring or administrator (rabbit_mgmt_wm_nodes, 3.10 to 4.3).
//
// It is meant for error texts: it asks once, takes at most 3 s, and still asks if the
// deadline of ctx has passed, but not if ctx was canceled.
func (c *Client) NodesDown(ctx context.Context) (down []string, known bool) {
	nodes, down := c.nodes(ctx)
	return down, len(nodes) > 0
}

// node is a node of the cluster.
type node struct {
	Name    string `json:"name"`
	Running bool   `json:"running"`
	// Drained nodes are in maintenance mode and are to get no leaders.
	Drained bool `json:"being_drained"`
}

// nodes returns all nodes, none if they are not known, and the names of those that do not
// run.
func (c *Client) nodes(ctx context.Context) (nodes []node, down []string) {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	k := c.newCall(ctx, operation{})
	k.once = true
	return k.nodes()
}

// nodes is [Client.nodes] of one address.
func (k *call) nodes() (nodes []node, down []string) {
	nodes, err := k.listNodes()
	if err != nil {
		return nil, nil
	}
	for _, n := range nodes {
		if !n.Running {
			down = append(down, n.Name)
		}
	}
	slices.Sort(down)
	return nodes, down
}

// listNodes returns all nodes.
func (k *call) listNodes() ([]node, error) {
	k.op.text = "list the nodes"
	k.query = withoutStats("name,running,being_drained")
	return fetch[[]node](k, func(rh *rabbithole.Client) (any, error) { return rh.ListNodes() })
}

// DownText is [Client.NodesDown] as a clause that can end an error, such as
// "nodes down: rabbit@b, rabbit@c". It is "" if no node is known to be down.
func (c *Client) DownText(ctx context.Context) string {
	down, _ := c.NodesDown(ctx)
	if len(down) == 0 {
		return ""
	}
	return fmt.Sprintf("nodes down: %s", strings.Join(down, ", "))
}

// stallTime is after which time without success a request asks for the nodes, again and
// again. Three nodes of 4.3.6 without one of them took up to 8 s for a declaration.
const stallTime = 6 * time.Second

// stalled says that nodes are down and that the call has waited long enough for it: two
// looks if most nodes are down, without which RabbitMQ changes nothing, and else the
// time of one try.
func (k *call) stalled(ctx context.Context, problem string) error {
	c := k.client
	waited := time.Since(k.began)
	if k.once || waited < 2*c.stall {
		return nil
	}
	nodes, down := c.nodes(ctx)
	e := &NodesDownError{Operation: k.op.text, Endpoint: k.url().String(), Problem: problem, Down: down, All: len(nodes)}
	if len(down) == 0 || !e.minority() && waited < c.retry.tryTimeout {
		return nil
	}
	e.Members = c.members(ctx, k.op)
	return e
}

// watchNodes ends the context of a try with the error of [call.stalled].
func (k *call) watchNodes(ctx context.Context, end context.CancelCauseFunc) {
	for Sleep(ctx, k.client.stall) == nil {
		waited := time.Since(k.began).Round(time.Second)
		if err := k.stalled(ctx, fmt.Sprintf("no answer within %s", waited)); err != nil {
			end(err)
		}
	}
}

// members says how many members of the queue that the operation is about are online,
// "" if that is not known.
func (c *Client) members(ctx context.Context, op operation) string {
	quoted, is := strings.CutPrefix(op.object, "queue ")
	name, err := strconv.Unquote(quoted)
	if !is || err != nil || op.vhost == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTime)
	defer cancel()
	k := c.newCall(ctx, operation{text: "look at " + op.object})
	k.once = true
	k.query = withoutStats("state,members,online")
	found, err := fetch[shape](k, func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(op.vhost, name) })
	if err != nil || len(found.Members) == 0 || len(found.Online) == len(found.Members) {
		return ""
	}
	return fmt.Sprintf("%s has %d of %d members online", op.object, len(found.Online), len(found.Members))
}
