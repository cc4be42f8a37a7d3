package delaynetwork_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const networkType = "rabbitmq_delay_network"

// lost is an object that somebody deletes.
type lost struct {
	line   string // as [missing] writes it
	remove func() (*http.Response, error)
	// gone are the bindings that RabbitMQ deletes along with it.
	gone []string
}

// everyObject lists all that a network has on the broker.
func everyObject(t *testing.T, api *rabbithole.Client, vhost string) []lost {
	t.Helper()
	exchanges, err1 := api.ListExchangesIn(vhost)
	queues, err2 := api.ListQueuesIn(vhost)
	bindings, err3 := api.ListBindingsIn(vhost)
	for _, err := range []error{err1, err2, err3} {
		if err != nil {
			t.Fatal(err)
		}
	}
	bindings = slices.DeleteFunc(bindings, func(b rabbithole.BindingInfo) bool { return b.Source == "" })
	with := func(kind, name string) (lines []string) {
		for _, b := range bindings {
			if kind == "exchange" && b.Source == name || b.DestinationType == kind && b.Destination == name {
				lines = append(lines, bindingLine(b))
			}
		}
		return lines
	}
	var all []lost
	for _, e := range exchanges {
		if strings.HasPrefix(e.Name, "delays") {
			all = append(all, lost{"exchanges " + e.Name, func() (*http.Response, error) { return api.DeleteExchange(vhost, e.Name) }, with("exchange", e.Name)})
		}
	}
	for _, q := range queues {
		all = append(all, lost{"queues " + q.Name, func() (*http.Response, error) { return api.DeleteQueue(vhost, q.Name) }, with("queue", q.Name)})
	}
	for _, b := range bindings {
		all = append(all, lost{bindingLine(b), func() (*http.Response, error) { return api.DeleteBinding(vhost, b) }, nil})
	}
	return all
}

func bindingLine(b rabbithole.BindingInfo) string {
	line := "bindings " + b.Source + " -> "
	if b.DestinationType == "exchange" {
		line += "exchange "
	}
	line += b.Destination
	if b.RoutingKey != "" {
		line += " (" + b.RoutingKey + ")"
	}
	return line
}

// missing lists what of the topology a plan makes, and fails the test if it
// changes or removes anything.
func missing(t *testing.T, plan protocol.Plan) []string {
	t.Helper()
	if len(plan.Diagnostics.Errors()) > 0 {
		t.Fatal(plan.Diagnostics)
	}
	var lines []string
	for _, part := range []string{"exchanges", "queues", "bindings", "policies"} {
		before, _ := protocol.Go(protocol.At(plan.Prior, "topology."+part)).(map[string]any)
		after, _ := protocol.Go(protocol.At(plan.Planned, "topology."+part)).(map[string]any)
		for name, line := range before {
			if after[name] != line {
				t.Errorf("the plan makes of %s %s, %v, %v", part, name, line, after[name])
			}
		}
		for name := range after {
			if _, exists := before[name]; !exists {
				lines = append(lines, part+" "+name)
			}
		}
	}
	slices.Sort(lines)
	return lines
}

// TestAccEveryDeletedObject deletes the objects of a network one after the
// other: each time the plan shows that object and the bindings that went with
// it, and nothing else; the apply makes the network whole again.
func TestAccEveryDeletedObject(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		config := map[string]any{"name": "delays", "vhost": vhost, "unit": "1s", "levels": 2, "deletion_policy": "delete"}
		server := func() *protocol.Server {
			s := protocol.New(t, acctest.NewProvider(b))
			found := s.Configure(t, map[string]any{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password})
			if len(found) > 0 {
				t.Fatal(found)
			}
			return s
		}
		var state protocol.State
		apply := func(s *protocol.Server, plan protocol.Plan) {
			var found protocol.Diagnostics
			if state, found = s.Apply(t, networkType, plan); len(found.Errors()) > 0 {
				t.Fatal(found)
			}
		}
		refreshed := func(s *protocol.Server) protocol.Plan {
			read, found := s.Read(t, networkType, state)
			if len(found.Errors()) > 0 {
				t.Fatal(found)
			}
			return s.Plan(t, networkType, config, read)
		}
		s := server()
		apply(s, s.Plan(t, networkType, config, protocol.State{}))
		objects := everyObject(t, acctest.API(t, b), vhost)
		if len(objects) != 16 {
			t.Fatalf("the network has %d objects, expected 16: %v", len(objects), objects)
		}
		for _, o := range objects {
			resp, err := o.remove()
			acctest.Do(t, resp, err)
			s := server()
			plan := refreshed(s)
			want := append([]string{o.line}, o.gone...)
			slices.Sort(want)
			if got := missing(t, plan); !slices.Equal(got, want) {
				t.Errorf("the plan makes %q, expected %q", got, want)
			}
			apply(s, plan)
			if got := missing(t, refreshed(server())); len(got) > 0 {
				t.Errorf("after the repair of %s the plan makes %q", o.line, got)
			}
		}
		if now := len(everyObject(t, acctest.API(t, b), vhost)); now != 16 {
			t.Errorf("the network has %d objects in the end", now)
		}
	})
}
