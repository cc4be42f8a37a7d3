package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestAccNodesDown kills nodes of a cluster of three: first the one that the provider
// talks to, over HTTP and AMQP, which nothing notices, and then a second one, without
// which nothing can be changed: that is told in time, with the names of the nodes.
func TestAccNodesDown(t *testing.T) {
	t.Parallel()
	cluster := rabbit.StartCluster(t, "4.3", 3)
	ctx := t.Context()
	var endpoints []string
	for _, b := range cluster.Nodes {
		endpoints = append(endpoints, b.Endpoint)
	}
	cfg := Config{
		Endpoint: strings.Join(endpoints, ","), Username: cluster.Nodes[0].Username, Password: cluster.Nodes[0].Password,
		StatisticsInterval: cluster.Nodes[0].StatisticsInterval,
	}
	c, err := New(cfg)
	must(t, err)
	c.proof.interval, c.proof.patience = 0, 0
	must(t, created(c.DeclareQueue(ctx, "/", orders)))
	if c.Endpoint() != endpoints[0] {
		t.Errorf("talks to %s, want the first address", c.Endpoint())
	}

	must(t, cluster.Kill(ctx, 0))
	other := topology.Queue{Name: "other", Type: topology.Quorum, Durable: true}
	must(t, created(c.DeclareQueue(ctx, "/", other)))
	if c.Endpoint() != endpoints[1] {
		t.Errorf("talks to %s, want the second address", c.Endpoint())
	}
	s, err := c.openAMQP(ctx, "/")
	must(t, err)
	if _, err := s.Depths(ctx, []string{other.Name}); err != nil {
		t.Error(err)
	}
	must(t, s.Close())
	if down, known := c.NodesDown(ctx); !known || len(down) != 1 || down[0] != cluster.Names[0] {
		t.Errorf("down: %v, %v", down, known)
	}

	must(t, cluster.Kill(ctx, 1))
	for _, write := range []func() error{
		func() error {
			return created(c.DeclareExchange(ctx, "/", topology.Exchange{Name: "e", Type: topology.Fanout, Durable: true}))
		},
		func() error {
			return created(c.DeclareQueue(ctx, "/", topology.Queue{Name: "third", Type: topology.Quorum, Durable: true}))
		},
		func() error { return c.DeleteQueue(ctx, "/", other, Always) },
	} {
		c.minority.clear()
		began := time.Now()
		wantError[*NodesDownError](t, write(), "2 of 3 nodes are down", cluster.Names[0], cluster.Names[1])
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("told after %s", took)
		}
	}
	must(t, cluster.Heal(ctx))
	c.minority.clear()
	must(t, c.DeleteQueue(ctx, "/", other, Always))
	if _, err := c.DeclareExchange(ctx, "/", topology.Exchange{Name: "e", Type: topology.Fanout, Durable: true}); err != nil {
		t.Error(err)
	}
}
