package broker

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// errorCase is a way to fail, the error it must give and words it must say.
type errorCase struct {
	name string
	fail func() error
	want error
	say  []string
}

// askInfo returns the error of asking an endpoint for the broker's facts.
func askInfo(t *testing.T, endpoint string, options ...func(*Config)) error {
	t.Helper()
	_, err := newClient(t, endpoint, options...).Info(t.Context())
	return err
}

// page serves one answer for everything.
func page(t *testing.T, status int, contentType, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// raw serves bytes to whoever connects.
func raw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				_, _ = conn.Read(make([]byte, 4096))
				_, _ = io.WriteString(conn, answer)
			}()
		}
	}()
	return l.Addr().String()
}

func connectionCases(t *testing.T) []errorCase {
	t.Helper()
	amqp := "AMQP\x00\x00\x09\x01"
	return []errorCase{
		{
			"host unknown",
			func() error {
				return askInfo(t, "http://no-such-host.invalid:15672")
			},
			&ConnectionError{},
			[]string{"no-such-host.invalid"},
		},
		{"refused", func() error { return askInfo(t, "http://127.0.0.1:1") }, &ConnectionError{}, []string{"connection refused"}},
		{"AMQP port", func() error { return askInfo(t, "http://"+raw(t, amqp)) }, &EndpointError{}, []string{"an AMQP port", "15672"}},
		{"AMQP port as https", func() error { return askInfo(t, "https://"+raw(t, amqp)) }, &EndpointError{}, []string{"an AMQP port"}},
		{"SSH port", func() error { return askInfo(t, "http://"+raw(t, "SSH-2.0-x\r\n")) }, &EndpointError{}, []string{"does not speak HTTP"}},
		{"closed at once", func() error { return askInfo(t, "http://"+raw(t, "")) }, &ConnectionError{}, []string{"cut"}},
		{"http server as https", func() error {
			return askInfo(t, strings.Replace(page(t, 200, "text/html", "x"), "http:", "https:", 1))
		}, &EndpointError{}, []string{"without TLS", "http://"}},
		{"https server as http", func() error {
			return askInfo(t, "http://"+raw(t, "\x15\x03\x01\x00\x02\x02\x0a"))
		}, &EndpointError{}, []string{"a TLS server", "https://"}},
		{"web page", func() error { return askInfo(t, page(t, 200, "text/html", "<html>hello")) }, &EndpointError{}, []string{"a web page"}},
		{
			"web page 404",
			func() error {
				return askInfo(t, page(t, 404, "text/html", "<html>no"))
			},
			&EndpointError{},
			[]string{"a web page", "404"},
		},
		{
			"login page",
			func() error {
				return askInfo(t, page(t, 401, "text/html; charset=utf-8", "<html>log in"))
			},
			&EndpointError{},
			[]string{"401"},
		},
		{"404 without words", func() error { return askInfo(t, page(t, 404, "", "")) }, &EndpointError{}, []string{"no management API"}},
		{"404 of RabbitMQ", func() error {
			return askInfo(t, page(t, 404, "application/json", `{"error":"Object Not Found","reason":"Not Found"}`)+"/api")
		}, &EndpointError{}, []string{`leave out "/api"`}},
		{
			"other JSON",
			func() error {
				return askInfo(t, page(t, 200, "application/json", `{"version":"1"}`))
			},
			&EndpointError{},
			[]string{"rabbitmq_version"},
		},
		{
			"other JSON list",
			func() error {
				return askInfo(t, page(t, 200, "application/json", `[]`))
			},
			&EndpointError{},
			[]string{"not the JSON"},
		},
		{"redirect", func() error {
			s := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/login?token=x", http.StatusFound))
			t.Cleanup(s.Close)
			return askInfo(t, s.URL)
		}, &EndpointError{}, []string{"https://elsewhere.example/login", "302"}},
		{
			"gateway 403",
			func() error {
				return askInfo(t, page(t, 403, "application/json", `{"message":"no"}`))
			},
			&APIError{},
			[]string{"gateway"},
		},
		{"gateway 502", func() error { return askInfo(t, page(t, 502, "text/html", `<html>`)) }, &APIError{}, []string{"502", "web page"}},
		{"429", func() error { return askInfo(t, page(t, 429, "text/plain", "slow down")) }, &APIError{}, []string{"parallel"}},
		{"proxy refused", func() error {
			return askInfo(t, "http://broker.invalid:15672", func(cfg *Config) { cfg.Proxy = "http://u:" + secret + "@127.0.0.1:1" })
		}, &ConnectionError{}, []string{"proxy"}},
		{"proxy wants a login", func() error {
			proxy := page(t, 407, "text/html", "<html>")
			return askInfo(t, "http://broker.invalid:15672", func(cfg *Config) {
				cfg.Proxy = strings.Replace(proxy, "http://", "http://u:"+secret+"@", 1)
			})
		}, &ConnectionError{}, []string{"proxy"}},
	}
}

func apiCases(t *testing.T) []errorCase {
	t.Helper()
	on := func(request string, a answer, do func(c *Client) error) func() error {
		return func() error {
			f := newFake(t)
			f.on(request, a)
			return do(f.client(t))
		}
	}
	declare := func(c *Client) error {
		_, err := c.DeclareQueue(t.Context(), "/", topology.Queue{Name: "orders", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{topology.DeadLetterExchange: ""}})
		return err
	}
	info := func(c *Client) error {
		_, err := c.Info(t.Context())
		return err
	}
	return []errorCase{
		{
			"login failed",
			on("GET /api/overview", refusal(401, "Login failed"), info),
			&CredentialsError{},
			[]string{"Login failed", "check username and password"},
		},
		{"no tag", on("GET /api/overview", refusal(401, "Not management user"), info), &CredentialsError{}, []string{"set_user_tags", "replaces the user's tags: include the existing ones"}},
		{"login failed in the middle", func() error {
			f := newFake(t)
			f.on(putOrders, refusal(401, "Login failed"))
			f.on("GET /api/whoami", refusal(401, "Login failed"))
			return declare(f.client(t))
		}, &CredentialsError{}, nil},
		{
			"no permission", on(putOrders, refusal(401, "Access refused."), declare), &PermissionError{},
			[]string{`declare queue "orders" in vhost "/"`, `configure on "orders", read on "orders" and write on "amq.default"`, "set_permissions", "replaces the user's patterns in this virtual host: include the existing ones"},
		},
		{
			"inequivalent",
			on(putOrders, refusal(400, "inequivalent arg 'x' for queue 'orders' in vhost '/': received none"), declare),
			&InequivalentError{},
			[]string{`queue "orders"`, "received none"},
		},
		{
			"reason is a list",
			on(putOrders, answer{status: 400, body: `{"error":"bad_request","reason":["first",["second"],{"k":1}]}`}, declare),
			&APIError{},
			[]string{`first; second; {"k":1}`},
		},
		{
			"reason is a number",
			on(putOrders, answer{status: 400, body: `{"error":"bad_request","reason":5}`}, declare),
			&APIError{},
			[]string{": 5"},
		},
		{"only error", on(putOrders, answer{status: 400, body: `{"error":"bad_request"}`}, declare), &APIError{}, []string{"bad_request"}},
		{"no reason", on(putOrders, answer{status: 400}, declare), &APIError{}, []string{"no reason given"}},
		{"broken reason", on(putOrders, answer{status: 500, body: `{"err`}, declare), &APIError{}, []string{"500", "no reason given"}},
		{"vhost missing", func() error {
			return newFake(t).client(t).View(t.Context(), "nope", func(*topology.Topology) {})
		}, &VhostError{}, []string{`no virtual host "nope"`}},
		{"not JSON in a list", on("GET /api/queues/%2F", answer{status: 200, body: `<html>`}, func(c *Client) error {
			return c.View(t.Context(), "/", func(*topology.Topology) {})
		}), &EndpointError{}, []string{"a web page"}},
		{"in use", on("DELETE /api/queues/%2F/orders", refusal(400, "queue 'orders' in vhost '/' not empty"), func(c *Client) error {
			return c.DeleteQueue(t.Context(), "/", topology.Queue{Name: "orders", Type: topology.Classic}, OnlyIfEmpty)
		}), &InUseError{}, []string{"holds messages", "deletion_policy"}},
		{"stats disabled", on("GET /api/overview", answer{status: 200, body: `{"rabbitmq_version":"4.0.5","disable_stats":true}`}, func(c *Client) error {
			_, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders})
			return err
		}), &StatsError{}, []string{"disable_stats", "retain"}},
		{"AMQP out of reach", func() error {
			_, err := newFake(t).client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://127.0.0.1:1" }).ProveEmpty(t.Context(), "/", []topology.Queue{orders})
			return err
		}, &AMQPError{}, []string{"amqp://127.0.0.1:1", "connection refused", "6 tries", "amqp_endpoint", "RABBITMQ_AMQP_ENDPOINT"}},
		{"AMQP is something else", func() error {
			address := raw(t, "HTTP/1.1 400 Bad Request\r\n\r\n")
			_, err := newFake(t).client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://" + address }).ProveEmpty(t.Context(), "/", []topology.Queue{orders})
			return err
		}, &AMQPError{}, []string{"does not speak AMQP 0-9-1", "amqp_endpoint"}},
	}
}

func configCases(t *testing.T) []errorCase {
	t.Helper()
	check := func(set func(*Config)) func() error {
		return func() error {
			cfg := Config{Endpoint: "http://localhost:15672", Username: "u", Password: secret}
			set(&cfg)
			_, err := New(cfg)
			return err
		}
	}
	endpoint := func(text string) func() error {
		return check(func(cfg *Config) { cfg.Endpoint = text })
	}
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "file.pem")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	invalid := &ConfigError{}
	return []errorCase{
		{"empty endpoint", endpoint(" "), invalid, []string{"empty"}},
		{"no scheme", endpoint("localhost:15672"), invalid, []string{"http:// or https://"}},
		{"AMQP scheme", endpoint("amqp://u:" + secret + "@localhost"), invalid, []string{"http:// or https://"}},
		{"password in endpoint", endpoint("http://u:" + secret + "@localhost:15672/x"), invalid, []string{"http://localhost:15672"}},
		{"no URL, with password", endpoint("http://u:" + secret + "@local host:%zz"), invalid, []string{"not a valid URL"}},
		{"no host", endpoint("http:///x"), invalid, []string{"no host"}},
		{"web UI", endpoint("http://localhost:15672/#/queues"), invalid, []string{"#"}},
		{"query", endpoint("http://localhost:15672?password=" + secret), invalid, []string{"?"}},
		{"port", endpoint("http://localhost:99999"), invalid, []string{"65535"}},
		{"no user", check(func(cfg *Config) { cfg.Username = "" }), invalid, []string{"user name"}},
		{"colon in user", check(func(cfg *Config) { cfg.Username = "a:b" }), invalid, []string{"colon"}},
		{"header name", check(func(cfg *Config) { cfg.Headers = map[string]string{"a b": secret} }), invalid, []string{"a b"}},
		{"header value", check(func(cfg *Config) { cfg.Headers = map[string]string{"X-Token": secret + "\n"} }), invalid, []string{"X-Token"}},
		{"proxy", check(func(cfg *Config) { cfg.Proxy = "http://u:" + secret + "@%zz" }), invalid, []string{"proxy"}},
		{"proxy scheme", check(func(cfg *Config) { cfg.Proxy = "ftp://u:" + secret + "@proxy" }), invalid, []string{"socks5"}},
		{"CA file missing", check(func(cfg *Config) { cfg.CACertFile = "/nonexistent/ca.pem" }), invalid, []string{"/nonexistent/ca.pem"}},
		{"CA file is no PEM", func() error {
			return check(func(cfg *Config) { cfg.CACertFile = file("hello") })()
		}, invalid, []string{"PEM"}},
		{"certificate without key", check(func(cfg *Config) { cfg.ClientCertFile = "c.pem" }), invalid, []string{"no client key file"}},
		{"key without certificate", check(func(cfg *Config) { cfg.ClientKeyFile = "k.pem" }), invalid, []string{"no client certificate file"}},
		{"certificate is no PEM", func() error {
			path := file("hello " + secret)
			return check(func(cfg *Config) { cfg.ClientCertFile, cfg.ClientKeyFile = path, path })()
		}, invalid, []string{"passphrase"}},
		{"AMQP endpoint", check(func(cfg *Config) { cfg.AMQPEndpoint = "http://localhost" }), invalid, []string{"amqp:// or amqps://"}},
		{
			"password in AMQP endpoint",
			check(func(cfg *Config) { cfg.AMQPEndpoint = "amqp://u:" + secret + "@localhost" }),
			invalid,
			[]string{"amqp://localhost"},
		},
		{"vhost in AMQP endpoint", check(func(cfg *Config) { cfg.AMQPEndpoint = "amqp://localhost/v" }), invalid, []string{"virtual host"}},
	}
}

func tlsCases(t *testing.T) []errorCase {
	t.Helper()
	ca := newAuthority(t)
	server := func(certificate tls.Certificate, auth tls.ClientAuthType) func(...func(*Config)) error {
		return func(options ...func(*Config)) error {
			s := httptest.NewUnstartedServer(newFake(t))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: auth, ClientCAs: ca.pool}
			s.Config.ErrorLog = discardLog
			s.StartTLS()
			t.Cleanup(s.Close)
			return askInfo(t, s.URL, options...)
		}
	}
	trust := func(cfg *Config) { cfg.CACertFile = ca.file }
	present := func(a *authority) func(*Config) {
		return func(cfg *Config) { cfg.ClientCertFile, cfg.ClientKeyFile = a.issueFiles(t, "client") }
	}
	good := ca.issue(t, "127.0.0.1", time.Now().Add(time.Hour))
	return []errorCase{
		{"trusted", func() error { return server(good, tls.NoClientCert)(trust) }, nil, nil},
		{"insecure", func() error {
			return server(good, tls.NoClientCert)(func(cfg *Config) { cfg.Insecure = true })
		}, nil, nil},
		{"client certificate", func() error { return server(good, tls.RequireAndVerifyClientCert)(trust, present(ca)) }, nil, nil},
		{"unknown authority", func() error { return server(good, tls.NoClientCert)() }, &TLSError{}, []string{"authority", "cacert_file"}},
		{"expired", func() error {
			return server(ca.issue(t, "127.0.0.1", time.Now().Add(-time.Hour)), tls.NoClientCert)(trust)
		}, &TLSError{}, []string{"expired"}},
		{"wrong host", func() error {
			return server(ca.issue(t, "10.1.2.3", time.Now().Add(time.Hour)), tls.NoClientCert)(trust)
		}, &TLSError{}, []string{"another host name", "10.1.2.3"}},
		{
			"no client certificate",
			func() error {
				return server(good, tls.RequireAndVerifyClientCert)(trust)
			},
			&TLSError{},
			[]string{"clientcert_file"},
		},
		{"foreign client certificate", func() error {
			return server(good, tls.RequireAndVerifyClientCert)(trust, present(newAuthority(t)))
		}, &TLSError{}, []string{"client certificate"}},
	}
}

// Every way to fail gives a typed error that says what it should, and none
// shows the password, in whatever form.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, cases := range [][]errorCase{configCases(t), connectionCases(t), apiCases(t), tlsCases(t)} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				err := c.fail()
				if c.want == nil {
					must(t, err)
					return
				}
				if target := reflect.New(reflect.TypeOf(c.want)); !errors.As(err, target.Interface()) {
					t.Fatalf("want a %T, got %T: %v", c.want, err, err)
				}
				for _, part := range c.say {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("does not say %q: %v", part, err)
					}
				}
				for e := err; e != nil; e = errors.Unwrap(e) {
					text := fmt.Sprintf("%v %+v %#v", e, e, e)
					for _, hidden := range []string{secret, base64.StdEncoding.EncodeToString([]byte("u:" + secret))} {
						if strings.Contains(text, hidden) {
							t.Errorf("shows the password: %s", text)
						}
					}
				}
				t.Log(err)
			})
		}
	}
}

// authority is a certificate authority of a test.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pool        *x509.CertPool
	file        string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority " + rand.Text()},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	a := &authority{key: key, pool: x509.NewCertPool()}
	a.certificate, err = x509.ParseCertificate(der)
	must(t, err)
	a.pool.AddCert(a.certificate)
	a.file = writePEM(t, "CERTIFICATE", der)
	return a
}

// issue makes a certificate for an IP address or a name.
func (a *authority) issue(t *testing.T, name string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &key.PublicKey, a.key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// issueFiles makes a certificate and writes it and its key to files.
func (a *authority) issueFiles(t *testing.T, name string) (cert, key string) {
	t.Helper()
	c := a.issue(t, name, time.Now().Add(time.Hour))
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	must(t, err)
	return writePEM(t, "CERTIFICATE", c.Certificate[0]), writePEM(t, "PRIVATE KEY", der)
}

func writePEM(t *testing.T, kind string, der []byte) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "*.pem")
	must(t, err)
	must(t, pem.Encode(f, &pem.Block{Type: kind, Bytes: der}))
	must(t, f.Close())
	return f.Name()
}
