// Package broker talks to the management API of one RabbitMQ broker.
//
// Every request is one of rabbit-hole's calls. Below rabbit-hole lies a
// transport of our own, because rabbit-hole has no contexts, no retries and no
// kept-alive connections, and because it drops parts of the broker's answers:
// the reason of a 401, reasons that are lists (RabbitMQ 4.3), the difference
// between a whole and a fractional number in arguments, and the difference
// between a count of zero and a count that is missing.
package broker

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// Client is a connection to one broker. It is safe for concurrent use. It
// keeps what it has read for as long as it lives: the broker's facts, and one
// snapshot per virtual host, see [Client.View].
type Client struct {
	addresses addresses
	username  string
	password  string
	token     *token
	headers   http.Header
	transport *http.Transport
	retry     retryPolicy
	outage    outage
	// minority remembers that writes fail because nodes are down, and stall is
	// [stallTime].
	minority outage
	stall    time.Duration
	// slots limits the requests under way at once.
	slots chan struct{}
	// policyTurns holds a chan struct{} per virtual host, see changePolicies.
	policyTurns sync.Map

	// behind is what each address says of its cluster, by the index of the address, and
	// cluster is the first of them, see [call.belongs].
	behind  cache[clusterAt]
	cluster atomic.Pointer[clusterAt]
	// accepted are the names of clusters that were accepted over AMQP.
	accepted sync.Map

	info        cache[Info]
	aside       cache[services]
	snapshots   cache[snapshot]
	effects     cache[effects]
	permissions cache[userPermissions]
	deprecated  cache[[]string]
	shovels     cache[Shovels]
	flags       cache[featureFlags]
	access      accessLog
	leaders     leaderNodes

	amqp amqpSettings
	// openSession connects to a virtual host over AMQP.
	openSession func(ctx context.Context, vhost string) (session, error)
	// statistics is how often the broker renews its counts.
	statistics time.Duration
	proof      proofTiming
	sleep      func(context.Context, time.Duration) error
}

// New returns a client for the broker that cfg describes. It checks cfg and
// reads the certificate files, and makes no request.
func New(cfg Config) (*Client, error) {
	endpoints, err := parseAddresses(cfg.Endpoint, parseEndpoint)
	if err != nil {
		return nil, err
	}
	if err := cfg.checkCredentials(); err != nil {
		return nil, err
	}
	headers, err := cfg.headers()
	if err != nil {
		return nil, err
	}
	tlsConfig, err := cfg.tls()
	if err != nil {
		return nil, err
	}
	amqp, err := newAMQPSettings(cfg, tlsConfig)
	if err != nil {
		return nil, err
	}
	parallel := cfg.MaxParallelRequests
	if parallel <= 0 {
		parallel = DefaultMaxParallelRequests
	}
	statistics := cmp.Or(cfg.StatisticsInterval, DefaultStatisticsInterval)
	transport, err := newTransport(cfg, tlsConfig, parallel, len(endpoints))
	if err != nil {
		return nil, err
	}
	c := &Client{
		addresses: addresses{list: endpoints},
		username:  cfg.Username,
		password:  cfg.Password,
		token:     newToken(cfg.Token),
		headers:   headers,
		transport: transport,
		retry:     newRetryPolicy(cfg),
		stall:     stallTime,
		slots:     make(chan struct{}, parallel),
		amqp:      amqp,

		statistics: statistics,
		proof:      proofTimingFor(statistics),
		sleep:      Sleep,
	}
	c.openSession = c.openAMQP
	return c, nil
}

// Endpoint returns the URL of the management API, without credentials: of several
// addresses the one that answered last.
func (c *Client) Endpoint() string { return c.addresses.list[c.addresses.current()].String() }

// StatisticsInterval returns how often the broker renews its counts of messages.
func (c *Client) StatisticsInterval() time.Duration { return c.statistics }

// AMQP returns the settings of an AMQP connection to the same broker, of several
// addresses to the first one that is tried. Without an AMQP endpoint in the
// configuration it asks the broker for its listeners.
func (c *Client) AMQP(ctx context.Context) (messages.Dialer, error) {
	return c.amqp.dialer(ctx, c, c.amqp.first(c))
}

// Sleep returns early, with the cause, when ctx ends.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

// accessLog remembers when a virtual host was last seen to be accessible.
type accessLog struct {
	mu   sync.Mutex
	seen map[string]time.Time
}

func (l *accessLog) note(vhost string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seen == nil {
		l.seen = map[string]time.Time{}
	}
	l.seen[vhost] = time.Now()
}

func (l *accessLog) recent(vhost string, within time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, ok := l.seen[vhost]
	return ok && time.Since(at) < within
}
