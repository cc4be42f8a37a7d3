package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// setup is what the tests need.
type setup struct {
	brokers []*rabbit.Broker
	// missing are the versions that cannot be had, with the reason.
	missing []missing
	// cli is the path of the Terraform CLI, tofu says that it is OpenTofu.
	cli  string
	tofu bool
	// dir holds the provider's binary.
	dir string
}

type missing struct {
	version string
	err     error
}

// setUp gets everything side by side, and says of each part how long it took. It
// returns what there is even with an error.
func setUp(ctx context.Context, o options) (*setup, error) {
	s := &setup{}
	var err error
	if s.dir, err = os.MkdirTemp("", "provider-under-test-"); err != nil {
		return s, err
	}
	fmt.Println("set up: brokers, Terraform CLI, provider, test programs")
	started := make(chan struct{})
	parts := map[string]func() (string, error){
		"brokers": func() (string, error) {
			defer close(started)
			return s.startBrokers(ctx, o)
		},
		"provider": func() (string, error) {
			<-started // which say how often they renew their counts
			interval := rabbit.StatisticsInterval(s.brokers)
			if o.cluster {
				interval = rabbit.FastStatisticsInterval
			}
			return "", cli.BuildTestProvider(ctx, ".", s.dir, interval)
		},
		"Terraform CLI": func() (string, error) { return s.findCLI(ctx, o) },
		"test programs": func() (string, error) { return "", compile(ctx, o) },
	}
	var group sync.WaitGroup
	errs := make(chan error, len(parts))
	for name, get := range parts {
		group.Go(func() {
			begin := time.Now()
			what, err := get()
			if err != nil {
				errs <- fmt.Errorf("%s: %w", name, err)
				return
			}
			fmt.Printf("  %-14s %6s  %s\n", name, roughly(time.Since(begin)), what)
		})
	}
	group.Wait()
	close(errs)
	for e := range errs {
		err = errors.Join(err, e)
	}
	return s, err
}

// tearDown ends the brokers and removes the provider.
func (s *setup) tearDown() error {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	return rabbit.StopAll(context.Background(), s.brokers)
}

// startBrokers starts brokers, or uses those of the environment.
func (s *setup) startBrokers(ctx context.Context, o options) (string, error) {
	wanted, err := versions(o.brokers)
	if err != nil {
		return "", err
	}
	if o.cluster {
		return "RabbitMQ " + strings.Join(wanted, ", ") + " as clusters, by the tests", nil
	}
	if rabbit.Given() {
		s.brokers, err = rabbit.All(ctx)
	} else {
		err = s.startEach(ctx, wanted)
	}
	var names []string
	for _, b := range s.brokers {
		names = append(names, b.Version+" from "+b.Source)
	}
	return "RabbitMQ " + strings.Join(names, ", "), err
}

// versions sets the variable that selects brokers, and returns the selected ones.
func versions(list string) ([]string, error) {
	if list != "" {
		if err := os.Setenv(rabbit.EnvVersions, list); err != nil {
			return nil, err
		}
	}
	selected, err := rabbit.SelectedVersions()
	if err != nil || len(selected) > 0 {
		return selected, err
	}
	return rabbit.Versions(), nil
}

// startEach starts a broker of each version. Versions that cannot be had are noted.
func (s *setup) startEach(ctx context.Context, versions []string) error {
	started := make([]*rabbit.Broker, len(versions))
	errs := make([]error, len(versions))
	var group sync.WaitGroup
	for i, version := range versions {
		group.Go(func() {
			started[i], errs[i] = rabbit.Start(ctx, rabbit.Options{Version: version, FastStatistics: true, Log: os.Stdout})
		})
	}
	group.Wait()
	for i, err := range errs {
		if err != nil {
			s.missing = append(s.missing, missing{versions[i], err})
		}
	}
	s.brokers = slices.DeleteFunc(started, func(b *rabbit.Broker) bool { return b == nil })
	err := errors.Join(errs...)
	if len(s.brokers) == 0 {
		return fmt.Errorf("%w\n\"make test-unit\" runs the tests that need no broker", err)
	}
	if os.Getenv(rabbit.EnvAll) != "" {
		return err
	}
	for _, m := range s.missing {
		fmt.Printf("  without RabbitMQ %s: %v\n", m.version, m.err)
	}
	return ctx.Err()
}

func (s *setup) findCLI(ctx context.Context, o options) (string, error) {
	var err error
	if s.tofu = o.tofu; o.tofu {
		s.cli, err = cli.FindTofu(ctx)
	} else {
		s.cli, s.tofu, err = cli.Find(ctx)
	}
	return s.cli, err
}

// compile compiles the packages and their tests, which takes minutes on a new machine
// and a second later.
func compile(ctx context.Context, o options) error {
	args := append([]string{"list", "-export", "-test", "-deps", "-f", "{{if .Error}}{{.Error}}{{end}}"}, o.packages...)
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	return nil
}
