// Command demo applies a retry chain to a real broker, publishes a message,
// fails it like a real consumer and prints its journey through every stage
// until it is parked; then it takes the message back and succeeds.
//
// It uses the broker at RABBITMQ_ENDPOINT, or starts the newest that it can get. KEEP=1
// leaves everything running.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("KEEP") == "1")
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// cleanupTimeout limits the time to take everything away again.
const cleanupTimeout = time.Minute

func run(ctx context.Context, keep bool) (err error) {
	var cleanup cleanups
	defer func() {
		if keep && err == nil {
			return
		}
		// The interrupt that ended ctx must not keep the clean-up from working.
		cleanCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err = errors.Join(err, cleanup.run(cleanCtx))
	}()

	title("1. A broker, a Terraform CLI and the provider")
	tools := make(chan toolsOrError, 1)
	go func() { tools <- prepareTools(ctx) }() // beside the broker: both take minutes on a new machine
	broker, err := findBroker(ctx, keep, &cleanup)
	made := <-tools
	cleanup.add("remove "+made.dir, func(context.Context) error { return os.RemoveAll(made.dir) })
	if err := errors.Join(err, made.err); err != nil {
		return err
	}
	tf, err := prepareTerraform(made, broker)
	if err != nil {
		return err
	}

	title("2. Apply")
	chain, err := tf.apply(ctx)
	if err != nil {
		return err
	}
	cleanup.add("destroy the chain", tf.destroy)
	printChain(chain)

	title("3. One message, rejected at every attempt")
	if err := journey(ctx, broker, chain); err != nil {
		return err
	}
	if keep {
		printKept(broker, tf)
	}
	return nil
}

// cleanups are what must be taken away again, the last first.
type cleanups struct {
	steps []cleanupStep
}

type cleanupStep struct {
	what string
	do   func(context.Context) error
}

func (c *cleanups) add(what string, do func(context.Context) error) {
	c.steps = append(c.steps, cleanupStep{what, do})
}

func (c *cleanups) run(ctx context.Context) error {
	if len(c.steps) > 0 {
		title("Clean up")
	}
	var errs []error
	for i := len(c.steps) - 1; i >= 0; i-- {
		step := c.steps[i]
		say("%s", step.what)
		if err := step.do(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", step.what, err))
		}
	}
	return errors.Join(errs...)
}

func title(text string) { fmt.Printf("\n%s\n", text) }

func say(format string, args ...any) { fmt.Printf("   "+format+"\n", args...) }
