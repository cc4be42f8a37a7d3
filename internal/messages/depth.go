// Package messages looks into queues over AMQP 0-9-1, where the management API
// gives no exact answer, and keeps their messages while they are deleted.
package messages

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
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

// RefusedError says that the user lacks a permission, or may not log in.
type RefusedError struct {
	// Reason is the broker's own.
	Reason string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("the broker says %q", e.Reason) }

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
	socket     net.Conn
	connection *amqp.Connection
	username   string
}

// Open connects to a virtual host.
func (d Dialer) Open(ctx context.Context, vhost string) (*Session, error) {
	u, err := url.Parse(d.Address)
	if err != nil || u.Host == "" {
		return nil, errors.New("the AMQP address is not valid")
	}
	s := &Session{username: d.Username}
	// amqp091 has no contexts: closing the socket ends what is under way.
	stop := func() bool { return true }
	dial := func(network, address string) (net.Conn, error) {
		dialer := net.Dialer{Timeout: connectTimeout}
		s.socket, err = dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		stop = context.AfterFunc(ctx, func() { _ = s.socket.Close() })
		// amqp091 clears the deadline once the connection is open.
		return s.socket, s.socket.SetDeadline(time.Now().Add(connectTimeout))
	}
	config := amqp.Config{
		SASL:       []amqp.Authentication{&amqp.PlainAuth{Username: d.Username, Password: d.Password}},
		Vhost:      vhost,
		Heartbeat:  10 * time.Second,
		Dial:       dial,
		Properties: amqp.Table{"connection_name": "terraform-provider-rabbitmq"},
	}
	if u.Scheme == "amqps" {
		config.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
		if d.TLS != nil {
			config.TLSClientConfig = d.TLS.Clone()
		}
		config.TLSClientConfig.ServerName = u.Hostname()
	}
	// The URL holds no credentials, so that no error can repeat them.
	s.connection, err = amqp.DialConfig(u.Scheme+"://"+u.Host+"/", config)
	stop()
	if err != nil {
		if s.socket != nil {
			_ = s.socket.Close()
		}
		return nil, explain(ctx, err)
	}
	return s, nil
}

// Close ends the connection.
func (s *Session) Close() error {
	err := s.connection.CloseDeadline(time.Now().Add(2 * time.Second))
	if errors.Is(err, amqp.ErrClosed) {
		return nil
	}
	return err
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
	return explain(ctx, err)
}

// look declares all queues passively and raises depths to what it finds.
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
		q, err := channel.QueueDeclarePassive(name, true, false, false, false, nil)
		var refusal *amqp.Error
		switch {
		case errors.As(err, &refusal) && refusal.Code == amqp.NotFound:
			channel = nil // the broker closes it with every refusal
			delete(depths, name)
		case err != nil:
			return fmt.Errorf("queue %q: %w", name, explain(ctx, err))
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
	case refusal.Code == amqp.NotFound:
		return ErrNotFound
	case refusal.Code == amqp.NotAllowed, errors.Is(err, amqp.ErrVhost):
		return fmt.Errorf("%w: %s", ErrVhost, refusal.Reason)
	case refusal.Code == amqp.AccessRefused:
		return &RefusedError{Reason: refusal.Reason}
	case refusal.Server:
		return &BrokerError{Code: refusal.Code, Reason: refusal.Reason}
	case refusal.Code == amqp.FrameError, refusal.Code == amqp.SyntaxError:
		return errors.New("a server answers there that does not speak AMQP 0-9-1")
	default:
		return errors.New(refusal.Reason)
	}
}
