package broker

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// snapshot is what is known of one virtual host.
type snapshot struct {
	mu sync.RWMutex
	// topology is nil until the lists have been read.
	topology *topology.Topology
	// writes were made while the lists were being read. Whether the lists show
	// them is chance, so they are made again on what was read. Doing a write
	// twice changes nothing.
	writes []change
	// down are the queues that were down when the lists were read, with their nodes.
	down map[string]string
	// began is when the reading of the lists began.
	began time.Time
}

// change is the effect of one write on a topology.
type change func(*topology.Topology)

func (s *snapshot) apply(effect change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.topology == nil {
		s.writes = append(s.writes, effect)
		return
	}
	effect(s.topology)
}

func (s *snapshot) loaded(t *topology.Topology, down map[string]string, began time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, effect := range s.writes {
		effect(t)
	}
	s.topology, s.down, s.writes, s.began = t, down, nil, began
}

// View calls use with all exchanges, queues, bindings, policies and operator
// policies of the virtual host, without the default exchange and its bindings.
// They are read with five requests, once per process however many call;
// afterwards the writes of this client keep them up to date. Changes made by
// others are seen after [Client.Reload] only.
//
// use runs under a read lock: it must neither keep the topology, nor change
// it, nor call the client. View returns a [VhostError] for a virtual host that
// is missing or not accessible, and an error if ctx ended meanwhile: what use
// learned of policies can be wrong then.
func (c *Client) View(ctx context.Context, vhost string, use func(*topology.Topology)) error {
	s, err := c.snapshot(ctx, vhost)
	if err != nil {
		return err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	use(s.topology.Until(ctx.Done()))
	return context.Cause(ctx)
}

// DownQueues returns the queues that were down when the virtual host was read, with
// the node that each is on: RabbitMQ lists a classic queue whose node is down with its
// properties (rabbit_amqqueue:list_down/1, 3.10 to 4.3).
func (c *Client) DownQueues(ctx context.Context, vhost string) (map[string]string, error) {
	s, err := c.snapshot(ctx, vhost)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.down, nil
}

func (c *Client) snapshot(ctx context.Context, vhost string) (*snapshot, error) {
	return c.snapshots.get(ctx, vhost, func(ctx context.Context, s *snapshot) error {
		return c.loadSnapshot(ctx, vhost, s)
	})
}

// Reload makes the next [Client.View] of the virtual host read it again.
func (c *Client) Reload(vhost string) { c.snapshots.forget(vhost) }

// Renew is [Client.Reload] if what is known of the virtual host is older than
// maxAge.
func (c *Client) Renew(vhost string, maxAge time.Duration) {
	s := c.snapshots.peek(vhost)
	if s == nil {
		return
	}
	s.mu.RLock()
	old := !s.began.IsZero() && time.Since(s.began) > maxAge
	s.mu.RUnlock()
	if old {
		c.Reload(vhost)
	}
}

// wrote brings the snapshot up to date after a write.
func (c *Client) wrote(vhost string, effect change) {
	if s := c.snapshots.peek(vhost); s != nil {
		s.apply(effect)
	}
}

func (c *Client) loadSnapshot(ctx context.Context, vhost string, s *snapshot) error {
	began := time.Now()
	reading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		found lists
		group sync.WaitGroup
	)
	list := func(what string, query url.Values, read func(k *call) error) {
		group.Go(func() {
			k := c.newCall(reading, operation{text: fmt.Sprintf("list the %s of vhost %q", what, vhost), vhost: vhost})
			k.query = query
			if err := read(k); err != nil {
				cancel(err)
			}
		})
	}
	list("queues", withoutStats(queueColumns), func(k *call) (err error) {
		found.queues, err = fetch[[]queueJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListQueuesIn(vhost) })
		return err
	})
	list("exchanges", url.Values{"columns": {exchangeColumns}}, func(k *call) (err error) {
		found.exchanges, err = fetch[[]exchangeJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListExchangesIn(vhost) })
		return err
	})
	list("bindings", nil, func(k *call) (err error) {
		found.bindings, err = fetch[[]bindingJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListBindingsIn(vhost) })
		return err
	})
	list("policies", nil, func(k *call) (err error) {
		found.policies, err = fetch[[]policyJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListPoliciesIn(vhost) })
		return err
	})
	list("operator policies", nil, func(k *call) (err error) {
		found.operatorPolicies, err = fetch[[]policyJSON](k, func(rh *rabbithole.Client) (any, error) {
			return rh.ListOperatorPoliciesIn(vhost)
		})
		return err
	})
	group.Wait()
	if err := context.Cause(reading); err != nil {
		return c.explain(ctx, operation{text: fmt.Sprintf("read the vhost %q", vhost), vhost: vhost}, err)
	}
	s.loaded(found.topology(), found.down(), began)
	return nil
}

// lists are what the broker answers for one virtual host.
type lists struct {
	exchanges        []exchangeJSON
	queues           []queueJSON
	bindings         []bindingJSON
	policies         []policyJSON
	operatorPolicies []policyJSON
}

// down returns the queues that are down, with their nodes.
func (l lists) down() map[string]string {
	down := map[string]string{}
	for _, q := range l.queues {
		if q.State == "down" {
			down[q.Name] = q.Node
		}
	}
	return down
}

func (l lists) topology() *topology.Topology {
	t := topology.New()
	for _, e := range l.exchanges {
		if e.Name != "" {
			t.SetExchange(e.exchange())
		}
	}
	for _, q := range l.queues {
		t.SetQueue(q.queue())
	}
	for _, b := range l.bindings {
		if b.Source != "" {
			t.Bind(b.binding())
		}
	}
	for _, p := range l.policies {
		t.SetPolicy(p.policy(false))
	}
	for _, p := range l.operatorPolicies {
		t.SetPolicy(p.policy(true))
	}
	return t
}
