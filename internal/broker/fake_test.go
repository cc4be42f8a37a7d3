package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a management API in this process. It answers from a table of fixed
// answers and notes every request as "METHOD path".
type fake struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string
	// connections are the clients' addresses.
	connections map[string]bool
	answers     map[string][]answer
	// slept are the waits of the client that [fake.client] returns.
	slept []time.Duration
}

// answer is one answer of a fake.
type answer struct {
	status int
	body   string
	header map[string]string
	// do replaces the answer.
	do func(http.ResponseWriter, *http.Request)
}

// newFake returns a fake that knows the broker's overview and an empty virtual
// host "/".
func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{answers: map[string][]answer{}, connections: map[string]bool{}}
	f.on("GET /api/overview", answer{200, overviewBody("4.0.5"), nil, nil})
	f.on("GET /api/whoami", answer{200, `{"name":"u","tags":["administrator"]}`, nil, nil})
	f.on("GET /api/vhosts", answer{200, `[{"name":"/"}]`, nil, nil})
	f.on("GET /api/exchanges/%2F/amq.direct", answer{200, `{"name":"amq.direct"}`, nil, nil})
	for _, what := range []string{"queues", "exchanges", "bindings", "policies", "operator-policies"} {
		f.on("GET /api/"+what+"/%2F", answer{200, `[]`, nil, nil})
	}
	f.on("GET /api/queues/%2F page", answer{200, `{"items":[]}`, nil, nil})
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	return f
}

func overviewBody(version string) string {
	return fmt.Sprintf(`{"rabbitmq_version":%q,"product_name":"RabbitMQ","node":"rabbit@a",
		"exchange_types":[{"name":"headers","enabled":true},{"name":"direct"}],"listeners":[]}`, version)
}

// on sets the answers to a request. The last one is repeated indefinitely.
func (f *fake) on(request string, answers ...answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers[request] = answers
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := r.Method + " " + r.URL.EscapedPath()
	if r.URL.Query().Has("page") {
		key += " page"
	}
	// Only with the body read does the server notice that the client is gone.
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	f.mu.Lock()
	f.requests = append(f.requests, key)
	f.connections[r.RemoteAddr] = true
	a := answer{status: 404, body: `{"error":"Object Not Found","reason":"Not Found"}`}
	if list := f.answers[key]; len(list) > 0 {
		a = list[0]
		if len(list) > 1 {
			f.answers[key] = list[1:]
		}
	}
	f.mu.Unlock()
	if a.do != nil {
		a.do(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	for name, value := range a.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(a.status)
	_, _ = w.Write([]byte(a.body))
}

// count returns how many requests there were whose text begins so.
func (f *fake) count(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, request := range f.requests {
		if strings.HasPrefix(request, prefix) {
			n++
		}
	}
	return n
}

// client returns a client of the fake that does not wait between tries.
func (f *fake) client(t *testing.T, options ...func(*Config)) *Client {
	t.Helper()
	c := newClient(t, f.URL, options...)
	c.proof.settle = 0
	c.sleep = func(ctx context.Context, d time.Duration) error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.slept = append(f.slept, d)
		return ctx.Err()
	}
	return c
}

func newClient(t *testing.T, endpoint string, options ...func(*Config)) *Client {
	t.Helper()
	cfg := Config{Endpoint: endpoint, Username: "u", Password: secret}
	for _, set := range options {
		set(&cfg)
	}
	c, err := New(cfg)
	must(t, err)
	c.sleep = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	t.Cleanup(c.transport.CloseIdleConnections)
	return c
}

func refusal(status int, reason string) answer {
	text, _ := json.Marshal(reason)
	return answer{status: status, body: fmt.Sprintf(`{"error":"bad_request","reason":%s}`, text)}
}

// cut ends the connection without an answer; with reset by a TCP reset.
func cut(reset bool) answer {
	return answer{do: func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		if tcp, ok := conn.(*net.TCPConn); ok && reset {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}}
}

// cutInside ends the connection in the middle of the answer.
func cutInside() answer {
	return answer{do: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		w.WriteHeader(http.StatusOK)
		_, _ = w.Write([]byte(`[{"name":`))
		panic(http.ErrAbortHandler)
	}}
}

// captureBody keeps the body of the request and answers 201.
func captureBody(into *string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*into = string(body)
		w.WriteHeader(http.StatusCreated)
	}
}
