package provider_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestConnectionProblems: each way of not reaching a broker is one error of the
// plan that says what was found and what to do.
func TestConnectionProblems(t *testing.T) {
	t.Parallel()
	ca := fake.NewAuthority(t)
	secure := func(until time.Duration, auth tls.ClientAuthType) string {
		certificate := ca.Issue(t, "broker", fake.NewKey(t), time.Now().Add(until))
		return fake.NewTLS(t, "4.0.5", &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: auth, ClientCAs: ca.Pool}).URL
	}
	good := fake.New(t, "4.0.5")
	for name, test := range map[string]struct {
		block   config
		summary string
		words   []string
	}{
		"wrong password": {
			connection(answering(t, http.StatusUnauthorized, `{"error":"not_authorized","reason":"Login failed"}`)),
			"Login Refused",
			[]string{`"terraform"`, "check username and password"},
		},
		"user without a management tag": {
			connection(answering(t, http.StatusUnauthorized, `{"error":"not_authorised","reason":"Not management user"}`)),
			"Login Refused",
			[]string{"set_user_tags terraform management"},
		},
		"refused connection": {
			connection("http://127.0.0.1:1"), "Broker Not Reached", []string{"http://127.0.0.1:1", "connection refused"},
		},
		"unknown host": {connection("http://no-such-host.invalid:15672"), "Broker Not Reached", []string{"no-such-host.invalid"}},
		"web page": {
			connection(answering(t, http.StatusOK, "<html>Welcome</html>")), "Not a RabbitMQ Management API", []string{"web page"},
		},
		"AMQP port":     {connection(amqpPort(t)), "Not a RabbitMQ Management API", []string{"AMQP"}},
		"path in front": {connection(good.URL + "/somewhere"), "Not a RabbitMQ Management API", nil},
		"https without TLS": {
			connection("https" + strings.TrimPrefix(good.URL, "http")), "Not a RabbitMQ Management API", []string{"http://"},
		},
		"unknown authority": {
			connection(secure(time.Hour, tls.NoClientCert)), "No Secure Connection to the Broker", []string{"cacert_file"},
		},
		"expired certificate": {
			connection(secure(-time.Hour, tls.NoClientCert)).with("cacert_file", ca.File),
			"No Secure Connection to the Broker",
			[]string{"expired"},
		},
		"missing client certificate": {
			connection(secure(time.Hour, tls.RequireAndVerifyClientCert)).with("cacert_file", ca.File),
			"No Secure Connection to the Broker",
			[]string{"clientcert_file"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := plan(t, test.block)
			expectError(t, found, "", test.words...)
			if errors := found.Errors(); len(errors) > 0 && errors[0].Summary != test.summary {
				t.Errorf("the error is %q, expected %q:\n%s", errors[0].Summary, test.summary, found)
			}
		})
	}
}

// answering is a server with one answer to everything.
func answering(t *testing.T, status int, body string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if strings.HasPrefix(body, "{") {
			w.Header().Set("Content-Type", "application/json")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// amqpPort answers a client that does not speak AMQP as RabbitMQ does: with the
// header of the protocol.
func amqpPort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 8))
			_, _ = conn.Write([]byte("AMQP\x00\x00\x09\x01"))
			_ = conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// TestAccSecureBroker creates, reads, imports and destroys a chain on a broker
// that has everything at once: https with an authority of its own and client
// certificates, a path prefix and an IPv6 address.
func TestAccSecureBroker(t *testing.T) {
	t.Parallel()
	ca := fake.NewAuthority(t)
	b := secureBroker(t, ca)
	clientCert, clientKey := ca.Files(t, "client", fake.NewKey(t))
	block := connection(b.TLSEndpoint).with("cacert_file", ca.File).with("clientcert_file", clientCert).with("clientkey_file", clientKey).
		with("username", b.Username).with("amqp_endpoint", "amqp://"+b.AMQP[strings.LastIndex(b.AMQP, "@")+1:])
	const insecure, foreign = "No Secure Connection to the Broker", "Not a RabbitMQ Management API"
	withoutPrefix, withoutTLS := b.TLSEndpoint[:strings.LastIndex(b.TLSEndpoint, "/")], "http"+strings.TrimPrefix(b.TLSEndpoint, "https")
	expectError(t, plan(t, block), "", "Login Refused", "check username and password")
	expectError(t, plan(t, block.with("cacert_file", nil)), "", insecure, "cacert_file")
	expectError(t, plan(t, block.with("clientcert_file", nil).with("clientkey_file", nil)), "", insecure, "clientcert_file")
	expectError(t, plan(t, block.with("endpoint", withoutPrefix)), "", foreign, "prefix")
	expectError(t, plan(t, block.with("endpoint", withoutTLS)), "", foreign, "https://")

	s := newServer(t)
	if found := s.Configure(t, block.with("password", b.Password)); len(found) > 0 {
		t.Fatal(found)
	}
	created, found := s.Apply(t, chain, s.Plan(t, chain, orders(), protocol.State{}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	if read, found := s.Read(t, chain, created); len(found) > 0 || !read.Value.Equal(created.Value) {
		t.Errorf("the refresh gives %v\n%s", protocol.Go(read.Value), found)
	}
	imported, found := s.Import(t, chain, "", config{"name": "orders", "vhost": "/"})
	if len(found) > 0 || !imported.Value.Equal(created.Value) {
		t.Errorf("the import gives %v\n%s", protocol.Go(imported.Value), found)
	}
	if destroyed, found := s.Apply(t, chain, s.Plan(t, chain, nil, created)); len(found) > 0 || !destroyed.Value.IsNull() {
		t.Errorf("the destroy leaves %v\n%s", protocol.Go(destroyed.Value), found)
	}
}

func secureBroker(t *testing.T, ca *fake.Authority) *rabbit.Broker {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("an acceptance test: set TF_ACC=1, or run make test")
	}
	cert, key := ca.Files(t, "broker", fake.NewKey(t))
	return rabbit.Own(t, rabbit.Options{
		Version: "4.0",
		TLS:     &rabbit.TLSFiles{CA: ca.File, Cert: cert, Key: key, VerifyPeer: true, FailIfNoPeerCert: true},
		IPv6:    true, PathPrefix: "/rabbit",
	})
}
