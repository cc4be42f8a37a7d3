package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

const (
	exchange   = "amq.topic"
	routingKey = "order.created"
	messageID  = "order-4711"
)

var body = []byte(`{"order": 4711, "amount": "12.50"}`)

// journey publishes one message and follows it until it is parked; then it
// takes it back through the redrive exchange and succeeds.
func journey(ctx context.Context, b demoBroker, c chain) error {
	w, err := worker.Dial(b.amqp, vhost)
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()

	start := time.Now()
	err = w.Publish(ctx, exchange, routingKey, amqp.Publishing{
		MessageId: messageID, ContentType: "application/json", Body: body, Headers: amqp.Table{"customer": "acme"},
	})
	if err != nil {
		return err
	}
	say("%5.1f s  published to exchange %s with key %s, and confirmed", 0.0, exchange, routingKey)
	if err := fail(ctx, w, c, start); err != nil {
		return err
	}
	parked, err := w.Get(ctx, c.ParkingQueue.Name)
	if err != nil {
		return err
	}
	say("%5.1f s  PARKED in queue %s", time.Since(start).Seconds(), c.ParkingQueue.Name)
	if err := checkIntact(parked, c); err != nil {
		return err
	}

	title("4. Taken out of parking and published to exchange " + c.RedriveExchange)
	err = w.Publish(ctx, c.RedriveExchange, originalKey(parked, c), amqp.Publishing{
		MessageId: parked.MessageId, ContentType: parked.ContentType, Body: parked.Body, Headers: withoutDeaths(parked.Headers),
	})
	if err != nil {
		return err
	}
	return consume(ctx, w, c, func(d worker.Delivery) worker.Outcome {
		say("%5.1f s  from queue %s through exchange %s, key %s: succeeded, acknowledged",
			time.Since(start).Seconds(), d.Queue, d.Exchange, d.RoutingKey)
		return worker.Ack
	}, 1)
}

// fail rejects every attempt and says where the message waits meanwhile.
func fail(ctx context.Context, w *worker.Worker, c chain, start time.Time) error {
	attempt := 0
	return consume(ctx, w, c, func(d worker.Delivery) worker.Outcome {
		attempt++
		say("%5.1f s  attempt %d of %d: from queue %s through exchange %s, key %s%s: rejected", time.Since(start).Seconds(),
			attempt, c.attempts(), d.Queue, d.Exchange, d.RoutingKey, lastDeath(d))
		if attempt <= len(c.Tiers) {
			go reportWait(ctx, w, c.Tiers[attempt-1], c.Delays[attempt-1], start)
		}
		return worker.Reject
	}, c.attempts())
}

// consume handles as many deliveries of the work queue as it is told.
func consume(ctx context.Context, w *worker.Worker, c chain, decide func(worker.Delivery) worker.Outcome, deliveries int) error {
	consumeCtx, stop := context.WithCancel(ctx)
	defer stop()
	err := w.Consume(consumeCtx, c.WorkQueue.Name, 1, func(d worker.Delivery) worker.Outcome {
		outcome := decide(d)
		deliveries--
		if deliveries == 0 {
			// The settlement is sent before the consumer looks at the context.
			stop()
		}
		return outcome
	})
	if err == nil && deliveries > 0 {
		err = errors.Join(fmt.Errorf("%d deliveries are missing", deliveries), ctx.Err())
	}
	return err
}

// reportWait looks whether the message arrived in the tier.
func reportWait(ctx context.Context, w *worker.Worker, queue, delay string, start time.Time) {
	for range 50 {
		if n, err := w.Ready(queue); err == nil && n > 0 {
			say("%5.1f s             waits %s in queue %s", time.Since(start).Seconds(), delay, queue)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func lastDeath(d worker.Delivery) string {
	deaths, _ := d.Headers["x-death"].([]any)
	if len(deaths) == 0 {
		return ", never failed before"
	}
	latest, _ := deaths[0].(amqp.Table)
	return fmt.Sprintf(", last %v in %v", latest["reason"], latest["queue"])
}

// checkIntact compares the parked message with the published one.
func checkIntact(d worker.Delivery, c chain) error {
	switch {
	case !bytes.Equal(d.Body, body):
		return fmt.Errorf("the body changed to %q", d.Body)
	case d.MessageId != messageID:
		return fmt.Errorf("the message id changed to %q", d.MessageId)
	case d.Headers["customer"] != "acme":
		return fmt.Errorf("the header \"customer\" changed to %v", d.Headers["customer"])
	case originalKey(d, c) != routingKey:
		return fmt.Errorf("the original routing key is %q", originalKey(d, c))
	}
	say("         message id %s, header customer=acme and body %s intact", d.MessageId, d.Body)
	if d.RoutingKey == routingKey {
		say("         routing key %s intact", d.RoutingKey)
	} else {
		say("         routing key is %s now (strategy %s); the original, %s, is in its x-death header",
			d.RoutingKey, c.Strategy, routingKey)
	}
	say("         rejected %d times in queue %s, says its x-death header", d.Deaths(c.WorkQueue.Name, "rejected"), c.WorkQueue.Name)
	return nil
}

// originalKey is the routing key with which the message was published. It came
// with that key into the first tier, whose death says so on every version of
// RabbitMQ; before 4.0 the work queue's own entry tells of the last death only.
func originalKey(d worker.Delivery, c chain) string {
	deaths, _ := d.Headers["x-death"].([]any)
	for _, death := range deaths {
		table, _ := death.(amqp.Table)
		keys, _ := table["routing-keys"].([]any)
		if len(c.Tiers) > 0 && table["queue"] == c.Tiers[0] && len(keys) > 0 {
			key, _ := keys[0].(string)
			return key
		}
	}
	return d.RoutingKey
}

// withoutDeaths leaves out the headers that belong to the broker.
func withoutDeaths(headers amqp.Table) amqp.Table {
	own := amqp.Table{}
	for name, value := range headers {
		switch name {
		case "x-death", "x-first-death-exchange", "x-first-death-queue", "x-first-death-reason",
			"x-last-death-exchange", "x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count":
		default:
			own[name] = value
		}
	}
	return own
}
