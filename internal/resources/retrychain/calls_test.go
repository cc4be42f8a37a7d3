package retrychain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// refreshCalls are the requests of a refresh: the broker's facts, and the
// queues, exchanges, bindings, policies and operator policies of the virtual
// host.
const refreshCalls = 6

// TestAccCallsDoNotGrow counts the requests of a refresh with one chain and
// with many.
func TestAccCallsDoNotGrow(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		p := proxy.New(t, b.Endpoint)
		for _, chains := range []int{1, rabbit.Size(20, 5)} {
			w := acctest.Terraform(t, manyChains(b, p.URL, vhost, chains))
			apply(t, w)
			p.Take()
			acctest.Run(t, w, "plan", "-detailed-exitcode")
			requests := p.Take()
			if len(requests) != refreshCalls {
				t.Errorf("a plan of %d chains made %d requests, expected %d: %v", chains, len(requests), refreshCalls, requests)
			}
			acctest.Run(t, w, "destroy", "-auto-approve")
		}
	})
}

func manyChains(b *rabbit.Broker, endpoint, vhost string, n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%q", fmt.Sprintf("chain-%d", i))
	}
	all := settings{endpoint: endpoint, lifecycle: "for_each = toset([" + strings.Join(names, ", ") + "])"}.config(b, vhost)
	return strings.Replace(all, `= "orders"`, "= each.key", 1)
}
