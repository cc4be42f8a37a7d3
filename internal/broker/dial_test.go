package broker

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// door is a TCP server that treats each connection as take says.
func door(t *testing.T, take func(net.Conn)) (address string, connections *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	connections = &atomic.Int32{}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go take(conn)
		}
	}()
	return l.Addr().String(), connections
}

func TestAMQPIsDialledWithPatience(t *testing.T) {
	t.Parallel()
	shut := func(c net.Conn) { _ = c.Close() }
	resets := func(c net.Conn) {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
	web := func(c net.Conn) {
		defer c.Close()
		_, _ = c.Read(make([]byte, 100))
		_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
	}
	for _, test := range []struct {
		name  string
		take  func(net.Conn)
		tries int32
		say   []string
	}{
		{"balancer without a backend", shut, 1 + DefaultMaxRetries, []string{"closed before RabbitMQ answered", "6 tries"}},
		{"reset", resets, 1 + DefaultMaxRetries, []string{"closed before RabbitMQ answered", "6 tries"}},
		{"web server", web, 1, []string{"does not speak AMQP 0-9-1", "1 try"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			address, connections := door(t, test.take)
			c := newFake(t).client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://" + address })
			_, err := c.openAMQP(t.Context(), "/")
			wantError[*AMQPError](t, err, append(test.say, address, "amqp_endpoint")...)
			if strings.Contains(err.Error(), "deletion_policy") || strings.Count(err.Error(), "amqp_endpoint") != 1 {
				t.Error(err)
			}
			if n := connections.Load(); n != test.tries {
				t.Errorf("%d connections, want %d", n, test.tries)
			}
			// What follows right after does not wait again.
			_, err = c.openAMQP(t.Context(), "/")
			wantError[*AMQPError](t, err, test.say...)
			if n := connections.Load(); n != test.tries {
				t.Errorf("%d connections after another call, want %d", n, test.tries)
			}
		})
	}
}

// A server that dies when it has the login looks as one that refuses it. It is asked
// twice.
func TestAMQPLoginIsRefusedTwice(t *testing.T) {
	t.Parallel()
	d := dialing{client: newFake(t).client(t), tries: 1, began: time.Now()}
	silent := &messages.RefusedError{Reason: "username or password not allowed", Silent: true}
	if !d.again(t.Context(), silent, 0) {
		t.Error("one silent refusal is believed")
	}
	if d.again(t.Context(), silent, 0) {
		t.Error("two silent refusals are not believed")
	}
	wantError[*CredentialsError](t, d.failure(t.Context(), silent), "username or password")
	if d.again(t.Context(), &messages.RefusedError{Reason: "ACCESS_REFUSED"}, 0) {
		t.Error("a refusal in words is not believed")
	}
}

func TestAMQPDialEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(net.Conn){
		"while it waits":  func(c net.Conn) { _ = c.Close() },
		"while it dials":  func(net.Conn) {},
		"while it speaks": func(c net.Conn) { _, _ = c.Write([]byte("\x01\x00")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, connections := door(t, take)
			c := newFake(t).client(t, func(cfg *Config) { cfg.AMQPEndpoint, cfg.MaxRetries = "amqp://"+address, 20 })
			c.sleep = Sleep
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() {
				for connections.Load() == 0 && ctx.Err() == nil {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
			began := time.Now()
			if _, err := c.openAMQP(ctx, "/"); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}
