// Package messages looks into queues over AMQP 0-9-1, where the management API
// gives no exact answer, and keeps their messages while they are deleted.
package messages

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

const (
	connectTimeout = 10 * time.Second
	// secondLook is the pause between the two passive declarations of
	// [Session.Depths]. A quorum queue's leader has 250 ms to answer; when it
	// does not, RabbitMQ says that the queue holds nothing
	// (rabbit_quorum_queue:stat/2, 3.10 to 4.3).
	secondLook = 300 * time.Millisecond
)

// ErrNotFound says that there is no such queue.
var ErrNotFound = errors.New("the queue does not exist")

// ErrVhost says that there is no such virtual host, or that the user has no
// permissions in it.
var ErrVhost = errors.New("the broker refuses access to the virtual host")

// Errors of [Dialer.Open] if no RabbitMQ answers.
var (
	ErrClosedEarly = errors.New("the connection was closed before RabbitMQ answered, as a load balancer does whose backend is down")
	ErrSilent      = fmt.Errorf("no answer within %s", connectTimeout)
	ErrProtocol    = errors.New("a server answers there that does not speak AMQP 0-9-1")
)

// RefusedError says that the user lacks a permission, or may not log in.
type RefusedError struct {
	// Reason is the broker's own.
	Reason string
	// Silent says that the connection ended without a word after the login was sent,
	// which is how RabbitMQ refuses it (rabbit_reader:auth_fail/5, 3.10 to 4.3). A node
	// that dies at that moment looks the same.
	Silent bool
}

func (e *RefusedError) Error() string { return fmt.Sprintf("the broker says %q", e.Reason) }

// LimitError says that a limit for connections is reached.
type LimitError struct {
	// Reason is the broker's own, such as "access to vhost 'v' refused for user 'u':
	// connection limit (1) is reached".
	Reason string
}

func (e *LimitError) Error() string { return fmt.Sprintf("the broker says %q", e.Reason) }

// Of says what the limit is for: "node", "user" or "vhost".
func (e *LimitError) Of() string {
	for _, of := range []string{"node", "user"} {
		if strings.Contains(e.Reason, of+" connection limit (") {
			return of
		}
	}
	return "vhost"
}

// BrokerError is any other error that the broker reports, such as
// INTERNAL_ERROR (541) from a queue that is going away.
type BrokerError struct {
	Code int
	// Reason is the broker's own.
	Reason string
}

func (e *BrokerError) Error() string { return fmt.Sprintf("the broker says %q (%d)", e.Reason, e.Code) }

// Internal says that the broker failed at the request: INTERNAL_ERROR (541).
func (e *BrokerError) Internal() bool { return e.Code == amqp.InternalError }

// Stopping says that the node ends connections: CONNECTION_FORCED (320).
func (e *BrokerError) Stopping() bool { return e.Code == amqp.ConnectionForced }

// UnavailableError says that a queue exists, or may exist, and cannot be asked. What
// it holds is unknown.
type UnavailableError struct {
	Queue string
	// Answer is what came instead of an answer, such as `no answer within 15s`.
	Answer string
	// Silent says that there was no answer at all.
	Silent bool
}

func (e *UnavailableError) Error() string {
	return fmt.Sprintf("queue %q cannot be asked: %s", e.Queue, e.Answer)
}

// answerTime is how long a queue may take to answer a passive declaration. RabbitMQ
// 4.0.5 takes 67 s to answer for a classic queue whose node is down.
const answerTime = 15 * time.Second

// noQueue begins the text of a 404 for a queue that does not exist. RabbitMQ gives
// other texts for a queue that exists: "home node 'n' of durable queue 'q' in vhost
// '/' is down or inaccessible", "queue 'q' in vhost '/' has crashed …", "… process is
// stopped …", "failed to perform operation on queue 'q' in vhost '/' due to timeout"
// (rabbit_amqqueue:not_found/1 and priv_absent/4, 3.10 to 4.3).
const noQueue = "NOT_FOUND - no queue '"

func saysNoQueue(refusal *amqp.Error) bool {
	return refusal.Code == amqp.NotFound && strings.HasPrefix(refusal.Reason, noQueue)
}

// queueError explains an error of a request to one queue: [ErrNotFound] only if the
// broker says that there is no such queue.
func queueError(ctx context.Context, queue string, err error) error {
	if err == nil {
		return nil
	}
	var unavailable *UnavailableError
	if errors.As(context.Cause(ctx), &unavailable) {
		return unavailable
	}
	var refusal *amqp.Error
	if ctx.Err() == nil && errors.As(err, &refusal) && refusal.Code == amqp.NotFound && !saysNoQueue(refusal) {
		return &UnavailableError{Queue: queue, Answer: fmt.Sprintf("the broker says %q", refusal.Reason)}
	}
	return fmt.Errorf("queue %q: %w", queue, explain(ctx, err))
}

// Patience returns a context that ends with an [UnavailableError] if the queue has not
// answered after the given time.
func Patience(ctx context.Context, queue string, limit time.Duration) (context.Context, context.CancelFunc) {
	silent := &UnavailableError{Queue: queue, Answer: fmt.Sprintf("no answer within %s", limit), Silent: true}
	return context.WithTimeoutCause(ctx, limit, silent)
}

// Dialer holds the settings of connections to one broker.
type Dialer struct {
	// Address is amqp://host:port or amqps://host:port.
	Address            string
	Username, Password string
	// TLS is used for amqps. The host of Address is the expected server name.
	TLS *tls.Config
}

// Depth is what a passive declaration tells of a queue. The numbers are exact,
// but do not include messages that are delivered and not acknowledged, wait to
// be dead-lettered, or are delayed.
type Depth struct {
	Ready     int
	Consumers int
}

// Session is a connection to one virtual host. It is not safe for concurrent
// use.
type Session struct {
	socket     *socket
	connection *amqp.Connection
	username   string
	blocking   *blocking
	traits     Traits
	// patience is how long the broker may make no headway with what is published.
	patience time.Duration
	// another opens a second connection of the same kind.
	another func(ctx context.Context) (*Session, error)
}

// Open connects to a virtual host.
func (d Dialer) Open(ctx context.Context, vhost string) (*Session, error) {
	u, err := url.Parse(d.Address)
	if err != nil || u.Host == "" {
		return nil, errors.New("the AMQP address is not valid")
	}
	s := &Session{username: d.Username, patience: confirmPatience}
	s.another = func(ctx context.Context) (*Session, error) { return d.Open(ctx, vhost) }
	// amqp091 has no contexts: closing the socket ends what is under way.
	stop := func() bool { return true }
	dial := func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: connectTimeout}
		connection, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		s.socket = newSocket(connection)
		stop = context.AfterFunc(ctx, func() { _ = s.socket.Close() })
		// amqp091 clears the deadline once the connection is open.
		if err := s.socket.SetDeadline(time.Now().Add(connectTimeout)); err != nil || u.Scheme != "amqps" {
			return newLegible(s.socket), err
		}
		secure := tls.Client(s.socket, d.tlsConfig(u.Hostname()))
		return newLegible(secure), secure.HandshakeContext(ctx)
	}
	config := amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: d.Username, Password: d.Password}},
		Vhost:      vhost,
		Heartbeat:  10 * time.Second,
		Dial:       dial,
		Properties: amqp.Table{"connection_name": "terraform-provider-rabbitmq"},
	}
	// The URL holds no credentials, so that no error can repeat them.
	s.connection, err = amqp.DialConfig("amqp://"+u.Host+"/", config)
	stop()
	if err != nil {
		if s.socket != nil {
			_ = s.socket.Close()
		}
		return nil, explainOpen(ctx, err)
	}
	s.blocking = watchBlocking(s.connection)
	return s, nil
}

func (d Dialer) tlsConfig(server string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.TLS != nil {
		config = d.TLS.Clone()
	}
	config.ServerName = server
	return config
}

// limitReached ends what RabbitMQ says when it refuses a connection for a limit of the
// node, the user or the virtual host (rabbit_reader:handle_method0/2, 3.10 to 4.3).
const limitReached = ") is reached"

// explainOpen is explain for a connection that did not come about. amqp091 makes
// FRAME_ERROR of whatever ends the socket, and ErrVhost of an end while the virtual host
// is opened, which RabbitMQ itself always gives a reason for.
func explainOpen(ctx context.Context, err error) error {
	var told *amqp.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return ErrClosedEarly
	case !errors.As(err, &told):
		return err
	case errors.Is(err, amqp.ErrCredentials):
		return &RefusedError{Reason: told.Reason, Silent: true}
	case told.Server && told.Code == amqp.NotAllowed && strings.Contains(told.Reason, limitReached):
		return &LimitError{Reason: told.Reason}
	case told.Server:
		return explain(ctx, err)
	case errors.Is(err, amqp.ErrSASL):
		return errors.New(told.Reason)
	case strings.HasSuffix(told.Reason, "i/o timeout"):
		return ErrSilent
	case errors.Is(err, amqp.ErrVhost), errors.Is(err, amqp.ErrClosed), strings.HasSuffix(told.Reason, io.EOF.Error()),
		strings.HasPrefix(told.Reason, "read "), strings.HasPrefix(told.Reason, "write "):
		return ErrClosedEarly
	default:
		return ErrProtocol
	}
}

// Cluster returns the name of the cluster that the connection leads to, as its node
// said at the start of the connection (rabbit_reader:server_properties/1, 3.10 to 4.3),
// or "" if it named none.
func (s *Session) Cluster() string {
	switch name := s.connection.Properties["cluster_name"].(type) {
	case string:
		return name
	case []byte:
		return string(name)
	default:
		return ""
	}
}

// Close ends the connection.
func (s *Session) Close() error {
	s.socket.release()
	err := s.connection.CloseDeadline(time.Now().Add(2 * time.Second))
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
}

// Ended says whether the connection is gone, after the error of a request.
func (s *Session) Ended(err error) bool {
	return errors.Is(err, ErrCut) || isCut(err) || s.connection.IsClosed()
}

// Depths returns the depth of every queue that exists. It looks twice, 300 ms
// apart, and takes the larger numbers.
func (s *Session) Depths(ctx context.Context, queues []string) (map[string]Depth, error) {
	depths := make(map[string]Depth, len(queues))
	for look := range 2 {
		if look > 0 {
			select {
			case <-time.After(secondLook):
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if err := s.look(ctx, queues, depths); err != nil {
			return nil, err
		}
	}
	return depths, nil
}

// Glance returns the depth of a queue, zero when it does not exist. It looks
// once: a quorum queue with messages can seem empty.
func (s *Session) Glance(ctx context.Context, queue string) (Depth, error) {
	depths := map[string]Depth{}
	err := s.look(ctx, []string{queue}, depths)
	return depths[queue], err
}

// Probe asks the queue for a message and gives it back, with one more delivery
// to its count. It returns nil when the queue answers.
func (s *Session) Probe(ctx context.Context, queue string) error {
	defer s.endWith(ctx)()
	channel, err := s.connection.Channel()
	if err != nil {
		return explain(ctx, err)
	}
	d, got, err := channel.Get(queue, false)
	if err == nil && got {
		err = d.Nack(false, true)
	}
	if err == nil {
		err = channel.Close()
	}
	return queueError(ctx, queue, err)
}

// look declares all queues passively and raises depths to what it finds. It leaves
// out queues that do not exist. A queue that cannot be asked is an
// [UnavailableError].
func (s *Session) look(ctx context.Context, queues []string, depths map[string]Depth) error {
	defer s.endWith(ctx)()
	var channel *amqp.Channel
	for _, name := range queues {
		if channel == nil {
			var err error
			if channel, err = s.connection.Channel(); err != nil {
				return explain(ctx, err)
			}
		}
		q, err := s.ask(ctx, channel, name)
		switch {
		case errors.Is(err, ErrNotFound):
			channel = nil // the broker closes it with every refusal
			delete(depths, name)
		case err != nil:
			return err
		default:
			depths[name] = Depth{
				Ready:     max(q.Messages, depths[name].Ready),
				Consumers: max(q.Consumers, depths[name].Consumers),
			}
		}
	}
	if channel != nil {
		return explain(ctx, channel.Close())
	}
	return nil
}

// ask declares one queue passively. If there is no answer in time, the session ends.
func (s *Session) ask(ctx context.Context, channel *amqp.Channel, queue string) (amqp.Queue, error) {
	ctx, stop := Patience(ctx, queue, answerTime)
	defer stop()
	defer s.endWith(ctx)()
	q, err := channel.QueueDeclarePassive(queue, true, false, false, false, nil)
	return q, queueError(ctx, queue, err)
}

// ReadyCount returns the exact number of ready messages of one queue. It
// returns [ErrNotFound] when there is no such queue.
func (d Dialer) ReadyCount(ctx context.Context, vhost, queue string) (int, error) {
	s, err := d.Open(ctx, vhost)
	if err != nil {
		return 0, err
	}
	defer s.Close() //nolint:errcheck // nothing was sent that could be lost
	depths, err := s.Depths(ctx, []string{queue})
	if err != nil {
		return 0, err
	}
	depth, exists := depths[queue]
	if !exists {
		return 0, ErrNotFound
	}
	return depth.Ready, nil
}

// explain puts the end of the context before what followed from it, and the
// broker's own words before amqp091's.
func explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var refusal *amqp.Error
	switch {
	case !errors.As(err, &refusal):
		return err
	case saysNoQueue(refusal):
		return ErrNotFound
	case refusal.Code == amqp.NotAllowed, errors.Is(err, amqp.ErrVhost):
		return fmt.Errorf("%w: %s", ErrVhost, refusal.Reason)
	case refusal.Code == amqp.AccessRefused:
		return &RefusedError{Reason: refusal.Reason}
	case refusal.Server:
		return &BrokerError{Code: refusal.Code, Reason: refusal.Reason}
	default:
		return fmt.Errorf("%w: %s", ErrCut, refusal.Reason)
	}
}
