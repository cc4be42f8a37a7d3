package retryattachment_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// TestMain lets many tests run at the same time, on however few processors: they
// wait nearly all the time, most of it for proofs that queues are empty.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	acctest.Main(m)
}

const tiersAddress = "rabbitmq_retry_tiers.retries"

// waits are the delays of tiers.
type waits = []any

// tiers are those of the platform team. more are further attributes.
func tiers(vhost string, delays waits, more attributes) declared {
	d := declared{"rabbitmq_retry_tiers", "retries", attributes{"name": "retries", "vhost": vhost, "delays": delays}}
	maps.Copy(d.attributes, more)
	return d
}

// attachment attaches a queue. more are further attributes.
func attachment(vhost, queue string, more attributes) declared {
	d := declared{"rabbitmq_retry_attachment", strings.ReplaceAll(queue, ".", "_"), attributes{"tiers": "retries", "vhost": vhost, "queue": queue}}
	maps.Copy(d.attributes, more)
	return d
}

// expectText compares words only: Terraform wraps the text of errors.
func expectText(t *testing.T, output string, wanted ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
	for _, text := range wanted {
		if !strings.Contains(flat, text) {
			t.Errorf("the output lacks %q:\n%s", text, output)
		}
	}
}

// variant is a kind of tiers and of work queue.
type variant struct {
	name              string
	tiers, attachment attributes
	// existing is the type of an application's queue, or "".
	existing string
	// cli: Terraform itself runs.
	cli bool
}

var variants = []variant{
	{name: "quorum at-least-once"},
	{name: "quorum at-most-once", tiers: attributes{"dead_letter_strategy": "at-most-once"}, attachment: attributes{"dead_letter_strategy": "at-most-once"}},
	{name: "classic", tiers: attributes{"queue_type": "classic"}, attachment: attributes{"queue_type": "classic"}},
	{name: "classic queue in quorum tiers", attachment: attributes{"queue_type": "classic"}},
	{name: "existing quorum", attachment: attributes{"ownership": "application"}, existing: "quorum"},
	{name: "existing classic", attachment: attributes{"ownership": "application"}, existing: "classic"},
}

// with returns the variant with further attributes of its attachments.
func (v variant) with(more attributes) variant {
	v.attachment = maps.Clone(v.attachment)
	if v.attachment == nil {
		v.attachment = attributes{}
	}
	maps.Copy(v.attachment, more)
	return v
}

// eachVariant makes tiers and attaches queues, the platform and the team in
// states of their own.
func eachVariant(t *testing.T, delays waits, queues []string, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant, platform, team workspace)) {
	t.Helper()
	eachOf(t, rabbit.Half(t.Name(), variants), delays, queues, test)
}

func eachOf(
	t *testing.T, variants []variant, delays waits, queues []string, test func(t *testing.T, b *rabbit.Broker, vhost string, v variant, platform, team workspace),
) {
	t.Helper()
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range variants {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				platform, team := v.attach(t, b, vhost, delays, queues)
				test(t, b, vhost, v, platform, team)
			})
		}
	})
}

func (v variant) attach(t *testing.T, b *rabbit.Broker, vhost string, delays waits, queues []string) (platformTeam, appTeam workspace) {
	t.Helper()
	platformTeam = v.workspace(t, b, tiers(vhost, delays, v.tiers))
	platformTeam.apply(t)
	var attachments []declared
	for _, queue := range queues {
		if v.existing != "" {
			declare(t, b, vhost, queue, rabbithole.QueueSettings{Type: v.existing, Durable: true})
		}
		attachments = append(attachments, attachment(vhost, queue, v.attachment))
	}
	appTeam = v.workspace(t, b, attachments...)
	appTeam.apply(t)
	return platformTeam, appTeam
}

func (v variant) workspace(t *testing.T, b *rabbit.Broker, resources ...declared) workspace {
	t.Helper()
	if v.cli {
		return newCLI(t, b, resources...)
	}
	return newInProcess(b, resources...)
}

func declare(t *testing.T, b *rabbit.Broker, vhost, queue string, settings rabbithole.QueueSettings) {
	t.Helper()
	resp, err := acctest.API(t, b).DeclareQueue(vhost, queue, settings)
	acctest.Do(t, resp, err)
}

// consumer consumes queues and remembers what came.
type consumer struct {
	mu     sync.Mutex
	all    []worker.Delivery
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// consume decides by outcome what happens to each delivery, until stop.
func consume(t *testing.T, b *rabbit.Broker, vhost string, outcome func(worker.Delivery) worker.Outcome, queues ...string) *consumer {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	c := &consumer{cancel: cancel}
	t.Cleanup(c.stop)
	for _, queue := range queues {
		w, err := worker.Dial(b.AMQP, vhost)
		if err != nil {
			t.Fatal(err)
		}
		c.done.Go(func() {
			defer func() { _ = w.Close() }()
			err := w.Consume(ctx, queue, 100, func(d worker.Delivery) worker.Outcome {
				c.mu.Lock()
				c.all = append(c.all, d)
				c.mu.Unlock()
				return outcome(d)
			})
			if err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		})
	}
	return c
}

// stop ends the consumers and waits for their end.
func (c *consumer) stop() {
	c.cancel()
	c.done.Wait()
}

func always(outcome worker.Outcome) func(worker.Delivery) worker.Outcome {
	return func(worker.Delivery) worker.Outcome { return outcome }
}

// of returns the deliveries of one message.
func (c *consumer) of(id string) []worker.Delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []worker.Delivery
	for _, d := range c.all {
		if d.MessageId == id {
			found = append(found, d)
		}
	}
	return found
}

// count returns how many deliveries there were.
func (c *consumer) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.all)
}

const patience = 120 * time.Second

// eventually waits for a condition.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !within(is) {
		t.Fatalf("not within %s: %s", patience, what)
	}
}

func within(is func() bool) bool {
	return poll.Until(patience, is)
}

// expectReady waits until a queue holds that many messages.
func expectReady(t *testing.T, w *worker.Worker, queue string, want int) {
	t.Helper()
	var ready int
	eventually(t, fmt.Sprintf("%d messages in %q", want, queue), func() bool {
		var err error
		if ready, err = w.Ready(queue); err != nil {
			t.Fatal(err)
		}
		return ready == want
	})
}

func publish(t *testing.T, w *worker.Worker, exchange, key, id string) {
	t.Helper()
	if err := w.Publish(t.Context(), exchange, key, amqp.Publishing{MessageId: id}); err != nil {
		t.Fatal(err)
	}
}

// parkedIDs takes out what is parked.
func parkedIDs(t *testing.T, w *worker.Worker) map[string]int {
	t.Helper()
	drained, err := w.Drain("retries.parking")
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int{}
	for _, d := range drained {
		ids[d.MessageId]++
	}
	return ids
}
