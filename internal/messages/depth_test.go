package messages

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const secret = "s3cr3t-pa55"

func TestUnreachable(t *testing.T) {
	_, err := Dialer{Address: "amqp://127.0.0.1:1", Username: "u", Password: secret}.Open(t.Context(), "/")
	if err == nil || !strings.Contains(err.Error(), "refused") || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	if _, err := (Dialer{Address: secret}).Open(t.Context(), "/"); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
}

// A server that accepts and says nothing must not hold us longer than the
// context.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err = Dialer{Address: "amqp://" + listener.Addr().String()}.Open(ctx, "/")
	if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %s", err, time.Since(began))
	}
}

func TestLiveDepths(t *testing.T) {
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	brokers, err := rabbit.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			admin, err := b.API()
			if err != nil {
				t.Fatal(err)
			}
			vhost := "messages test/" + rand.Text()
			if _, err := admin.PutVhost(vhost, rabbithole.VhostSettings{}); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _, _ = admin.DeleteVhost(vhost) })
			everything := rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
			if _, err := admin.UpdatePermissionsIn(vhost, b.Username, everything); err != nil {
				t.Fatal(err)
			}
			u, err := url.Parse(b.AMQP)
			if err != nil {
				t.Fatal(err)
			}
			d := Dialer{Address: "amqp://" + u.Host, Username: b.Username, Password: b.Password}
			checkDepths(t, d, vhost)
			checkRefusals(t, d, vhost)
		})
	}
}

func checkDepths(t *testing.T, d Dialer, vhost string) {
	t.Helper()
	ctx := t.Context()
	s, err := d.Open(ctx, vhost)
	if err != nil {
		t.Fatal(err)
	}
	channel, err := s.connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]string{"classic": "classic", "quorum": "quorum"} {
		if _, err := channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": kind}); err != nil {
			t.Fatal(err)
		}
		if err := channel.Confirm(false); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			confirmation, err := channel.PublishWithDeferredConfirm("", name, true, false, amqp.Publishing{Body: []byte("x")})
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := confirmation.WaitContext(ctx); !ok || err != nil {
				t.Fatal("not confirmed", err)
			}
		}
	}
	depths, err := s.Depths(ctx, []string{"missing", "classic", "missing too", "quorum"})
	if err != nil || len(depths) != 2 || depths["classic"].Ready != 3 || depths["quorum"].Ready != 3 {
		t.Errorf("%v, %v", depths, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n, err := d.ReadyCount(ctx, vhost, "quorum"); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := d.ReadyCount(ctx, vhost, "missing"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func checkRefusals(t *testing.T, d Dialer, vhost string) {
	t.Helper()
	wrong := d
	wrong.Password = secret
	var refused *RefusedError
	if _, err := wrong.Open(t.Context(), vhost); !errors.As(err, &refused) || strings.Contains(err.Error(), secret) {
		t.Errorf("%v", err)
	}
	if _, err := d.Open(t.Context(), vhost+"x"); !errors.Is(err, ErrVhost) {
		t.Errorf("%v", err)
	}
	s, err := d.Open(t.Context(), vhost)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Depths(ctx, []string{"quorum"}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	_ = s.Close()
}
