// Command delay_sender shows all that a sender must do to deliver a message
// after a delay: write the delay into the routing key.
//
//	go run ./examples/delay_sender -exchange delays -delay 90s -to orders -body hello
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	address := flag.String("amqp", "amqp://guest:guest@localhost:5672/", "address of the broker")
	exchange := flag.String("exchange", "delays", "exchange of the delay network")
	unit := flag.Duration("unit", time.Second, "unit of the delay network")
	levels := flag.Int("levels", 28, "levels of the delay network")
	delay := flag.Duration("delay", 0, "delay of the message")
	to := flag.String("to", "orders", "name of the destination")
	body := flag.String("body", "", "body of the message")
	flag.Parse()
	key, err := delayKey(*unit, *levels, *delay, *to)
	if err == nil {
		err = send(*address, *exchange, key, amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(*body)})
	}
	if err != nil {
		log.Print(err)
		os.Exit(1)
	}
	log.Printf("sent with key %s", key)
}

// delayKey writes a delay, in units and rounded up, as a binary number with one
// digit per level, and after it the destination.
func delayKey(unit time.Duration, levels int, delay time.Duration, destination string) (string, error) {
	units := int64((delay + unit - 1) / unit)
	if delay < 0 || units >= 1<<levels {
		return "", fmt.Errorf("the delay %s is negative or over %s", delay, unit*(1<<levels-1))
	}
	digits := strings.Split(fmt.Sprintf("%0*b", levels, units), "")
	return strings.Join(digits, ".") + "." + destination, nil
}

// send publishes one message and waits for the broker's confirm. The message
// must have neither an expiration nor a header CC or BCC, and none of the
// headers that the broker added to an earlier message, such as x-death.
func send(address, exchange, key string, message amqp.Publishing) error {
	conn, err := amqp.Dial(address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	ch, err := conn.Channel()
	if err != nil {
		return err
	}
	if err := ch.Confirm(false); err != nil {
		return err
	}
	confirm, err := ch.PublishWithDeferredConfirm(exchange, key, false, false, message)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch acked, err := confirm.WaitContext(ctx); {
	case err != nil:
		return fmt.Errorf("the broker has not confirmed the message: %w", err)
	case !acked:
		return errors.New("the broker refused the message")
	}
	return nil
}
