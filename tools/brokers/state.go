package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// stateDir returns the absolute path of the directory that up, status and
// down share.
func (o *options) stateDir() (string, error) {
	if o.state != "" {
		return filepath.Abs(o.state)
	}
	cache, err := rabbit.CacheDir()
	return filepath.Join(cache, "brokers"), err
}

func stateFile(dir string) string { return filepath.Join(dir, "brokers.json") }

// load returns the brokers of the state file, none if there is no such file.
func load(dir string) ([]*rabbit.Broker, error) {
	text, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var brokers []*rabbit.Broker
	if err := json.Unmarshal(text, &brokers); err != nil {
		return nil, fmt.Errorf("%s: %w", stateFile(dir), err)
	}
	return brokers, nil
}

func save(dir string, brokers []*rabbit.Broker) error {
	text, err := json.MarshalIndent(brokers, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(stateFile(dir), append(text, '\n'), 0o600)
}

// up starts brokers that outlive this process. Brokers that it started before
// and that all still run are used again.
func up(ctx context.Context, o options) error {
	dir, err := o.stateDir()
	if err != nil {
		return err
	}
	versions, err := o.chosen()
	if err != nil {
		return err
	}
	brokers, err := load(dir)
	if err != nil {
		return err
	}
	if reusable(ctx, brokers, versions) {
		return list(ctx, brokers, o.printEnv)
	}
	if err := remove(dir, brokers); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	log := &lineWriter{to: os.Stderr}
	var all []rabbit.Options
	for _, v := range versions {
		o := rabbit.Options{Version: v, FastStatistics: true, Dir: filepath.Join(dir, v), Detached: true, Log: log}
		if err := os.RemoveAll(o.Dir); err != nil { // of a start that failed
			return err
		}
		all = append(all, o)
	}
	if brokers, err = rabbit.StartAll(ctx, all); err != nil {
		return err
	}
	if err := save(dir, brokers); err != nil {
		return errors.Join(err, remove(dir, brokers))
	}
	return list(ctx, brokers, o.printEnv)
}

// reusable says whether the brokers are those of the versions and all run.
func reusable(ctx context.Context, brokers []*rabbit.Broker, versions []string) bool {
	if len(brokers) != len(versions) {
		return false
	}
	for i, b := range brokers {
		if b.Name != versions[i] || !b.Running(ctx) {
			return false
		}
	}
	return true
}

// status lists the brokers that up started.
func status(ctx context.Context, o options) error {
	dir, err := o.stateDir()
	if err != nil {
		return err
	}
	brokers, err := load(dir)
	if err != nil {
		return err
	}
	if len(brokers) == 0 {
		return errors.New("none were started (brokers up)")
	}
	return list(ctx, brokers, o.printEnv)
}

// down ends the brokers that up started and removes their files.
func down(o options) error {
	dir, err := o.stateDir()
	if err != nil {
		return err
	}
	brokers, err := load(dir)
	if err != nil {
		return err
	}
	return remove(dir, brokers)
}

// remove kills brokers and removes their files and the state file.
func remove(dir string, brokers []*rabbit.Broker) error {
	atOnce, cancel := context.WithCancel(context.Background())
	cancel()
	if err := rabbit.StopAll(atOnce, brokers); err != nil {
		return err
	}
	for _, b := range brokers {
		if b.Dir != "" {
			if err := os.RemoveAll(b.Dir); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(stateFile(dir)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// list prints a line for each broker, or the environment that makes tests use
// them.
func list(ctx context.Context, brokers []*rabbit.Broker, asEnv bool) error {
	if asEnv {
		printEnv(os.Stdout, brokers)
		return nil
	}
	for _, b := range brokers {
		state := "ended"
		if b.Running(ctx) {
			state = "running"
		}
		fmt.Printf("%-5s %-8s %-8s %s  %s  pids %v\n", b.Name, b.Version, state, b.Endpoint, b.AMQP, b.PIDs)
	}
	return nil
}

// printEnv writes the environment as commands for a shell.
func printEnv(to io.Writer, brokers []*rabbit.Broker) {
	for _, variable := range rabbit.Environment(brokers) {
		name, value, _ := strings.Cut(variable, "=")
		quoted := "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
		fmt.Fprintf(to, "export %s=%s\n", name, quoted)
	}
}
