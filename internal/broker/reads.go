package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"unicode/utf8"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// withoutStats keeps the broker from looking for statistics of queues and of
// single objects: existence and properties come from its database, and are
// current. A list of queues without them takes a third of the time (3.10).
func withoutStats(columns string) url.Values {
	return url.Values{"columns": {columns}, "disable_stats": {"true"}}
}

// Exchange asks the broker for one exchange, past the snapshot.
func (c *Client) Exchange(ctx context.Context, vhost, name string) (e topology.Exchange, exists bool, err error) {
	found, exists, err := readOne[exchangeJSON](ctx, c, vhost, "exchange", name, exchangeColumns,
		func(rh *rabbithole.Client) (any, error) { return rh.GetExchange(vhost, name) })
	if !exists || err != nil {
		return topology.Exchange{}, false, err
	}
	return found.exchange(), true, nil
}

// ExchangeExists asks the broker whether there is such an exchange, past the
// snapshot. Without a collector of statistics RabbitMQ 3.10 answers 500 for every exchange
// that exists; its list tells.
func (c *Client) ExchangeExists(ctx context.Context, vhost, name string) (bool, error) {
	_, exists, err := c.Exchange(ctx, vhost, name)
	var answer *APIError
	if !errors.As(err, &answer) || answer.Status != http.StatusInternalServerError {
		return exists, err
	}
	k := c.newCall(ctx, operation{text: fmt.Sprintf("list the exchanges in vhost %q", vhost), vhost: vhost})
	k.query = withoutStats("name")
	list, err := get[[]exchangeJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListExchangesIn(vhost) })
	return slices.ContainsFunc(list, func(e exchangeJSON) bool { return e.Name == name }), err
}

// HeldBack asks the broker how many messages an exchange of type x-delayed-message
// holds back. why says why that is unknown, "" if it is known.
//
// Every node holds back the messages that were published through it, and counts only
// those (rabbit_delayed_message:messages_delayed/1). So the number is known only if the
// cluster has one node. That takes the tag monitoring to see.
func (c *Client) HeldBack(ctx context.Context, vhost, name string) (n int64, why string, err error) {
	found, exists, err := readOne[struct {
		Delayed *int64 `json:"messages_delayed"`
	}](ctx, c, vhost, "exchange", name, "name,messages_delayed",
		func(rh *rabbithole.Client) (any, error) { return rh.GetExchange(vhost, name) })
	switch {
	case err != nil:
		return 0, "", err
	case !exists || found.Delayed == nil:
		return 0, "the plugin rabbitmq_delayed_message_exchange is disabled", nil
	}
	nodes, _ := c.nodes(ctx)
	switch {
	case *found.Delayed > 0: // more than none, whatever other nodes hold
	case len(nodes) == 0:
		why = fmt.Sprintf("each node counts its own, and the user %q may not see how many nodes the cluster has (tag monitoring)",
			c.Username())
	case len(nodes) > 1:
		why = fmt.Sprintf("each node counts its own, and the cluster has %d nodes", len(nodes))
	}
	return *found.Delayed, why, nil
}

// Queue asks the broker for one queue, past the snapshot. A queue whose node is down
// exists.
func (c *Client) Queue(ctx context.Context, vhost, name string) (q topology.Queue, exists bool, err error) {
	found, exists, err := readOne[queueJSON](ctx, c, vhost, "queue", name, queueColumns,
		func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(vhost, name) })
	if err != nil {
		return topology.Queue{}, false, err
	}
	if exists {
		return found.queue(), true, nil
	}
	listed, err := c.onlyListed(ctx, vhost, name)
	if err != nil || listed == nil {
		return topology.Queue{}, false, err
	}
	return listed.queue(), true, nil
}

// readOne reads one object of the kind. It is gone only when its virtual host can be read.
func readOne[T any](ctx context.Context, c *Client, vhost, kind, name, columns string, ask request) (found T, exists bool, err error) {
	if err := checkNames(vhost, name); err != nil {
		return found, false, err
	}
	object := fmt.Sprintf("%s %q", kind, name)
	k := c.newCall(ctx, operation{text: fmt.Sprintf("read %s in vhost %q", object, vhost), vhost: vhost, object: object})
	k.query = withoutStats(columns)
	found, err = get[T](k, ask)
	if isNotFound(err) {
		return found, false, nil
	}
	return found, err == nil, err
}

// Vhosts returns the virtual hosts that the user sees, in the order of their
// names: for users with the tag administrator or monitoring all of them, for
// others those they have permissions in.
func (c *Client) Vhosts(ctx context.Context) ([]string, error) {
	k := c.newCall(ctx, operation{text: "list the virtual hosts"})
	k.query = url.Values{"columns": {"name"}}
	found, err := get[[]vhostName](k, func(rh *rabbithole.Client) (any, error) { return rh.ListVhosts() })
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(found))
	for _, name := range found {
		if name != "" {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// vhostName is the name of a listed virtual host, or "" for one that is just being
// deleted: 3.10.8 lists it as [].
type vhostName string

func (n *vhostName) UnmarshalJSON(text []byte) error {
	if string(text) == "[]" {
		return nil
	}
	var v struct {
		Name string `json:"name"`
	}
	err := json.Unmarshal(text, &v)
	*n = vhostName(v.Name)
	return err
}

// userPermissions are those of our own user.
type userPermissions struct {
	known  bool
	vhosts map[string]rabbithole.Permissions
}

// Permissions returns the regular expressions that say which names our own
// user may configure, write and read in the virtual host. Three empty ones
// mean no access. known is false when the broker does not say: it tells only
// administrators, and only of users in its own database. Those of a token are in its
// scopes, which the broker's configuration can rename and extend.
func (c *Client) Permissions(ctx context.Context, vhost string) (configure, write, read string, known bool, err error) {
	p, err := c.loadPermissions(ctx)
	if err != nil {
		return "", "", "", false, err
	}
	in := p.vhosts[vhost]
	return in.Configure, in.Write, in.Read, p.known, nil
}

// loadPermissions asks once per process.
func (c *Client) loadPermissions(ctx context.Context) (*userPermissions, error) {
	return c.permissions.get(ctx, "", func(ctx context.Context, p *userPermissions) error {
		tags, err := c.whoami(ctx)
		if err != nil || c.token != nil || !slices.Contains(tags, "administrator") {
			return err
		}
		k := c.newCall(ctx, operation{text: fmt.Sprintf("read the permissions of the user %q", c.username)})
		list, err := fetch[[]rabbithole.PermissionInfo](k, func(rh *rabbithole.Client) (any, error) {
			return rh.ListPermissionsOf(c.username)
		})
		var answer *APIError
		if errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusUnauthorized) {
			return nil
		}
		if err != nil {
			return err
		}
		p.known, p.vhosts = true, map[string]rabbithole.Permissions{}
		for _, in := range list {
			p.vhosts[in.Vhost] = rabbithole.Permissions{Configure: in.Configure, Write: in.Write, Read: in.Read}
		}
		return nil
	})
}

// checkNames refuses names that cannot stand in a URL of the management API:
// as path segments, "." and ".." would lead to another resource.
func checkNames(names ...string) error {
	for _, name := range names {
		switch {
		case name == "":
			return errors.New("a name is empty: the default exchange cannot be read or changed, and other objects need a name")
		case !utf8.ValidString(name):
			// Seen on 4.0 and 4.3: after that, listing the virtual host fails.
			return fmt.Errorf("the name %q is not UTF-8, without which RabbitMQ cannot list it", name)
		case name == ".", name == "..":
			return fmt.Errorf("the name %q cannot be used with RabbitMQ's management API: choose another one", name)
		}
	}
	return nil
}
