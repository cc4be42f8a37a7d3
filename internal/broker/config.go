package broker

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults of [Config]. More than ten parallel requests gained nothing on
// brokers with two processors (3.10, 4.0 and 4.3; one at a time took twice as
// long), and ten is what Terraform does at once.
const (
	DefaultRequestTimeout      = 30 * time.Second
	DefaultMaxRetries          = 5
	DefaultMaxParallelRequests = 10
	// DefaultStatisticsInterval is RabbitMQ's collect_statistics_interval.
	DefaultStatisticsInterval = 5 * time.Second
)

// Config says how to reach a broker.
type Config struct {
	// Endpoint is http(s)://host[:port][/prefix]. Trailing slashes do not
	// matter. It must not carry a user name or password. Several addresses of
	// one cluster, separated by commas, are tried in this order.
	Endpoint string
	Username string
	Password string
	// Token is an OAuth 2 access token that stands in for Username and Password.
	Token string
	// Insecure switches the check of the broker's certificate off.
	Insecure bool
	// CACertFile holds PEM certificates to trust instead of the system's.
	CACertFile string
	// ClientCertFile and ClientKeyFile belong together (PEM, key unencrypted).
	ClientCertFile string
	ClientKeyFile  string
	// Proxy is a URL (http, https, socks5 or socks5h). When it is empty,
	// HTTP_PROXY, HTTPS_PROXY and NO_PROXY of the environment decide. It is
	// not used for AMQP.
	Proxy string
	// Headers are sent with every request, for gateways in front of the
	// broker. An Authorization header replaces user name and password over HTTP.
	Headers map[string]string
	// RequestTimeout limits one try of one request; 0 means 30 s.
	RequestTimeout time.Duration
	// MaxRetries is the number of tries after the first; 0 means 5, a negative
	// number none.
	MaxRetries int
	// MaxParallelRequests limits the requests under way at once; 0 means 10.
	MaxParallelRequests int
	// StatisticsInterval is how often the broker renews its counts of messages; 0
	// means 5 s, RabbitMQ's default. What must outlast old counts takes a multiple
	// of it, so a value below the broker's own makes full queues look empty.
	StatisticsInterval time.Duration
	// UserAgent is sent as the User-Agent header.
	UserAgent string
	// AMQPEndpoint is amqp(s)://host[:port], or several of them separated by
	// commas. When it is empty, the hosts of Endpoint and the broker's listeners
	// decide, see [Client.AMQP].
	AMQPEndpoint string
}

// ConfigError is a [Config] that cannot work.
type ConfigError struct {
	// Field is the name of the field of [Config].
	Field string
	// Problem says what is wrong and what is needed. It holds no secrets.
	Problem string
}

func (e *ConfigError) Error() string { return e.Problem }

func wrong(field, format string, args ...any) error {
	return &ConfigError{Field: field, Problem: fmt.Sprintf(format, args...)}
}

func parseEndpoint(text string) (*url.URL, error) {
	u, err := parseURL("Endpoint", "the endpoint", text, "http", "https")
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// parseURL reads a URL of one of the schemes. Its errors never repeat the
// text: that may hold a password where no parser finds it.
func parseURL(field, what, text string, schemes ...string) (*url.URL, error) {
	forms := strings.Join(schemes, ":// or ") + "://"
	u, err := url.Parse(strings.TrimSpace(text))
	switch {
	case strings.TrimSpace(text) == "":
		return nil, wrong(field, "%s is empty: it must be a URL that begins with %s", what, forms)
	case err != nil:
		return nil, wrong(field, "%s is not a valid URL: it must have the form %s://host:port", what, schemes[0])
	case !slices.Contains(schemes, u.Scheme):
		return nil, wrong(field, "%s must begin with %s", what, forms)
	case u.User != nil:
		return nil, wrong(field, "%s must not hold a user name or password: set username and password instead, and give the URL as %s://%s",
			what, u.Scheme, u.Host)
	case u.Hostname() == "":
		return nil, wrong(field, "%s names no host: it must have the form %s://host:port", what, u.Scheme)
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, wrong(field, "%s must end before the first \"?\" or \"#\": give it as %s://%s", what, u.Scheme, u.Host)
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, wrong(field, "%s has the port %s: ports are 1 to 65535", what, port)
		}
	}
	return u, nil
}

func (cfg Config) checkCredentials() error {
	own := false
	for name := range cfg.Headers {
		own = own || http.CanonicalHeaderKey(name) == "Authorization"
	}
	switch {
	case own && cfg.Token != "":
		return wrong("Headers", "the headers hold an Authorization, which the token needs for itself: leave out one of the two")
	case cfg.Token != "":
		return cfg.checkToken()
	case own:
		return nil
	}
	if cfg.Username == "" {
		return wrong("Username", "the user name is empty: every request to the management API needs a user")
	}
	if strings.Contains(cfg.Username, ":") {
		// RFC 7617 section 2: the first colon ends the user name.
		return wrong("Username", "the user name %q holds a colon, which HTTP cannot carry in a user name", cfg.Username)
	}
	return nil
}

func (cfg Config) headers() (http.Header, error) {
	headers := http.Header{}
	if cfg.UserAgent != "" {
		headers.Set("User-Agent", cfg.UserAgent)
	}
	if cfg.Token != "" {
		headers.Set("Authorization", "Bearer "+cfg.Token)
	}
	for name, value := range cfg.Headers {
		if !validHeaderName(name) {
			return nil, wrong("Headers", "%q cannot be the name of an HTTP header", name)
		}
		if !validHeaderValue(value) {
			return nil, wrong("Headers", "the value of the header %q holds characters that HTTP does not allow, such as a line break", name)
		}
		headers.Set(name, value)
	}
	return headers, nil
}

// validHeaderName says whether name is a token of RFC 9110 section 5.6.2.
func validHeaderName(name string) bool {
	const punctuation = "!#$%&'*+-.^_`|~"
	other := func(r rune) bool {
		letter := 'a' <= r|0x20 && r|0x20 <= 'z'
		digit := '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune(punctuation, r)
	}
	return name != "" && !strings.ContainsFunc(name, other)
}

func validHeaderValue(value string) bool {
	control := func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }
	return !strings.ContainsFunc(value, control)
}

func (cfg Config) tls() (*tls.Config, error) {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: cfg.Insecure, //nolint:gosec // the user asked for it
	}
	if cfg.CACertFile != "" {
		pem, err := os.ReadFile(cfg.CACertFile)
		if err != nil {
			return nil, wrong("CACertFile", "cannot read the CA certificate file: %v", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, wrong("CACertFile", "the CA certificate file %s holds no certificate in PEM form (-----BEGIN CERTIFICATE-----)",
				cfg.CACertFile)
		}
	}
	certificate, err := cfg.clientCertificate()
	if err != nil {
		return nil, err
	}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return config, nil
}

func (cfg Config) clientCertificate() (*tls.Certificate, error) {
	switch {
	case cfg.ClientCertFile == "" && cfg.ClientKeyFile == "":
		return nil, nil
	case cfg.ClientKeyFile == "":
		return nil, wrong("ClientKeyFile", "there is a client certificate file but no client key file: set both")
	case cfg.ClientCertFile == "":
		return nil, wrong("ClientCertFile", "there is a client key file but no client certificate file: set both")
	}
	cert, err := os.ReadFile(cfg.ClientCertFile)
	if err != nil {
		return nil, wrong("ClientCertFile", "cannot read the client certificate file: %v", err)
	}
	key, err := os.ReadFile(cfg.ClientKeyFile)
	if err != nil {
		return nil, wrong("ClientKeyFile", "cannot read the client key file: %v", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, wrong("ClientCertFile", "the client certificate %s and key %s cannot be used: %v; both must be PEM, the key without "+
			"a passphrase", cfg.ClientCertFile, cfg.ClientKeyFile, err)
	}
	return &pair, nil
}

func newTransport(cfg Config, tlsConfig *tls.Config, parallel, addresses int) (*http.Transport, error) {
	proxy := http.ProxyFromEnvironment
	if cfg.Proxy != "" {
		u, err := url.Parse(cfg.Proxy)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https", "socks5", "socks5h"}, u.Scheme) {
			return nil, wrong("Proxy", "the proxy must be a URL such as http://proxy:3128 (http, https, socks5 or socks5h)")
		}
		proxy = http.ProxyURL(u)
	}
	timeout := dialTimeout
	if addresses > 1 {
		timeout = dialTimeoutOfMany
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                 proxy,
		DialContext:           (&net.Dialer{Timeout: timeout, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   timeout,
		MaxIdleConnsPerHost:   parallel,
		IdleConnTimeout:       idleTimeout,
		ExpectContinueTimeout: time.Second,
		Protocols:             protocols,
	}, nil
}
