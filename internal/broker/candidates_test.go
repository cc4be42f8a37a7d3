package broker

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestEitherPolicy: RabbitMQ may apply either of two policies of one priority, and so the
// one that endangers messages decides.
func TestEitherPolicy(t *testing.T) {
	const queue = `{"name":"parking","type":"quorum","durable":true,"arguments":{"x-delivery-limit":-1}}`
	f := newFake(t)
	f.on("GET /api/queues/%2F/parking", answer{status: 200, body: queue})
	f.on("GET /api/queues/%2F", answer{status: 200, body: "[" + queue + "]"})
	f.on("GET /api/policies/%2F", answer{status: 200, body: `[
		{"name":"a","pattern":"^parking$","apply-to":"queues","priority":0,"definition":{"max-length":1000}},
		{"name":"b","pattern":"^parking$","apply-to":"queues","priority":0,"definition":{"delivery-limit":3}}]`})
	c := f.client(t)
	if _, err := c.checkSafe(t.Context(), "/", "parking", noChains); err == nil {
		t.Error("a look is safe although it may count towards a delivery limit")
	}
	q := topology.Queue{Name: "parking", Type: topology.Quorum, Durable: true, Arguments: topology.Arguments{topology.DeliveryLimit: int64(-1)}}
	if limit, err := c.deliveryLimit(t.Context(), "/", q); limit != 3 || err != nil {
		t.Errorf("the delivery limit is %d, %v, want 3", limit, err)
	}
}
