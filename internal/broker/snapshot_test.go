package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// hold answers a request when released, and says when one has come in.
func hold(a answer) (held answer, arrived, release chan struct{}) {
	arrived, release = make(chan struct{}, 10), make(chan struct{})
	return answer{do: func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-release:
		case <-r.Context().Done():
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(a.body))
	}}, arrived, release
}

func TestViewRequests(t *testing.T) {
	f := newFake(t)
	var queues []string
	for i := range 500 {
		queues = append(queues, fmt.Sprintf(`{"name":"q%d","type":"classic","durable":true,
			"auto_delete":false,"exclusive":false,"arguments":{}}`, i))
	}
	f.on("GET /api/queues/%2F", answer{status: 200, body: "[" + strings.Join(queues, ",") + "]"})
	c := f.client(t)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			err := c.View(t.Context(), "/", func(all *topology.Topology) {
				if len(all.Queues()) != 500 {
					t.Errorf("%d queues", len(all.Queues()))
				}
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if n := f.count(""); n != 5 {
		t.Errorf("%d requests: %v", n, f.requests)
	}
	c.Reload("/")
	view(t, c, "/")
	if n := f.count(""); n != 10 {
		t.Errorf("%d requests after a reload: %v", n, f.requests)
	}
	for range 2 {
		if _, err := c.Info(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if n := f.count("GET /api/overview"); n != 1 {
		t.Errorf("%d requests for the overview", n)
	}
}

func TestViewReadsEverything(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/exchanges/%2F", answer{status: 200, body: `[
		{"name":"","type":"direct","durable":true,"auto_delete":false,"internal":false,"arguments":{}},
		{"name":"amq.topic","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":[]},
		{"name":"e","type":"fanout","durable":false,"auto_delete":"undefined","internal":true,"arguments":{"alternate-exchange":"x"}}]`})
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[
		{"name":"typed","type":"quorum","durable":true,"arguments":{"x-queue-type":"quorum","x-message-ttl":60000,"x-f":5.0,"x-e":1e3,
			"x-big":9007199254740993,"x-huge":123456789012345678901234567890,"x-l":[1,{"k":2.5}]}},
		{"name":"by argument","durable":true,"arguments":{"x-queue-type":"stream"}},
		{"name":"old","durable":false,"auto_delete":true,"exclusive":true,"arguments":[]},
		{"name":"module","type":"rabbit_quorum_queue","durable":true,"arguments":null}]`})
	f.on("GET /api/bindings/%2F", answer{status: 200, body: `[
		{"source":"","destination":"old","destination_type":"queue","routing_key":"old","arguments":{},"properties_key":"old"},
		{"source":"e","destination":"old","destination_type":"queue","routing_key":"k","arguments":{"n":1},"properties_key":"k~1"},
		{"source":"e","destination":"amq.topic","destination_type":"exchange","routing_key":"","arguments":[],"properties_key":"~"}]`})
	want := topology.New()
	want.SetExchange(topology.Exchange{Name: "amq.topic", Type: "topic", Durable: true})
	want.SetExchange(topology.Exchange{
		Name: "e", Type: "fanout", AutoDelete: true, Internal: true,
		Arguments: topology.Arguments{"alternate-exchange": "x"},
	})
	want.SetQueue(topology.Queue{Name: "typed", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{
		"x-message-ttl": int64(60000), "x-f": 5.0, "x-e": 1000.0,
		"x-big": int64(9007199254740993), "x-huge": 123456789012345678901234567890.0,
		"x-l": []any{int64(1), map[string]any{"k": 2.5}},
	}})
	want.SetQueue(topology.Queue{Name: "by argument", Type: topology.Stream, Durable: true})
	want.SetQueue(topology.Queue{Name: "old", Type: topology.Classic, AutoDelete: true, Exclusive: true})
	want.SetQueue(topology.Queue{Name: "module", Type: topology.Quorum, Durable: true})
	want.Bind(topology.Binding{
		Source: "e", Destination: "old", DestinationKind: topology.KindQueue, RoutingKey: "k",
		Arguments: topology.Arguments{"n": int64(1)},
	})
	want.Bind(topology.Binding{Source: "e", Destination: "amq.topic", DestinationKind: topology.KindExchange})
	got := view(t, f.client(t), "/")
	if d := topology.Diff(got, want); !d.Empty() {
		t.Errorf("got %v %v %v", got.Exchanges(), got.Queues(), got.Bindings())
	}
}

// A write that ends while the lists are being read is in the snapshot, whether
// the lists show it or not.
func TestWritesDuringLoad(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[{"name":"doomed","type":"classic","durable":true,"arguments":{}}]`})
	held, arrived, release := hold(answer{body: `[{"source":"e","destination":"doomed","destination_type":"queue",
		"routing_key":"","arguments":{},"properties_key":"~"}]`})
	f.on("GET /api/bindings/%2F", held)
	f.on(putOrders, madeIt)
	f.on("DELETE /api/queues/%2F/doomed", hadIt)
	f.on("POST /api/bindings/%2F/e/e/q/orders", madeIt)
	c := f.client(t)
	loaded := make(chan *topology.Topology)
	go func() {
		var got *topology.Topology
		if err := c.View(t.Context(), "/", func(all *topology.Topology) { got = all.Clone() }); err != nil {
			t.Error(err)
		}
		loaded <- got
	}()
	<-arrived
	must(t, created(c.DeclareQueue(t.Context(), "/", orders)))
	must(t, c.Bind(t.Context(), "/", topology.Binding{Source: "e", Destination: "orders", DestinationKind: topology.KindQueue}))
	must(t, c.DeleteQueue(t.Context(), "/", topology.Queue{Name: "doomed"}, Always))
	close(release)
	got := <-loaded
	if _, ok := got.Queue("orders"); !ok || len(got.Queues()) != 1 || len(got.Bindings()) != 1 {
		t.Errorf("queues %v, bindings %v", got.Queues(), got.Bindings())
	}
	if n := f.count("GET") - f.count("GET /api/nodes"); n != 5 {
		t.Errorf("%d reads: %v", n, f.requests)
	}
}

// After a write of unknown outcome the virtual host is read again, also when a
// load was under way.
func TestUnknownOutcomeForgetsSnapshot(t *testing.T) {
	f := newFake(t)
	f.on(putOrders, answer{status: 500})
	c := f.client(t)
	view(t, c, "/")
	if _, err := c.DeclareQueue(t.Context(), "/", orders); err == nil {
		t.Fatal("no error")
	}
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[{"name":"orders","type":"quorum","durable":true,"arguments":{}}]`})
	if _, ok := view(t, c, "/").Queue("orders"); !ok {
		t.Error("the old snapshot was kept")
	}

	// A refusal is a known outcome: nothing is read again.
	f.on(putOrders, refusal(400, "invalid arg 'x'"))
	before := f.count("GET")
	if _, err := c.DeclareQueue(t.Context(), "/", orders); err == nil {
		t.Fatal("no error")
	}
	view(t, c, "/")
	if f.count("GET") != before {
		t.Error("a refused write made the client read again")
	}

	held, arrived, release := hold(answer{body: `[]`})
	f.on("GET /api/bindings/%2F", held, answer{status: 200, body: `[]`})
	f.on(putOrders, answer{status: 503})
	c.Reload("/")
	before = f.count("GET")
	done := make(chan error)
	go func() { done <- c.View(t.Context(), "/", func(*topology.Topology) {}) }()
	<-arrived
	for f.count("GET") < before+5 {
		time.Sleep(time.Millisecond)
	}
	before = f.count("GET /api/queues")
	if _, err := c.DeclareQueue(t.Context(), "/", orders); err == nil {
		t.Fatal("no error")
	}
	close(release)
	must(t, <-done)
	view(t, c, "/")
	if f.count("GET /api/queues") != before+1 {
		t.Error("a snapshot that was being read during the write was kept")
	}
}

// One who gives up waiting does not end the load for the others.
func TestViewOfOneWhoGivesUp(t *testing.T) {
	f := newFake(t)
	held, arrived, release := hold(answer{body: `[]`})
	f.on("GET /api/bindings/%2F", held)
	c := f.client(t)
	first, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	go func() { results <- c.View(first, "/", func(*topology.Topology) {}) }()
	<-arrived
	waiting := make(chan struct{})
	go func() {
		close(waiting)
		results <- c.View(t.Context(), "/", func(*topology.Topology) {})
	}()
	<-waiting
	for waiters(c, "/") < 2 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	if err := <-results; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	close(release)
	must(t, <-results)
	if n := f.count(""); n != 5 {
		t.Errorf("%d requests", n)
	}
}

func waiters(c *Client, vhost string) int {
	c.snapshots.mu.Lock()
	defer c.snapshots.mu.Unlock()
	if e, ok := c.snapshots.entries[vhost]; ok {
		return e.waiting
	}
	return 0
}

// The last one who gives up ends the load; the next starts again.
func TestViewGivenUpByAll(t *testing.T) {
	f := newFake(t)
	held, arrived, release := hold(answer{body: `[]`})
	defer close(release)
	f.on("GET /api/bindings/%2F", held, answer{status: 200, body: `[]`})
	c := f.client(t)
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- c.View(ctx, "/", func(*topology.Topology) {}) }()
	<-arrived
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	view(t, c, "/")
}

func TestFailedViewIsTriedAgain(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/queues/%2F", refusal(401, "User not authorised to access virtual host"))
	f.on("GET /api/exchanges/%2F/amq.direct", refusal(401, "User not authorised to access virtual host"))
	c := f.client(t)
	wantVhost(t, c.View(t.Context(), "/", func(*topology.Topology) {}), true, true)
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[]`})
	view(t, c, "/")
}

func TestWritesKeepSnapshot(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[{"name":"orders","type":"quorum","durable":true,"arguments":{"x-unknown":1}}]`})
	f.on("GET /api/exchanges/%2F", answer{status: 200, body: `[
		{"name":"auto","type":"fanout","durable":true,"auto_delete":true,"arguments":{}},
		{"name":"source","type":"fanout","durable":true,"auto_delete":true,"arguments":{}}]`})
	f.on("GET /api/bindings/%2F", answer{status: 200, body: `[
		{"source":"auto","destination":"orders","destination_type":"queue","routing_key":"","arguments":{}},
		{"source":"source","destination":"auto","destination_type":"exchange","routing_key":"","arguments":{}}]`})
	f.on(putOrders, hadIt)
	c := f.client(t)
	view(t, c, "/")
	if made, err := c.DeclareQueue(t.Context(), "/", orders); made || err != nil {
		t.Errorf("%v %v", made, err)
	}
	// RabbitMQ does not compare arguments it does not know: the old one stays.
	if q, _ := view(t, c, "/").Queue("orders"); len(q.Arguments) != 1 {
		t.Errorf("%v", q)
	}
	f.on("DELETE /api/queues/%2F/orders", hadIt)
	must(t, c.DeleteQueue(t.Context(), "/", orders, Always))
	if got := view(t, c, "/"); len(got.Exchanges()) != 0 || len(got.Bindings()) != 0 {
		t.Errorf("auto-delete exchanges outlive their bindings: %v %v", got.Exchanges(), got.Bindings())
	}
}

func TestPrefixIPv6AndHeaders(t *testing.T) {
	var got []*http.Request
	f := newFake(t)
	f.on("GET /some/pre%20fix/api/overview", answer{do: func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r)
		_, _ = w.Write([]byte(overviewBody("3.13.3")))
	}})
	c := f.client(t, func(cfg *Config) {
		cfg.Endpoint += "/some/pre%20fix///"
		cfg.UserAgent = "agent/1"
		cfg.Headers = map[string]string{"X-Token": "t", "host": "gateway.example", "authorization": "Bearer b"}
	})
	info, err := c.Info(t.Context())
	must(t, err)
	if !info.Version.AtLeast("3.13.3") || slices.Contains(info.ExchangeTypes, "topic") || !slices.Contains(info.ExchangeTypes, "direct") {
		t.Errorf("%+v", info)
	}
	h := got[0].Header
	if h.Get("User-Agent") != "agent/1" || h.Get("X-Token") != "t" ||
		h.Get("Authorization") != "Bearer b" || got[0].Host != "gateway.example" {
		t.Errorf("%v %v", got[0].Host, h)
	}

	for _, endpoint := range []string{"http://[::1]:15672", "https://[fe80::1%25eth0]:15671/x/"} {
		c, err := New(Config{Endpoint: endpoint, Username: "u"})
		must(t, err)
		if want := strings.TrimRight(endpoint, "/"); c.Endpoint() != want {
			t.Errorf("%s, want %s", c.Endpoint(), want)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	var group sync.WaitGroup
	for i := range 100 {
		name := fmt.Sprintf("q%d", i)
		path := "/api/queues/%2F/" + name
		f.on("PUT "+path, answer{status: 500}, madeIt)
		f.on("DELETE "+path, hadIt)
		group.Go(func() {
			q := topology.Queue{Name: name, Durable: true}
			if _, err := c.DeclareQueue(t.Context(), "/", q); err != nil {
				t.Error(err)
			}
			if i%10 == 0 {
				c.Reload("/")
			}
			if err := c.View(t.Context(), "/", func(all *topology.Topology) { all.Queues() }); err != nil {
				t.Error(err)
			}
			if err := c.DeleteQueue(t.Context(), "/", q, Always); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
}

// The list tells which queues are down, and on which node they were.
func TestDownQueues(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/queues/%2F", answer{status: 200, body: `[
		{"name":"up","type":"classic","durable":true,"arguments":{},"state":"running","node":"rabbit@a"},
		{"name":"down","type":"classic","durable":true,"arguments":{},"state":"down","node":"rabbit@b"},
		{"name":"untold","type":"classic","durable":true,"arguments":{}}]`})
	c := f.client(t)
	down, err := c.DownQueues(t.Context(), "/")
	must(t, err)
	if len(down) != 1 || down["down"] != "rabbit@b" {
		t.Errorf("down: %v", down)
	}
	if queues := view(t, c, "/").Queues(); len(queues) != 3 {
		t.Errorf("queues: %v", queues)
	}
}
