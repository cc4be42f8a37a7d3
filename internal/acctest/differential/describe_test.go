package differential

import (
	"fmt"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

func describe(t *topology.Topology) string {
	var text strings.Builder
	for _, e := range t.Exchanges() {
		fmt.Fprintf(&text, "  exchange %q %s\n", e.Name, e.Line())
	}
	for _, q := range t.Queues() {
		fmt.Fprintf(&text, "  queue %q %s\n", q.Name, q.Line())
	}
	for _, b := range t.Bindings() {
		fmt.Fprintf(&text, "  binding %s: %s\n", b.Label(), b.Line())
	}
	return text.String()
}

func trace(b *simulator.Broker) string {
	var text strings.Builder
	for _, e := range b.Trace() {
		fmt.Fprintf(&text, "  %s\n", e)
	}
	return text.String()
}
