package broker

import (
	"errors"
	"io"
	"log"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// created makes an error of a declaration that made nothing.
func created(made bool, err error) error {
	if err == nil && !made {
		return errors.New("the object existed already")
	}
	return err
}

// wantError fails unless err is an E whose text holds all parts.
func wantError[E error](t *testing.T, err error, parts ...string) {
	t.Helper()
	var typed E
	if !errors.As(err, &typed) {
		t.Errorf("want a %T, got %T: %v", typed, err, err)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not hold %q: %v", part, err)
		}
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error holds the password: %v", err)
	}
	t.Logf("%T: %v", err, err)
}

// view returns a copy of the virtual host's snapshot.
func view(t *testing.T, c *Client, vhost string) *topology.Topology {
	t.Helper()
	var got *topology.Topology
	must(t, c.View(t.Context(), vhost, func(all *topology.Topology) { got = all.Clone() }))
	return got
}

// secret is the password of the tests' users; no error may show it.
const secret = "s3cr3t-pa55"

var discardLog = log.New(io.Discard, "", 0)

func operatorPolicy(pattern, key string, value int) rabbithole.OperatorPolicy {
	return rabbithole.OperatorPolicy{Pattern: pattern, ApplyTo: topology.ApplyToQueues, Definition: rabbithole.PolicyDefinition{key: value}}
}

// noChains is the [WorkQueues] of a virtual host without chains.
func noChains(*topology.Topology) func(string) string { return nil }
