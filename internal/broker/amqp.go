package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// amqpSettings say how to reach the broker over AMQP.
type amqpSettings struct {
	// given are the configured addresses, none if they must be found.
	given []*url.URL
	tls   *tls.Config
	// answered is the index of the address that answered last.
	answered *atomic.Int32
	outage   *outage
}

func newAMQPSettings(cfg Config, tlsConfig *tls.Config) (amqpSettings, error) {
	s := amqpSettings{tls: tlsConfig.Clone(), answered: &atomic.Int32{}, outage: &outage{}}
	if cfg.AMQPEndpoint == "" {
		return s, nil
	}
	var err error
	s.given, err = parseAddresses(cfg.AMQPEndpoint, parseAMQPEndpoint)
	return s, err
}

func parseAMQPEndpoint(text string) (*url.URL, error) {
	u, err := parseURL("AMQPEndpoint", "the AMQP endpoint", text, "amqp", "amqps")
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" {
		return nil, wrong("AMQPEndpoint", "the AMQP endpoint must not name a virtual host: give it as %s://%s", u.Scheme, u.Host)
	}
	return u, nil
}

// AMQP ports by default, and RabbitMQ's names of the two listeners.
const (
	amqpPort, amqpsPort         = 5672, 5671
	amqpListener, amqpsListener = "amqp", "amqp/ssl"
)

// addresses is the number of addresses.
func (s amqpSettings) addresses(c *Client) int {
	if len(s.given) > 0 {
		return len(s.given)
	}
	return len(c.addresses.list)
}

// first is the index of the address to try first: the one that answered last, and if they
// must be found that of the node whose management API did.
func (s amqpSettings) first(c *Client) int {
	if len(s.given) > 0 {
		return int(s.answered.Load())
	}
	return c.addresses.current()
}

// dialer finds an address. Without a configured one it is the host of the
// management API and the port of the broker's listener, the default port when
// the user may not see the listeners. An https endpoint leads to a TLS
// listener only: the password must not travel in clear text because nobody
// said where to connect.
func (s amqpSettings) dialer(ctx context.Context, c *Client, at int) (messages.Dialer, error) {
	username, password, err := c.login(ctx)
	d := messages.Dialer{Username: username, Password: password, TLS: s.tls}
	if err != nil {
		return d, err
	}
	if len(s.given) > 0 {
		u := s.given[at]
		port := u.Port()
		if port == "" {
			port = defaultPort(u.Scheme == "amqps")
		}
		d.Address = u.Scheme + "://" + net.JoinHostPort(u.Hostname(), port)
		return d, nil
	}
	find := c.services
	if len(c.addresses.list) > 1 {
		find = func(ctx context.Context) (*services, error) { return c.servicesAt(ctx, at) }
	}
	found, err := find(ctx)
	if err != nil {
		return d, err
	}
	endpoint := c.addresses.list[at]
	secure := endpoint.Scheme == "https"
	port, offered := found.port(secure)
	scheme := "amqp"
	if secure {
		scheme = "amqps"
	}
	d.Address = scheme + "://" + net.JoinHostPort(endpoint.Hostname(), port)
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

// openAMQP connects to a virtual host with the patience of a request: it tries as often,
// with the same pauses, ends with ctx, and remembers that nothing could be reached.
func (c *Client) openAMQP(ctx context.Context, vhost string) (session, error) {
	if err := c.amqp.outage.current(); err != nil {
		return nil, err
	}
	for d := (dialing{client: c, vhost: vhost, began: time.Now(), tries: 1}); ; d.tries++ {
		s, err := d.round(ctx)
		if err == nil {
			c.amqp.outage.clear()
			return s, nil
		}
		wait := backoff(d.tries)
		if !d.again(ctx, err, wait) {
			return nil, d.failure(ctx, err)
		}
		if err := c.sleep(ctx, wait); err != nil {
			return nil, fmt.Errorf("stopped after %s while connecting to RabbitMQ over AMQP: %w (the last try failed: %w)",
				time.Since(d.began).Round(time.Millisecond), err, d.failure(ctx, d.last))
		}
	}
}

// dialing is one call of openAMQP.
type dialing struct {
	client *Client
	vhost  string
	began  time.Time
	tries  int
	// address is the one that was tried last, and last what it said.
	address string
	last    error
	// endpoints and failures are those of the last round that did not answer.
	endpoints []string
	failures  []error
}

// round tries the addresses in turn until one answers. What a node refuses, another one
// would refuse as well.
func (d *dialing) round(ctx context.Context) (s session, err error) {
	c := d.client
	d.endpoints, d.failures = nil, nil
	n, first := c.amqp.addresses(c), c.amqp.first(c)
	for i := range n {
		at := (first + i) % n
		s, err = d.try(ctx, at)
		if err == nil {
			c.amqp.answered.Store(int32(at)) //nolint:gosec // a short list
			return s, nil
		}
		if ctx.Err() != nil || refusedAMQP(err) {
			return nil, err
		}
		d.endpoints, d.failures = append(d.endpoints, d.address), append(d.failures, err)
	}
	return nil, err
}

func (d *dialing) try(ctx context.Context, at int) (session, error) {
	c := d.client
	if len(c.amqp.given) == 0 {
		d.address = c.addresses.list[at].String() // until the dialer is found
	}
	dialer, err := c.amqp.dialer(ctx, c, at)
	if err != nil {
		return nil, err
	}
	d.address = dialer.Address
	s, err := dialer.Open(ctx, d.vhost)
	if err != nil {
		return nil, err
	}
	if err := c.sameCluster(ctx, s.Cluster(), d.address); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &amqpSession{Session: s, client: c, address: d.address, vhost: d.vhost}, nil
}

// refusedAMQP says whether a broker answered, and would not have us.
func refusedAMQP(err error) bool {
	var refused *messages.RefusedError
	return errors.Is(err, messages.ErrVhost) || is[*ClusterError](err) || is[*CredentialsError](err) ||
		errors.As(err, &refused) && !refused.Silent
}

// again says whether another try can help after the error, and notes it.
func (d *dialing) again(ctx context.Context, err error, wait time.Duration) bool {
	last := d.last
	d.last = err
	if ctx.Err() != nil || d.tries > d.client.retry.max || time.Since(d.began)+wait > unreachableLimit {
		return false
	}
	var refused *messages.RefusedError
	if errors.As(err, &refused) {
		return refused.Silent && !errors.As(last, &refused)
	}
	if len(d.failures) > 1 {
		return slices.ContainsFunc(d.failures, passingAMQP)
	}
	return !typed(err) && passingAMQP(err) // the API was asked with patience
}

// passingAMQP says whether a later try to connect may succeed after the error.
func passingAMQP(err error) bool {
	var limit *messages.LimitError
	var told *messages.BrokerError
	var dns *net.DNSError
	var network net.Error
	switch {
	case errors.Is(err, messages.ErrClosedEarly), errors.Is(err, messages.ErrSilent), errors.As(err, &limit):
		return true
	case errors.As(err, &told):
		return told.Internal() || told.Stopping()
	case errors.As(err, &dns):
		return !dns.IsNotFound
	default:
		return errors.As(err, &network) && tlsFailure("", err) == nil
	}
}

// failure words the error with which the tries ended.
func (d *dialing) failure(ctx context.Context, err error) error {
	c := d.client
	var refused *messages.RefusedError
	var limit *messages.LimitError
	switch {
	case ctx.Err() != nil, refusedAMQP(err) && typed(err), typed(err) && len(d.failures) < 2:
		return err
	case errors.Is(err, messages.ErrVhost):
		return c.vhostError(ctx, d.vhost)
	case errors.As(err, &refused):
		return c.refusal(d.address, refused.Reason)
	case errors.As(err, &limit):
		return &ConnectionLimitError{Address: d.address, Vhost: d.vhost, Username: c.Username(), Of: limit.Of(), Reason: limit.Reason}
	}
	failure := &AMQPError{
		Address: d.address, Problem: amqpProblem(err), Tries: d.tries, Elapsed: time.Since(d.began), Down: c.DownText(ctx), Err: err,
	}
	if len(d.failures) > 1 {
		failure.Address, failure.Problem = eachProblem(d.failures, d.endpoints, amqpProblem)
	}
	c.amqp.outage.begin(failure)
	return failure
}

// typed says whether the error is one that this package has worded, such as one of the
// management API.
func typed(err error) bool {
	for _, is := range []func(error) bool{
		is[*AMQPError], is[*ClusterError], is[*ConnectionError], is[*NodesDownError], is[*TLSError], is[*EndpointError],
		is[*CredentialsError], is[*APIError],
	} {
		if is(err) {
			return true
		}
	}
	return false
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// amqpProblem says why no connection came about.
func amqpProblem(err error) string {
	var dns *net.DNSError
	var secure *TLSError
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Sprintf("the host name %q is not known", dns.Name)
	case typed(err):
		return shortProblem(err)
	case errors.As(tlsFailure("", err), &secure):
		return secure.Problem + "; " + secure.Advice
	case isTimeout(err):
		return messages.ErrSilent.Error()
	default:
		return err.Error()
	}
}

func (c *Client) amqpError(ctx context.Context, address string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var unavailable *messages.UnavailableError
	if errors.As(err, &unavailable) {
		return err // AMQP works, the queue does not
	}
	return c.unlessExpired(address, &AMQPError{Address: address, Problem: err.Error(), Err: err})
}

// amqpSession gives the errors of a session their address, and connects again when the
// connection ends in the middle of a request that only reads.
type amqpSession struct {
	*messages.Session
	client         *Client
	address, vhost string
}

// reconnects is how often a request is made again on a new connection.
const reconnects = 3

// read makes a request that only reads. RabbitMQ 4.0 can end a connection that asks for a
// queue while it is being deleted, and a node that stops ends them all.
func (s *amqpSession) read(ctx context.Context, request func() error) error {
	for tries := 0; ; tries++ {
		err := request()
		switch {
		case err == nil:
			return nil
		case tries == reconnects, ctx.Err() != nil, is[*messages.UnavailableError](err), !s.Ended(err):
			return s.client.amqpError(ctx, s.address, err)
		}
		_ = s.Close()
		opened, err := s.client.openAMQP(ctx, s.vhost)
		if err != nil {
			return err
		}
		if other, ok := opened.(*amqpSession); ok {
			s.Session, s.address = other.Session, other.address
		}
	}
}

func (s *amqpSession) Depths(ctx context.Context, queues []string) (depths map[string]messages.Depth, err error) {
	err = s.read(ctx, func() (err error) {
		depths, err = s.Session.Depths(ctx, queues)
		return err
	})
	return depths, err
}

func (s *amqpSession) Glance(ctx context.Context, queue string) (depth messages.Depth, err error) {
	err = s.read(ctx, func() (err error) {
		depth, err = s.Session.Glance(ctx, queue)
		return err
	})
	return depth, err
}

func (s *amqpSession) Watch(ctx context.Context, queue string) (watch, error) {
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
