package broker

import (
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// The key of a binding is the broker's, already encoded, and encoded again
// as a part of the path. Only bindings with the same key and arguments go.
func TestUnbind(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/bindings/%2F/e/a%2Fb/q/q", answer{status: 200, body: `[
		{"source":"a/b","destination":"q","destination_type":"queue","routing_key":"k 1","arguments":{},"properties_key":"k+1"},
		{"source":"a/b","destination":"q","destination_type":"queue","routing_key":"","arguments":{"n":"1"},"properties_key":"~text"},
		{"source":"a/b","destination":"q","destination_type":"queue","routing_key":"","arguments":{"n":1},"properties_key":"~long"},
		{"source":"a/b","destination":"q","destination_type":"queue","routing_key":"","arguments":{"n":1},"properties_key":"~short"},
		{"source":"a/b","destination":"q","destination_type":"queue","routing_key":"x/%","arguments":{},"properties_key":"x%2F%25"}]`})
	c := f.client(t)
	from := topology.Binding{Source: "a/b", Destination: "q", DestinationKind: topology.KindQueue}
	number, key, none := from, from, from
	number.Arguments = topology.Arguments{"n": int64(1)}
	key.RoutingKey = "x/%"
	none.RoutingKey = "nothing"
	for _, b := range []topology.Binding{number, key, none} {
		must(t, c.Unbind(t.Context(), "/", b))
	}
	var deleted []string
	for _, request := range f.requests {
		if path, ok := strings.CutPrefix(request, "DELETE /api/bindings/%2F/e/a%2Fb/q/q/"); ok {
			deleted = append(deleted, path)
		}
	}
	if got := strings.Join(deleted, " "); got != "~long ~short x%252F%2525" {
		t.Errorf("deleted %s", got)
	}

	f.on("GET /api/bindings/%2F/e/a/e/b", answer{status: 200, body: `[{"source":"a","destination":"b",
		"destination_type":"exchange","routing_key":"","arguments":{},"properties_key":"~"}]`})
	must(t, c.Unbind(t.Context(), "/", topology.Binding{Source: "a", Destination: "b", DestinationKind: topology.KindExchange}))
	if f.count("DELETE /api/bindings/%2F/e/a/e/b/~") != 1 {
		t.Errorf("%v", f.requests)
	}
}

func TestReadsPassTheSnapshot(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	view(t, c, "/")
	f.on("GET /api/exchanges/%2F/e", answer{status: 200, body: `{"name":"e","type":"fanout","durable":true,
		"auto_delete":false,"internal":false,"arguments":[]}`})
	f.on("GET /api/queues/%2F/q", answer{status: 200, body: `{"name":"q","durable":true,
		"arguments":{"x-queue-type":"quorum","x-message-ttl":1}}`})
	if exists, err := c.ExchangeExists(t.Context(), "/", "e"); !exists || err != nil {
		t.Error(exists, err)
	}
	q, exists, err := c.Queue(t.Context(), "/", "q")
	want := topology.Queue{Name: "q", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{topology.MessageTTL: int64(1)}}
	if !exists || err != nil || !q.Equal(want) {
		t.Error(q, exists, err)
	}
	if exists, err := c.ExchangeExists(t.Context(), "/", "other"); exists || err != nil {
		t.Error(exists, err)
	}
}

// Twenty objects that are missing are not asked for forty times.
func TestMissingObjectsAreCheap(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	for range 20 {
		if _, exists, err := c.Queue(t.Context(), "/", "q"); exists || err != nil {
			t.Fatal(exists, err)
		}
	}
	if n := f.count(""); n != 22 { // one for the virtual host, one for the version
		t.Errorf("%d requests", n)
	}
}

func TestNamesThatCannotStandInAPath(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	for _, name := range []string{"", ".", "..", "\xff"} {
		_, errs := c.DeclareExchange(t.Context(), "/", topology.Exchange{Name: name, Type: topology.Fanout})
		for _, err := range []error{
			errs,
			c.DeleteExchange(t.Context(), "/", name),
			c.DeleteQueue(t.Context(), "/", topology.Queue{Name: name}, Always),
			c.DeleteQueue(t.Context(), name, orders, Always),
			c.Bind(t.Context(), "/", topology.Binding{Source: name, Destination: "q", DestinationKind: topology.KindQueue}),
			c.Unbind(t.Context(), "/", topology.Binding{Source: "e", Destination: name, DestinationKind: topology.KindQueue}),
			c.Bind(t.Context(), "/", topology.Binding{Source: "e", Destination: "q", DestinationKind: "x" + "y"}),
		} {
			if err == nil {
				t.Errorf("%q: no error", name)
			}
		}
	}
	if n := f.count(""); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// A binding whose first try was broken off is deleted and made again: RabbitMQ
// 4.0.5 may list it although no message goes through it.
func TestBindAgain(t *testing.T) {
	f := newFake(t)
	f.on("POST /api/bindings/%2F/e/x/q/q", cut(true), answer{status: 201})
	f.on("GET /api/bindings/%2F/e/x/q/q", answer{status: 200, body: `[
		{"source":"x","destination":"q","destination_type":"queue","routing_key":"k","arguments":{},"properties_key":"k"}]`})
	must(t, f.client(t).Bind(t.Context(), "/", topology.Binding{Source: "x", Destination: "q", DestinationKind: topology.KindQueue, RoutingKey: "k"}))
	var writes []string
	for _, request := range f.requests {
		if method, _, _ := strings.Cut(request, " "); method != "GET" {
			writes = append(writes, method)
		}
	}
	if got := strings.Join(writes, " "); got != "POST POST DELETE POST" {
		t.Errorf("the writes are %s", got)
	}
}

// An exchange stays while the queue exists whose messages leave through it.
func TestDeleteUnfed(t *testing.T) {
	const path = "/api/exchanges/%2F/orders.return.5s"
	f := newFake(t)
	f.on("GET /api/queues/%2F/orders.retry.5s", answer{status: 200, body: `{"name":"orders.retry.5s","type":"classic"}`}, refusal(404, "Not Found"))
	f.on("DELETE "+path, hadIt)
	c := f.client(t)
	stages := []topology.Stage{{{DeleteUnfed: &topology.Unfed{Exchange: topology.Exchange{Name: "orders.return.5s"}, Queue: "orders.retry.5s"}}}}
	wantError[*FedError](t, c.Apply(t.Context(), "/", stages, OnlyIfEmpty, nil), `queue "orders.retry.5s"`)
	if f.count("DELETE "+path) != 0 {
		t.Fatal("deleted all the same")
	}
	must(t, c.Apply(t.Context(), "/", stages, OnlyIfEmpty, nil))
	if f.count("DELETE "+path) != 1 {
		t.Error("not deleted")
	}
}
