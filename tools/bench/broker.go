package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// oldest is the version with which the published numbers are measured.
const oldest = "3.10"

// bench is the broker that is measured, with the form of chain that it gets.
type bench struct {
	endpoint, username, password string
	version                      abilities.Version
	source                       string
	api                          *rabbithole.Client
	own                          *rabbit.Broker
}

// findBroker uses the broker at RABBITMQ_ENDPOINT or starts one.
func findBroker(ctx context.Context, version string) (*bench, error) {
	b := &bench{
		endpoint: strings.TrimRight(os.Getenv("RABBITMQ_ENDPOINT"), "/"),
		username: cmp.Or(os.Getenv("RABBITMQ_USERNAME"), "guest"),
		password: cmp.Or(os.Getenv("RABBITMQ_PASSWORD"), "guest"),
		source:   "RABBITMQ_ENDPOINT",
	}
	if b.endpoint == "" {
		var err error
		if b.own, err = startBroker(ctx, version); err != nil {
			return nil, err
		}
		b.endpoint, b.username, b.password, b.source = b.own.Endpoint, b.own.Username, b.own.Password, b.own.Source
	}
	if err := b.connect(ctx); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// startBroker starts the version that is asked for, or else the oldest, or else
// any.
func startBroker(ctx context.Context, version string) (*rabbit.Broker, error) {
	started, err := rabbit.Start(ctx, rabbit.Options{Version: cmp.Or(version, oldest), Log: os.Stderr})
	if err == nil || version != "" || ctx.Err() != nil {
		return started, err
	}
	say("no RabbitMQ %s: another version is used", oldest)
	return rabbit.Start(ctx, rabbit.Options{Log: os.Stderr})
}

func (b *bench) connect(ctx context.Context) error {
	client, err := broker.New(broker.Config{Endpoint: b.endpoint, Username: b.username, Password: b.password})
	if err != nil {
		return err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return err
	}
	b.version = info.Version
	b.api, err = rabbithole.NewClient(b.endpoint, b.username, b.password)
	return err
}

// stopTimeout limits the end of a broker that was started here.
const stopTimeout = 30 * time.Second

func (b *bench) stop() {
	if b.own == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := b.own.Stop(ctx); err != nil {
		say("stop the broker: %s", err)
	}
}

// strategy is the flagship where the broker can do it.
func (b *bench) strategy() string {
	if b.version.Has(abilities.LastDeath) {
		return "headers"
	}
	return "routing_key"
}

// inVHost gives use an empty virtual host and deletes it afterwards.
func (b *bench) inVHost(name string, use func() error) error {
	if err := done(b.api.PutVhost(name, rabbithole.VhostSettings{})); err != nil {
		return fmt.Errorf("create virtual host %q: %w", name, err)
	}
	defer func() {
		if err := done(b.api.DeleteVhost(name)); err != nil {
			say("delete virtual host %s: %s", name, err)
		}
	}()
	err := done(b.api.UpdatePermissionsIn(name, b.username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}))
	if err != nil {
		return fmt.Errorf("get access to virtual host %q: %w", name, err)
	}
	return use()
}

func done(resp *http.Response, err error) error {
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// definitions are the objects of a virtual host as the broker exports them.
type definitions struct {
	raw       []byte
	Exchanges []json.RawMessage `json:"exchanges"`
	Queues    []json.RawMessage `json:"queues"`
	Bindings  []json.RawMessage `json:"bindings"`
}

func (d definitions) objects() int { return len(d.Exchanges) + len(d.Queues) + len(d.Bindings) }

func (b *bench) exportDefinitions(ctx context.Context, vhost string) (definitions, error) {
	var d definitions
	raw, err := b.definitionsRequest(ctx, http.MethodGet, vhost, nil)
	if err != nil {
		return d, err
	}
	d.raw = raw
	err = json.Unmarshal(raw, &d)
	return d, err
}

func (b *bench) importDefinitions(ctx context.Context, vhost string, d definitions) error {
	_, err := b.definitionsRequest(ctx, http.MethodPost, vhost, d.raw)
	return err
}

// definitionsRequest is made without rabbit-hole, which has no import into one
// virtual host that takes an export as it is.
func (b *bench) definitionsRequest(ctx context.Context, method, vhost string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, b.endpoint+"/api/definitions/"+url.PathEscape(vhost), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(b.username, b.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("the broker answers %s: %s", response.Status, answer)
	}
	return answer, err
}
