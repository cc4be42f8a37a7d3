package broker

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

var (
	orders     = topology.Queue{Name: "orders", Type: topology.Quorum, Durable: true}
	putOrders  = "PUT /api/queues/%2F/orders"
	madeIt     = answer{status: 201}
	hadIt      = answer{status: 204}
	storeError = "Could not declare queue 'orders' in vhost '/' on node 'rabbit@a' because the metadata store operation timed out"
)

func TestCreatedAfterTries(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []answer
		created bool
		tries   int
	}{
		{"new", []answer{madeIt}, true, 1},
		{"existed", []answer{hadIt}, false, 1},
		{"new after a refusal", []answer{{status: 429}, madeIt}, true, 2},
		{"existed after a refusal", []answer{{status: 429}, hadIt}, false, 2},
		{"unknown: 500", []answer{{status: 500}, hadIt}, true, 2},
		{"unknown: 503 three times", []answer{{status: 503}, {status: 503}, {status: 503}, hadIt}, true, 4},
		{"unknown: cut", []answer{cut(false), hadIt}, true, 2},
		{"unknown: reset", []answer{cut(true), hadIt}, true, 2},
		{"unknown: cut inside", []answer{cutInside(), hadIt}, true, 2},
		{"unknown: metadata store", []answer{refusal(400, storeError), hadIt}, true, 2},
		{"unknown: not formed", []answer{refusal(400, "Cannot declare quorum queue 'orders': cluster_not_formed"), hadIt}, true, 2},
		{"unknown, then refused", []answer{{status: 500}, {status: 429}, hadIt}, true, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on(putOrders, test.answers...)
			made, err := f.client(t).DeclareQueue(t.Context(), "/", orders)
			if made != test.created || err != nil {
				t.Errorf("created=%v, %v", made, err)
			}
			if n := f.count("PUT"); n != test.tries {
				t.Errorf("%d tries, want %d", n, test.tries)
			}
		})
	}
}

func TestNeverRetried(t *testing.T) {
	for _, a := range []answer{
		refusal(400, "inequivalent arg 'x-message-ttl' for queue 'timed out' in vhost '/': received '1' but current is '2'"),
		refusal(400, "invalid arg 'x-timeout' for queue 'orders' in vhost '/': timeout"),
		refusal(400, "queue 'metadata store' in vhost 'timeout' is not what it should be"),
		refusal(401, "Access refused."),
		refusal(403, "no"),
		refusal(404, "no"),
		refusal(405, "no"),
		refusal(409, "no"),
		{status: 302, header: map[string]string{"Location": "https://example.org/login"}},
	} {
		f := newFake(t)
		f.on(putOrders, a)
		if _, err := f.client(t).DeclareQueue(t.Context(), "/", orders); err == nil {
			t.Errorf("%d: no error", a.status)
		}
		if n := f.count("PUT"); n != 1 {
			t.Errorf("%d %s: %d tries", a.status, a.body, n)
		}
	}
}

func TestPassingReasons(t *testing.T) {
	for reason, want := range map[string]bool{
		storeError: true,
		"failed to declare exchange 'x' in vhost '/' because the operation timed out":                                   true,
		"The operation to delete the queue from the metadata store timed out":                                           true,
		"Could not declare quorum queue 'it's' in vhost '/' on node 'n' because the metadata store operation timed out": true,
		"Cannot declare quorum queue 'q' in vhost '/' on node 'a' with leader on node 'b': timeout":                     true,
		"Cannot declare quorum queue 'q' in vhost '/' on node 'a' with leader on node 'b': cluster_not_formed":          true,
		"queue ': cluster_not_formed' in vhost '/' not empty":                                                           false,
		"Cannot declare a queue 'queue 'q' in vhost 'v'' on node 'n@h': {vhost_supervisor_not_running,<<\"v\">>}":       true,
		"Node rabbit@b could not be contacted":                                                                          true,
		"Request to node rabbit@b failed with {'EXIT',{noproc,'x'}}":                                                    true,
		"queue 'timeout' in vhost '/' not empty":                                                                        false,
		"unknown exchange type 'timed out'":                                                                             false,
		"":                                                                                                              false,
	} {
		if passingReason(reason) != want {
			t.Errorf("%q: want %v", reason, want)
		}
	}
}

func TestRetriesEnd(t *testing.T) {
	f := newFake(t)
	f.on(putOrders, answer{status: 500, body: `{"error":"internal","reason":"boom"}`})
	_, err := f.client(t).DeclareQueue(t.Context(), "/", orders)
	wantError[*APIError](t, err, "500", "boom", "declare queue \"orders\"")
	if n := f.count("PUT"); n != 1+DefaultMaxRetries {
		t.Errorf("%d tries", n)
	}
	var total time.Duration
	for i, d := range f.slept {
		full := firstWait << i
		if d > full || d < full/2 {
			t.Errorf("wait %d: %s, want %s or up to half less", i, d, full)
		}
		total += d
	}
	if total > 8*time.Second {
		t.Errorf("waited %s in all", total)
	}

	f = newFake(t)
	f.on(putOrders, cut(false))
	_, err = f.client(t, func(cfg *Config) { cfg.MaxRetries = -1 }).DeclareQueue(t.Context(), "/", orders)
	wantError[*ConnectionError](t, err, "cut", "1 try")
	if n := f.count("PUT"); n != 1 {
		t.Errorf("%d tries without retries", n)
	}
}

func TestBrokenAnswers(t *testing.T) {
	for name, broken := range map[string]answer{
		"empty":     {status: 200},
		"cut short": {status: 200, body: `[{"name":"or`},
		"text":      {status: 200, body: "Service is starting"},
	} {
		f := newFake(t)
		f.on("GET /api/vhosts", broken, broken, answer{status: 200, body: `[{"name":"/"}]`})
		if names, err := f.client(t).Vhosts(t.Context()); err != nil || len(names) != 1 {
			t.Errorf("%s: %v, %v", name, names, err)
		}

		f.on("GET /api/vhosts", broken)
		_, err := f.client(t).Vhosts(t.Context())
		wantError[*EndpointError](t, err, "list the virtual hosts", "not the JSON")
	}

	f := newFake(t)
	f.on("GET /api/vhosts", answer{status: 200, body: "<html>", header: map[string]string{"Content-Type": "text/html"}})
	_, err := f.client(t).Vhosts(t.Context())
	wantError[*EndpointError](t, err, "a web page")
	if n := f.count("GET /api/vhosts"); n != 1 {
		t.Errorf("%d requests for a web page", n)
	}
}

// RabbitMQ 3.10.8 lists a virtual host that is just being deleted as [].
func TestVhostBeingDeleted(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/vhosts", answer{status: 200, body: `[[],{"name":"/"}]`})
	if names, err := f.client(t).Vhosts(t.Context()); err != nil || !slices.Equal(names, []string{"/"}) {
		t.Error(names, err)
	}
	if n := f.count("GET /api/vhosts"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestRetryAfter(t *testing.T) {
	in := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for value, want := range map[string][2]time.Duration{
		"3":            {3 * time.Second, 3 * time.Second},
		"100000":       {maxRetryAfter, maxRetryAfter},
		"-5":           {0, firstWait},
		"soon":         {0, firstWait},
		in(time.Hour):  {maxRetryAfter, maxRetryAfter},
		in(-time.Hour): {0, firstWait},
	} {
		f := newFake(t)
		f.on(putOrders, answer{status: 429, header: map[string]string{"Retry-After": value}}, madeIt)
		_, err := f.client(t).DeclareQueue(t.Context(), "/", orders)
		must(t, err)
		if d := f.slept[0]; d < want[0] || d > want[1] {
			t.Errorf("Retry-After %q: waited %s", value, d)
		}
	}
}

func TestSlowAnswer(t *testing.T) {
	f := newFake(t)
	slow := answer{do: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	f.on(putOrders, slow, hadIt)
	short := func(cfg *Config) { cfg.RequestTimeout = 30 * time.Millisecond }
	made, err := f.client(t, short).DeclareQueue(t.Context(), "/", orders)
	if !made || err != nil {
		t.Errorf("created=%v, %v", made, err)
	}
	f.on(putOrders, slow)
	_, err = f.client(t, short).DeclareQueue(t.Context(), "/", orders)
	wantError[*ConnectionError](t, err, "no answer within 30ms", "6 tries")
}

func TestContextEndsCall(t *testing.T) {
	f := newFake(t)
	f.on(putOrders, answer{status: 500, body: `{"reason":"boom"}`})
	f.on("GET /api/nodes", answer{status: 200, body: oneDown})
	c := f.client(t)
	c.sleep = Sleep
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	_, err := c.DeclareQueue(ctx, "/", orders)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	for _, say := range []string{"boom", `declare queue "orders" in vhost "/"`, f.URL, "nodes down: rabbit@c"} {
		if !strings.Contains(err.Error(), say) {
			t.Errorf("does not say %q: %v", say, err)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestRefusedConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	c := newClient(t, "http://"+address)
	var waits atomic.Int32
	c.sleep = func(ctx context.Context, _ time.Duration) error { waits.Add(1); return ctx.Err() }
	_, err = c.Info(t.Context())
	wantError[*ConnectionError](t, err, "connection refused", address, "6 tries", "15672")
	if waits.Load() != DefaultMaxRetries {
		t.Errorf("%d waits", waits.Load())
	}
	// What follows right after does not wait again.
	err = c.View(t.Context(), "/", func(*topology.Topology) {})
	wantError[*ConnectionError](t, err, "connection refused")
	if waits.Load() != DefaultMaxRetries {
		t.Errorf("%d waits after another call", waits.Load())
	}
}

func TestDeleteOfWhatIsGone(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	must(t, c.DeleteQueue(t.Context(), "/", orders, Always))
	must(t, c.DeleteExchange(t.Context(), "/", "e"))
	must(t, c.Unbind(t.Context(), "/", topology.Binding{Source: "e", Destination: "q", DestinationKind: topology.KindQueue}))
	// A virtual host that has become inaccessible looks the same from 4.2.9 on.
	f.on("GET /api/exchanges/%2F/amq.direct", refusal(404, "Not Found"))
	f.on("GET /api/whoami", answer{status: 200, body: `{"name":"u","tags":["management"]}`})
	f.on("GET /api/vhosts", answer{status: 200, body: `[]`})
	c = f.client(t)
	wantVhost(t, c.DeleteQueue(t.Context(), "/", orders, Always), false, false)
	wantVhost(t, c.DeleteExchange(t.Context(), "/", "e"), false, false)
	_, _, err := c.Queue(t.Context(), "/", "q")
	wantVhost(t, err, false, false)
	_, err = c.Counts(t.Context(), "/", "q")
	wantVhost(t, err, false, false)
}

func TestParallelRequestsAndConnections(t *testing.T) {
	f := newFake(t)
	var now, most atomic.Int32
	f.on(putOrders, answer{do: func(w http.ResponseWriter, _ *http.Request) {
		if n := now.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(5 * time.Millisecond)
		now.Add(-1)
		w.WriteHeader(http.StatusCreated)
	}})
	c := f.client(t, func(cfg *Config) { cfg.MaxParallelRequests = 3 })
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			if _, err := c.DeclareQueue(t.Context(), "/", orders); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if most.Load() != 3 || len(f.connections) > 3 {
		t.Errorf("%d requests at once over %d connections", most.Load(), len(f.connections))
	}
}
