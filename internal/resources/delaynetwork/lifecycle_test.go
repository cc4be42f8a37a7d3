package delaynetwork_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// count counts the queues and the exchanges of the network.
func count(t *testing.T, b *rabbit.Broker, vhost string) (queues, exchanges int) {
	t.Helper()
	api := acctest.API(t, b)
	q, err := api.ListQueuesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	e, err := api.ListExchangesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, queue := range q {
		if strings.HasPrefix(queue.Name, "delays") {
			queues++
		}
	}
	for _, exchange := range e {
		if strings.HasPrefix(exchange.Name, "delays") {
			t.Logf("exchange %s", exchange.Name)
			exchanges++
		}
	}
	return queues, exchanges
}

// TestAccLifecycle makes, plans again, imports and destroys a network with its
// destinations.
func TestAccLifecycle(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, v variant) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		w := acctest.Terraform(t, config(b, vhost, v.attributes, destination(vhost, "orders")))
		apply(t, w)
		expectEmptyPlan(t, w)
		if q, e := count(t, b, vhost); q != 6 || e != 8 {
			t.Errorf("%d queues and %d exchanges, expected 6 and 8", q, e)
		}
		acctest.Run(t, w, "state", "rm", address, "rabbitmq_delay_destination.orders")
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Object Already Exists", "terraform import")
		acctest.Run(t, w, "import", address, "delays@"+vhost)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Destination Already Attached", "delays/orders/orders@"+vhost)
		acctest.Run(t, w, "import", "rabbitmq_delay_destination.orders", "delays/orders/orders@"+vhost)
		expectEmptyPlan(t, w)
		acctest.Run(t, w, "destroy", "-auto-approve")
		if q, e := count(t, b, vhost); q != 0 || e != 0 {
			t.Errorf("%d queues and %d exchanges are left", q, e)
		}
	})
}

// TestAccDestroyKeepsMessages: neither messages under way, nor unrouted ones,
// nor other destinations are destroyed by default.
func TestAccDestroyKeepsMessages(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		w := acctest.Terraform(t, strings.Replace(config(b, vhost, "", ""), `unit   = "100ms"`, `unit = "1h"`, 1))
		apply(t, w)
		worker := acctest.Worker(t, b, vhost)
		if err := worker.Publish(t.Context(), "delays", "0.1.0.0.0.orders", amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "Delay Network Holds Messages", "delays.level.3")
		expectEmptyPlan(t, w)
		if _, err := worker.Drain("delays.level.3"); err != nil {
			t.Fatal(err)
		}
		if err := worker.Publish(t.Context(), "delays", "0.0.0.0.0.nobody", amqp.Publishing{}); err != nil {
			t.Fatal(err)
		}
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "Delay Network Holds Messages", "delays.unrouted")
		if drained, err := worker.Drain("delays.unrouted"); err != nil || len(drained) != 1 {
			t.Fatalf("%d unrouted messages, %v", len(drained), err)
		}
		resp, err := acctest.API(t, b).DeclareBinding(vhost, rabbithole.BindingInfo{
			Source: "delays.delivery", Destination: "orders", DestinationType: "queue", RoutingKey: "*.*.*.*.*.orders",
		})
		acctest.Do(t, resp, err)
		expectEmptyPlan(t, w) // a destination of others is no drift
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), "Delay Network in Use", "orders (*.*.*.*.*.orders)")
		expectEmptyPlan(t, w)
		acctest.Reconfigure(t, w, strings.Replace(config(b, vhost, `deletion_policy = "delete"`, ""), `unit   = "100ms"`, `unit = "1h"`, 1))
		apply(t, w)
		acctest.Run(t, w, "destroy", "-auto-approve")
		if q, e := count(t, b, vhost); q != 0 || e != 0 {
			t.Errorf("%d queues and %d exchanges are left", q, e)
		}
	})
}

// TestAccDrift: the plan shows what somebody changed by hand, and an apply
// repairs it.
func TestAccDrift(t *testing.T) {
	drifts := map[string]struct {
		do   func(api *rabbithole.Client, vhost string) error
		want string
	}{
		"exchange deleted": {func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteExchange(vhost, "delays.level.2")
			return err
		}, `+ "delays.level.2" = "topic, alternate-exchange=delays.unrouted"`},
		"queue deleted": {func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteQueue(vhost, "delays.level.4")
			return err
		}, `+ "delays.level.4" = "quorum, `},
		"binding deleted": {func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeleteBinding(vhost, rabbithole.BindingInfo{
				Source: "delays", Destination: "delays.level.0", DestinationType: "queue", RoutingKey: "0.0.0.0.1.#", PropertiesKey: "0.0.0.0.1.%23",
			})
			return err
		}, `+ "delays -> delays.level.0 (0.0.0.0.1.#)"`},
		"foreign binding": {func(api *rabbithole.Client, vhost string) error {
			_, err := api.DeclareBinding(vhost, rabbithole.BindingInfo{Source: "delays.level.1", Destination: "orders", DestinationType: "queue", RoutingKey: "#"})
			return err
		}, `- "delays.level.1 -> orders (#)"`},
	}
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for name, d := range drifts {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				declare(t, b, vhost, "orders")
				w := acctest.Terraform(t, config(b, vhost, "", destination(vhost, "orders")))
				apply(t, w)
				if err := d.do(acctest.API(t, b), vhost); err != nil {
					t.Fatal(err)
				}
				expectText(t, acctest.Run(t, w, "plan"), d.want, "1 to change, 0 to destroy")
				apply(t, w)
				expectEmptyPlan(t, w)
				worker := acctest.Worker(t, b, vhost)
				got := collect(t, acctest.Worker(t, b, vhost), "orders")
				send(t, worker, 31*unit, "orders", amqp.Publishing{MessageId: "all levels"})
				got.wait(t, "all levels", 31*unit+tolerance)
			})
		}
	})
}

// TestAccDestinationGone: a destination that was detached by hand is attached
// again.
func TestAccDestinationGone(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		w := acctest.Terraform(t, config(b, vhost, "", destination(vhost, "orders")))
		apply(t, w)
		resp, err := acctest.API(t, b).DeleteQueue(vhost, "orders")
		acctest.Do(t, resp, err)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), "Queue Not Found", `Queue "orders" does not exist`)
		declare(t, b, vhost, "orders")
		apply(t, w)
		expectEmptyPlan(t, w)
	})
}

// TestAccImmutable: what RabbitMQ cannot change in place is refused with the
// reason.
func TestAccImmutable(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, config(b, vhost, "", ""))
		apply(t, w)
		for _, change := range []struct{ old, replacement, attribute string }{
			{`"100ms"`, `"1s"`, "unit"},
			{"levels = 5", "levels = 6", "levels"},
			{"levels = 5", "levels = 5\n queue_type = \"classic\"", "queue_type"},
			{"levels = 5", "levels = 5\n dead_letter_strategy = \"at-most-once\"", "dead_letter_strategy"},
		} {
			acctest.Reconfigure(t, w, strings.Replace(config(b, vhost, "", ""), change.old, change.replacement, 1))
			expectText(t, acctest.RunError(t, w, "plan"), "Change Not Possible in Place", change.attribute+" of the living delay network", "add a network of another name")
		}
		acctest.Reconfigure(t, w, strings.Replace(config(b, vhost, "", ""), `"100ms"`, `"0.1s"`, 1))
		expectEmptyPlan(t, w) // another spelling is not a change
	})
}

// TestAccOtherForm: an object that exists in another form is refused, not
// deleted.
func TestAccOtherForm(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, config(b, vhost, "", ""))
		apply(t, w)
		api := acctest.API(t, b)
		resp, err := api.DeleteQueue(vhost, "delays.level.3")
		acctest.Do(t, resp, err)
		resp, err = api.DeclareQueue(vhost, "delays.level.3", rabbithole.QueueSettings{Type: "classic", Durable: true})
		acctest.Do(t, resp, err)
		expectText(t, acctest.RunError(t, w, "plan"), "Queue Exists in Another Form", `Queue "delays.level.3" is on the broker as`)
	})
}

// TestAccPolicies: another policy that would deliver messages early or lose
// them is refused, before a network is made and after.
func TestAccPolicies(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, config(b, vhost, "", ""))
		set := func() {
			resp, err := acctest.API(t, b).PutPolicy(vhost, "all", rabbithole.Policy{Pattern: ".*", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"message-ttl": 60}})
			acctest.Do(t, resp, err)
		}
		set()
		expectText(t, acctest.RunError(t, w, "plan"), "Policy Endangers Messages", `The policy "all" sets message-ttl=60`)
		resp, err := acctest.API(t, b).DeletePolicy(vhost, "all")
		acctest.Do(t, resp, err)
		apply(t, w)
		set()
		expectText(t, acctest.RunError(t, w, "plan"), "Policy Endangers Messages")
	})
}

// TestAccLearnedLevels: a destination reads the number of levels from the network, at
// apply if both are created in one run.
func TestAccLearnedLevels(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		declare(t, b, vhost, "bills")
		both := destination(vhost, "orders")
		w := acctest.Terraform(t, config(b, vhost, "", both))
		expectText(t, acctest.Run(t, w, "plan"), "levels = (known after apply)", "routing_key = (known after apply)", "id = \"delays/orders/orders@")
		apply(t, w)
		expectEmptyPlan(t, w)
		acctest.Reconfigure(t, w, config(b, vhost, "", both+destination(vhost, "bills")))
		expectText(t, acctest.Run(t, w, "plan"), "levels = 5", "routing_key = \"*.*.*.*.*.bills\"")
		acctest.Reconfigure(t, w, config(b, vhost, "", strings.Replace(both, "queue ", "levels = 5\n queue ", 1)))
		expectText(t, acctest.RunError(t, w, "plan"), "levels")
	})
}

// TestAccDestinationChange: every change of a destination makes a new binding,
// with create_before_destroy without a gap.
func TestAccDestinationChange(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		declare(t, b, vhost, "orders")
		declare(t, b, vhost, "orders.new")
		block := func(queue string) string {
			return fmt.Sprintf("resource \"rabbitmq_delay_destination\" \"orders\" {\n network = rabbitmq_delay_network.delays.name\n vhost = %q\n name = \"orders\"\n queue = %q\n"+
				" lifecycle {\n create_before_destroy = true\n }\n}\n", vhost, queue)
		}
		w := acctest.Terraform(t, config(b, vhost, "", block("orders")))
		apply(t, w)
		acctest.Reconfigure(t, w, config(b, vhost, "", block("orders.new")))
		expectText(t, apply(t, w), "1 added, 0 changed, 1 destroyed")
		expectEmptyPlan(t, w)
		got := collect(t, acctest.Worker(t, b, vhost), "orders", "orders.new")
		send(t, acctest.Worker(t, b, vhost), unit, "orders", amqp.Publishing{MessageId: "one"})
		for _, d := range got.wait(t, "one", unit+5*time.Second) {
			if d.Queue != "orders.new" {
				t.Errorf("the message arrived at %q", d.Queue)
			}
		}
	})
}
