package lifecycle

import (
	"fmt"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

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
