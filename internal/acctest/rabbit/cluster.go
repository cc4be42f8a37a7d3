package rabbit

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Cluster is a cluster of nodes on this machine. Its methods may not be called
// concurrently.
type Cluster struct {
	// Nodes are its nodes, each with addresses of its own. Use the methods of
	// the cluster to kill and to start them.
	Nodes []*Broker
	// Names are the Erlang names of the nodes, as "node" of a queue has them.
	Names []string
}

// member is a node's place in a cluster.
type member struct {
	names []string
	self  int
	// cookie is the secret that the nodes share, epmdPort the port of the port
	// mapper in which they find each other.
	cookie   string
	epmdPort int
}

func (m *member) name() string { return m.names[m.self] }

// config lists the nodes. pause_minority stops the nodes without a majority before
// 4.3. Of two nodes it would stop the one that survives.
func (m *member) config() string {
	var text strings.Builder
	text.WriteString("cluster_formation.peer_discovery_backend = classic_config\n")
	for i, name := range m.names {
		fmt.Fprintf(&text, "cluster_formation.classic_config.nodes.%d = %s\n", i+1, name)
	}
	if len(m.names) > 2 {
		text.WriteString("cluster_partition_handling = pause_minority\n")
	}
	return text.String()
}

// cookie is the secret of the node: its own, or that of its cluster.
func (o Options) cookie() string {
	if o.member != nil {
		return o.member.cookie
	}
	return rand.Text()
}

// nodeName returns an Erlang node name that is unique on this machine.
func nodeName() string { return "retrychain-" + strings.ToLower(rand.Text()[:12]) + "@localhost" }

// StartCluster starts a cluster of n nodes for one test and stops it when the test
// ends. If nodes of the version cannot be had as processes of this machine, the test
// is skipped, or with [EnvAll] fails. Without TF_ACC it is skipped, too. A cluster of
// three takes about 20 s on two cores.
func StartCluster(t testing.TB, version string, n int) *Cluster {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("starts a cluster: set TF_ACC=1, or run make test")
	}
	from, err := clusterOrigin(t.Context(), version, t.Output())
	if err != nil {
		if os.Getenv(EnvAll) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	c, err := startCluster(t.Context(), from, version, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// NewCluster starts a cluster of n nodes, which have [Options.FastStatistics]. Stop it
// with [Cluster.Stop].
func NewCluster(ctx context.Context, version string, n int, log io.Writer) (*Cluster, error) {
	from, err := clusterOrigin(ctx, version, log)
	if err != nil {
		return nil, err
	}
	return startCluster(ctx, from, version, n)
}

// clusterOrigin is where nodes come from that find each other: not containers, each of
// which has a network of its own.
func clusterOrigin(ctx context.Context, version string, log io.Writer) (origin, error) {
	from := slices.DeleteFunc(sources(version), func(s source) bool { return s.name == dockerSource })
	return chooseFrom(ctx, from, version, log)
}

// joinPause lies between the starts of two nodes. A node that is started long before
// the others waits for them (3.13 and later), and nodes that are started at once compete.
const joinPause = 2 * time.Second

func startCluster(ctx context.Context, from origin, version string, n int) (*Cluster, error) {
	epmdPort, err := portBlock()
	if err != nil {
		return nil, err
	}
	c := &Cluster{Nodes: make([]*Broker, n)}
	for range n {
		c.Names = append(c.Names, nodeName())
	}
	m := member{names: c.Names, cookie: rand.Text(), epmdPort: epmdPort}
	var group sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		if i > 0 {
			time.Sleep(joinPause)
		}
		m.self = i
		self := m
		o := Options{Version: version, FastStatistics: true, ExtraConfig: m.config(), member: &self}
		if c.Nodes[i], errs[i] = from.start(ctx, o); errs[i] != nil {
			break
		}
		group.Go(func() { errs[i] = c.Nodes[i].begin(ctx, from, fmt.Sprintf("%s-%d", version, i+1)) })
	}
	group.Wait()
	err = errors.Join(errs...)
	if err == nil {
		err = c.awaitRunning(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Stop(context.WithoutCancel(ctx)))
	}
	return c, nil
}

// Stop ends all nodes and removes their data.
func (c *Cluster) Stop(ctx context.Context) error { return StopAll(ctx, c.Nodes) }

// Kill ends nodes at once, as kill -9 does, and returns when the living nodes have
// noticed it. Nodes count from 0.
func (c *Cluster) Kill(ctx context.Context, nodes ...int) error {
	for _, i := range nodes {
		if err := c.Nodes[i].Kill(); err != nil {
			return err
		}
	}
	return c.awaitRunning(ctx)
}

// Start starts nodes again, side by side: before 4.3 the first nodes of a cluster that
// was stopped wait for the last. It returns when every living node knows them as
// running.
func (c *Cluster) Start(ctx context.Context, nodes ...int) error {
	errs := make([]error, len(nodes))
	var group sync.WaitGroup
	for k, i := range nodes {
		group.Go(func() { errs[k] = c.Nodes[i].Restart(ctx) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return c.awaitRunning(ctx)
}

// Heal starts every node that does not run.
func (c *Cluster) Heal(ctx context.Context) error {
	var down []int
	for i, b := range c.Nodes {
		if !b.Running(ctx) {
			down = append(down, i)
		}
	}
	return c.Start(ctx, down...)
}

// Node returns the number of the node with this Erlang name, or -1.
func (c *Cluster) Node(name string) int { return slices.Index(c.Names, name) }

// Leader returns the number of the node that a queue's leader, or a classic queue, is
// on. It is -1 while there is none.
func (c *Cluster) Leader(ctx context.Context, vhost, queue string) (int, error) {
	var q struct {
		Node   string `json:"node"`
		Leader string `json:"leader"`
	}
	err := errors.New("no node runs")
	for _, b := range c.Nodes {
		if !b.Running(ctx) {
			continue
		}
		if err = b.get(ctx, "/api/queues/"+url.PathEscape(vhost)+"/"+url.PathEscape(queue), &q); err == nil {
			break
		}
	}
	if err != nil {
		return -1, err
	}
	if q.Leader != "" {
		return c.Node(q.Leader), nil
	}
	return c.Node(q.Node), nil
}

// noticeLimit is how long the nodes may take to agree on which of them run.
const noticeLimit = time.Minute

// awaitRunning waits until every node that answers lists those nodes as running whose
// processes are there, and no others. A node that paused for want of a majority does
// not answer.
func (c *Cluster) awaitRunning(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	want := map[string]bool{}
	for i, b := range c.Nodes {
		want[c.Names[i]] = b.Running(ctx)
	}
	majority := 2*c.count(ctx) > len(c.Nodes) || len(c.Nodes) == 2
	for {
		err := c.agree(ctx, want, majority)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the nodes do not agree on which of them run: %w", err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func (c *Cluster) count(ctx context.Context) int {
	n := 0
	for _, b := range c.Nodes {
		if b.Running(ctx) {
			n++
		}
	}
	return n
}

// agree compares what the living nodes say with what should be. Without a majority a
// node need not answer.
func (c *Cluster) agree(ctx context.Context, want map[string]bool, majority bool) error {
	for i, b := range c.Nodes {
		if !want[c.Names[i]] {
			continue
		}
		var nodes []struct {
			Name    string `json:"name"`
			Running bool   `json:"running"`
		}
		if err := b.get(ctx, "/api/nodes?columns=name,running", &nodes); err != nil {
			if majority {
				return err
			}
			continue
		}
		for _, n := range nodes {
			if n.Running != want[n.Name] {
				return fmt.Errorf("%s has %s running: %t", c.Names[i], n.Name, n.Running)
			}
		}
		if len(nodes) != len(c.Nodes) {
			return fmt.Errorf("%s knows of %d nodes", c.Names[i], len(nodes))
		}
	}
	return nil
}
