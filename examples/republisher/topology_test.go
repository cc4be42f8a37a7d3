package main

import (
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// topology is what the program moves messages through: a chain of strategy
// "republish".
//
//	[orders] → (orders.failed) fanout → [orders.failed] → the program → (orders.retry) headers
//	(orders.retry) {count: i} → tier i → (orders.return) fanout → [orders]
//	(orders.retry) {count: -1}, nothing matched → [orders.parking]
type topology struct {
	api   *rabbithole.Client
	vhost string
	tiers []string
}

// declare applies the chain. Quorum queues dead-letter at least once.
func declare(t *testing.T, b *rabbit.Broker, vhost, queueType string, delays ...time.Duration) *topology {
	t.Helper()
	var texts []any
	for _, delay := range delays {
		texts = append(texts, delay.String())
	}
	state := acctest.Chain(t, b, vhost, map[string]any{"strategy": "republish", "queue_type": queueType, "delays": texts})
	p := &topology{api: acctest.API(t, b), vhost: vhost}
	tiers, _ := protocol.Go(protocol.At(state.Value, "tiers")).([]any)
	for _, tier := range tiers {
		queue, _ := tier.(string)
		p.tiers = append(p.tiers, queue)
	}
	return p
}

func matchCount(n int64) map[string]any { return map[string]any{"x-match": "all", "count": n} }

func (p *topology) exchange(t *testing.T, name, kind string, arguments map[string]any) {
	t.Helper()
	resp, err := p.api.DeclareExchange(p.vhost, name, rabbithole.ExchangeSettings{Type: kind, Durable: true, Arguments: arguments})
	acctest.Do(t, resp, err)
}

func (p *topology) bind(t *testing.T, source, queue string, arguments map[string]any) {
	t.Helper()
	resp, err := p.api.DeclareBinding(p.vhost, rabbithole.BindingInfo{
		Source: source, Destination: queue, DestinationType: "queue", Arguments: arguments,
	})
	acctest.Do(t, resp, err)
}
