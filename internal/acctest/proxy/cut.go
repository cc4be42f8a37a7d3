package proxy

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// Cut ends a client in the middle of a write, as far as the broker and the client can
// tell: see [Proxy.CutWrite].
type Cut struct {
	writes atomic.Int64
	at     int64
	after  time.Duration
	dead   context.Context //nolint:containedctx // what ends, not what a call gets
	end    context.CancelFunc
	act    func(*Cut)
	was    atomic.Pointer[Request]
}

// End ends the connections to the broker of all requests under way. Every later request
// fails, for good as far as the client can tell, until [Proxy.Mend].
func (c *Cut) End() { c.end() }

// CutWrite calls end when the given time has passed since the n-th write was forwarded.
func (p *Proxy) CutWrite(n int64, after time.Duration, end func(*Cut)) *Cut {
	c := &Cut{at: n, after: after, act: end}
	c.dead, c.end = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = c
	return c
}

// Mend forwards everything again.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = nil
}

// Dead returns the write that was cut, and false if there were not so many.
func (c *Cut) Dead() (Request, bool) {
	if r := c.was.Load(); r != nil {
		return *r, true
	}
	return Request{}, false
}

func (p *Proxy) currentCut() *Cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (c *Cut) serve(forward http.Handler, w http.ResponseWriter, r *http.Request) {
	if c == nil {
		forward.ServeHTTP(w, r)
		return
	}
	if request := (Request{r.Method, r.URL.EscapedPath()}); c.dead.Err() == nil && request.Write() && c.writes.Add(1) == c.at {
		c.was.Store(&request)
		time.AfterFunc(c.after, func() { c.act(c) })
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(c.dead, cancel)()
	answer := &kept{header: http.Header{}, status: http.StatusOK}
	if c.dead.Err() == nil {
		forward.ServeHTTP(answer, r.WithContext(ctx))
	}
	if c.dead.Err() != nil {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error":"not_authorized","reason":"the process is dead"}`))
		return
	}
	answer.copyTo(w)
}

// kept is an answer that nobody has got yet.
type kept struct {
	header http.Header
	status int
	body   []byte
}

func (k *kept) Header() http.Header    { return k.header }
func (k *kept) WriteHeader(status int) { k.status = status }

func (k *kept) Write(data []byte) (int, error) {
	k.body = append(k.body, data...)
	return len(data), nil
}

func (k *kept) copyTo(w http.ResponseWriter) {
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body)
}
