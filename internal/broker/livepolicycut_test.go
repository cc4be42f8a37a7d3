package broker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// errCut ends a write on purpose.
var errCut = errors.New("cut by the test")

// TestLivePolicyBrokenOff ends writes of policies 0 to 8 ms after they began. A policy
// that is listed in its wanted form then is in effect, and one that is not listed is not:
// otherwise no later look at the broker could tell what is wrong.
func TestLivePolicyBrokenOff(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				b := b
				b.vhost = b.newVHost(t) // policies that two clients change at once can stay without effect
				c, ch := b.client(t), b.channel(t)
				dead := topology.Queue{Name: "dead." + string(kind), Type: topology.Classic, Durable: true}
				must(t, created(c.DeclareQueue(t.Context(), b.vhost, dead)))
				for i := range rabbit.Size(45, 18) {
					after := time.Duration(i%9) * time.Millisecond
					q := topology.Queue{Name: fmt.Sprintf("%s.%d", kind, i), Type: kind, Durable: true}
					must(t, created(c.DeclareQueue(t.Context(), b.vhost, q)))
					cutPolicy{b, c, ch, q.Name, dead.Name}.check(t, after)
				}
			})
		}
	})
}

// cutPolicy is a policy that makes a queue dead-letter into another one.
type cutPolicy struct {
	broker       liveBroker
	client       *Client
	channel      *amqp.Channel
	queue, after string
}

func (p cutPolicy) policy() topology.Policy {
	return topology.Policy{
		Name: p.queue, Pattern: "^" + p.queue + "$", ApplyTo: topology.ApplyToQueues, Priority: 7,
		Definition: topology.Arguments{topology.KeyDeadLetterExchange: "", topology.KeyDeadLetterRoutingKey: p.after},
	}
}

func (p cutPolicy) check(t *testing.T, after time.Duration) {
	t.Helper()
	vhost := p.broker.vhost
	cut := func(write func(context.Context, *Client) error) {
		ctx, cancel := context.WithCancelCause(t.Context())
		timer := time.AfterFunc(after, func() { cancel(errCut) })
		defer timer.Stop()
		if err := write(ctx, p.broker.client(t)); err != nil && !errors.Is(err, errCut) {
			t.Fatal(err)
		}
	}
	cut(func(ctx context.Context, c *Client) error { return c.SetPolicy(ctx, vhost, p.policy()) })
	if listed, exists := p.listed(t); exists && listed.Equal(p.policy()) && !p.deadLetters(t, arrivalLimit) {
		t.Errorf("%s: set, cut after %s: the policy is listed and not in effect", p.queue, after)
	}
	must(t, p.client.SetPolicy(t.Context(), vhost, p.policy()))
	if !p.deadLetters(t, arrivalLimit) {
		t.Errorf("%s: set, cut after %s and set again: not in effect", p.queue, after)
	}
	cut(func(ctx context.Context, c *Client) error { return c.DeletePolicy(ctx, vhost, p.policy()) })
	listed, exists := p.listed(t)
	if !exists && p.remains(t) {
		t.Errorf("%s: deleted, cut after %s: the policy is not listed and in effect", p.queue, after)
	}
	if exists {
		must(t, p.client.DeletePolicy(t.Context(), vhost, listed))
	}
	if p.remains(t) {
		now, _, _, err := p.client.EffectivePolicy(t.Context(), vhost, p.queue)
		t.Errorf("%s: deleted, cut after %s, then listed (%t) with the pattern %q, and deleted again: still in effect; the broker says %q %v",
			p.queue, after, exists, listed.Pattern, now, err)
	}
}

// listed returns the policy as RabbitMQ lists it when it is done with a write that was
// broken off: two looks with a rest between them find the same.
func (p cutPolicy) listed(t *testing.T) (topology.Policy, bool) {
	t.Helper()
	var found topology.Policy
	var exists bool
	look := func() (same bool) {
		now, there, err := readPolicy(t.Context(), p.client, p.broker.vhost, p.queue)
		must(t, err)
		same = there == exists && (!there || now.Equal(found))
		found, exists = now, there
		return same
	}
	look()
	if !poll.Until(arrivalLimit, func() bool {
		time.Sleep(rest)
		return look()
	}) {
		t.Fatalf("the policy %s goes on to change", p.queue)
	}
	return found, exists
}

const (
	// arrivalLimit is how long a dead letter may take on a busy machine.
	arrivalLimit = 15 * time.Second
	// glimpse is how long is looked for one that should not come.
	glimpse = 300 * time.Millisecond
	// rest is longer than RabbitMQ needs on a busy machine to begin with a request.
	rest = 300 * time.Millisecond
)

// remains says whether the queue goes on to dead-letter. Its process hears of a change of
// policies a moment later.
func (p cutPolicy) remains(t *testing.T) bool {
	t.Helper()
	return !poll.Until(arrivalLimit, func() bool { return !p.deadLetters(t, glimpse) })
}

// deadLetters says whether a rejected message arrives behind the queue in time. Late ones
// of earlier looks do not count.
func (p cutPolicy) deadLetters(t *testing.T, limit time.Duration) bool {
	t.Helper()
	id := rand.Text()
	must(t, p.channel.Confirm(false))
	confirmation, err := p.channel.PublishWithDeferredConfirm("", p.queue, true, false, amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id})
	must(t, err)
	if ok, err := confirmation.WaitContext(t.Context()); !ok || err != nil {
		t.Fatal("not confirmed", err)
	}
	d, ok, err := getMessage(t.Context(), p.channel, p.queue)
	if err != nil || !ok {
		t.Fatalf("%s: got %t, %v", p.queue, ok, err)
	}
	must(t, d.Reject(false))
	return poll.Until(limit, func() bool {
		d, ok, err := p.channel.Get(p.after, true)
		must(t, err)
		return ok && d.MessageId == id
	})
}
