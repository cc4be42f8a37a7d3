package broker

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// startOwn starts a broker for this test alone.
func startOwn(t *testing.T, o rabbit.Options) *rabbit.Broker {
	t.Helper()
	if !rabbit.Given() {
		t.Skipf("no brokers wanted: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	return rabbit.Own(t, o)
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// A broker with a certificate authority of its own, which asks for a client
// certificate for the management API and for AMQP.
func TestLiveTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueFiles(t, "127.0.0.1")
	port := freePort(t)
	b := startOwn(t, rabbit.Options{
		Version: "4.0",
		TLS:     &rabbit.TLSFiles{CA: ca.file, Cert: cert, Key: key, VerifyPeer: true, FailIfNoPeerCert: true},
		ExtraConfig: strings.Join([]string{
			fmt.Sprintf("listeners.ssl.1 = 127.0.0.1:%d", port),
			"ssl_options.cacertfile = {dir}/ca.pem",
			"ssl_options.certfile = {dir}/cert.pem",
			"ssl_options.keyfile = {dir}/key.pem",
			"ssl_options.verify = verify_peer",
			"ssl_options.fail_if_no_peer_cert = true",
		}, "\n"),
	})
	connect := func(options ...func(*Config)) *Client {
		cfg := Config{Endpoint: b.TLSEndpoint, Username: b.Username, Password: b.Password}
		for _, set := range options {
			set(&cfg)
		}
		c, err := New(cfg)
		must(t, err)
		return c
	}
	trust := func(cfg *Config) { cfg.CACertFile = ca.file }
	present := func(cfg *Config) { cfg.ClientCertFile, cfg.ClientKeyFile = ca.issueFiles(t, "client") }

	_, err := connect(present).Info(t.Context())
	wantError[*TLSError](t, err, "cacert_file")
	_, err = connect(trust).Info(t.Context())
	wantError[*TLSError](t, err, "clientcert_file")
	_, err = connect(func(cfg *Config) { cfg.Endpoint = strings.Replace(cfg.Endpoint, "https", "http", 1) }).Info(t.Context())
	wantError[*EndpointError](t, err, "https://")
	_, err = connect(func(cfg *Config) { cfg.Endpoint = strings.Replace(b.Endpoint, "http", "https", 1) }).Info(t.Context())
	wantError[*EndpointError](t, err, "http://")
	amqp := b.AMQP[strings.LastIndex(b.AMQP, "@")+1:]
	_, err = connect(func(cfg *Config) { cfg.Endpoint = "http://" + amqp }).Info(t.Context())
	wantError[*EndpointError](t, err, "AMQP")
	_, err = connect(func(cfg *Config) { cfg.Endpoint = "https://" + amqp }).Info(t.Context())
	wantError[*EndpointError](t, err, "AMQP")

	c := connect(trust, present)
	c.proof.interval = 0
	must(t, created(c.DeclareQueue(t.Context(), "/", orders)))
	d, err := c.AMQP(t.Context())
	must(t, err)
	if want := fmt.Sprintf("amqps://127.0.0.1:%d", port); d.Address != want {
		t.Errorf("AMQP address %s, want %s", d.Address, want)
	}
	unproved, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders})
	if len(unproved) != 0 || err != nil {
		t.Error(unproved, err)
	}
	must(t, c.DeleteQueue(t.Context(), "/", orders, OnlyIfEmpty))

	wrong := connect(trust, present, func(cfg *Config) { cfg.AMQPEndpoint = "amqps://" + amqp })
	_, err = wrong.ProveEmpty(t.Context(), "/", []topology.Queue{orders})
	wantError[*AMQPError](t, err, "amqp_endpoint")
}

// A broker on IPv6 with a path prefix that is killed and comes back.
func TestLivePrefixIPv6AndRestart(t *testing.T) {
	t.Parallel()
	b := startOwn(t, rabbit.Options{Version: "4.0", IPv6: true, PathPrefix: "/rabbit mq"})
	connect := func(endpoint string) *Client {
		c, err := New(Config{Endpoint: endpoint, Username: b.Username, Password: b.Password})
		must(t, err)
		return c
	}
	c := connect(b.Endpoint + "/")
	if !strings.Contains(c.Endpoint(), "[::1]") {
		t.Errorf("endpoint %s", c.Endpoint())
	}
	must(t, created(c.DeclareQueue(t.Context(), "/", orders)))
	view(t, c, "/")
	root := b.Endpoint[:strings.LastIndex(b.Endpoint, "/")]
	_, err := connect(root).Info(t.Context())
	wantError[*EndpointError](t, err, "prefix")
	_, err = connect(b.Endpoint + "/api").Info(t.Context())
	wantError[*EndpointError](t, err, `leave out "/api"`)

	must(t, b.Kill())
	began := time.Now()
	_, _, err = c.Queue(t.Context(), "/", orders.Name)
	wantError[*ConnectionError](t, err, "connection refused")
	if took := time.Since(began); took < 3*time.Second || took > 10*time.Second {
		t.Errorf("gave up after %s", took)
	}
	restarted := make(chan error)
	go func() { restarted <- b.Restart(context.WithoutCancel(t.Context())) }()
	for {
		_, exists, err := c.Queue(t.Context(), "/", orders.Name)
		if err == nil {
			if !exists {
				t.Error("the queue is gone")
			}
			break
		}
		t.Log(err)
		if time.Since(began) > time.Minute {
			t.Fatal("no answer after the restart")
		}
		time.Sleep(200 * time.Millisecond)
	}
	must(t, <-restarted)
}
