package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// proofTiming are the times of [Client.ProveEmpty]. Tests shorten them.
type proofTiming struct {
	// interval lies between the two reads.
	interval time.Duration
	// patience is how long missing counts are waited for, asking every poll.
	patience, poll time.Duration
}

// RabbitMQ refreshes counts every 5 s. A new quorum queue with 300 messages
// showed zeros until 6.7 s on 4.3.6, and no counts for up to 10 s on 3.10.8.
var productionProof = proofTiming{interval: 10 * time.Second, patience: 20 * time.Second, poll: 2 * time.Second}

// depthReader reads exact numbers over AMQP.
type depthReader interface {
	// Depths returns the depth of every queue that exists.
	Depths(ctx context.Context, queues []string) (map[string]messages.Depth, error)
	Close() error
}

// ProveEmpty proves that none of the queues holds a message or has a consumer.
// It returns nothing when each was empty and unused in two reads at least 10 s
// apart and in two passive declarations over AMQP, or does not exist. A count
// that is missing, or a total above its parts, speaks against a queue.
//
// Otherwise it returns queues that something speaks against, with what was seen
// of them. The others are not proved empty then: the proof ends with the first
// queue that is certain to hold something.
//
// Stop the traffic first: the proof covers what happened before the call. For
// the same reason calls do not share their reads, only their waits: however
// many queues a call has and however many calls run at once, each takes about
// 10 s, and about 10 s more when a queue is so new that it has no counts yet,
// or when its counts still tell of messages that are gone. A call returns at
// once when a queue is certain to hold messages.
//
// It returns an [AMQPError] when the broker cannot be reached over AMQP, and a
// [StatsError] when the broker keeps no counts.
func (c *Client) ProveEmpty(ctx context.Context, vhost string, queues []topology.Queue) ([]Counts, error) {
	if len(queues) == 0 {
		return nil, nil
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	if info.StatsDisabled {
		return nil, &StatsError{Endpoint: c.Endpoint()}
	}
	depths, err := c.openDepths(ctx, vhost)
	if err != nil {
		return nil, err
	}
	defer depths.Close() //nolint:errcheck // nothing was sent that could be lost

	p := proof{client: c, vhost: vhost, depths: depths}
	for _, q := range queues {
		p.candidates = append(p.candidates, q.Name)
	}
	return p.run(ctx)
}

// proof is one run of ProveEmpty.
type proof struct {
	client *Client
	vhost  string
	depths depthReader
	// candidates are the queues that are not proved empty yet.
	candidates []string
	// seen holds what the last read found of those that were not empty.
	seen map[string]Counts
}

// maxReads is one more than the two a proof needs: counts of the first read can
// be old and tell of messages that are gone.
const maxReads = 3

// run reads until every queue was empty twice in a row, or is certain not to be.
func (p *proof) run(ctx context.Context) ([]Counts, error) {
	for n := range maxReads {
		before := p.seen
		if err := p.read(ctx, n == 0); err != nil {
			return nil, err
		}
		if n > 0 {
			p.dropProved(before)
		}
		if len(p.candidates) == 0 || p.certain(n) || n == maxReads-1 {
			break
		}
		if err := p.client.sleep(ctx, p.client.proof.interval); err != nil {
			return nil, fmt.Errorf("stopped while waiting to count the messages again: %w", err)
		}
	}
	var unproved []Counts
	for _, name := range p.candidates {
		unproved = append(unproved, p.seen[name])
	}
	return unproved, nil
}

// dropProved ends the proof for queues that were empty in this read and in the
// one before.
func (p *proof) dropProved(before map[string]Counts) {
	p.candidates = slices.DeleteFunc(p.candidates, func(name string) bool {
		_, full := p.seen[name]
		_, wasFull := before[name]
		return !full && !wasFull
	})
}

// certain says whether no more reads can prove every queue empty: one has
// messages or a consumer by the exact numbers, or messages in a later read than
// the first. It keeps only those that were found with something.
func (p *proof) certain(reads int) bool {
	exact := func(c Counts) bool { return positive(c.AMQPReady) || positive(c.AMQPConsumers) }
	certain := reads > 0 && len(p.seen) > 0
	for _, counts := range p.seen {
		certain = certain || exact(counts)
	}
	if certain {
		p.candidates = slices.DeleteFunc(p.candidates, func(name string) bool {
			_, full := p.seen[name]
			return !full
		})
	}
	return certain
}

// read counts the candidates' messages. With patience it waits for missing
// counts.
func (p *proof) read(ctx context.Context, patient bool) error {
	counts, err := p.counts(ctx, p.candidates)
	if err != nil {
		return err
	}
	for began := time.Now(); patient && time.Since(began) < p.client.proof.patience; {
		missing := incomplete(counts)
		if len(missing) == 0 {
			break
		}
		if err := p.client.sleep(ctx, p.client.proof.poll); err != nil {
			return fmt.Errorf("stopped while waiting for the broker to count messages: %w", err)
		}
		again, err := p.counts(ctx, missing)
		if err != nil {
			return err
		}
		maps.Copy(counts, again)
	}
	// The exact numbers come last, so that they are the freshest.
	depths, err := p.depths.Depths(ctx, p.candidates)
	if err != nil {
		return err
	}
	p.candidates = slices.DeleteFunc(p.candidates, func(name string) bool {
		_, exists := depths[name]
		return !exists || !counts[name].Exists
	})
	p.seen = map[string]Counts{}
	for _, name := range p.candidates {
		found := counts[name]
		ready, consumers := int64(depths[name].Ready), int64(depths[name].Consumers)
		found.AMQPReady, found.AMQPConsumers = &ready, &consumers
		if !found.Empty() {
			p.seen[name] = found
		}
	}
	return nil
}

func incomplete(counts map[string]Counts) []string {
	var names []string
	for name, c := range counts {
		if c.Exists && !c.Complete() && !c.holdsSome() {
			names = append(names, name)
		}
	}
	return names
}

func (p *proof) counts(ctx context.Context, queues []string) (map[string]Counts, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu    sync.Mutex
		group sync.WaitGroup
	)
	counts := make(map[string]Counts, len(queues))
	for _, name := range queues {
		group.Go(func() {
			found, err := p.client.Counts(ctx, p.vhost, name)
			if err != nil {
				cancel(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			counts[name] = found
		})
	}
	group.Wait()
	return counts, context.Cause(ctx)
}

// DeleteMode says what a queue may hold when it is deleted.
type DeleteMode int

const (
	// OnlyIfEmpty deletes a queue that [Client.ProveEmpty] has just proved
	// empty, and lets the broker refuse what it can refuse.
	OnlyIfEmpty DeleteMode = iota
	// Always deletes the queue with all its messages.
	Always
)

// DeleteQueue deletes the queue and its bindings. It is no error when the
// queue is gone.
//
// With OnlyIfEmpty a queue with ready messages or consumers is an [InUseError].
// For classic queues the broker itself sees to that, in one step with the
// deletion; messages that are delivered but not acknowledged it does not count
// (3.10 to 4.3). Quorum queues cannot be deleted conditionally in these
// versions and streams ignore the condition, so both are asked over AMQP right
// before.
func (c *Client) DeleteQueue(ctx context.Context, vhost string, q topology.Queue, mode DeleteMode) error {
	if err := checkNames(vhost, q.Name); err != nil {
		return err
	}
	var options []rabbithole.QueueDeleteOptions
	if mode == OnlyIfEmpty {
		if q.Type == topology.Classic || q.Type == "" {
			options = append(options, rabbithole.QueueDeleteOptions{IfEmpty: true, IfUnused: true})
		} else if err := c.checkUnused(ctx, vhost, q.Name); err != nil {
			return err
		}
	}
	op := operation{
		text:   fmt.Sprintf("delete queue %q in vhost %q", q.Name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", q.Name),
		needs:  fmt.Sprintf("configure on %q", q.Name),
	}
	_, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
		return closed(rh.DeleteQueue(vhost, q.Name, options...))
	})
	if err != nil {
		return inUse(err, vhost, q.Name)
	}
	c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, q.Name) })
	return nil
}

// checkUnused fails when the queue has ready messages or consumers.
func (c *Client) checkUnused(ctx context.Context, vhost, queue string) error {
	depths, err := c.openDepths(ctx, vhost)
	if err != nil {
		return err
	}
	defer depths.Close() //nolint:errcheck // nothing was sent that could be lost
	found, err := depths.Depths(ctx, []string{queue})
	if err != nil {
		return err
	}
	depth := found[queue]
	switch {
	case depth.Ready > 0:
		return &InUseError{Vhost: vhost, Queue: queue, Reason: fmt.Sprintf("it holds messages (%d ready)", depth.Ready)}
	case depth.Consumers > 0:
		return &InUseError{Vhost: vhost, Queue: queue, Reason: fmt.Sprintf("it has consumers (%d)", depth.Consumers)}
	}
	return nil
}
