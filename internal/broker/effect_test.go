package broker

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestIneffective asks which policies have no effect, with what RabbitMQ answers one after
// the other.
func TestIneffective(t *testing.T) {
	const list = "GET /api/queues/%2F"
	queues := answer{status: 200, body: `[{"name":"a","type":"classic","durable":true},{"name":"b","type":"classic","durable":true}]`}
	row := func(queue, policy, definition string) string {
		return fmt.Sprintf(`{"name":%q,"policy":%q%s}`, queue, policy, definition)
	}
	const (
		obeyed = `,"effective_policy_definition":{"dead-letter-exchange":"x","max-length":5}`
		other  = `,"effective_policy_definition":{"dead-letter-exchange":"y","max-length":10}`
		none   = `,"effective_policy_definition":{}`
		asList = `,"effective_policy_definition":[]`
	)
	for name, test := range map[string]struct {
		a, b     string
		later    string // what is said of a later on
		patience bool
		want     int
		lists    int
	}{
		"both in effect":       {row("a", "p", obeyed), row("b", "p", obeyed), "", true, 0, 1},
		"one of them":          {row("a", "p", none), row("b", "p", obeyed), "", false, 1, 1},
		"none as a list":       {row("a", "p", asList), row("b", "p", obeyed), "", false, 1, 1},
		"other settings":       {row("a", "p", other), row("b", "p", other), "", false, 2, 1},
		"late statistics":      {row("a", "p", none), row("b", "p", obeyed), row("a", "p", obeyed), true, 0, 2},
		"no statistics":        {row("a", "p", ""), row("b", "p", ""), "", true, 0, 1},
		"no statistics, other": {row("a", "", ""), row("b", "q", ""), "", false, 2, 1},
		"a queue is gone":      {row("a", "p", obeyed), row("c", "p", obeyed), "", true, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			answers := []answer{{status: 200, body: "[" + test.a + "," + test.b + "]"}, {status: 200, body: "[" + test.later + "," + test.b + "]"}}
			f.on("GET /api/policies/%2F", answer{status: 200, body: `[{"name":"p","pattern":"^.$","apply-to":"queues","priority":1,"definition":{"dead-letter-exchange":"x","max-length":10}}]`})
			f.on("GET /api/operator-policies/%2F", answer{status: 200, body: `[{"name":"o","pattern":"^.$","apply-to":"queues","priority":1,"definition":{"max-length":5}}]`})
			f.on(list, queues)
			c := f.client(t, func(cfg *Config) { cfg.StatisticsInterval = time.Minute })
			in := view(t, c, "/")
			p, _ := in.Policy("p")
			f.on(list, answers...)
			before := f.count(list)
			got, err := c.Ineffective(t.Context(), "/", []topology.Target{{Policy: p, Queue: topology.Queue{Name: "a"}}, {Policy: p, Queue: topology.Queue{Name: "b"}}}, test.patience)
			must(t, err)
			if len(got) != test.want {
				t.Errorf("%d targets, want %d: %v", len(got), test.want, got)
			}
			if n := f.count(list) - before; n != test.lists {
				t.Errorf("%d lists, want %d", n, test.lists)
			}
		})
	}
}

// TestDeletePolicyLooksAfterwards: queues that go on obeying a deleted policy are named, after
// three looks, and only queues that the policy matches are asked.
func TestDeletePolicyLooksAfterwards(t *testing.T) {
	const page = "GET /api/queues/%2F page"
	p := topology.Policy{Name: "p", Pattern: "^orders$", ApplyTo: topology.ApplyToQueues, Definition: topology.Arguments{"max-length": int64(5)}}
	obeyed, free := answer{status: 200, body: `{"items":[{"name":"orders","policy":"p"},{"name":"bills","policy":"q"}]}`}, answer{status: 200, body: `{"items":[{"name":"orders"}]}`}
	for name, test := range map[string]struct {
		answers []answer
		fails   bool
		looks   int
	}{
		"not obeyed":        {[]answer{free}, false, 1},
		"obeyed for a time": {[]answer{obeyed, obeyed, free}, false, 3},
		"obeyed":            {[]answer{obeyed}, true, 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.on("PUT /api/policies/%2F/p", answer{status: 204})
			f.on("DELETE /api/policies/%2F/p", answer{status: 204})
			f.on(page, test.answers...)
			err := f.client(t).DeletePolicy(t.Context(), "/", p)
			var still *StillObeyedError
			if errors.As(err, &still) != test.fails || err != nil && (len(still.Queues) != 1 || still.Queues[0] != `"orders"`) {
				t.Errorf("the error is %v", err)
			}
			if n := f.count(page); n != test.looks {
				t.Errorf("%d looks, want %d", n, test.looks)
			}
		})
	}
}

// TestIneffectiveAsksOnce reads one list however many ask, and none where no policy
// matters.
func TestIneffectiveAsksOnce(t *testing.T) {
	f := newFake(t)
	c := f.client(t)
	view(t, c, "/")
	before := f.count("")
	if got, err := c.Ineffective(t.Context(), "/", nil, true); len(got) != 0 || err != nil || f.count("") != before {
		t.Errorf("%v, %v, %d requests", got, err, f.count("")-before)
	}
	for range 3 {
		_, err := c.Ineffective(t.Context(), "/", []topology.Target{{Queue: topology.Queue{Name: "a"}}}, true)
		must(t, err)
	}
	if n := f.count("") - before; n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}
