package lifecycle

import (
	"context"
	"fmt"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Conflicts lists the wanted exchanges and queues that exist already, whatever
// their form.
func Conflicts(ctx context.Context, client *broker.Client, vhost string, wanted *topology.Topology) ([]string, error) {
	var conflicts []string
	err := client.View(ctx, vhost, func(in *topology.Topology) {
		for _, e := range wanted.Exchanges() {
			if _, exists := in.Exchange(e.Name); exists {
				conflicts = append(conflicts, fmt.Sprintf("exchange %q", e.Name))
			}
		}
		for _, q := range wanted.Queues() {
			if _, exists := in.Queue(q.Name); exists {
				conflicts = append(conflicts, fmt.Sprintf("queue %q", q.Name))
			}
		}
	})
	return conflicts, err
}

// ObjectNames names the exchanges and queues of a topology, which only one
// resource can have, for [Names.Claim].
func ObjectNames(vhost string, t *topology.Topology) []string {
	var names []string
	for _, e := range t.Exchanges() {
		names = append(names, objectName(topology.KindExchange, e.Name, vhost))
	}
	for _, q := range t.Queues() {
		names = append(names, objectName(topology.KindQueue, q.Name, vhost))
	}
	return names
}

func objectName(kind topology.Kind, name, vhost string) string {
	return fmt.Sprintf("%s %q in virtual host %q", kind, name, vhost)
}
