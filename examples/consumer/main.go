// Command consumer shows all that a worker must do for its queue to retry:
// reject what failed, with requeue=false. It keeps no count, knows no delay and
// publishes nothing.
//
//	go run ./examples/consumer -queue orders
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	address := flag.String("amqp", "amqp://guest:guest@localhost:5672/", "address of the broker")
	queue := flag.String("queue", "orders", "work queue of a retry chain")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := consume(ctx, *address, *queue)
	stop()
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

func consume(ctx context.Context, address, queue string) error {
	conn, err := amqp.Dial(address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	// Without a limit the broker sends the whole queue at once.
	if err := ch.Qos(20, 0, false); err != nil {
		return err
	}
	deliveries, err := ch.ConsumeWithContext(ctx, queue, "", false, false, false, false, nil)
	if err != nil {
		return err
	}
	for d := range deliveries {
		if err := settle(d, handle(d)); err != nil {
			return err
		}
	}
	if ctx.Err() == nil {
		return errors.New("the broker ended the consumer")
	}
	return nil
}

// settle is the whole contract of a retry chain: acknowledge what succeeded,
// reject what failed. requeue=true would bring the message back at once.
func settle(d amqp.Delivery, failure error) error {
	if failure == nil {
		return d.Ack(false)
	}
	log.Printf("message %s failed: %s", d.MessageId, failure)
	return d.Reject(false)
}

// handle stands for the work; it fails every other time.
func handle(d amqp.Delivery) error {
	if rand.IntN(2) == 0 { //nolint:gosec // luck needs no secrecy
		return fmt.Errorf("no luck with %d bytes", len(d.Body))
	}
	return nil
}
