package lifecycle_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// kind is a kind of resource, with the smallest configuration that has a queue of its own.
type kind struct {
	resource string
	config   map[string]any
	// name is the attribute that a replacement changes, queue one of the declared queues.
	name, queue string
	// id is the identifier without the virtual host.
	id string
	// needs is made before, by another resource.
	needs *kind
}

var tiers = kind{
	resource: "rabbitmq_retry_tiers", name: "name", queue: "retries.parking", id: "retries",
	config: map[string]any{"name": "retries", "delays": []any{"1m"}},
}

// kinds are all that share the lifecycle. Every test of this file runs for each.
var kinds = map[string]kind{
	"chain": {
		resource: "rabbitmq_retry_chain", name: "name", queue: "orders.parking", id: "orders",
		config: map[string]any{"name": "orders", "delays": []any{"1m"}},
	},
	"network": {
		resource: "rabbitmq_delay_network", name: "name", queue: "delays.unrouted", id: "delays",
		config: map[string]any{"name": "delays", "unit": "1s", "levels": 2},
	},
	"tiers": tiers,
	"attachment": {
		resource: "rabbitmq_retry_attachment", name: "queue", queue: "orders", id: "retries/orders", needs: &tiers,
		config: map[string]any{"tiers": "retries", "queue": "orders", "on_detach": "park"},
	},
}

// subject is a resource of a kind in a virtual host of its own.
type subject struct {
	kind
	t      *testing.T
	b      *rabbit.Broker
	vhost  string
	config map[string]any
	state  protocol.State
}

// eachKind runs the test for every kind of resource, on a broker that has them all.
func eachKind(t *testing.T, test func(t *testing.T, s *subject)) {
	t.Helper()
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for name, k := range kinds {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, newSubject(t, b, k))
			})
		}
	})
}

func newSubject(t *testing.T, b *rabbit.Broker, k kind) *subject {
	t.Helper()
	vhost := acctest.VHost(t, b)
	if k.needs != nil {
		needed := &subject{kind: *k.needs, t: t, b: b, vhost: vhost, config: with(k.needs.config, "vhost", vhost)}
		needed.apply(acctest.Server(t, b))
	}
	return &subject{kind: k, t: t, b: b, vhost: vhost, config: with(k.config, "vhost", vhost)}
}

func with(config map[string]any, name string, value any) map[string]any {
	changed := maps.Clone(config)
	changed[name] = value
	return changed
}

// server is a new process of the provider, as Terraform starts one for every plan.
func (s *subject) server() *protocol.Server { return acctest.Server(s.t, s.b) }

// through is the same subject behind a proxy.
func (s *subject) through(p *proxy.Proxy) *subject {
	behind, b := *s, *s.b
	b.Endpoint = p.URL
	behind.b = &b
	return &behind
}

// plan refreshes the state in a new process and plans.
func (s *subject) plan(config map[string]any) protocol.Plan {
	s.t.Helper()
	server, state := s.server(), s.state
	if state.Value.Type() != nil {
		var found protocol.Diagnostics
		if state, found = server.Read(s.t, s.resource, state); len(found.Errors()) > 0 {
			s.t.Fatal(found)
		}
	}
	return server.Plan(s.t, s.resource, config, state)
}

func (s *subject) apply(server *protocol.Server) {
	s.t.Helper()
	plan := s.plan(s.config)
	s.expectNoErrors(plan.Diagnostics)
	s.run(server, plan)
}

func (s *subject) run(server *protocol.Server, plan protocol.Plan) {
	s.t.Helper()
	var found protocol.Diagnostics
	s.state, found = server.Apply(s.t, s.resource, plan)
	s.expectNoErrors(found)
}

func (s *subject) expectNoErrors(found protocol.Diagnostics) {
	s.t.Helper()
	if len(found.Errors()) > 0 {
		s.t.Fatal(found)
	}
}

// expectWhole fails the test if a plan changes or says anything.
func (s *subject) expectWhole() {
	s.t.Helper()
	plan := s.plan(s.config)
	if len(plan.Diagnostics) > 0 || !plan.Planned.Equal(plan.Prior) {
		s.t.Errorf("the plan is not empty: %v\nfor %v\n%s", protocol.Go(plan.Planned), protocol.Go(plan.Prior), plan.Diagnostics)
	}
}

// expect fails the test unless one of the diagnostics has the summary and all words.
func expect(t *testing.T, found protocol.Diagnostics, summary string, words ...string) {
	t.Helper()
	for _, d := range found {
		missing := d.Summary != summary
		for _, word := range words {
			missing = missing || !strings.Contains(d.Detail, word)
		}
		if !missing {
			return
		}
	}
	t.Errorf("no %q with %q in\n%s", summary, words, found)
}

// objects counts the queues and exchanges of the virtual host that are not RabbitMQ's.
func (s *subject) objects() (names []string) {
	s.t.Helper()
	api := acctest.API(s.t, s.b)
	queues, err := api.ListQueuesIn(s.vhost)
	if err != nil {
		s.t.Fatal(err)
	}
	exchanges, err := api.ListExchangesIn(s.vhost)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, q := range queues {
		names = append(names, "queue "+q.Name)
	}
	for _, e := range exchanges {
		if e.Name != "" && !strings.HasPrefix(e.Name, "amq.") {
			names = append(names, "exchange "+e.Name)
		}
	}
	return names
}

// deleteQueue deletes the queue, but leaves something of the resource: one of which nothing is
// left goes from the state.
func (s *subject) deleteQueue() {
	s.t.Helper()
	if s.needs != nil {
		resp, err := acctest.API(s.t, s.b).DeclareBinding(s.vhost, rabbithole.BindingInfo{
			Source: "retries.return", Destination: "retries.parking", DestinationType: "queue", RoutingKey: s.queue,
		})
		acctest.Do(s.t, resp, err)
	}
	resp, err := acctest.API(s.t, s.b).DeleteQueue(s.vhost, s.queue)
	acctest.Do(s.t, resp, err)
}

// asUser is the same subject for a user who may configure nothing.
func (s *subject) asUser() *subject {
	s.t.Helper()
	api, user := acctest.API(s.t, s.b), "reader-"+s.vhost
	resp, err := api.PutUser(user, rabbithole.UserSettings{Name: user, Password: "s3cret-word", Tags: rabbithole.UserTags{"administrator"}})
	acctest.Do(s.t, resp, err)
	s.t.Cleanup(func() {
		resp, err := api.DeleteUser(user)
		acctest.Do(s.t, resp, err)
	})
	resp, err = api.UpdatePermissionsIn(s.vhost, user, rabbithole.Permissions{Configure: "^$", Write: ".*", Read: ".*"})
	acctest.Do(s.t, resp, err)
	limited, b := *s, *s.b
	b.Username, b.Password = user, "s3cret-word"
	limited.b = &b
	return &limited
}

// repeat sends the request to the broker itself, so that the request finds its object there.
func (s *subject) repeat(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	again, err := http.NewRequestWithContext(r.Context(), r.Method, s.b.Endpoint+r.URL.EscapedPath(), bytes.NewReader(body))
	if err != nil {
		s.t.Error(err)
		return
	}
	again.Header = r.Header.Clone()
	resp, err := http.DefaultClient.Do(again)
	if err != nil {
		s.t.Error(err)
		return
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusCreated {
		s.t.Errorf("the first request got %s", resp.Status)
	}
}
