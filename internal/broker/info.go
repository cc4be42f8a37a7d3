package broker

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

// Info is what a broker says of itself.
type Info struct {
	// Version is the version of RabbitMQ, not that of a product built on it.
	Version abilities.Version
	Cluster string
	// Node is the node that answered.
	Node string
	// ExchangeTypes are the types that can be declared, those of plugins
	// included, in the order of their names.
	ExchangeTypes []string
}

// services is what a broker says of itself and only some operations need. An
// overview with statistics, which it is part of, sometimes takes 5 s on a busy
// node (4.0.5 and 4.3.6).
type services struct {
	// node is the node that answered.
	node string
	// statsDisabled says that the broker keeps no counts of messages
	// (management.disable_stats), so that no queue can be proved empty.
	statsDisabled bool
	// listeners are those of all nodes. RabbitMQ shows them to users with the
	// tag monitoring or administrator only.
	listeners []Listener
}

// Listener is a port that a node listens on.
type Listener struct {
	Node string
	// Protocol is RabbitMQ's name: "amqp", "amqp/ssl", "http", "https", ….
	Protocol string
	Port     int
}

// Info returns what the broker says of itself. It asks once per process; a
// failure is not kept.
func (c *Client) Info(ctx context.Context) (Info, error) {
	info, err := c.info.get(ctx, "", c.loadInfo)
	if err != nil {
		return Info{}, err
	}
	copied := *info
	copied.ExchangeTypes = slices.Clone(info.ExchangeTypes)
	return copied, nil
}

// overview is the part of GET /api/overview that [Info] and services need.
type overview struct {
	Version       string `json:"rabbitmq_version"`
	Cluster       string `json:"cluster_name"`
	Node          string `json:"node"`
	ExchangeTypes []struct {
		Name    string `json:"name"`
		Enabled *bool  `json:"enabled"`
	} `json:"exchange_types"`
	DisableStats bool `json:"disable_stats"`
	Listeners    []struct {
		Node     string          `json:"node"`
		Protocol string          `json:"protocol"`
		Port     rabbithole.Port `json:"port"`
	} `json:"listeners"`
}

const (
	infoColumns     = "rabbitmq_version,cluster_name,node,exchange_types"
	servicesColumns = "node,disable_stats,listeners"
)

func (c *Client) loadInfo(ctx context.Context, info *Info) error {
	o, err := c.newCall(ctx, operation{}).readOverview(withoutStats(infoColumns))
	if err != nil {
		return err
	}
	version, err := abilities.Parse(o.Version)
	if err != nil {
		return &EndpointError{
			Endpoint: c.Endpoint(),
			Found:    "the answer to /api/overview has no rabbitmq_version",
			Advice:   urlAdvice,
			Err:      err,
		}
	}
	*info = Info{
		Version: version,
		Cluster: o.Cluster,
		Node:    o.Node,
	}
	for _, t := range o.ExchangeTypes {
		if t.Enabled == nil || *t.Enabled {
			info.ExchangeTypes = append(info.ExchangeTypes, t.Name)
		}
	}
	slices.Sort(info.ExchangeTypes)
	return nil
}

// services asks once per process; a failure is not kept.
func (c *Client) services(ctx context.Context) (*services, error) {
	return c.aside.get(ctx, "", func(ctx context.Context, s *services) error { return c.newCall(ctx, operation{}).services(s) })
}

// servicesAt is services of the node behind one of several addresses.
func (c *Client) servicesAt(ctx context.Context, at int) (*services, error) {
	return c.aside.get(ctx, strconv.Itoa(at), func(ctx context.Context, s *services) error {
		k := c.newCall(ctx, operation{})
		k.at, k.pinned, k.once = at, true, true
		return k.services(s)
	})
}

func (k *call) services(s *services) error {
	o, err := k.readOverview(url.Values{"columns": {servicesColumns}})
	if err != nil {
		return err
	}
	*s = services{node: o.Node, statsDisabled: o.DisableStats}
	for _, l := range o.Listeners {
		s.listeners = append(s.listeners, Listener{Node: l.Node, Protocol: l.Protocol, Port: int(l.Port)})
	}
	return nil
}

func (k *call) readOverview(query url.Values) (overview, error) {
	k.op.text = "read the broker's overview"
	k.query = query
	o, err := fetch[overview](k, func(rh *rabbithole.Client) (any, error) { return rh.Overview() })
	var answer *APIError
	if errors.As(err, &answer) && answer.Status == http.StatusUnauthorized {
		err = k.client.refusal(k.url().String(), answer.Reason)
	}
	return o, err
}
