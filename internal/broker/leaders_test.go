package broker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

const threeNodes = `[{"name":"rabbit@a","running":true},{"name":"rabbit@b","running":true},{"name":"rabbit@c","running":true},
	{"name":"rabbit@down","running":false},{"name":"rabbit@drained","running":true,"being_drained":true}]`

// declaredOn lets the fake take queues "q0" to "q5", and returns the nodes that they
// were declared on. A node in lost cannot be contacted.
func declaredOn(t *testing.T, f *fake, lost ...string) *[]string {
	t.Helper()
	nodes := &[]string{}
	for i := range 6 {
		f.on(fmt.Sprintf("PUT /api/queues/%%2F/q%d", i), answer{do: func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var sent struct {
				Node      string         `json:"node"`
				Arguments map[string]any `json:"arguments"`
			}
			if err := json.Unmarshal(body, &sent); err != nil {
				t.Error(err)
			}
			if slices.Contains(lost, sent.Node) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"error":"bad_request","reason":"Node '%s' could not be contacted"}`, sent.Node)
				return
			}
			*nodes = append(*nodes, sent.Node)
			w.WriteHeader(http.StatusCreated)
		}})
	}
	return nodes
}

func declareSix(t *testing.T, c *Client, q topology.Queue) {
	t.Helper()
	for i := range 6 {
		q.Name = fmt.Sprintf("q%d", i)
		must(t, created(c.DeclareQueue(t.Context(), "/", q)))
	}
}

// The leaders of the quorum queues that one client declares are spread evenly over the
// running nodes.
func TestLeadersAreSpread(t *testing.T) {
	t.Parallel()
	quorum := topology.Queue{Type: topology.Quorum, Durable: true}
	chosen := quorum
	chosen.Arguments = topology.Arguments{topology.LeaderLocator: "client-local"}
	for _, test := range []struct {
		name  string
		nodes answer
		queue topology.Queue
		want  string
	}{
		{"three nodes", answer{status: 200, body: threeNodes}, quorum, "rabbit@a rabbit@a rabbit@b rabbit@b rabbit@c rabbit@c"},
		{"one node", answer{status: 200, body: `[{"name":"rabbit@a","running":true}]`}, quorum, ""},
		{"nodes not shown", refusal(401, "Not monitor user"), quorum, ""},
		{"classic", answer{status: 200, body: threeNodes}, topology.Queue{Type: topology.Classic, Durable: true}, ""},
		{"a locator is given", answer{status: 200, body: threeNodes}, chosen, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /api/nodes", test.nodes)
			nodes := declaredOn(t, f)
			declareSix(t, f.client(t), test.queue)
			slices.Sort(*nodes)
			if got := strings.TrimSpace(strings.Join(*nodes, " ")); got != test.want || len(*nodes) != 6 {
				t.Errorf("declared on %q, want %q", *nodes, test.want)
			}
			if n := f.count("GET /api/nodes"); n > 1 {
				t.Errorf("the nodes were listed %d times", n)
			}
		})
	}
}

// A node that dies between the list and the declaration does not fail the apply.
func TestLeaderOnALostNode(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.on("GET /api/nodes", answer{status: 200, body: threeNodes},
		answer{status: 200, body: strings.ReplaceAll(threeNodes, `"rabbit@b","running":true`, `"rabbit@b","running":false`)})
	nodes := declaredOn(t, f, "rabbit@b")
	declareSix(t, f.client(t), topology.Queue{Type: topology.Quorum, Durable: true})
	if len(*nodes) != 6 || !slices.Contains(*nodes, "") || slices.Contains(*nodes, "rabbit@b") {
		t.Errorf("declared on %q", *nodes)
	}
	if n := f.count("GET /api/nodes"); n != 2 {
		t.Errorf("the nodes were listed %d times, want again after the failure", n)
	}
}
