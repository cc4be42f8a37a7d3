package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// vhost is the virtual host of the demo, so that it touches nothing else.
const vhost = "retry-demo"

type demoBroker struct {
	endpoint, username, password string
	amqp                         string // with credentials
	version                      abilities.Version
	own                          *rabbit.Broker // nil when it was given by address
}

// findBroker uses the broker at RABBITMQ_ENDPOINT or starts one, and makes the
// demo's virtual host.
func findBroker(ctx context.Context, keep bool, cleanup *cleanups) (demoBroker, error) {
	b := demoBroker{
		endpoint: strings.TrimRight(os.Getenv("RABBITMQ_ENDPOINT"), "/"),
		username: cmp.Or(os.Getenv("RABBITMQ_USERNAME"), "guest"),
		password: cmp.Or(os.Getenv("RABBITMQ_PASSWORD"), "guest"),
		amqp:     os.Getenv("RABBITMQ_AMQP_ENDPOINT"),
	}
	if b.endpoint == "" {
		own, err := rabbit.Start(ctx, rabbit.Options{Name: "demo", Newest: true, Detached: keep, Log: os.Stdout})
		if err != nil {
			return b, err
		}
		cleanup.add("stop the broker", own.Stop)
		b.own, b.endpoint, b.username, b.password, b.amqp = own, own.Endpoint, own.Username, own.Password, own.AMQP
	}
	client, err := broker.New(broker.Config{
		Endpoint: b.endpoint, Username: b.username, Password: b.password, AMQPEndpoint: withoutUser(b.amqp),
	})
	if err != nil {
		return b, err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return b, err
	}
	b.version = info.Version
	if b.amqp, err = b.amqpAddress(ctx, client); err != nil {
		return b, err
	}
	say("RabbitMQ %s at %s", b.version, b.endpoint)
	return b, b.makeVHost(cleanup)
}

func (b demoBroker) amqpAddress(ctx context.Context, client *broker.Client) (string, error) {
	dialer, err := client.AMQP(ctx)
	if err != nil {
		return "", err
	}
	u, err := url.Parse(dialer.Address)
	if err != nil {
		return "", fmt.Errorf("the broker's AMQP address %q is not a URL", dialer.Address)
	}
	u.User = url.UserPassword(b.username, b.password)
	return u.String(), nil
}

func withoutUser(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	u.User = nil
	return u.String()
}

func (b demoBroker) makeVHost(cleanup *cleanups) error {
	api, err := rabbithole.NewClient(b.endpoint, b.username, b.password)
	if err != nil {
		return err
	}
	if err := done(api.PutVhost(vhost, rabbithole.VhostSettings{})); err != nil {
		return fmt.Errorf("create virtual host %q: %w", vhost, err)
	}
	cleanup.add("delete virtual host "+vhost, func(context.Context) error { return done(api.DeleteVhost(vhost)) })
	say("virtual host %q, made for this demo", vhost)
	return done(api.UpdatePermissionsIn(vhost, b.username, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}))
}

func done(resp *http.Response, err error) error {
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// strategy is the flagship where the broker can do it.
func (b demoBroker) strategy() string {
	if b.version.Has(abilities.LastDeath) {
		return "headers"
	}
	return "routing_key"
}
