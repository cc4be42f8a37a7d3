package broker

import (
	"testing"
)

func TestSameCluster(t *testing.T) {
	t.Parallel()
	named := func(name string) answer {
		return answer{status: 200, body: `{"rabbitmq_version":"4.0.5","node":"rabbit@a","cluster_name":"` + name + `"}`}
	}
	onIP := answer{status: 200, body: `{"rabbitmq_version":"4.0.5","node":"rabbit@10.0.0.1","cluster_name":"rabbit@a.example"}`}
	seen := []answer{{status: 200, body: `[{"name":"rabbit@a"},{"name":"rabbit@b"}]`}}
	hidden := []answer{{status: 401, body: `{"error":"not_authorized","reason":"Not monitor user"}`}}
	late := append([]answer{{status: 503}}, seen...)
	for _, test := range []struct {
		name     string
		api      []answer
		nodes    []answer
		amqp     string
		refused  bool
		requests int
	}{
		{"same", []answer{named("a")}, hidden, "a", false, 1},
		{"other", []answer{named("a")}, hidden, "b", true, 2},
		{"renamed meanwhile", []answer{named("a"), named("b")}, hidden, "b", false, 2},
		{"no name over AMQP", []answer{named("a")}, hidden, "", false, 0},
		{"no name in the API", []answer{named("")}, hidden, "b", false, 1},
		// Clusters whose name was not set.
		{"another node", []answer{named("rabbit@a.example")}, seen, "rabbit@b.example", false, 2},
		{"another node, nodes hidden", []answer{named("rabbit@a.example")}, hidden, "rabbit@b.example", false, 2},
		{"another machine", []answer{named("rabbit@a.example")}, seen, "rabbit@c.example", true, 2},
		{"another machine, nodes of IP addresses", []answer{onIP}, seen, "rabbit@c.example", false, 2},
		{"another machine, nodes of a busy broker", []answer{named("rabbit@a.example")}, late, "rabbit@c.example", true, 2},
		{"another name of a node", []answer{named("rabbit@a.example")}, seen, "hare@b.example", true, 2},
		{"a name that was set", []answer{named("rabbit@a.example")}, seen, "production", true, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t)
			f.on("GET /api/overview", test.api...)
			f.on("GET /api/nodes", test.nodes...)
			err := f.client(t).sameCluster(t.Context(), test.amqp, "amqp://b:5672")
			if test.refused {
				wantError[*ClusterError](t, err, f.URL, "amqp://b:5672", test.amqp)
			} else {
				must(t, err)
			}
			if n := f.count("GET /api/overview"); n != test.requests {
				t.Errorf("%d requests", n)
			}
		})
	}
}
