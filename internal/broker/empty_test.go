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

func (d depths) Glance(_ context.Context, queue string) (messages.Depth, error) { return d[queue], nil }

func (d depths) Probe(context.Context, string) error { return nil }

func (d depths) Watch(context.Context, string) (watch, error) {
	return nil, errors.New("nothing to watch here")
}

func (d depths) MayPutBack(context.Context, string) error { return nil }

func (d depths) PutBack(context.Context, string, []string, []messages.Message) ([]messages.Message, error) {
	return nil, errors.New("nothing to put back here")
}

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
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/queues/%2F/q", test.answers...)
			c := f.client(t)
			c.openSession = func(context.Context, string) (session, error) { return depths{"q": test.depth}, nil }
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
	c.openSession = func(context.Context, string) (session, error) { return depths{"q": {}}, nil }
	c.proof.patience = 20 * time.Millisecond
	unproved, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{{Name: "q"}})
	must(t, err)
	if len(unproved) != 1 || !strings.Contains(unproved[0].String(), "has not reported") {
		t.Errorf("%v", unproved)
	}
}

// looks is a broker that gives each look over AMQP another answer, and then the last
// one again.
type looks struct {
	depths
	list []depths
	err  error
}

func (l *looks) Depths(ctx context.Context, queues []string) (map[string]messages.Depth, error) {
	now := l.list[0]
	if len(l.list) > 1 {
		l.list = l.list[1:]
	}
	if l.err != nil {
		return nil, l.err
	}
	return now.Depths(ctx, queues)
}

// A queue is gone only if management API and AMQP agree; else nobody knows.
func TestProveEmptyOfGoneQueues(t *testing.T) {
	const (
		listed = `[{"name":"other"},{"name":"q","type":"classic","state":"down","node":"rabbit@b"}]`
		none   = `[{"name":"other"}]`
	)
	empty, missing := countsBody(0, 0, 0), refusal(404, "Not Found")
	here, gone := depths{"q": {}}, depths{}
	away := &messages.UnavailableError{Queue: "q", Answer: "home node 'rabbit@b' of durable queue 'q' is down"}
	for _, test := range []struct {
		name, version string
		answers       []answer
		list          string
		looks         looks
		// want is in the UnknownError, "" if the queue is gone
		want string
	}{
		{"gone", "4.0.5", []answer{missing}, none, looks{list: []depths{gone}}, ""},
		{"gone meanwhile", "4.0.5", []answer{empty, missing}, none, looks{list: []depths{here, gone}}, ""},
		{"gone between the answers", "4.0.5", []answer{empty}, none, looks{list: []depths{gone}}, ""},
		{"gone on 3.10", "3.10.8", []answer{missing}, none, looks{list: []depths{gone}}, ""},
		{"AMQP knows none", "4.0.5", []answer{empty}, listed, looks{list: []depths{gone}}, "AMQP says that it does not exist"},
		{"AMQP knows none at the second look", "4.0.5", []answer{empty}, listed, looks{list: []depths{here, gone}}, "AMQP says that it does not exist"},
		{"the API knows none", "4.0.5", []answer{missing}, none, looks{list: []depths{here}}, "AMQP says that it exists"},
		{"only the list knows it", "3.10.8", []answer{missing}, listed, looks{list: []depths{gone}}, "state down"},
		{"its node is down", "4.0.5", []answer{empty}, listed, looks{list: []depths{here}, err: away}, "home node 'rabbit@b'"},
		{"its node is down, and the API knows none", "3.10.8", []answer{missing}, none, looks{list: []depths{here}, err: away}, "home node 'rabbit@b'"},
		{"not counted and down", "4.0.5", []answer{noCounts}, listed, looks{list: []depths{here}}, "state down, node rabbit@b"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/overview", answer{status: 200, body: overviewBody(test.version)})
			f.on("GET /api/queues/%2F/q", test.answers...)
			f.on("GET /api/queues/%2F", answer{status: 200, body: test.list})
			f.on("GET /api/nodes", answer{status: 200, body: `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":false}]`})
			c := f.client(t)
			c.proof.patience = 20 * time.Millisecond
			c.openSession = func(context.Context, string) (session, error) { return &test.looks, nil }
			queues := []topology.Queue{{Name: "q", Type: topology.Classic}}
			unproved, err := c.ProveEmpty(t.Context(), "/", queues)
			if test.want == "" {
				must(t, err)
				if len(unproved) > 0 {
					t.Errorf("not gone: %v", unproved)
				}
				return
			}
			wantError[*UnknownError](t, err, `"q"`, `"/"`, test.want, "nodes down: rabbit@b")
		})
	}
}

// A DELETE that answers 404 proves nothing while the queue is listed.
func TestDeleteQueueThatIsListed(t *testing.T) {
	for _, mode := range []DeleteMode{OnlyIfEmpty, Always} {
		f := newFake(t)
		f.on("DELETE /api/queues/%2F/orders", refusal(404, "Not Found"))
		c := f.client(t)
		classic := topology.Queue{Name: "orders", Type: topology.Classic}
		must(t, c.DeleteQueue(t.Context(), "/", classic, mode))
		f.on("GET /api/queues/%2F", answer{status: 200, body: `[{"name":"orders","type":"classic","state":"down","node":"rabbit@b"}]`})
		wantError[*UnknownError](t, c.DeleteQueue(t.Context(), "/", classic, mode), "orders", "rabbit@b", "404")
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
	c.sleep = Sleep
	c.proof.interval = 200 * time.Millisecond
	c.openSession = func(context.Context, string) (session, error) { return all, nil }
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
	if took := time.Since(began); took < 200*time.Millisecond || took > 5*time.Second {
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
	c.openSession = func(context.Context, string) (session, error) { return nil, boom }
	if _, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders}); !errors.Is(err, boom) {
		t.Errorf("%v", err)
	}
	if _, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders}); f.count("GET /api/queues") != 0 {
		t.Errorf("counted before AMQP answered: %v", err)
	}
	c.openSession = func(context.Context, string) (session, error) { return depths{}, nil }
	f.on("GET /api/queues/%2F/orders", answer{status: 500})
	_, err := c.ProveEmpty(t.Context(), "/", []topology.Queue{orders})
	wantError[*APIError](t, err, "count the messages")
	f.on("GET /api/queues/%2F/orders", countsBody(0, 0, 0))
	c.openSession = func(context.Context, string) (session, error) { return depths{"orders": {}}, nil }
	c.sleep = Sleep
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.ProveEmpty(ctx, "/", []topology.Queue{orders}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}

// The times without a setting are those that outlast the counts of a broker with
// RabbitMQ's defaults.
func TestDefaultTimes(t *testing.T) {
	c, err := New(Config{Endpoint: "http://localhost:15672", Username: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	want := proofTiming{
		interval: 10 * time.Second, patience: 20 * time.Second, poll: 2 * time.Second, settle: 2 * time.Minute,
		leader: 10 * time.Second, soon: 4 * time.Second, grace: 30 * time.Second,
	}
	if c.proof != want || c.StatisticsInterval() != 5*time.Second {
		t.Errorf("times %+v, interval %s, want %+v", c.proof, c.StatisticsInterval(), want)
	}
}

// A full queue does not stop the proof of the others.
func TestEmptiness(t *testing.T) {
	f := newFake(t)
	full, none := countsBody(1, 1, 0), countsBody(0, 0, 0)
	for name, answers := range map[string][]answer{
		"empty": {none}, "full": {full}, "exact": {none}, "old": {full, none}, "filled": {none, full}, "gone": {refusal(404, "Not Found")}, "going": {none, refusal(404, "Not Found")},
	} {
		f.on("GET /api/queues/%2F/"+name, answers...)
	}
	c := f.client(t)
	c.openSession = func(context.Context, string) (session, error) {
		before := depths{"empty": {}, "full": {}, "exact": {Ready: 2}, "old": {}, "filled": {}, "going": {}, "other": {}}
		after := maps.Clone(before)
		delete(after, "going")
		return &looks{list: []depths{before, after}}, nil
	}
	var queues []topology.Queue
	for _, name := range []string{"exact", "full", "empty", "old", "filled", "gone", "going"} {
		queues = append(queues, topology.Queue{Name: name})
	}
	empty, rest, err := c.Emptiness(t.Context(), "/", queues)
	must(t, err)
	var names []string
	for _, seen := range rest {
		names = append(names, seen.Queue)
	}
	if got := fmt.Sprint(empty, names, f.slept); got != "[empty old] [exact full filled] [10s 10s]" {
		t.Error(got)
	}
	f.slept = nil
	empty, rest, err = c.Emptiness(t.Context(), "/", queues[:1])
	if len(empty) != 0 || len(rest) != 1 || err != nil || len(f.slept) != 0 {
		t.Errorf("%v %v %v after %v", empty, rest, err, f.slept)
	}
}

func TestPendingDeadLetters(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	for _, test := range []struct {
		counts Counts
		want   int64
		known  bool
	}{
		{Counts{}, 0, true},
		{Counts{Exists: true}, 0, false},
		{Counts{Exists: true, DeadLetters: n(0)}, 0, false}, // 4.3 says this of a queue it has not counted yet
		{Counts{Exists: true, Messages: n(9), Ready: n(2), Unacknowledged: n(3)}, 4, true},
		{Counts{Exists: true, Messages: n(9), Ready: n(2), Unacknowledged: n(3), Delayed: n(4), DeadLetters: n(0)}, 0, true},
		{Counts{Exists: true, Messages: n(5), Ready: n(2), Unacknowledged: n(3), DeadLetters: n(1)}, 1, true},
		{Counts{Exists: true, Messages: n(1), Ready: n(2), Unacknowledged: n(3)}, 0, true},
	} {
		if got, known := test.counts.PendingDeadLetters(); got != test.want || known != test.known {
			t.Errorf("%+v: %d, %v", test.counts, got, known)
		}
	}
}

// mute is a broker whose queues do not answer.
type mute struct{ depths }

func (mute) Probe(context.Context, string) error {
	return &messages.BrokerError{Code: 541, Reason: "INTERNAL_ERROR"}
}

// locked is a broker whose queues belong to another consumer.
type locked struct{ depths }

func (locked) Probe(context.Context, string) error {
	return &messages.BrokerError{Code: 405, Reason: "RESOURCE_LOCKED"}
}

func queueBody(kind, state, counts string, online ...string) answer {
	list := "[]"
	if len(online) > 0 {
		list = `["` + strings.Join(online, `","`) + `"]`
	}
	return answer{status: 200, body: fmt.Sprintf(`{"name":"q","type":%q,"state":%q,"members":["a","b"],"online":%s%s}`, kind, state, list, counts)}
}

// What members of a quorum queue say of their Raft servers (4.0.5 and 4.3.6).
const (
	emptyLog   = `{"Node Name":"a","Raft State":"follower","Last Log Index":0,"Last Written":-1,"Snapshot Index":-1,"Term":0}`
	fullLog    = `{"Node Name":"a","Raft State":"follower","Last Log Index":12,"Last Written":12,"Snapshot Index":-1,"Term":1}`
	snapshots  = `{"Node Name":"a","Raft State":"follower","Last Log Index":0,"Last Written":0,"Snapshot Index":4096,"Term":1}`
	recovering = `{"Node Name":"a","Raft State":"recover","Last Log Index":0,"Last Written":0,"Snapshot Index":-1,"Term":0}`
	noServer   = `{"Node Name":"a","Raft State":"noproc","Last Log Index":"","Last Written":"","Snapshot Index":"","Term":""}`
	crashed    = `{"Node Name":"a","Raft State":"noproc","Last Log Index":0,"Last Written":0,"Snapshot Index":-1,"Term":0}`
	nodeDown   = `{"Node Name":"a","Raft State":"nodedown","Last Log Index":"","Last Written":"","Snapshot Index":"","Term":""}`
)

func raftBody(members ...string) answer {
	return answer{status: 200, body: "[" + strings.Join(members, ",") + "]"}
}

// A quorum queue that does not answer is half made only if every member is certain to
// hold nothing.
func TestNeverHeld(t *testing.T) {
	const one, two, bound = `["a"]`, `["a","b"]`, `[{"source":"e","destination":"q","destination_type":"queue"}]`
	for _, test := range []struct {
		name, members, online string
		raft                  answer
		counts, bindings      string
		removed               bool
	}{
		{"empty logs", two, two, raftBody(emptyLog, emptyLog), "", `[]`, true},
		{"no servers", two, two, raftBody(noServer, noServer), "", `[]`, true},
		{"one empty, one without", two, two, raftBody(emptyLog, noServer), "", `[]`, true},
		{"entries", two, two, raftBody(emptyLog, fullLog), "", `[]`, false},
		{"a snapshot", one, one, raftBody(snapshots), "", `[]`, false},
		{"recovering", one, one, raftBody(recovering), "", `[]`, false},
		{"crashed", one, one, raftBody(crashed), "", `[]`, false},
		{"a node down", two, two, raftBody(emptyLog, nodeDown), "", `[]`, false},
		{"a member says nothing", two, two, raftBody(emptyLog), "", `[]`, false},
		{"4.0 without a server", one, one, answer{status: 500}, "", `[]`, true},
		{"4.0 without one of two servers", two, two, answer{status: 500}, "", `[]`, false},
		{"3.10 without a server", one, `[]`, refusal(400, ""), "", `[]`, true},
		{"3.10 without a server, half deleted", one, `[]`, refusal(400, ""), `,"messages":0`, bound, true},
		{"3.10 without a server, bound", one, `[]`, refusal(400, ""), "", bound, false},
		{"3.10 with a server", one, one, refusal(400, ""), "", `[]`, true},
		{"3.10 with a server, bound", one, one, refusal(400, ""), "", bound, false},
		{"3.10 with a server, counted", one, one, refusal(400, ""), `,"messages":0`, `[]`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			if strings.HasPrefix(test.name, "3.10") {
				f.on("GET /api/overview", answer{status: 200, body: overviewBody("3.10.8")})
			}
			body := fmt.Sprintf(`{"name":"q","type":"quorum","state":"running","members":%s,"online":%s%s}`, test.members, test.online, test.counts)
			f.on("GET /api/queues/%2F/q", answer{status: 200, body: body})
			f.on("GET /api/queues/%2F", answer{status: 200, body: "[" + body + "]"})
			f.on("GET /api/queues/%2F/q/bindings", answer{status: 200, body: test.bindings})
			f.on("GET /api/queues/quorum/%2F/q/status", test.raft)
			f.on("DELETE /api/queues/%2F/q", hadIt)
			c := f.client(t)
			c.proof.patience = 0
			c.openSession = func(context.Context, string) (session, error) { return mute{}, nil }
			removed, err := c.RemoveHalfMade(t.Context(), "/", []topology.Queue{{Name: "q", Type: topology.Quorum}})
			if test.removed {
				must(t, err)
			} else {
				wantError[*UnknownError](t, err, `"q"`, "it does not answer")
			}
			if (len(removed) == 1) != test.removed || (f.count("DELETE") == 1) != test.removed {
				t.Errorf("removed %v, %d deletions", removed, f.count("DELETE"))
			}
			looks, err := c.LooksHalfMade(t.Context(), "/", "q")
			if must(t, err); looks != test.removed {
				t.Errorf("looks half made: %v", looks)
			}
		})
	}
}

func TestRemoveHalfMade(t *testing.T) {
	half := queueBody("quorum", "running", "", "a", "b")
	for _, test := range []struct {
		name    string
		answers []answer
		session session
		removed bool
		waits   int
	}{
		{"half made", []answer{half}, mute{}, true, 0},
		{"it answers", []answer{half}, depths{}, false, 0},
		{"it answers that it is locked", []answer{half}, locked{}, false, 0},
		{"half deleted", []answer{queueBody("quorum", "running", `,"messages":0`, "a", "b")}, mute{}, true, 0},
		{"messages", []answer{queueBody("quorum", "running", `,"messages":1`, "a", "b")}, mute{}, false, 0},
		{"messages over AMQP", []answer{half}, mute{depths{"q": {Ready: 1}}}, false, 0},
		{"counts come", []answer{half, queueBody("quorum", "running", `,"messages":7`, "a", "b")}, mute{}, false, 1},
		{"a member is away", []answer{queueBody("quorum", "running", "", "a")}, mute{}, false, 0},
		{"all members are away", []answer{queueBody("quorum", "running", "")}, mute{}, false, 0},
		{"down", []answer{queueBody("quorum", "down", "", "a", "b")}, mute{}, false, 0},
		{"classic", []answer{queueBody("classic", "running", "", "a", "b")}, mute{}, false, 0},
		{"stream", []answer{queueBody("stream", "running", "", "a", "b")}, mute{}, false, 0},
		{"gone", []answer{refusal(404, "Not Found")}, mute{}, false, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/queues/%2F/q", test.answers...)
			f.on("GET /api/queues/quorum/%2F/q/status", raftBody(emptyLog, emptyLog))
			f.on("DELETE /api/queues/%2F/q", answer{status: 204})
			c := f.client(t)
			c.proof.patience = time.Nanosecond
			if test.waits > 0 {
				c.proof.patience = time.Hour
			}
			c.openSession = func(context.Context, string) (session, error) { return test.session, nil }
			removed, err := c.RemoveHalfMade(t.Context(), "/", []topology.Queue{{Name: "q", Type: topology.Quorum}, {Name: "other", Type: topology.Classic}})
			must(t, err)
			if (len(removed) == 1) != test.removed || (f.count("DELETE") == 1) != test.removed || len(f.slept) != test.waits {
				t.Errorf("removed %v, %d deletions, waited %v", removed, f.count("DELETE"), f.slept)
			}
		})
	}
}

// A node that has just started may be recovering its queues.
func TestUnsettled(t *testing.T) {
	const settle = 2 * time.Minute
	for _, test := range []struct {
		name  string
		nodes answer
		want  time.Duration
	}{
		{"old", answer{status: 200, body: `[{"running":true,"uptime":999000},{"running":true,"uptime":120000}]`}, 0},
		{"one is young", answer{status: 200, body: `[{"running":true,"uptime":999000},{"running":true,"uptime":30000}]`}, 90 * time.Second},
		{"one is down", answer{status: 200, body: `[{"running":true,"uptime":999000},{"running":false}]`}, 0},
		{"no uptime", answer{status: 200, body: `[{"running":true}]`}, settle},
		{"no nodes", answer{status: 200, body: `[]`}, settle},
		{"not allowed", refusal(401, "Not authorized"), settle},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/nodes", test.nodes)
			c := f.client(t)
			c.proof.settle = settle
			if got := c.unsettled(t.Context()); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// Only queues that are proved empty and that nothing uses are taken for unfinished.
func TestRemoveUnfinished(t *testing.T) {
	const path, unknown, none = "/api/queues/%2F/q", "", `,"messages":0,"messages_ready":0,"messages_unacknowledged":0`
	quorum := topology.Queue{Name: "q", Type: topology.Quorum}
	for _, test := range []struct {
		name, version string
		queue         topology.Queue
		bindings      string
		counts        string
		scene         scene
		removed       bool
	}{
		{"empty", "4.0.9", quorum, `[]`, none, scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, true},
		{"whole from the start", "4.1.0", quorum, `[]`, none, scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, false},
		{"half made", "4.1.0", quorum, `[]`, unknown, scene{probeErr: &messages.BrokerError{Code: 541}}, true},
		{"bound", "4.0.9", quorum, `[{"source":"e","destination":"q","destination_type":"queue"}]`, none, scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, false},
		{"dead letters on their way", "4.0.9", quorum, `[]`, none + `,"messages_dlx":1`, scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, false},
		{"not counted", "4.0.9", quorum, `[]`, unknown, scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, false},
		{"full", "4.0.9", quorum, `[]`, none, scene{depths: depths{"q": {Ready: 1}}}, false},
		{"consumed", "4.0.9", quorum, `[]`, none, scene{depths: depths{"q": {Consumers: 1}}}, false},
		{"classic", "4.0.9", topology.Queue{Name: "q", Type: topology.Classic}, `[]`, none, scene{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/overview", answer{status: 200, body: overviewBody(test.version)})
			f.on("GET "+path, queueBody("quorum", "running", test.counts, "a", "b"))
			f.on("GET "+path+"/bindings", answer{status: 200, body: test.bindings})
			f.on("GET /api/queues/quorum/%2F/q/status", raftBody(emptyLog, emptyLog))
			f.on("DELETE "+path, hadIt)
			c := f.client(t)
			c.proof.patience = 0
			c.openSession = func(context.Context, string) (session, error) { return &test.scene, nil }
			removed, err := c.RemoveUnfinished(t.Context(), "/", []topology.Queue{test.queue})
			must(t, err)
			if (len(removed) == 1) != test.removed || (f.count("DELETE") == 1) != test.removed {
				t.Errorf("removed %v, %d deletions", removed, f.count("DELETE"))
			}
		})
	}
}

// A declaration that may have been broken off is made again when nothing uses the
// queue.
func TestDeclareQueueAgain(t *testing.T) {
	const path = "/api/queues/%2F/q"
	f := newFake(t)
	f.on("GET /api/overview", answer{status: 200, body: overviewBody("4.0.9")})
	f.on("PUT "+path, answer{status: 502}, answer{status: 204}, answer{status: 201})
	f.on("GET "+path, queueBody("quorum", "running", `,"messages":0,"messages_ready":0,"messages_unacknowledged":0`, "a", "b"))
	f.on("GET "+path+"/bindings", answer{status: 200, body: `[]`})
	f.on("DELETE "+path, hadIt)
	c := f.client(t)
	c.openSession = func(context.Context, string) (session, error) {
		return &scene{depths: depths{"q": {}}, watched: messages.Depth{Consumers: 1}, gone: true}, nil
	}
	made, err := c.DeclareQueue(t.Context(), "/", topology.Queue{Name: "q", Type: topology.Quorum, Durable: true})
	must(t, created(made, err))
	if f.count("PUT") != 3 || f.count("DELETE") != 1 {
		t.Errorf("%d declarations and %d deletions", f.count("PUT"), f.count("DELETE"))
	}
}
