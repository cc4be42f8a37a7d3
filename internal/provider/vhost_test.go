package provider_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// withVHost are all resources, each with a configuration that names no virtual host.
var withVHost = map[string]config{
	"rabbitmq_delay_destination": {"network": "delays", "queue": "orders"},
	chain:                        orders(),
	"rabbitmq_delay_network":     {"name": "delays"},
	"rabbitmq_retry_tiers":       {"name": "retries", "delays": []any{"1s"}},
	"rabbitmq_retry_attachment":  {"tiers": "retries", "queue": "orders"},
	"rabbitmq_redrive":           {"queue": "orders.parking"},
	"rabbitmq_discard":           {"queue": "orders.parking", "all": true},
}

// unreachable is a provider block with a default virtual host, and without a broker to
// ask: what a plan says of the virtual host does not depend on one.
func unreachable(vhost any) config {
	return config{"endpoint": protocol.Unknown, "vhost": vhost}
}

// TestDefaultVHostIsPlanned: the provider's virtual host stands in for a missing one only.
func TestDefaultVHostIsPlanned(t *testing.T) {
	for resource, block := range withVHost {
		t.Run(resource, func(t *testing.T) {
			for _, test := range []struct{ provider, own, want any }{
				{nil, nil, "/"},
				{"shop", nil, "shop"},
				{"shop", "own", "own"},
				{"shop", protocol.Unknown, protocol.Unknown},
				{protocol.Unknown, nil, protocol.Unknown},
				{protocol.Unknown, "own", "own"},
			} {
				p := planIn(t, resource, unreachable(test.provider), block.with("vhost", test.own), protocol.State{})
				if got := protocol.Go(protocol.At(p.Planned, "vhost")); got != test.want {
					t.Errorf("provider %v, resource %v: vhost is planned as %v, expected %v", test.provider, test.own, got, test.want)
				}
				id, hasID := protocol.Go(protocol.At(p.Planned, "id")).(string)
				if want, known := test.want.(string); hasID && known && !strings.HasSuffix(id, "@"+want) {
					t.Errorf("provider %v, resource %v: id is planned as %q", test.provider, test.own, id)
				}
			}
		})
	}
}

// TestChangeOfDefaultVHost: it replaces what has the default, and only that.
func TestChangeOfDefaultVHost(t *testing.T) {
	for resource, block := range withVHost {
		t.Run(resource, func(t *testing.T) {
			before := planIn(t, resource, unreachable("shop"), block, protocol.State{})
			state := protocol.State{Value: settled(t, before.Planned), Private: before.Private}
			if p := planIn(t, resource, unreachable("shop"), block, state); len(p.Replace) > 0 {
				t.Errorf("without a change, %v asks for a replacement", p.Replace)
			}
			p := planIn(t, resource, unreachable(protocol.Unknown), block, state)
			if len(p.Replace) > 0 || protocol.Go(protocol.At(p.Planned, "vhost")) != "shop" {
				t.Errorf("with an unknown default, %v is planned, and %v asks for a replacement", protocol.Go(p.Planned), p.Replace)
			}
			for provider, want := range map[any]any{"other": "other", nil: "/"} {
				p := planIn(t, resource, unreachable(provider), block, state)
				if got := protocol.Go(protocol.At(p.Planned, "vhost")); !slices.Contains(p.Replace, "vhost") || got != want {
					t.Errorf("with %v as the provider's vhost, %v is planned, and %v asks for a replacement", provider, got, p.Replace)
				}
			}
			if p := planIn(t, resource, unreachable("other"), block.with("vhost", "shop"), state); len(p.Replace) > 0 {
				t.Errorf("a resource that names its virtual host is replaced: %v", p.Replace)
			}
		})
	}
}

// TestUnknownDefaultVHostStays: what is planned as an update while the provider's virtual host
// is unknown is one, in the virtual host of the state, whatever that becomes.
func TestUnknownDefaultVHostStays(t *testing.T) {
	block := config{"name": "retries", "delays": []any{"1s"}}
	api := fake.New(t, "4.0.5")
	here, later, elsewhere := newServer(t), newServer(t), newServer(t)
	for s, vhost := range map[*protocol.Server]any{here: nil, later: protocol.Unknown, elsewhere: "other"} {
		if found := s.Configure(t, connection(api.URL).with("vhost", vhost)); len(found) > 0 {
			t.Fatal(found)
		}
	}
	const tiers = "rabbitmq_retry_tiers"
	state, found := here.Apply(t, tiers, here.Plan(t, tiers, block, protocol.State{}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	api.Take()
	p := later.Plan(t, tiers, block.with("delays", []any{"1s", "5s"}), state)
	after, found := elsewhere.Apply(t, tiers, p)
	if len(p.Replace) > 0 || len(found) > 0 || protocol.Go(protocol.At(after.Value, "vhost")) != "/" {
		t.Errorf("%v asks for a replacement, and the result is %v: %s", p.Replace, protocol.Go(after.Value), found)
	}
	for _, r := range api.Take() {
		if strings.Contains(r.Path, "/other") {
			t.Errorf("the update asks for %s", r.Path)
		}
	}
}

// TestEveryVHostHasTheDefault fails when a resource is missing from the table above.
func TestEveryVHostHasTheDefault(t *testing.T) {
	for name := range newServer(t).Schemas().ResourceSchemas {
		if withVHost[name] == nil {
			t.Errorf("no test says which virtual host %s has by default", name)
		}
	}
}

// TestDefaultVHostIsRead: data sources and ephemeral resources ask for the provider's virtual
// host, which this broker does not have.
func TestDefaultVHostIsRead(t *testing.T) {
	api := fake.New(t, "4.0.5")
	queue := config{"queue": "orders.parking"}
	for name, read := range map[string]func(s *protocol.Server) protocol.Diagnostics{
		"audit": func(s *protocol.Server) protocol.Diagnostics {
			return diagnosed(s.ReadData(t, "rabbitmq_retry_audit", config{}))
		},
		"parked": func(s *protocol.Server) protocol.Diagnostics {
			return diagnosed(s.ReadData(t, "rabbitmq_parked_messages", queue))
		},
		"ephemeral": func(s *protocol.Server) protocol.Diagnostics {
			return diagnosed(s.OpenEphemeral(t, "rabbitmq_parked_messages", queue))
		},
	} {
		t.Run(name, func(t *testing.T) {
			for vhost, words := range map[any][]string{
				"shop":           {"Virtual Host Not Found", `"shop"`},
				protocol.Unknown: {"Virtual Host Not Known", "only after apply"},
			} {
				s := newServer(t)
				if found := s.Configure(t, connection(api.URL).with("vhost", vhost)); len(found) > 0 {
					t.Fatal(found)
				}
				expectError(t, read(s), "vhost", words...)
			}
		})
	}
}

func diagnosed(_ tftypes.Value, found protocol.Diagnostics) protocol.Diagnostics { return found }

func planIn(t *testing.T, resource string, provider, block config, state protocol.State) protocol.Plan {
	t.Helper()
	s := newServer(t)
	if found := s.Configure(t, provider); len(found) > 0 {
		t.Fatal(found)
	}
	p := s.Plan(t, resource, block, state)
	if len(p.Diagnostics.Errors()) > 0 {
		t.Fatal(p.Diagnostics)
	}
	return p
}

// settled is a planned value as a state, with null for what was not known.
func settled(t *testing.T, planned tftypes.Value) tftypes.Value {
	t.Helper()
	state, err := tftypes.Transform(planned, func(_ *tftypes.AttributePath, v tftypes.Value) (tftypes.Value, error) {
		if !v.IsKnown() {
			return tftypes.NewValue(v.Type(), nil), nil
		}
		return v, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// TestAccDefaultVHost creates, reads, imports and destroys each resource in the provider's
// virtual host, none of them naming it.
func TestAccDefaultVHost(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		s := protocol.New(t, acctest.NewProvider(b))
		u, err := url.Parse(b.AMQP)
		if err != nil {
			t.Fatal(err)
		}
		block := config{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "amqp_endpoint": "amqp://" + u.Host, "vhost": vhost}
		if found := s.Configure(t, block); len(found) > 0 {
			t.Fatal(found)
		}
		resp, err := acctest.API(t, b).DeclareQueue(vhost, "payments", rabbithole.QueueSettings{Type: "quorum", Durable: true})
		acctest.Do(t, resp, err)
		var created []inVHost
		for _, r := range []inVHost{
			{kind: chain, block: orders(), identity: config{"name": "orders"}},
			{kind: "rabbitmq_retry_tiers", block: config{"name": "retries", "delays": []any{"1s"}}, identity: config{"name": "retries"}},
			{
				kind:     "rabbitmq_retry_attachment",
				block:    config{"tiers": "retries", "queue": "payments", "ownership": "application"},
				identity: config{"tiers": "retries", "queue": "payments"},
			},
			{kind: "rabbitmq_delay_network", block: config{"name": "delays", "levels": 4}, identity: config{"name": "delays"}},
			{
				kind:     "rabbitmq_delay_destination",
				block:    config{"network": "delays", "queue": "orders", "levels": 4},
				identity: config{"network": "delays", "queue": "orders"},
			},
		} {
			r.state = r.create(t, s, vhost)
			created = append(created, r)
		}
		for _, r := range slices.Backward(created) {
			if _, found := s.Apply(t, r.kind, s.Plan(t, r.kind, nil, r.state)); len(found) > 0 {
				t.Errorf("%s is not destroyed: %s", r.kind, found)
			}
		}
	})
}

// inVHost is a resource of [TestAccDefaultVHost].
type inVHost struct {
	kind            string
	block, identity config
	state           protocol.State
}

// create creates the resource, plans it again and imports it.
func (r inVHost) create(t *testing.T, s *protocol.Server, vhost string) protocol.State {
	t.Helper()
	created, found := s.Apply(t, r.kind, s.Plan(t, r.kind, r.block, protocol.State{}))
	if got := protocol.Go(protocol.At(created.Value, "vhost")); len(found.Errors()) > 0 || got != vhost {
		t.Fatalf("%s is in %v: %s", r.kind, got, found)
	}
	read, found := s.Read(t, r.kind, created)
	if p := s.Plan(t, r.kind, r.block, read); len(found.Errors()) > 0 || !p.Planned.Equal(read.Value) {
		t.Errorf("the second plan of %s is not empty: %v\n%s", r.kind, protocol.Go(p.Planned), found)
	}
	imported, found := s.Import(t, r.kind, "", r.identity)
	if got := protocol.Go(protocol.At(imported.Value, "id")); len(found.Errors()) > 0 || got != protocol.Go(protocol.At(read.Value, "id")) {
		t.Errorf("the import of %s gives %v: %s", r.kind, got, found)
	}
	return read
}
