package cutting

import (
	"maps"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
)

type attributes = map[string]any

// subject is a resource of which writes are cut.
type subject struct {
	name, kind string
	// id is what an import takes, before "@vhost".
	id             string
	config, change attributes
	// prepare makes what the resource needs, and which stays.
	prepare func(p place)
	// works fails the test unless a message goes its way.
	works func(p place, config attributes)
	// prefix starts the names of the objects that a destroy removes.
	prefix string
	// able says which brokers can have it; nil for all.
	able func(*rabbit.Broker) bool
}

// place is a virtual host in a test.
type place struct {
	t     *testing.T
	b     *rabbit.Broker
	vhost string
}

func with(attributes attributes, more attributes) attributes {
	attributes = maps.Clone(attributes)
	maps.Copy(attributes, more)
	return attributes
}

var (
	chain    = attributes{"name": "orders", "delays": []any{"1h"}, "deletion_policy": "delete"}
	existing = with(chain, attributes{"work_queue": attributes{"ownership": "application"}})
	classic  = attributes{"queue_type": "classic"}
	longer   = attributes{"delays": []any{"2h", "1h"}}
	inherits = attributes{"policy": attributes{"priority": 2000, "inherit": true}}
	tiers    = attributes{"name": "retries", "delays": []any{"1h"}, "deletion_policy": "delete"}
	attached = attributes{"tiers": "retries", "queue": "orders", "on_detach": "park", "deletion_policy": "delete"}
	network  = attributes{"name": "delays", "unit": "100ms", "levels": 3, "deletion_policy": "delete"}
)

var subjects = []subject{
	chainOf("attached quorum", existing, inherits, queue("quorum"), nil),
	chainOf("attached classic", with(existing, classic), inherits, queue("classic"), nil),
	chainOf("attached republish", with(existing, attributes{"strategy": "republish"}), inherits, queue("quorum"), nil),
	chainOf("attached delayed_retry", with(existing, attributes{"strategy": "delayed_retry"}), inherits, queue("quorum"), since(4, 3)),
	chainOf("shield", with(chain, attributes{"policy": attributes{"shield": true}}), longer, nil, nil),
	chainOf("classic", with(chain, classic), longer, nil, nil),
	{
		name: "tiers", kind: "rabbitmq_retry_tiers", id: "retries", prefix: "retries", config: tiers, change: longer, able: acctest.Modern,
		prepare: deadLettering("probe", "retries.retry"),
		works:   retried("probe", func(place, attributes) string { return "retries.retry." }),
	},
	attachmentOf("attachment", attached, attributes{}, nil),
	attachmentOf("attachment of a quorum queue", with(attached, attributes{"ownership": "application"}),
		attributes{"policy": attributes{"priority": 2000}}, queue("quorum")),
	attachmentOf("attachment of a classic queue", with(attached, attributes{"ownership": "application"}),
		attributes{"policy": attributes{"priority": 2000}}, queue("classic")),
	{
		name: "network", kind: "rabbitmq_delay_network", id: "delays", prefix: "delays", config: network, // its levels cannot change
		prepare: queue("quorum"), works: delayed,
	},
	{
		name: "destination", kind: "rabbitmq_delay_destination", id: "delays/orders/orders", prefix: "none",
		config: attributes{"network": "delays", "queue": "orders"},
		prepare: func(p place) {
			queue("quorum")(p)
			p.apply("rabbitmq_delay_network", network)
		},
		works: delayed,
	},
}

func since(major, minor int) func(*rabbit.Broker) bool {
	return func(b *rabbit.Broker) bool { return acctest.AtLeast(b, major, minor) }
}

func chainOf(name string, config, change attributes, prepare func(place), able func(*rabbit.Broker) bool) subject {
	return subject{
		name: name, kind: "rabbitmq_retry_chain", id: "orders", prefix: "orders.",
		config: config, change: change, prepare: prepare, able: able,
		works: retried("orders", func(p place, config attributes) string {
			switch {
			case config["strategy"] == "republish":
				return "orders.failed"
			case config["strategy"] == "delayed_retry":
				return "orders.parking"
			case acctest.Modern(p.b):
				return "orders.retry."
			}
			return "orders.attempt."
		}),
	}
}

func attachmentOf(name string, config, change attributes, prepare func(place)) subject {
	return subject{
		name: name, kind: "rabbitmq_retry_attachment", id: "retries/orders", prefix: "none",
		config: config, change: change, able: acctest.Modern,
		prepare: func(p place) {
			p.apply("rabbitmq_retry_tiers", tiers)
			if prepare != nil {
				prepare(p)
			}
		},
		works: retried("orders", func(place, attributes) string { return "retries.retry." }),
	}
}

// queue declares the queue of an application, which obeys another policy.
func queue(kind string) func(place) {
	return func(p place) {
		p.t.Helper()
		api := acctest.API(p.t, p.b)
		resp, err := api.DeclareQueue(p.vhost, "orders", rabbithole.QueueSettings{Type: kind, Durable: true})
		acctest.Do(p.t, resp, err)
		resp, err = api.PutPolicy(p.vhost, "theirs", rabbithole.Policy{
			Pattern: "^orders$", ApplyTo: "queues", Priority: 1, Definition: rabbithole.PolicyDefinition{"expires": 3600000},
		})
		acctest.Do(p.t, resp, err)
	}
}

// deadLettering declares a queue that dead-letters by its arguments.
func deadLettering(name, exchange string) func(place) {
	return func(p place) {
		p.t.Helper()
		resp, err := acctest.API(p.t, p.b).DeclareQueue(p.vhost, name, rabbithole.QueueSettings{
			Type: "classic", Durable: true,
			Arguments: map[string]any{"x-dead-letter-exchange": exchange, "x-dead-letter-routing-key": name},
		})
		acctest.Do(p.t, resp, err)
	}
}

// retried rejects a message of the queue, which must arrive in the queue that target
// names; a name that ends with "." is followed by the first delay.
func retried(queue string, target func(place, attributes) string) func(place, attributes) {
	return func(p place, config attributes) {
		p.t.Helper()
		to := target(p, config)
		if strings.HasSuffix(to, ".") {
			first, _ := config["delays"].([]any)
			if first == nil {
				first = []any{"1h"} // of the tiers that it is attached to
			}
			label, _ := first[0].(string)
			to += label
		}
		w := acctest.Worker(p.t, p.b, p.vhost)
		before, err := w.Ready(to)
		p.must(err)
		p.must(w.Publish(p.t.Context(), "", queue, amqp.Publishing{}))
		ch, err := w.Connection().Channel()
		p.must(err)
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			p.t.Fatalf("no message in %q: %v", queue, err)
		}
		p.must(d.Reject(false))
		if !poll.Until(30*time.Second, func() bool {
			n, err := w.Ready(to)
			return err == nil && n == before+1
		}) {
			p.t.Errorf("a rejected message has not arrived in %q", to)
		}
	}
}

// delayed sends a message through every level of the network.
func delayed(p place, config attributes) {
	p.t.Helper()
	levels, _ := network["levels"].(int)
	n := delay.Network{Name: "delays", Unit: 100 * time.Millisecond, Levels: levels}
	d := delay.Destination{Network: "delays", Levels: levels, Name: "orders", Queue: "orders"}.Binding()
	if config["queue"] == nil { // no resource has attached it
		resp, err := acctest.API(p.t, p.b).DeclareBinding(p.vhost, rabbithole.BindingInfo{
			Source: d.Source, Destination: d.Destination, DestinationType: "queue", RoutingKey: d.RoutingKey,
		})
		acctest.Do(p.t, resp, err)
	}
	key, err := n.Key(n.Maximum(), "orders")
	p.must(err)
	w := acctest.Worker(p.t, p.b, p.vhost)
	p.must(w.Publish(p.t.Context(), n.EntryExchange(), key, amqp.Publishing{}))
	if !poll.Until(30*time.Second, func() bool {
		drained, err := w.Drain("orders")
		p.must(err)
		return len(drained) == 1
	}) {
		p.t.Error("a delayed message has not arrived")
	}
	if config["queue"] == nil {
		resp, err := acctest.API(p.t, p.b).DeleteBinding(p.vhost, rabbithole.BindingInfo{
			Source: d.Source, Destination: d.Destination, DestinationType: "queue", RoutingKey: d.RoutingKey, PropertiesKey: d.RoutingKey,
		})
		acctest.Do(p.t, resp, err)
	}
}

func (p place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// apply makes another resource.
func (p place) apply(kind string, config attributes) {
	p.t.Helper()
	server := acctest.Server(p.t, p.b)
	plan := server.Plan(p.t, kind, with(config, attributes{"vhost": p.vhost}), protocol.State{})
	if len(plan.Diagnostics.Errors()) > 0 {
		p.t.Fatal(plan.Diagnostics)
	}
	if _, found := server.Apply(p.t, kind, plan); len(found.Errors()) > 0 {
		p.t.Fatal(found)
	}
}
