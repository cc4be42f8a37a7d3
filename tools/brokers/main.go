// Command brokers starts RabbitMQ brokers for tests and ends them.
//
//	brokers up     [--versions LIST] [--state DIR] [--print-env]  start brokers that keep running
//	brokers status [--state DIR] [--print-env]                    say which of them run
//	brokers down   [--state DIR]                                  end them
//	brokers prepare [--versions LIST]                             only install or download what is needed
//
// LIST is a list of versions such as 3.10,4.0. The default is the environment
// variable RETRYCHAIN_BROKERS, or else all versions that are tested. Tests use the
// brokers that --print-env names:
//
//	eval "$(go run ./tools/brokers up --print-env)"
//
// The exit code is 2 for wrong usage, 1 for any other failure, and 128 plus the
// signal's number after SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const usage = `usage:
  brokers up      [--versions 3.10,4.0,4.3] [--state DIR] [--print-env]
  brokers status  [--state DIR] [--print-env]
  brokers down    [--state DIR]
  brokers prepare [--versions 3.10,4.0,4.3]
`

// errUsage says that the command line is wrong and the reason was printed.
var errUsage = errors.New("wrong usage")

// exitCode is the exit code after a signal.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func main() {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(report(run(signals, os.Args[1:])))
}

// report prints an error and returns the exit code for it.
func report(err error) int {
	var code exitCode
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errUsage):
		return 2
	case errors.As(err, &code):
		return int(code)
	}
	fmt.Fprintln(os.Stderr, "brokers:", err)
	return 1
}

func run(signals <-chan os.Signal, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	name, args := args[0], args[1:]
	o := options{}
	flags := flag.NewFlagSet("brokers "+name, flag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	switch name {
	case "up":
		o.addVersions(flags)
		o.addState(flags)
	case "status":
		o.addState(flags)
	case "down":
		flags.StringVar(&o.state, "state", "", "")
	case "prepare":
		o.addVersions(flags)
	default:
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	if err := flags.Parse(args); err != nil {
		return errUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprint(os.Stderr, usage)
		return errUsage
	}
	return untilSignal(signals, func(ctx context.Context) error {
		switch name {
		case "up":
			return up(ctx, o)
		case "status":
			return status(ctx, o)
		case "down":
			return down(o)
		}
		return prepare(ctx, o)
	})
}

// options are the flags of all subcommands.
type options struct {
	versions string
	state    string
	printEnv bool
}

func (o *options) addVersions(flags *flag.FlagSet) {
	flags.StringVar(&o.versions, "versions", "", "")
}

func (o *options) addState(flags *flag.FlagSet) {
	flags.StringVar(&o.state, "state", "", "")
	flags.BoolVar(&o.printEnv, "print-env", false, "")
}

// chosen returns the versions to start.
func (o *options) chosen() ([]string, error) {
	list, err := rabbit.ParseVersions(o.versions)
	if err == nil && len(list) == 0 {
		list, err = rabbit.SelectedVersions()
	}
	if err == nil && len(list) == 0 {
		list = rabbit.Versions()
	}
	return list, err
}

// untilSignal runs f with a context that ends at the first signal. The error
// is then the exit code for that signal.
func untilSignal(signals <-chan os.Signal, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case s := <-signals:
		cancel(fmt.Errorf("ended by signal: %s", s))
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "brokers:", err)
		}
		return signalCode(s)
	}
}

// signalCode is the exit code that shells use for a signal.
func signalCode(s os.Signal) exitCode {
	if number, ok := s.(syscall.Signal); ok {
		return 128 + exitCode(number)
	}
	return 1
}

// prepare gets what the versions need, all at once.
func prepare(ctx context.Context, o options) error {
	versions, err := o.chosen()
	if err != nil {
		return err
	}
	log := &lineWriter{to: os.Stderr}
	errs := make([]error, len(versions))
	var group sync.WaitGroup
	for i, v := range versions {
		group.Go(func() {
			from, err := rabbit.Prepare(ctx, v, log)
			if err != nil {
				errs[i] = err
				return
			}
			fmt.Fprintf(log, "RabbitMQ %s: %s\n", v, from)
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// lineWriter lets several goroutines write whole lines.
type lineWriter struct {
	sync.Mutex
	to io.Writer
}

func (w *lineWriter) Write(line []byte) (int, error) {
	w.Lock()
	defer w.Unlock()
	return w.to.Write(line)
}
