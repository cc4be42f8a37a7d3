// Package proxy stands between the provider and a broker's management API: it
// counts requests, and breaks those that a test wants broken.
package proxy

import (
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Proxy forwards requests to a broker.
type Proxy struct {
	// URL is the address to use instead of the broker's.
	URL string

	server   *httptest.Server
	mu       sync.Mutex
	requests []Request
	created  []string
	hook     Hook
	cut      *Cut
}

// Request is one request that passed.
type Request struct {
	Method, Path string
}

// Write says whether the request may change something.
func (r Request) Write() bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// Hook sees every request before it is forwarded. When it returns true it has
// answered the request itself.
type Hook func(w http.ResponseWriter, r *http.Request) (answered bool)

// New starts a proxy in front of the management API at endpoint. It ends with
// the test.
func New(t *testing.T, endpoint string) *Proxy {
	t.Helper()
	p, err := Start(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// Start starts a proxy in front of the management API at endpoint. It runs
// until [Proxy.Close].
func Start(endpoint string) (*Proxy, error) {
	target, err := url.Parse(endpoint)
	if err != nil || target.Host == "" {
		return nil, errors.New("the endpoint is not a URL with a host")
	}
	p := &Proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.URL.Scheme, r.Out.URL.Host = target.Scheme, target.Host
		},
		ModifyResponse: p.noteCreated,
		// Clients that are killed are what tests want, and not worth a line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hook := p.note(r); hook == nil || !hook(w, r) {
			p.currentCut().serve(forward, w, r)
		}
	}))
	// The path stays with the client, so that an endpoint with a prefix works.
	p.URL = p.server.URL + target.Path
	return p, nil
}

// Close ends the proxy.
func (p *Proxy) Close() { p.server.Close() }

func (p *Proxy) note(r *http.Request) Hook {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = append(p.requests, Request{r.Method, r.URL.EscapedPath()})
	return p.hook
}

func (p *Proxy) noteCreated(r *http.Response) error {
	if r.Request.Method == http.MethodPut && r.StatusCode == http.StatusCreated {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.created = append(p.created, r.Request.URL.EscapedPath())
	}
	return nil
}

// Created returns the paths of the objects that the broker says are new.
func (p *Proxy) Created() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.created)
}

// OnRequest sets the hook; nil forwards everything.
func (p *Proxy) OnRequest(hook Hook) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hook = hook
}

// Take returns the requests since the last call.
func (p *Proxy) Take() []Request {
	p.mu.Lock()
	defer p.mu.Unlock()
	requests := p.requests
	p.requests = nil
	return requests
}
