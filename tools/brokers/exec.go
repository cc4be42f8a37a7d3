package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// execute starts brokers, runs a command against them and ends them.
func execute(signals <-chan os.Signal, o options, command []string) error {
	var brokers []*rabbit.Broker
	err := untilSignal(signals, func(ctx context.Context) (err error) {
		brokers, err = obtain(ctx, o)
		return err
	})
	if err == nil {
		err = runCommand(signals, command, rabbit.Environment(brokers))
	}
	if stopped := rabbit.StopAll(context.Background(), brokers); stopped != nil {
		fmt.Fprintln(os.Stderr, "brokers:", stopped)
		if err == nil {
			err = exitCode(1)
		}
	}
	return err
}

// obtain returns the brokers of the environment, or starts some that end with
// this process.
func obtain(ctx context.Context, o options) ([]*rabbit.Broker, error) {
	if o.versions != "" {
		if err := os.Setenv(rabbit.EnvVersions, o.versions); err != nil {
			return nil, err
		}
	}
	begin := time.Now()
	brokers, err := rabbit.All(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, b := range brokers {
		names = append(names, fmt.Sprintf("%s at %s", b.Version, b.Endpoint))
	}
	fmt.Fprintf(os.Stderr, "brokers: RabbitMQ %s (%.1f s)\n", strings.Join(names, ", "), time.Since(begin).Seconds())
	return brokers, nil
}

// commandLimit is how long a command may take to end after a signal.
const commandLimit = 30 * time.Second

// runCommand runs a command with additional environment variables and passes
// signals on to it.
func runCommand(signals <-chan os.Signal, command, env []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var received os.Signal
	var limit <-chan time.Time
	for {
		select {
		case received = <-signals:
			cmd.Process.Signal(received)
			limit = time.After(commandLimit)
		case <-limit:
			cmd.Process.Kill()
		case err := <-done:
			if received != nil {
				return signalCode(received)
			}
			return codeOf(err)
		}
	}
}

// codeOf turns the error of a command that ran into its exit code.
func codeOf(err error) error {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	if code := exit.ExitCode(); code >= 0 {
		return exitCode(code)
	}
	return fmt.Errorf("the command was ended: %w", err)
}
