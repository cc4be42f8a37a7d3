package broker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// depths is what a fake broker answers over AMQP.
type depths map[string]messages.Depth

func (d depths) Depths(_ context.Context, queues []string) (map[string]messages.Depth, error) {
	found := maps.Clone(d)
	maps.DeleteFunc(found, func(name string, _ messages.Depth) bool {
		for _, q := range queues {
			if q == name {
				return false
			}
		}
		return true
	})
	return found, nil
}

func (d depths) Close() error { return nil }

func countsBody(messages, ready, unacknowledged int) answer {
	return answer{status: 200, body: fmt.Sprintf(`{"name":"q","messages":%d,"messages_ready":%d,"messages_unacknowledged":%d}`, messages, ready, unacknowledged)}
}

var noCounts = answer{status: 200, body: `{"name":"q"}`}

func TestProveEmpty(t *testing.T) {
	empty := countsBody(0, 0, 0)
	long := func(n int, then ...answer) []answer {
		var list []answer
		for range n {
			list = append(list, noCounts)
		}
		return append(list, then...)
	}
	for _, test := range []struct {
		name    string
		answers []answer
		depth   messages.Depth
		proved  bool
		// waits in the order they are asked for
		waits []time.Duration
	}{
		{"empty twice", []answer{empty, empty}, messages.Depth{}, true, []time.Duration{10 * time.Second}},
		{"a consumer", []answer{empty, empty}, messages.Depth{Consumers: 1}, false, nil},
		{"old counts", []answer{countsBody(1, 1, 0), empty}, messages.Depth{}, true, []time.Duration{10 * time.Second, 10 * time.Second}},
		{"ready", []answer{countsBody(1, 1, 0)}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{"unacknowledged", []answer{countsBody(1, 0, 1)}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{"a total above its parts", []answer{countsBody(1, 0, 0)}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{"parts above their total", []answer{countsBody(0, 1, 0)}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{"ready over AMQP", []answer{empty}, messages.Depth{Ready: 1}, false, nil},
		{"false zeros first", []answer{empty, countsBody(300, 300, 0)}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{"no count the second time", []answer{empty, noCounts}, messages.Depth{}, false, []time.Duration{10 * time.Second}},
		{
			"a count too few",
			[]answer{empty, {status: 200, body: `{"messages":0,"messages_ready":0}`}},
			messages.Depth{},
			false,
			[]time.Duration{10 * time.Second},
		},
		{
			"waiting to be dead-lettered",
			[]answer{{status: 200, body: `{"messages":0,"messages_ready":0,"messages_unacknowledged":0,"messages_dlx":1}`}},
			messages.Depth{},
			false,
			[]time.Duration{10 * time.Second},
		},
		{
			"delayed",
			[]answer{{status: 200, body: `{"messages":0,"messages_ready":0,"messages_unacknowledged":0,"messages_delayed":1}`}},
			messages.Depth{},
			false,
			[]time.Duration{10 * time.Second},
		},
		{
			"no counts yet",
			long(3, empty),
			messages.Depth{},
			true,
			[]time.Duration{2 * time.Second, 2 * time.Second, 2 * time.Second, 10 * time.Second},
		},
		{"gone", []answer{refusal(404, "Not Found")}, messages.Depth{}, true, nil},
		{"gone meanwhile", []answer{empty, refusal(404, "Not Found")}, messages.Depth{}, true, []time.Duration{10 * time.Second}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/queues/%2F/q", test.answers...)
			c := f.client(t)
			c.openDepths = func(context.Context, string) (depthReader, error) { return depths{"q": test.depth}, nil }
			unproved, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{{Name: "q", Type: topology.Quorum}})
			must(t, err)
			if proved := len(unproved) == 0; proved != test.proved {
				t.Errorf("not proved empty: %v", unproved)
			}
			for _, found := range unproved {
				if found.Queue != "q" || found.String() == "no messages" {
					t.Errorf("%+v: %s", found, found)
				}
			}
			if fmt.Sprint(f.slept) != fmt.Sprint(test.waits) {
				t.Errorf("waited %v, want %v", f.slept, test.waits)
			}
		})
	}
}

func TestProveEmptyWithoutCounts(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/queues/%2F/q", noCounts)
	c := f.client(t)
	c.openDepths = func(context.Context, string) (depthReader, error) { return depths{"q": {}}, nil }
	c.proof.patience = 20 * time.Millisecond
	unproved, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{{Name: "q"}})
	must(t, err)
	if len(unproved) != 1 || !strings.Contains(unproved[0].String(), "has not reported") {
		t.Errorf("%v", unproved)
	}
}

// Waits are shared by the queues of a call and by calls that run at once, and
// no request slot is held meanwhile.
func TestProveEmptySharesWaits(t *testing.T) {
	f := newFake(t)
	all := depths{}
	for i := range 40 {
		name := fmt.Sprint("q", i)
		all[name] = messages.Depth{}
		f.on("GET /api/queues/%2F/"+name, countsBody(0, 0, 0))
	}
	c := f.client(t, func(cfg *Config) { cfg.MaxParallelRequests = 2 })
	c.sleep = sleep
	c.proof.interval = 200 * time.Millisecond
	c.openDepths = func(context.Context, string) (depthReader, error) { return all, nil }
	began := time.Now()
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			unproved, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{{Name: fmt.Sprint("q", 2*i)}, {Name: fmt.Sprint("q", 2*i+1)}})
			if err != nil || len(unproved) != 0 {
				t.Error(unproved, err)
			}
		})
	}
	group.Wait()
	if took := time.Since(began); took < 200*time.Millisecond || took > time.Second {
		t.Errorf("took %s", took)
	}
}

func TestProveEmptyFailures(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	if unproved, err := c.ProveEmpty(t.Context(), "/", nil); unproved != nil || err != nil || f.count("") != 0 {
		t.Errorf("no queues: %v, %v", unproved, err)
	}
	boom := errors.New("boom")
	c.openDepths = func(context.Context, string) (depthReader, error) { return nil, boom }
	if _, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders}); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if _, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders}); f.count("GET /api/queues") != 0 {
		t.Errorf("counted before AMQP answered: %v", err)
	}
	c.openDepths = func(context.Context, string) (depthReader, error) { return depths{}, nil }
	f.on("GET /api/queues/%2F/orders", answer{status: 500})
	_, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders})
	wantError[*APIError](t, err, "count the messages")
	f.on("GET /api/queues/%2F/orders", countsBody(0, 0, 0))
	c.openDepths = func(context.Context, string) (depthReader, error) { return depths{"orders": {}}, nil }
	c.sleep = sleep
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.ProveEmpty(ctx, "/", []topology.Queue{orders}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if productionProof.interval < 10*time.Second {
		t.Error("the interval of production is too short")
	}
}

func TestDeleteQueueModes(t *testing.T) {
	path := "DELETE /api/queues/%2F/orders"
	f := newFake(t)
	f.on(path, hadIt)
	c := f.client(t)
	found := depths{"orders": {Ready: 3}}
	c.openDepths = func(context.Context, string) (depthReader, error) { return found, nil }
	wantError[*InUseError](t, c.DeleteQueue(t.Context(), "/", orders, OnlyIfEmpty), "3 ready")
	found["orders"] = messages.Depth{Consumers: 2}
	wantError[*InUseError](t, c.DeleteQueue(t.Context(), "/", orders, OnlyIfEmpty), "consumers (2)")
	if f.count(path) != 0 {
		t.Fatal("deleted all the same")
	}
	must(t, c.DeleteQueue(t.Context(), "/", orders, Always))
	delete(found, "orders")
	must(t, c.DeleteQueue(t.Context(), "/", orders, OnlyIfEmpty))
}
