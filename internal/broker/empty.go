package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// proofTiming are the times of [Client.ProveEmpty] and [Client.DeleteQueue].
type proofTiming struct {
	// interval lies between the two reads.
	interval time.Duration
	// patience is how long missing counts are waited for, asking every poll.
	patience, poll time.Duration
	// settle is how long after its start a node may be recovering its queues.
	settle time.Duration
	// leader is how long the leader of a quorum queue may take to show a
	// consumer, and to end it when the queue is deleted.
	leader time.Duration
	// soon is how long after the end of its context a deletion waits for the end of the
	// queue, and grace how long it goes on to put back what it holds.
	soon, grace time.Duration
}

// proofTimingFor returns the times for a broker that renews its counts this often.
// With RabbitMQ's default of 5 s, a new quorum queue with 300 messages showed zeros
// until 6.7 s on 4.3.6, and no counts for up to 10 s on 3.10.8.
func proofTimingFor(statistics time.Duration) proofTiming {
	return proofTiming{
		interval: 2 * statistics, patience: 4 * statistics, poll: statistics * 2 / 5, settle: 24 * statistics,
		leader: 10 * time.Second, soon: 4 * time.Second, grace: 30 * time.Second,
	}
}

// ProveEmpty proves that none of the queues holds a message or has a consumer.
// It returns nothing when each was empty and unused in two reads at least 10 s
// apart and in two passive declarations over AMQP, or is gone. A count that is
// missing, or a total above its parts, speaks against a queue. A queue that cannot be
// asked, or of which management API and AMQP say different things, is an
// [UnknownError].
//
// Otherwise it returns queues that something speaks against, with what was seen
// of them. The others are not proved empty then: the proof ends with the first
// queue that is certain to hold something.
//
// Stop the traffic first: the proof covers what happened before the call. For
// the same reason calls do not share their reads, only their waits: however
// many queues a call has and however many calls run at once, each takes about
// 10 s (two of [Config.StatisticsInterval]), and about 10 s more when a queue is so new that it has no counts yet,
// or when its counts still tell of messages that are gone. A call returns at
// once when a queue is certain to hold messages.
//
// It returns an [AMQPError] when the broker cannot be reached over AMQP, and a
// [StatsError] when the broker keeps no counts.
func (c *Client) ProveEmpty(ctx context.Context, vhost string, queues []topology.Queue) ([]Counts, error) {
	p, err := c.prove(ctx, vhost, queues, false)
	if err != nil {
		return nil, err
	}
	return p.rest, nil
}

// Emptiness is the proof of [Client.ProveEmpty] for each queue by itself: one
// that holds something does not end the proof of the others. empty are those
// that were proved empty, and rest is what was last seen of the others. Queues
// that do not exist are in neither. It takes as long as a proof of all.
func (c *Client) Emptiness(ctx context.Context, vhost string, queues []topology.Queue) (empty []string, rest []Counts, err error) {
	p, err := c.prove(ctx, vhost, queues, true)
	if err != nil {
		return nil, nil, err
	}
	return p.empty, p.rest, nil
}

func (c *Client) prove(ctx context.Context, vhost string, queues []topology.Queue, each bool) (proof, error) {
	p := proof{client: c, vhost: vhost, each: each}
	if len(queues) == 0 {
		return p, nil
	}
	found, err := c.services(ctx)
	if err != nil {
		return p, err
	}
	if found.statsDisabled {
		return p, &StatsError{Endpoint: c.Endpoint()}
	}
	p.depths, err = c.openSession(ctx, vhost)
	if err != nil {
		return p, err
	}
	defer p.depths.Close() //nolint:errcheck // nothing was sent that could be lost

	for _, q := range queues {
		p.candidates = append(p.candidates, q.Name)
	}
	err = p.run(ctx)
	return p, err
}

// proof is one run of ProveEmpty or Emptiness.
type proof struct {
	client *Client
	vhost  string
	depths session
	// each says that a queue which holds something does not end the proof.
	each bool
	// candidates are the queues that are not decided yet.
	candidates []string
	// seen holds what the last read found of those that were not empty.
	seen map[string]Counts
	// empty and rest are the queues that are decided.
	empty []string
	rest  []Counts
}

// maxReads is one more than the two a proof needs: counts of the first read can
// be old and tell of messages that are gone. After it every queue is decided.
const maxReads = 3

// run reads until every queue was empty twice in a row, or is certain not to be.
func (p *proof) run(ctx context.Context) error {
	for n := range maxReads {
		before := p.seen
		if err := p.read(ctx, n == 0); err != nil {
			return err
		}
		if n > 0 {
			p.takeEmpty(before)
		}
		p.takeFull(n)
		if len(p.candidates) == 0 || len(p.rest) > 0 && !p.each {
			break
		}
		if err := p.client.sleep(ctx, p.client.proof.interval); err != nil {
			return p.stopped("waiting to count the messages again", err)
		}
	}
	return nil
}

// stopped tells which queues were waited for and what was seen of them last.
func (p *proof) stopped(step string, err error) error {
	const most = 3
	var queues []string
	for i, name := range p.candidates {
		if i == most {
			queues = append(queues, fmt.Sprintf("%d more", len(p.candidates)-most))
			break
		}
		seen := "no messages"
		if found, known := p.seen[name]; known {
			seen = found.String()
		}
		queues = append(queues, fmt.Sprintf("%q (%s)", name, seen))
	}
	return fmt.Errorf("stopped while %s in vhost %q, queues %s: %w", step, p.vhost, strings.Join(queues, ", "), err)
}

// takeEmpty decides on queues that were empty in this read and in the one
// before.
func (p *proof) takeEmpty(before map[string]Counts) {
	p.candidates = slices.DeleteFunc(p.candidates, func(name string) bool {
		_, full := p.seen[name]
		_, wasFull := before[name]
		if full || wasFull {
			return false
		}
		p.empty = append(p.empty, name)
		return true
	})
}

// takeFull decides on queues that no more reads can prove empty: with messages
// or a consumer by the exact numbers, or with anything in a later read than the
// first. When one is enough, all that seem to hold something go with it.
func (p *proof) takeFull(reads int) {
	certain := func(name string) bool {
		found, full := p.seen[name]
		return full && (reads > 0 || positive(found.AMQPReady) || positive(found.AMQPConsumers))
	}
	if !p.each && !slices.ContainsFunc(p.candidates, certain) {
		return
	}
	p.candidates = slices.DeleteFunc(p.candidates, func(name string) bool {
		found, full := p.seen[name]
		if !full || p.each && !certain(name) {
			return false
		}
		p.rest = append(p.rest, found)
		return true
	})
}

// read counts the candidates' messages. With patience it waits for missing
// counts.
func (p *proof) read(ctx context.Context, patient bool) error {
	counts, err := p.counts(ctx, p.candidates)
	if err == nil && patient {
		err = p.complete(ctx, counts)
	}
	if err != nil {
		return err
	}
	// The exact numbers come last, so that they are the freshest.
	depths, err := p.depths.Depths(ctx, p.candidates)
	if err != nil && ctx.Err() != nil {
		p.seen = counts
		return p.stopped("asking over AMQP", err)
	}
	if err != nil {
		return p.client.unavailable(ctx, p.vhost, err)
	}
	if err := p.dropGone(ctx, counts, depths); err != nil {
		return err
	}
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

// dropGone decides on queues that are gone. Both sides are asked again if they
// disagree: the queue may have gone, or come, between the two answers.
func (p *proof) dropGone(ctx context.Context, counts map[string]Counts, depths map[string]messages.Depth) error {
	var stay []string
	for _, name := range p.candidates {
		_, exists := depths[name]
		gone, err := !exists, error(nil)
		if exists != counts[name].Exists {
			gone, err = p.client.gone(ctx, p.depths, p.vhost, name)
		}
		if err != nil {
			return err
		}
		if !gone {
			stay = append(stay, name)
		}
	}
	p.candidates = stay
	return nil
}

// complete waits for missing counts. Those that do not come may be of queues that
// are half made.
func (p *proof) complete(ctx context.Context, counts map[string]Counts) error {
	missing := incomplete(counts)
	for began := time.Now(); len(missing) > 0 && time.Since(began) < p.client.proof.patience; {
		if err := p.client.sleep(ctx, p.client.proof.poll); err != nil {
			p.seen = counts
			return p.stopped("waiting for the broker to count messages", err)
		}
		again, err := p.counts(ctx, missing)
		if err != nil {
			return err
		}
		maps.Copy(counts, again)
		missing = incomplete(counts)
	}
	for _, name := range missing {
		if err := p.client.Available(ctx, p.vhost, name); err != nil {
			return err
		}
	}
	return p.takeHalfMade(ctx, missing)
}

// takeHalfMade decides on queues that have no counts because they were never
// made to the end: they are empty.
func (p *proof) takeHalfMade(ctx context.Context, uncounted []string) error {
	for _, name := range uncounted {
		// Asked for each queue: time passes while one is waited for.
		half, err := p.client.halfMade(ctx, p.vhost, name, p.client.unsettled(ctx))
		if err != nil {
			return err
		}
		if half {
			p.empty = append(p.empty, name)
			p.candidates = slices.DeleteFunc(p.candidates, func(n string) bool { return n == name })
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

// ProofTime is what a proof that a queue is empty takes: two reads, and some time
// for them. With RabbitMQ's default statistics interval it is 15 s.
func (c *Client) ProofTime() time.Duration { return 3 * c.StatisticsInterval() }

// LooksEmpty says whether the tier seems to be empty. The counts of the API can
// be 5 s old, which would let a plan remove a tier that has just been filled, and
// so AMQP is asked as well. If it cannot be, nobody knows, and the tier goes on
// draining. A queue that an interrupted apply left half made is empty.
func (c *Client) LooksEmpty(ctx context.Context, vhost, queue string) (bool, error) {
	counts, err := c.Counts(ctx, vhost, queue)
	if err != nil {
		return false, err
	}
	if !counts.Complete() {
		return c.LooksHalfMade(ctx, vhost, queue)
	}
	if !counts.Empty() {
		return false, nil
	}
	dialer, err := c.AMQP(ctx)
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	ready, err := dialer.ReadyCount(ctx, vhost, queue)
	return err == nil && ready == 0, nil
}

// NotEmptyError says which queues kept a removal from starting.
type NotEmptyError []Counts

func (e NotEmptyError) Error() string { return "queues hold messages: " + CountsText(e) }

// RequireEmpty returns a [NotEmptyError] when queues hold messages, or may hold
// some, and the errors of [Client.ProveEmpty].
func (c *Client) RequireEmpty(ctx context.Context, vhost string, queues []topology.Queue) error {
	full, err := c.ProveEmpty(ctx, vhost, queues)
	if err == nil && len(full) > 0 {
		return NotEmptyError(full)
	}
	return err
}
