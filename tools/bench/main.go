// Command bench measures plan and apply of many retry chains on a real broker,
// side by side with what bounds them: a plain import of the same objects by the
// broker, and Terraform with resources that do nothing.
//
//	go run ./tools/bench                  100 chains of 3 delays on a private RabbitMQ 3.10
//	go run ./tools/bench -version 4.3     on another version
//	go run ./tools/bench -large           1,000 chains as well (takes minutes)
//	go run ./tools/bench -baseline REF    beside the provider of a commit, in turns
//
// It uses the broker at RABBITMQ_ENDPOINT if that is set, in virtual hosts of
// its own, and otherwise starts one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// options are the flags.
type options struct {
	version string
	chains  int
	runs    int
	large   bool
	// baseline is a commit to compare with, "" for none.
	baseline string
}

func main() {
	var o options
	flag.StringVar(&o.version, "version", "", `version of RabbitMQ to start, such as "4.3" (default 3.10 where it can be had, else any)`)
	flag.IntVar(&o.chains, "chains", 100, "number of chains, each with three delays")
	flag.IntVar(&o.runs, "runs", 3, "number of runs, of which the median is shown")
	flag.BoolVar(&o.large, "large", false, "measure 1,000 chains as well, once")
	flag.StringVar(&o.baseline, "baseline", "", "commit whose provider is measured as well, run by run in turns")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// largeChains is the number of chains of -large.
const largeChains = 1000

func run(ctx context.Context, o options) error {
	if o.chains < 1 || o.runs < 1 {
		return errors.New("-chains and -runs must be at least 1")
	}
	b, err := findBroker(ctx, o.version)
	if err != nil {
		return err
	}
	defer b.stop()
	tf, err := prepareTerraform(ctx, b, o.baseline)
	if err != nil {
		return err
	}
	defer tf.remove()
	tf.printVersions(b)

	if err := benchmark(ctx, b, tf, o.chains, o.runs); err != nil || !o.large {
		return err
	}
	return benchmark(ctx, b, tf, largeChains, 1)
}

// benchmark measures everything for one number of chains and prints the table.
func benchmark(ctx context.Context, b *bench, tf *terraform, chains, runs int) error {
	say("measuring %d chains, %d times", chains, runs)
	t := newTable(tf.providers)
	for range runs {
		if err := t.measure(ctx, b, tf, chains); err != nil {
			return err
		}
	}
	// Once more through a proxy that counts, and with a look at the provider's
	// memory. Neither may disturb the times.
	for _, s := range t.subjects {
		if err := s.count(ctx, b, tf, chains); err != nil {
			return err
		}
	}
	return t.print(chains, runs, b)
}

// say tells of progress. It goes to standard error, the results do not.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "   "+format+"\n", args...) }
