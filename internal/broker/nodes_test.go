package broker

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestNodesDown(t *testing.T) {
	t.Parallel()
	const two = `[{"name":"rabbit@c","running":false},{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":false}]`
	for _, test := range []struct {
		name   string
		answer answer
		down   []string
		known  bool
		text   string
	}{
		{"two of three", answer{status: 200, body: two}, []string{"rabbit@b", "rabbit@c"}, true, "nodes down: rabbit@b, rabbit@c"},
		{"none", answer{status: 200, body: `[{"name":"rabbit@a","running":true}]`}, nil, true, ""},
		{"not shown", refusal(401, "Not monitor user"), nil, false, ""},
		{"busy", answer{status: 503}, nil, false, ""},
		{"other JSON", answer{status: 200, body: `{}`}, nil, false, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /api/nodes", test.answer)
			c := f.client(t)
			down, known := c.NodesDown(t.Context())
			if !slices.Equal(down, test.down) || known != test.known {
				t.Errorf("%v, %v", down, known)
			}
			if n := f.count("GET /api/nodes"); n != 1 {
				t.Errorf("%d requests", n)
			}
			if text := c.DownText(t.Context()); text != test.text {
				t.Errorf("%q", text)
			}
		})
	}
}

// The text of an expired time-out wants to name the nodes; one of a cancelled run does
// not wait for them.
func TestNodesDownAfterTheEnd(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("GET /api/nodes", answer{status: 200, body: `[{"name":"rabbit@b","running":false}]`})
	c := f.client(t)
	expired, stop := context.WithDeadline(t.Context(), time.Now())
	defer stop()
	if down, _ := c.NodesDown(expired); len(down) != 1 {
		t.Errorf("after the deadline: %v", down)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if down, known := c.NodesDown(cancelled); known || len(down) > 0 {
		t.Errorf("after a cancellation: %v", down)
	}
}

const (
	twoDown = `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":false},{"name":"rabbit@c","running":false}]`
	oneDown = `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":true},{"name":"rabbit@c","running":false}]`
)

// Without a majority of the nodes a write is given up after two looks at the nodes, and
// what follows at once; reads go on.
func TestNoMajority(t *testing.T) {
	t.Parallel()
	silent := answer{do: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }}
	for name, a := range map[string]answer{
		"no answer": silent, "503": {status: 503}, "metadata store": refusal(400, storeError), "cut": cut(false),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /api/nodes", answer{status: 200, body: twoDown})
			f.on("GET /api/queues/%2F/orders", answer{status: 200, body: `{"name":"orders","state":"minority","members":["rabbit@a","rabbit@b","rabbit@c"],"online":["rabbit@a"]}`})
			f.on(putOrders, a)
			c := f.client(t)
			c.stall = time.Millisecond
			c.sleep = Sleep
			_, err := c.DeclareQueue(t.Context(), "/", orders)
			wantError[*NodesDownError](t, err, `declare queue "orders"`, "2 of 3 nodes are down: rabbit@b, rabbit@c", "1 of 3 members online")
			if n := f.count("PUT"); n > 2 {
				t.Errorf("%d tries", n)
			}
			before := f.count("PUT")
			_, err = c.DeclareQueue(t.Context(), "/", orders)
			wantError[*NodesDownError](t, err, "rabbit@b")
			if n := f.count("PUT"); n != before {
				t.Error("what follows is not given up at once")
			}
			c.stall = time.Minute
			if _, err := c.Vhosts(t.Context()); err != nil { // reads go on
				t.Error(err)
			}
		})
	}
}

// While a majority is there, a request has the whole time of one try.
func TestOneNodeDown(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("GET /api/nodes", answer{status: 200, body: oneDown})
	f.on(putOrders, answer{status: 503}, answer{status: 503}, madeIt)
	c := f.client(t)
	c.stall = 0
	made, err := c.DeclareQueue(t.Context(), "/", orders)
	if !made || err != nil {
		t.Error(made, err)
	}

	f.on(putOrders, answer{do: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
	// The list of nodes must arrive within this time, on a busy machine too.
	c = f.client(t, func(cfg *Config) { cfg.RequestTimeout = 2 * time.Second })
	c.stall = 5 * time.Millisecond
	_, err = c.DeclareQueue(t.Context(), "/", orders)
	wantError[*NodesDownError](t, err, "no answer within", "1 of 3 nodes are down: rabbit@c")
	if n := f.count("PUT"); n != 4 {
		t.Errorf("%d tries, want 4", n)
	}
	// A majority can undo.
	f.on(putOrders, madeIt)
	if _, err := c.DeclareQueue(t.Context(), "/", orders); err != nil {
		t.Error(err)
	}
}

// Each node counts the messages that it holds back itself: only of a single node is the
// number that of all.
func TestHeldBack(t *testing.T) {
	t.Parallel()
	const one, two = `[{"name":"rabbit@a","running":true}]`, `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":false}]`
	for _, test := range []struct {
		name     string
		exchange string
		nodes    answer
		n        int64
		why      string
	}{
		{"none on the only node", `{"name":"e","messages_delayed":0}`, answer{status: 200, body: one}, 0, ""},
		{"some", `{"name":"e","messages_delayed":3}`, answer{status: 200, body: two}, 3, ""},
		{"none on one of two", `{"name":"e","messages_delayed":0}`, answer{status: 200, body: two}, 0, "the cluster has 2 nodes"},
		{"nodes not shown", `{"name":"e","messages_delayed":0}`, refusal(401, "Not monitor user"), 0, "tag monitoring"},
		{"not counted", `{"name":"e"}`, answer{status: 200, body: one}, 0, "plugin"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /api/nodes", test.nodes)
			f.on("GET /api/exchanges/%2F/e", answer{status: 200, body: test.exchange})
			n, why, err := f.client(t).HeldBack(t.Context(), "/", "e")
			must(t, err)
			if n != test.n || (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
				t.Errorf("%d, %q", n, why)
			}
		})
	}
}
