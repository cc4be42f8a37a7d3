// Package fake is a management API without a broker behind it, for tests of
// what the provider asks and of what it does not ask: it has one empty virtual
// host named "/", agrees to every change and forgets it.
package fake

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// API is a management API. It works as a proxy, too: it answers whatever
// address it is asked for.
type API struct {
	// URL is its address.
	URL string

	mu       sync.Mutex
	version  string
	flags    flags
	pause    time.Duration
	status   int
	requests []Request
	current  int
	most     int
}

// Request is one request that arrived.
type Request struct {
	Method, Path, Host string
	Username, Password string
	Header             http.Header
	// Client is the common name of the client's certificate.
	Client string
}

// New starts an API that says it is the given version of RabbitMQ. It ends with
// the test.
func New(t testing.TB, version string) *API {
	t.Helper()
	return start(t, version, nil)
}

// NewTLS is like [New] over https.
func NewTLS(t testing.TB, version string, config *tls.Config) *API {
	t.Helper()
	return start(t, version, config)
}

func start(t testing.TB, version string, config *tls.Config) *API {
	a := &API{version: version, status: http.StatusOK}
	server := httptest.NewUnstartedServer(a)
	server.Config.ErrorLog = quiet
	if config == nil {
		server.Start()
	} else {
		server.TLS = config
		server.StartTLS()
	}
	t.Cleanup(server.Close)
	a.URL = server.URL
	return a
}

// flags are the feature flags of a broker, as /api/feature-flags shows them.
type flags struct {
	disabled []string
	hidden   bool
}

// SetFlags makes the API show one enabled feature flag, "other_flag", and these, which
// are disabled.
func (a *API) SetFlags(disabled ...string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flags = flags{disabled: disabled}
}

// HideFlags makes the API refuse to show the feature flags.
func (a *API) HideFlags() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.flags = flags{hidden: true}
}

func (f flags) answer() (status int, body string) {
	if f.hidden {
		return http.StatusUnauthorized, `{"error":"not_authorized","reason":"Not administrator user"}`
	}
	list := []string{`{"name":"other_flag","state":"enabled","stability":"stable"}`}
	for _, name := range f.disabled {
		list = append(list, fmt.Sprintf(`{"name":%q,"state":"disabled","stability":"stable"}`, name))
	}
	return http.StatusOK, "[" + strings.Join(list, ",") + "]"
}

// SetPause makes every answer take that long.
func (a *API) SetPause(pause time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pause = pause
}

// SetStatus makes every answer a refusal with the HTTP status; 200 ends that.
func (a *API) SetStatus(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
}

// Take returns the requests since the last call.
func (a *API) Take() []Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	requests := a.requests
	a.requests = nil
	return requests
}

// MostParallel is the largest number of requests that were under way at once.
func (a *API) MostParallel() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.most
}

func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	version, flags, pause, status := a.begin(r)
	defer a.end()
	time.Sleep(pause)
	w.Header().Set("Content-Type", "application/json")
	if status != http.StatusOK {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"error":"fake","reason":"told to refuse"}`)
		return
	}
	status, body := answer(r, version, flags)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (a *API) begin(r *http.Request) (version string, flags flags, pause time.Duration, status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	request := Request{Method: r.Method, Path: r.URL.EscapedPath(), Host: r.Host, Header: r.Header.Clone()}
	request.Username, request.Password, _ = r.BasicAuth()
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		request.Client = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	a.requests = append(a.requests, request)
	a.current++
	a.most = max(a.most, a.current)
	return a.version, a.flags, a.pause, a.status
}

func (a *API) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current--
}

func answer(r *http.Request, version string, flags flags) (status int, body string) {
	user, _, _ := r.BasicAuth()
	switch path := r.URL.EscapedPath(); {
	case r.Method == http.MethodPut, r.Method == http.MethodPost:
		return http.StatusCreated, ""
	case r.Method == http.MethodDelete:
		return http.StatusNoContent, ""
	case path == "/api/overview":
		return http.StatusOK, fmt.Sprintf(`{"rabbitmq_version":%q,"product_name":"RabbitMQ","node":"rabbit@fake",`+
			`"exchange_types":[{"name":"direct"},{"name":"fanout"},{"name":"headers"},{"name":"topic"}],"listeners":[]}`, version)
	case path == "/api/whoami":
		return http.StatusOK, fmt.Sprintf(`{"name":%q,"tags":["administrator"]}`, user)
	case path == "/api/feature-flags":
		return flags.answer()
	case path == "/api/vhosts":
		return http.StatusOK, `[{"name":"/"}]`
	case strings.HasPrefix(path, "/api/users/"):
		return http.StatusOK, fmt.Sprintf(`[{"user":%q,"vhost":"/","configure":".*","write":".*","read":".*"}]`, user)
	case r.URL.Query().Has("page"):
		return http.StatusOK, `{"items":[]}`
	case slices.Contains(lists, path):
		return http.StatusOK, "[]"
	case strings.HasPrefix(path, "/api/exchanges/%2F/"): // as if it had just been declared
		return http.StatusOK, `{"name":"amq.topic","type":"topic","durable":true}`
	default:
		return http.StatusNotFound, `{"error":"Object Not Found","reason":"Not Found"}`
	}
}

// lists are the lists of objects of the virtual host, all of them empty.
var lists = []string{
	"/api/queues/%2F", "/api/exchanges/%2F", "/api/bindings/%2F", "/api/policies/%2F",
	"/api/operator-policies/%2F", "/api/parameters/shovel/%2F",
}

// quiet swallows what the server says about handshakes that a test wants to
// fail.
var quiet = log.New(io.Discard, "", 0)
