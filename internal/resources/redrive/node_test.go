package redrive_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// TestAccNodeEnds restarts a node of its own in the middle of redrives and
// discards, once in good order and once after kill -9. Nothing is lost, and the
// next run does the rest. A classic queue whose node is killed has forgotten
// acknowledgements, however old they are; nothing else doubles more than a batch.
func TestAccNodeEnds(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		b := rabbit.Own(t, rabbit.Options{Version: given.Release()})
		ctx := context.WithoutCancel(t.Context())
		restart := func() error { return b.Restart(ctx) }
		kill := func() error { return errors.Join(b.Kill(), b.Restart(ctx)) }
		t.Run("restart", func(t *testing.T) {
			if !rabbit.Full() {
				t.Skip("kill -9 is the harder end; make test-full tries both")
			}
			endNode(t, b, restart, map[string]int{"classic": messages.RedriveBatch, "quorum": messages.RedriveBatch})
		})
		t.Run("kill -9", func(t *testing.T) {
			endNode(t, b, kill, map[string]int{"classic": nodeRed, "quorum": messages.RedriveBatch})
		})
	})
}

const (
	nodeMessages = 3000
	nodeRed      = nodeMessages - nodeMessages/5
)

// endNode expects at most so many messages twice, by type of queue.
func endNode(t *testing.T, b *rabbit.Broker, end func() error, twice map[string]int) {
	t.Helper()
	type run struct{ resource, queueType string }
	runs := []run{{redriveType, "classic"}, {redriveType, "quorum"}, {discardType, "classic"}, {discardType, "quorum"}}
	together := &meeting{missing: len(runs), met: make(chan struct{}), over: make(chan struct{}), do: end}
	places := map[run]*place{}
	for _, r := range runs {
		places[r] = newPlace(t, b, r.queueType)
	}
	// Quorum queues that were declared right before a kill -9 of their only node
	// were seen to come back without messages that had been confirmed (4.3.6), or
	// not to answer (3.10.8, 4.0.5). After an orderly restart none was.
	if err := b.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range runs {
		t.Run(r.resource+" "+r.queueType, func(t *testing.T) {
			t.Parallel()
			p := places[r]
			p.t = t
			p.recovered("parking", "elsewhere")
			p.withoutProbes("parking")
			p.withoutProbes("elsewhere")
			p.breakOff(r.resource, together, twice[r.queueType])
		})
	}
}

// meeting lets several runs come to their middle before something happens to
// all of them.
type meeting struct {
	mu      sync.Mutex
	missing int
	met     chan struct{}

	once sync.Once
	over chan struct{}
	do   func() error
	err  error
}

// join returns when everybody has joined and it has happened.
func (m *meeting) join() {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.met)
	}
	m.mu.Unlock()
	select {
	case <-m.met:
	case <-time.After(2 * time.Minute):
	}
	m.once.Do(func() {
		m.err = m.do()
		close(m.over)
	})
	<-m.over
}

// breakOff runs it on the red messages until the node ends in the middle, runs it
// again, and accounts for every message. Up to twice may be there twice.
func (p *place) breakOff(resource string, together *meeting, twice int) {
	p.t.Helper()
	// With confirms: after a kill -9 of the node a queue that dead letters had
	// filled was seen to hold fewer or more of them, without a redrive.
	p.publish("parking", nodeMessages)
	config := object{"queue": "parking", "vhost": p.vhost, "filter": object{"headers": `{"tenant":"red"}`}}
	tcp := proxy.NewTCP(p.t, amqpHost(p.t, p.b))
	after := 10_000 + rand.IntN(20_000)
	if resource == redriveType {
		config["destination"] = object{"queue": "elsewhere"}
		after = 60_000 + rand.IntN(150_000)
	}
	tcp.CutAfter(after, together.join)
	_, found := create(p.t, server(p.t, p.b, object{"amqp_endpoint": "amqp://" + tcp.Address}), resource, config)
	expectError(p.t, found, "Run Broken Off", "cut", "of 3000 looked at", "Run it again")
	<-together.over
	if together.err != nil {
		p.t.Fatal(together.err)
	}
	p.recovered("parking", "elsewhere")
	state, found := create(p.t, p.Server, resource, config)
	if len(found.Errors()) > 0 {
		p.t.Fatal(found)
	}
	p.t.Logf("%v selected messages were left", protocol.Go(protocol.At(state, "selected")))
	if resource == redriveType {
		moved := p.withoutProbes("elsewhere")
		p.t.Logf("%d messages twice", len(moved)-nodeRed)
		if len(moved)-nodeRed > twice {
			p.t.Errorf("%d messages are there twice, expected %d at most", len(moved)-nodeRed, twice)
		}
		p.expectOnce(moved, numbers(nodeMessages, red))
	}
	p.wait(func() bool { return p.ready("parking") >= nodeMessages/5 })
	if got := ids(p.withoutProbes("parking")); !slices.Equal(got, numbers(nodeMessages, blue)) {
		p.t.Errorf("what was not selected is not in order: %v", got)
	}
}

// probe is the id of messages that are published to see that a queue takes any.
const probe = "probe"

// withoutProbes takes everything out of the queue.
func (p *place) withoutProbes(queue string) []worker.Delivery {
	p.t.Helper()
	return slices.DeleteFunc(p.drain(queue, p.ready(queue)), func(d worker.Delivery) bool { return d.MessageId == probe })
}

// recovered waits until queues of a node that was started again take messages:
// until then a quorum queue holds less than it says later, and may never confirm.
func (p *place) recovered(queues ...string) {
	p.t.Helper()
	for _, queue := range queues {
		p.wait(func() bool {
			// What is not confirmed in time leaves a channel that nobody can use.
			w := acctest.Worker(p.t, p.b, p.vhost)
			ctx, cancel := context.WithTimeout(p.t.Context(), 5*time.Second)
			defer cancel()
			return w.Publish(ctx, "", queue, amqp.Publishing{MessageId: probe}) == nil
		})
	}
	p.w = acctest.Worker(p.t, p.b, p.vhost)
}
