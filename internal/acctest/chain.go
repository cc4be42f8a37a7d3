package acctest

import (
	"maps"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// Chain applies a rabbitmq_retry_chain named "orders" with these attributes,
// without the CLI, and returns what is planned and applied. It goes with its virtual
// host.
func Chain(t *testing.T, b *rabbit.Broker, vhost string, attributes map[string]any) protocol.State {
	t.Helper()
	const kind = "rabbitmq_retry_chain"
	server := Server(t, b)
	config := map[string]any{"name": "orders", "vhost": vhost}
	maps.Copy(config, attributes)
	plan := server.Plan(t, kind, config, protocol.State{})
	if len(plan.Diagnostics.Errors()) > 0 {
		t.Fatal(plan.Diagnostics)
	}
	state, found := server.Apply(t, kind, plan)
	if len(found.Errors()) > 0 {
		t.Fatal(found)
	}
	return state
}

// Server is a provider for the broker, without the CLI. Terraform starts one for
// every plan and one for every apply.
func Server(t *testing.T, b *rabbit.Broker) *protocol.Server {
	t.Helper()
	server := protocol.New(t, NewProvider(b))
	found := server.Configure(t, map[string]any{
		"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "amqp_endpoint": amqpAddress(b),
	})
	if len(found) > 0 {
		t.Fatal(found)
	}
	return server
}

// EachDelayed runs the test on every broker with the plugin
// rabbitmq_delayed_message_exchange that the environment names. No version of
// RabbitMQ brings this plugin, and so it skips without such a broker.
func EachDelayed(t *testing.T, test func(t *testing.T, b *rabbit.Broker)) {
	t.Helper()
	t.Parallel()
	brokers, err := rabbit.Delayed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(brokers) == 0 {
		t.Skipf("needs a broker with the plugin rabbitmq_delayed_message_exchange, which RabbitMQ does not include: name one in %s",
			rabbit.EnvDelayedEndpoints)
	}
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}
