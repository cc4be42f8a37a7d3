package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strconv"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// amqpSettings say how to reach the broker over AMQP.
type amqpSettings struct {
	// given is the configured address, nil when it has to be found.
	given *url.URL
	tls   *tls.Config
}

func newAMQPSettings(cfg Config, tlsConfig *tls.Config) (amqpSettings, error) {
	s := amqpSettings{tls: tlsConfig.Clone()}
	if cfg.AMQPEndpoint == "" {
		return s, nil
	}
	u, err := parseURL("AMQPEndpoint", "the AMQP endpoint", cfg.AMQPEndpoint, "amqp", "amqps")
	if err != nil {
		return s, err
	}
	if u.Path != "" && u.Path != "/" {
		return s, wrong("AMQPEndpoint", "the AMQP endpoint must not name a virtual host: give it as %s://%s", u.Scheme, u.Host)
	}
	s.given = u
	return s, nil
}

// AMQP ports by default, and RabbitMQ's names of the two listeners.
const (
	amqpPort, amqpsPort         = 5672, 5671
	amqpListener, amqpsListener = "amqp", "amqp/ssl"
)

// dialer finds the address. Without a configured one it is the host of the
// management API and the port of the broker's listener, the default port when
// the user may not see the listeners. An https endpoint leads to a TLS
// listener only: the password must not travel in clear text because nobody
// said where to connect.
func (s amqpSettings) dialer(ctx context.Context, c *Client) (messages.Dialer, error) {
	d := messages.Dialer{Username: c.username, Password: c.password, TLS: s.tls}
	if s.given != nil {
		port := s.given.Port()
		if port == "" {
			port = defaultPort(s.given.Scheme == "amqps")
		}
		d.Address = s.given.Scheme + "://" + net.JoinHostPort(s.given.Hostname(), port)
		return d, nil
	}
	found, err := c.services(ctx)
	if err != nil {
		return d, err
	}
	secure := c.endpoint.Scheme == "https"
	port, offered := found.port(secure)
	scheme := "amqp"
	if secure {
		scheme = "amqps"
	}
	d.Address = scheme + "://" + net.JoinHostPort(c.endpoint.Hostname(), port)
	if !offered {
		return d, &AMQPError{Address: d.Address, Problem: "the broker has no such listener"}
	}
	return d, nil
}

// port returns the AMQP port of the node that answered, or else that of any
// node. found is false when the listeners are known and none fits.
func (s *services) port(secure bool) (port string, found bool) {
	if len(s.listeners) == 0 {
		return defaultPort(secure), true
	}
	want := amqpListener
	if secure {
		want = amqpsListener
	}
	for _, l := range s.listeners {
		if l.Protocol != want {
			continue
		}
		if l.Node == s.node {
			return strconv.Itoa(l.Port), true
		}
		if !found {
			port, found = strconv.Itoa(l.Port), true
		}
	}
	if !found {
		port = defaultPort(secure)
	}
	return port, found
}

func defaultPort(secure bool) string {
	if secure {
		return strconv.Itoa(amqpsPort)
	}
	return strconv.Itoa(amqpPort)
}

// session is a connection to a virtual host over AMQP.
type session interface {
	// Depths returns the depth of every queue that exists.
	Depths(ctx context.Context, queues []string) (map[string]messages.Depth, error)
	Glance(ctx context.Context, queue string) (messages.Depth, error)
	Probe(ctx context.Context, queue string) error
	Watch(ctx context.Context, queue string) (watch, error)
	MayPutBack(ctx context.Context, queue string) error
	PutBack(ctx context.Context, queue string, only []string, held []messages.Message) (left []messages.Message, err error)
	Close() error
}

// watch is a [messages.Watch].
type watch interface {
	Depth(ctx context.Context) (messages.Depth, error)
	Held() []messages.Message
	Rest(ctx context.Context) (held []messages.Message, gone bool)
	Release(ctx context.Context, limit int64) error
}

func (c *Client) openAMQP(ctx context.Context, vhost string) (session, error) {
	d, err := c.AMQP(ctx)
	if err != nil {
		return nil, err
	}
	s, err := d.Open(ctx, vhost)
	var refused *messages.RefusedError
	switch {
	case errors.Is(err, messages.ErrVhost):
		return nil, c.vhostError(ctx, vhost)
	case errors.As(err, &refused):
		return nil, &CredentialsError{Endpoint: d.Address, Username: c.username, Reason: refused.Reason}
	case err != nil:
		return nil, c.amqpError(ctx, d.Address, err)
	}
	return amqpSession{s, c, d.Address}, nil
}

func (c *Client) amqpError(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &AMQPError{Address: address, Problem: err.Error(), Err: err}
}

// amqpSession gives the errors of a session their address.
type amqpSession struct {
	*messages.Session
	client  *Client
	address string
}

func (s amqpSession) Depths(ctx context.Context, queues []string) (map[string]messages.Depth, error) {
	depths, err := s.Session.Depths(ctx, queues)
	if err != nil {
		return nil, s.client.amqpError(ctx, s.address, err)
	}
	return depths, nil
}

func (s amqpSession) Glance(ctx context.Context, queue string) (messages.Depth, error) {
	depth, err := s.Session.Glance(ctx, queue)
	if err != nil {
		return depth, s.client.amqpError(ctx, s.address, err)
	}
	return depth, nil
}

func (s amqpSession) Watch(ctx context.Context, queue string) (watch, error) {
	w, err := s.Session.Watch(ctx, queue)
	var refused *messages.RefusedError
	switch {
	case errors.Is(err, messages.ErrNotFound), errors.As(err, &refused):
		return nil, err
	case err != nil:
		return nil, s.client.amqpError(ctx, s.address, err)
	}
	return w, nil
}

// inUse makes an InUseError of the broker's refusal to delete a queue.
func inUse(err error, vhost, queue string) error {
	var answer *APIError
	if errors.As(err, &answer) {
		if why, refused := refusedInUse(answer.Reason); refused {
			return &InUseError{Vhost: vhost, Queue: queue, Reason: why}
		}
	}
	return err
}
