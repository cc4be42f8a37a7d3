package broker

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Counts are the numbers of messages in a queue. The management API's are up
// to 5 s old, 7 s have been seen on 4.3 and missing ones for longer on 3.10;
// nil means that the broker did not report the number.
type Counts struct {
	Queue string
	// Exists is false for a queue that the management API does not list.
	Exists bool
	// Messages is the total, which can exceed Ready + Unacknowledged.
	Messages       *int64
	Ready          *int64
	Unacknowledged *int64
	// DeadLetters wait to be dead-lettered at least once (quorum queues).
	DeadLetters *int64
	// Delayed wait to be delivered again (quorum queues since 4.3).
	Delayed *int64
	// AMQPReady and AMQPConsumers come from a passive declaration, which
	// [Client.ProveEmpty] makes and [Client.Counts] does not. They are exact.
	AMQPReady     *int64
	AMQPConsumers *int64
}

// Complete says whether the broker reports the numbers that every queue has.
func (c Counts) Complete() bool {
	return c.Messages != nil && c.Ready != nil && c.Unacknowledged != nil
}

// Empty says whether nothing in these numbers speaks of a message or of a
// consumer, which may be about to give one back. A number that is missing does.
func (c Counts) Empty() bool {
	if !c.Exists {
		return true
	}
	return c.Complete() && !c.holdsSome()
}

func (c Counts) holdsSome() bool {
	if !c.Exists {
		return false
	}
	return slices.ContainsFunc([]*int64{
		c.Messages, c.Ready, c.Unacknowledged, c.DeadLetters, c.Delayed, c.AMQPReady, c.AMQPConsumers,
	}, positive)
}

func positive(n *int64) bool { return n != nil && *n > 0 }

// PendingDeadLetters returns how many messages wait to be dead-lettered at
// least once. Where the broker reports no such number, as for classic queues,
// it is what the total exceeds its parts by. known is false while the counts are
// missing. Three messages that had just expired showed after 6.9 s at the latest
// (3.10.8, 4.0.5, 4.3.6).
func (c Counts) PendingDeadLetters() (n int64, known bool) {
	switch {
	case !c.Exists:
		return 0, true
	case !c.Complete():
		return 0, false
	}
	n = *c.Messages - *c.Ready - *c.Unacknowledged
	if c.Delayed != nil {
		n -= *c.Delayed
	}
	if c.DeadLetters != nil {
		n = max(n, *c.DeadLetters)
	}
	return max(n, 0), true
}

// String says what is in the queue, such as "3 messages (2 ready, 1
// unacknowledged)".
func (c Counts) String() string {
	switch {
	case !c.Exists:
		return "the queue does not exist"
	case !c.Complete() && !c.holdsSome():
		return "the broker has not reported the number of messages yet"
	case c.Empty():
		return "no messages"
	}
	total := "messages"
	switch {
	case positive(c.Messages):
		total = quantity(*c.Messages, "message")
	case positive(c.AMQPConsumers) && len(c.parts()) == 1:
		total = "no messages"
	}
	if parts := c.parts(); len(parts) > 0 {
		total += " (" + strings.Join(parts, ", ") + ")"
	}
	return total
}

// parts says where the messages are.
func (c Counts) parts() []string {
	var parts []string
	add := func(n *int64, text string) {
		if positive(n) {
			parts = append(parts, fmt.Sprintf("%d %s", *n, text))
		}
	}
	add(c.Ready, "ready")
	add(c.Unacknowledged, "unacknowledged")
	add(c.DeadLetters, "waiting to be dead-lettered")
	add(c.Delayed, "delayed")
	if c.Ready == nil || c.AMQPReady != nil && *c.Ready != *c.AMQPReady {
		add(c.AMQPReady, "ready according to AMQP")
	}
	if positive(c.AMQPConsumers) {
		parts = append(parts, quantity(*c.AMQPConsumers, "consumer"))
	}
	return parts
}

// quantity writes how many there are of something.
func quantity(n int64, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

const countColumns = "name,messages,messages_ready,messages_unacknowledged,messages_dlx,messages_delayed"

// Counts reads the management API's numbers for one queue.
func (c *Client) Counts(ctx context.Context, vhost, queue string) (Counts, error) {
	if err := checkNames(vhost, queue); err != nil {
		return Counts{}, err
	}
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("count the messages of queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	k.query = url.Values{"columns": {countColumns}}
	found, err := get[struct {
		Messages       *int64 `json:"messages"`
		Ready          *int64 `json:"messages_ready"`
		Unacknowledged *int64 `json:"messages_unacknowledged"`
		DeadLetters    *int64 `json:"messages_dlx"`
		Delayed        *int64 `json:"messages_delayed"`
	}](k, func(rh *rabbithole.Client) (any, error) { return rh.GetQueue(vhost, queue) })
	if isNotFound(err) {
		listed, err := c.onlyListed(ctx, vhost, queue)
		return Counts{Queue: queue, Exists: listed != nil}, err
	}
	if err != nil {
		return Counts{}, err
	}
	return Counts{
		Queue:          queue,
		Exists:         true,
		Messages:       found.Messages,
		Ready:          found.Ready,
		Unacknowledged: found.Unacknowledged,
		DeadLetters:    found.DeadLetters,
		Delayed:        found.Delayed,
	}, nil
}

func isNotFound(err error) bool {
	var missing *NotFoundError
	return errors.As(err, &missing)
}

// PendingDeadLetters counts the dead letters on their way out of the queue. The
// broker's numbers can be 7 s old, so that they tell of messages that have
// arrived and not of new ones, and those of a new queue are missing for up to
// 10 s: only what they say after this time counts. On a busy broker they can be
// older still, and so dead letters have some more time to arrive.
func (c *Client) PendingDeadLetters(ctx context.Context, vhost, queue string) (int64, Counts, error) {
	const patience = 20 * time.Second
	settle := c.statistics * 7 / 5
	for began := time.Now(); ; {
		counts, err := c.Counts(ctx, vhost, queue)
		if err != nil {
			return 0, counts, err
		}
		pending, known := counts.PendingDeadLetters()
		switch {
		case known && pending == 0 && time.Since(began) > settle, known && time.Since(began) > patience:
			return pending, counts, nil
		case time.Since(began) > patience:
			return 0, counts, fmt.Errorf("the broker does not report the number of messages in queue %q, and so nobody knows whether "+
				"dead letters are on their way, which RabbitMQ would delete. Nothing was changed; apply again", queue)
		}
		if err := c.sleep(ctx, c.statistics/5); err != nil {
			return 0, counts, fmt.Errorf("stopped while waiting for dead letters of queue %q in vhost %q (%s): %w",
				queue, vhost, counts, err)
		}
	}
}

// RequireNoPendingDeadLetters refuses a change that makes a queue stop to dead-letter at
// least once, as weakens tells of the virtual host, while dead letters are on their way.
func (c *Client) RequireNoPendingDeadLetters(
	ctx context.Context, vhost, queue string, weakens func(in *topology.Topology) bool,
) error {
	does := false
	err := c.View(ctx, vhost, func(in *topology.Topology) { does = weakens(in) })
	if err != nil || !does {
		return err
	}
	pending, counts, err := c.PendingDeadLetters(ctx, vhost, queue)
	if err != nil {
		return err
	}
	if pending > 0 {
		return fmt.Errorf("queue %q has %s, and RabbitMQ deletes dead letters on their way when the queue does not dead-letter at "+
			"least once any more. Nothing was changed. Wait until they have arrived, which they do at once if their route is complete "+
			"and after 180 seconds if it was mended just now, and apply again",
			queue, counts)
	}
	return nil
}

// CountsText lists queues and what they hold, one per line.
func CountsText(counts []Counts) string {
	lines := make([]string, 0, len(counts))
	for _, c := range counts {
		lines = append(lines, fmt.Sprintf("%s: %s", c.Queue, c))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n  ")
}
