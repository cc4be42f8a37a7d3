package broker

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
)

// sameCluster fails if a node that gave this cluster name over AMQP is certain not to
// belong to the cluster behind the management API: what one cluster says of a queue tells
// nothing of a queue of the other. Every user of the management API can read its name
// (rabbit_mgmt_wm_overview, 3.10 to 4.3). An AMQP proxy may send none.
//
// A name that was set is the same on all nodes. Without one, each node calls the cluster
// after itself (rabbit_nodes:cluster_name_default/0, 3.10 to 4.3); then the names of the
// nodes decide, if the user may see them, and in doubt nothing is refused.
func (c *Client) sameCluster(ctx context.Context, name, address string) error {
	if _, known := c.accepted.Load(name); name == "" || known {
		return nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	if info.Cluster != "" && info.Cluster != name {
		// The cluster may have been renamed since.
		if err := c.loadInfo(ctx, &info); err != nil {
			return err
		}
	}
	if info.Cluster != "" && info.Cluster != name {
		may, err := c.mayBeNode(ctx, info, name)
		if err != nil {
			return err
		}
		if !may {
			return &ClusterError{Endpoint: c.Endpoint(), Cluster: info.Cluster, Address: address, Other: name}
		}
	}
	c.accepted.Store(name, true)
	return nil
}

// mayBeNode says whether the name can be the one that a node of our cluster gives a
// cluster without a name.
func (c *Client) mayBeNode(ctx context.Context, info Info, name string) (bool, error) {
	if !namedAfter(info.Cluster, info.Node) {
		return false, nil // the name was set
	}
	nodes, err := c.newCall(ctx, operation{}).listNodes()
	var answer *APIError
	if errors.As(err, &answer) && answer.Status == http.StatusUnauthorized {
		return true, nil // only users with the tag monitoring see the nodes
	}
	// The host in the name of a node can be something else than the machine's name, such
	// as an IP address; that of our node tells.
	hosts := host(info.Cluster) == host(info.Node)
	return len(nodes) == 0 || slices.ContainsFunc(nodes, func(n node) bool {
		return namedAfter(name, n.Name) && (!hosts || host(name) == host(n.Name))
	}), err
}

// namedAfter says whether a cluster's name can be the default on the node: the part of
// the node's name before the @, and the full name of the machine.
func namedAfter(cluster, node string) bool {
	id, _, found := strings.Cut(cluster, "@")
	own, _, _ := strings.Cut(node, "@")
	return found && id == own
}

// host is the first label of the host in a name.
func host(name string) string {
	_, host, _ := strings.Cut(name, "@")
	label, _, _ := strings.Cut(host, ".")
	return strings.ToLower(label)
}
