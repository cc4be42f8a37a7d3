package broker

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
)

// addresses are the management APIs of the nodes of one cluster, in the order of the
// configuration.
type addresses struct {
	list []*url.URL
	// answered is the index of the one that answered last. Calls begin there.
	answered atomic.Int32
}

func (a *addresses) current() int { return int(a.answered.Load()) }

// parseAddresses splits a comma-separated list and reads each part. With several
// addresses, errors name the place in the list.
func parseAddresses(text string, parse func(text string) (*url.URL, error)) ([]*url.URL, error) {
	parts := strings.Split(text, ",")
	list := make([]*url.URL, 0, len(parts))
	for i, part := range parts {
		u, err := parse(part)
		var problem *ConfigError
		if len(parts) > 1 && errors.As(err, &problem) {
			return nil, wrong(problem.Field, "%s (address %d of %d)", problem.Problem, i+1, len(parts))
		}
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

// base is the address in rabbit-hole's requests. Each try replaces it, see [call.address].
const base = "http://rabbitmq"

// address directs a request of rabbit-hole to one of the addresses.
func (k *call) address(r *http.Request) {
	at := k.url()
	u := *r.URL
	u.Scheme, u.Host = at.Scheme, at.Host
	u.Path, u.RawPath = at.Path+r.URL.Path, at.EscapedPath()+r.URL.EscapedPath()
	r.URL, r.Host = &u, at.Host
}

// url is the address that the call tries.
func (k *call) url() *url.URL { return k.client.addresses.list[k.at] }

// next moves on to the next address for the next try.
func (k *call) next() {
	if !k.pinned {
		k.at = (k.at + 1) % len(k.client.addresses.list)
	}
}

// tryEach tries the addresses in turn until one takes the request. A request that was
// sent may have had its effect, and is left to the retries of the call.
func (k *call) tryEach(request *http.Request) (*http.Response, error) {
	k.missed = nil
	for {
		response, err := k.try(request)
		if err == nil {
			k.client.addresses.answered.Store(int32(k.at)) //nolint:gosec // a short list
			return response, nil
		}
		var failed *tryError
		if k.ctx.Err() != nil || errors.As(err, &failed) && failed.sent || is[*ClusterError](err) || is[*NodesDownError](err) {
			return nil, err
		}
		k.missed = append(k.missed, missed{k.url().String(), err})
		if k.pinned || len(k.missed) == len(k.client.addresses.list) {
			k.next()
			return nil, err
		}
		k.next()
	}
}

// missed is an address that did not take a request.
type missed struct {
	endpoint string
	err      error
}

// belongs fails if the address that the call tries is of another cluster than the first
// one that answered. It asks once for each of several addresses.
func (k *call) belongs() error {
	c := k.client
	if k.pinned || len(c.addresses.list) == 1 {
		return nil
	}
	at, err := c.behind.get(k.ctx, strconv.Itoa(k.at), func(ctx context.Context, at *clusterAt) error {
		look := c.newCall(ctx, operation{})
		look.at, look.pinned, look.once = k.at, true, true
		o, err := look.readOverview(withoutStats(infoColumns))
		*at = clusterAt{endpoint: k.url().String(), cluster: o.Cluster, node: o.Node}
		if err == nil {
			at.peers, _ = look.nodes()
		}
		return err
	})
	var refused *CredentialsError
	switch {
	case errors.As(err, &refused):
		return nil // which the request will find out as well
	case err != nil:
		return err
	case c.cluster.CompareAndSwap(nil, at):
		return nil
	}
	if first := c.cluster.Load(); !first.joins(at) {
		return &ClusterError{Endpoint: first.endpoint, Cluster: first.cluster, Address: at.endpoint, Other: at.cluster}
	}
	return nil
}

// clusterAt is what an address says of its cluster.
type clusterAt struct {
	endpoint, cluster, node string
	// peers are the nodes of its cluster, none if they are not known.
	peers []node
}

// joins says whether two addresses can belong to one cluster, see [Client.sameCluster].
func (a *clusterAt) joins(b *clusterAt) bool {
	if a.cluster == b.cluster || a.cluster == "" || b.cluster == "" {
		return true
	}
	if !namedAfter(a.cluster, a.node) || !namedAfter(b.cluster, b.node) {
		return false
	}
	return len(a.peers) == 0 || slices.ContainsFunc(a.peers, func(n node) bool { return n.Name == b.node })
}

// eachProblem words why none of several addresses could be reached.
func eachProblem(failures []error, endpoints []string, problem func(error) string) (where, what string) {
	texts := make([]string, 0, len(failures))
	for i, err := range failures {
		texts = append(texts, endpoints[i]+": "+problem(err))
	}
	return strings.Join(endpoints, ", "), strings.Join(texts, "; ")
}

// shortProblem is an error of this package without address and advice.
func shortProblem(err error) string {
	var connection *ConnectionError
	var secure *TLSError
	var endpoint *EndpointError
	switch {
	case errors.As(err, &connection):
		return connection.Problem
	case errors.As(err, &secure):
		return secure.Problem
	case errors.As(err, &endpoint):
		return endpoint.Found
	}
	return cmp.Or(err.Error(), "unknown")
}
