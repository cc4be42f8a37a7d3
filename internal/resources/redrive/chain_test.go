package redrive_test

import (
	"context"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// design is a way to retry with one delay, whose work queue is "orders".
type design struct {
	strategy, queueType string
	// parking is the parking queue.
	parking string
	// entry is the exchange through which a redrive brings messages back, and key
	// the routing key that they have then.
	entry, key string
}

// designs are those that the broker can have.
func designs(b *rabbit.Broker) []design {
	strategies := []string{"routing_key", "republish"}
	if acctest.Modern(b) {
		strategies = append(strategies, "headers", "shared tiers")
	}
	var all []design
	for _, strategy := range strategies {
		for _, queueType := range []string{"classic", "quorum"} {
			all = append(all, design{strategy, queueType, "orders.parking", "orders.redrive", "order.created"})
		}
	}
	if acctest.AtLeast(b, 4, 3) {
		all = append(all, design{"delayed_retry", "quorum", "orders.parking", "orders.redrive", "order.created"})
	}
	for i := range all {
		if all[i].strategy == "shared tiers" {
			// A message in shared tiers has the name of its queue as routing key.
			all[i].parking, all[i].entry, all[i].key = "retries.parking", "", "orders"
		}
	}
	return all
}

// TestAccChains redrives a message through retry chains and shared tiers, twice.
// Each time it keeps its routing key, loses what the broker and the chain wrote,
// and has all attempts again.
func TestAccChains(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		if !acctest.AtLeast(b, 4, 3) {
			t.Logf("without strategy delayed_retry, which needs RabbitMQ 4.3.1: this broker is %s", b.Version)
		}
		for _, d := range designs(b) {
			t.Run(d.strategy+" "+d.queueType, func(t *testing.T) {
				t.Parallel()
				d.try(t, b)
			})
		}
	})
}

// TestAccDelayedExchange does the same with the strategy that needs a plugin.
func TestAccDelayedExchange(t *testing.T) {
	acctest.EachDelayed(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"classic", "quorum"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				design{"delayed_exchange", queueType, "orders.parking", "orders.redrive", "order.created"}.try(t, b)
			})
		}
	})
}

// declare makes the queues and binds "orders" to amq.topic.
func (d design) declare(p *place) {
	p.t.Helper()
	apply := func(resource string, config object) {
		p.t.Helper()
		if _, found := create(p.t, p.Server, resource, config); len(found.Errors()) > 0 {
			p.t.Fatal(found)
		}
	}
	if d.strategy == "shared tiers" {
		apply("rabbitmq_retry_tiers", object{"name": "retries", "vhost": p.vhost, "delays": []any{"100ms"}, "queue_type": d.queueType})
		apply("rabbitmq_retry_attachment", object{"tiers": "retries", "queue": "orders", "vhost": p.vhost, "queue_type": d.queueType})
	} else {
		apply(chainType, object{"name": "orders", "vhost": p.vhost, "delays": []any{"100ms"}, "strategy": d.strategy, "queue_type": d.queueType})
	}
	ch, err := p.w.Connection().Channel()
	if err == nil {
		err = ch.QueueBind("orders", "order.#", "amq.topic", false, nil)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	_ = ch.Close()
}

func (d design) try(t *testing.T, b *rabbit.Broker) {
	t.Helper()
	p := &place{t: t, b: b, vhost: acctest.VHost(t, b)}
	p.w, p.Server = acctest.Worker(t, b, p.vhost), server(t, b, nil)
	d.declare(p)
	err := p.w.Publish(t.Context(), "amq.topic", "order.created", amqp.Publishing{
		MessageId: "one", Priority: 3, ContentType: "text/plain", Body: []byte("body"), Headers: amqp.Table{"tenant": "blue"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for count := range int64(2) {
		d.fail(p)
		run(t, p.Server, redriveType, object{"queue": d.parking, "vhost": p.vhost}, object{"moved": 1, "without_origin": 0})
		m := p.drain("orders", 1)[0]
		if m.MessageId != "one" || m.RoutingKey != d.key || m.Exchange != d.entry || m.Priority != 3 || string(m.Body) != "body" ||
			m.ContentType != "text/plain" || m.Headers["tenant"] != "blue" || m.Headers["redrive-count"] != count+1 || m.Headers["redriven-at"] == nil {
			t.Errorf("redrive %d: %+v", count+1, m.Delivery)
		}
		for _, name := range []string{"x-death", "x-first-death-queue", "x-last-death-queue", "x-delivery-count", "x-acquired-count", "count"} {
			if value, exists := m.Headers[name]; exists && value != int64(0) {
				t.Errorf("redrive %d: header %s = %v is left", count+1, name, value)
			}
		}
		// Once more, as the consumer would get it.
		if err := p.w.Publish(t.Context(), d.entry, m.RoutingKey, amqp.Publishing{
			MessageId: m.MessageId, Priority: m.Priority, ContentType: m.ContentType, Body: m.Body, Headers: m.Headers,
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// fail gives the message back at each of its two attempts, and does what the
// user's process does where the strategy needs one.
func (d design) fail(p *place) {
	p.t.Helper()
	attempts := 0
	outcome := worker.Reject
	if d.strategy == "delayed_retry" {
		outcome = worker.RejectRequeue
	}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	go func() {
		done <- p.w.Consume(ctx, "orders", 1, func(worker.Delivery) worker.Outcome {
			attempts++
			return outcome
		})
	}()
	switch d.strategy {
	case "republish":
		p.handOn(ctx, "orders.failed", "orders.retry", amqp.Table{"count": int64(1)})
		p.handOn(ctx, "orders.failed", "orders.retry", amqp.Table{"count": int64(-1)})
	case "delayed_exchange":
		p.handOn(ctx, "orders.failed", "orders.wait", amqp.Table{"count": int64(1), "x-delay": int64(100)})
		p.handOn(ctx, "orders.requeue", "orders.return", amqp.Table{"count": int64(1)})
		p.handOn(ctx, "orders.failed", "orders.parking", amqp.Table{"count": int64(2)})
	}
	p.wait(func() bool { return p.ready(d.parking) == 1 })
	cancel()
	if err := <-done; err != nil {
		p.t.Fatal(err)
	}
	if attempts != 2 {
		p.t.Errorf("the message had %d attempts, expected 2", attempts)
	}
}

// handOn publishes a message of the queue with these headers and the
// application's own, as a process of the user does.
func (p *place) handOn(ctx context.Context, queue, exchange string, headers amqp.Table) {
	p.t.Helper()
	d, err := p.w.Get(ctx, queue)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, name := range []string{"tenant", "redrive-count", "redriven-at"} {
		if value, exists := d.Headers[name]; exists {
			headers[name] = value
		}
	}
	message := amqp.Publishing{MessageId: d.MessageId, Priority: d.Priority, ContentType: d.ContentType, Body: d.Body, Headers: headers, DeliveryMode: amqp.Persistent}
	if exchange != "orders.wait" {
		err = p.w.Publish(ctx, exchange, d.RoutingKey, message)
	} else {
		// What the exchange holds back counts as not routed.
		ch, opened := p.w.Connection().Channel()
		if err = opened; err == nil {
			err = ch.PublishWithContext(ctx, exchange, d.RoutingKey, false, false, message)
			_ = ch.Close()
		}
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
