package broker

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Two brokers that know the same user and virtual host. The API is that of one, AMQP
// leads to the other, where there is no such queue: the messages of the first must not
// be deleted for that.
func TestLiveEndpointsOfTwoClusters(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		other := otherBroker(t, b)
		full := topology.Queue{Name: "q", Type: topology.Classic, Durable: true}
		one := b.user(t, "monitoring")
		b.permit(t, one.Username(), ".*", ".*", ".*")
		knowHere(t, other, b.vhost, one.Username())
		split := b.client(t, func(cfg *Config) {
			cfg.Username, cfg.Password, cfg.AMQPEndpoint = one.Username(), secret, amqpAddress(t, other)
		})
		split.proof.interval, split.proof.patience = 0, 0
		must(t, created(one.DeclareQueue(t.Context(), b.vhost, full)))
		channel := b.channel(t)
		must(t, channel.Confirm(false))
		publishTo(t, channel, "", full.Name, amqp.Publishing{Body: []byte("kept")})
		_, err := split.ProveEmpty(t.Context(), b.vhost, []topology.Queue{full})
		info, infoErr := one.Info(t.Context())
		must(t, infoErr)
		wantError[*ClusterError](t, err, b.Endpoint, info.Cluster, amqpAddress(t, other), "amqp_endpoint")
		_, err = split.Parked(t.Context(), b.vhost, full.Name, noChains)
		wantError[*ClusterError](t, err, info.Cluster)
		err = split.DeleteQueue(t.Context(), b.vhost, topology.Queue{Name: full.Name, Type: topology.Quorum}, OnlyIfEmpty)
		wantError[*ClusterError](t, err, info.Cluster)
		if _, exists, err := b.client(t).Queue(t.Context(), b.vhost, full.Name); !exists || err != nil {
			t.Errorf("the queue with its message: exists=%v, %v", exists, err)
		}
	})
}

// otherBroker returns another of the brokers under test.
func otherBroker(t *testing.T, b liveBroker) *rabbit.Broker {
	t.Helper()
	all, err := rabbit.All(t.Context())
	must(t, err)
	for _, other := range all {
		if other.Endpoint != b.Endpoint {
			return other
		}
	}
	t.Skip("this test needs two brokers")
	return nil
}

// knowHere gives the broker the virtual host and the user of a test.
func knowHere(t *testing.T, b *rabbit.Broker, vhost, user string) {
	t.Helper()
	admin, err := b.API()
	must(t, err)
	_, err = admin.PutVhost(vhost, rabbithole.VhostSettings{})
	must(t, err)
	t.Cleanup(func() { _, _ = admin.DeleteVhost(vhost) })
	_, err = admin.PutUser(user, rabbithole.UserSettings{Tags: rabbithole.UserTags{"management"}, Password: secret})
	must(t, err)
	t.Cleanup(func() { _, _ = admin.DeleteUser(user) })
	_, err = admin.UpdatePermissionsIn(vhost, user, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"})
	must(t, err)
}

// amqpAddress returns the broker's AMQP address without credentials.
func amqpAddress(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	u, err := url.Parse(b.AMQP)
	must(t, err)
	return u.Scheme + "://" + u.Host
}

// A TCP balancer whose first backends are dead closes connections at once. The provider
// comes again.
func TestLiveAMQPBehindBalancer(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		u, err := url.Parse(b.AMQP)
		must(t, err)
		backend := proxy.NewTCP(t, u.Host)
		var dead atomic.Int32
		dead.Store(2)
		balancer, _ := door(t, func(client net.Conn) {
			defer client.Close()
			if dead.Add(-1) >= 0 {
				return
			}
			server, err := net.Dial("tcp", backend.Address)
			if err != nil {
				return
			}
			defer server.Close()
			go func() { _, _ = io.Copy(server, client) }()
			_, _ = io.Copy(client, server)
		})
		c := b.client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://" + balancer })
		c.proof.interval, c.proof.patience = 0, 0
		rest, err := c.ProveEmpty(t.Context(), b.vhost, []topology.Queue{{Name: "none", Type: topology.Quorum}})
		if len(rest) != 0 || err != nil {
			t.Error(rest, err)
		}
		if dead.Load() >= 0 {
			t.Error("the balancer was not asked often enough")
		}
	})
}

// A limit for connections is named, and not told as missing permissions.
func TestLiveConnectionLimits(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		limited := b
		limited.vhost = b.newVHost(t)
		_, err := b.admin.PutVhostLimits(limited.vhost, rabbithole.VhostLimitsValues{"max-connections": 0})
		must(t, err)
		c := limited.client(t)
		c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		_, err = c.openAMQP(t.Context(), limited.vhost)
		wantError[*ConnectionLimitError](t, err, "max-connections", limited.vhost, "set_vhost_limits")

		c = b.user(t, "monitoring")
		b.permit(t, c.Username(), ".*", ".*", ".*")
		_, err = b.admin.PutUserLimits(c.Username(), rabbithole.UserLimitsValues{"max-connections": 0})
		must(t, err)
		c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
		_, err = c.openAMQP(t.Context(), b.vhost)
		wantError[*ConnectionLimitError](t, err, "max-connections", c.Username(), "set_user_limits")
	})
}

// TestLiveSessionEndsInBetween ends the AMQP connection of a session before each of its
// looks: it connects again.
func TestLiveSessionEndsInBetween(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		u, err := url.Parse(b.AMQP)
		must(t, err)
		tcp := proxy.NewTCP(t, u.Host)
		c := b.client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://" + tcp.Address })
		q := topology.Queue{Name: "orders", Type: topology.Classic, Durable: true}
		must(t, created(c.DeclareQueue(t.Context(), b.vhost, q)))
		s, err := c.openSession(t.Context(), b.vhost)
		must(t, err)
		defer s.Close()
		for range 3 {
			tcp.Cut()
			depths, err := s.Depths(t.Context(), []string{q.Name, "missing"})
			if _, found := depths[q.Name]; err != nil || !found || len(depths) != 1 {
				t.Errorf("%v %v", depths, err)
			}
			tcp.Cut()
			if depth, err := s.Glance(t.Context(), q.Name); err != nil || depth.Ready != 0 {
				t.Errorf("%v %v", depth, err)
			}
		}
	})
}
