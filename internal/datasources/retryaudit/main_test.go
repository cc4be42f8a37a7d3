package retryaudit_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const source = "rabbitmq_retry_audit"

// patience is how long a test waits for what a broker does.
const patience = 60 * time.Second

// configured is a provider that talks to the broker.
func configured(t *testing.T, b *rabbit.Broker) *protocol.Server {
	t.Helper()
	s := protocol.New(t, acctest.NewProvider(b))
	config := map[string]any{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "max_retries": 0}
	if found := s.Configure(t, config); len(found) > 0 {
		t.Fatal(found)
	}
	return s
}

// finding is what the data source says of one object.
type finding struct {
	Severity, Rule, Kind, Name, Message, Fix, Source string
}

func (f finding) String() string {
	return fmt.Sprintf("%s %s %s %q: %s Fix: %s (%s)", f.Severity, f.Rule, f.Kind, f.Name, f.Message, f.Fix, f.Source)
}

// read returns the findings for a configuration.
func read(t *testing.T, s *protocol.Server, config map[string]any) []finding {
	t.Helper()
	state, diagnostics := s.ReadData(t, source, config)
	if len(diagnostics) > 0 {
		t.Fatal(diagnostics)
	}
	var findings []finding
	list, _ := protocol.Go(protocol.At(state, "findings")).([]any)
	for _, element := range list {
		f := element.(map[string]any)
		object := f["object"].(map[string]any)
		findings = append(findings, finding{
			f["severity"].(string), f["rule"].(string), object["kind"].(string), object["name"].(string),
			f["message"].(string), f["fix"].(string), f["source"].(string),
		})
	}
	return findings
}

// world is a virtual host of a test and what is done in it.
type world struct {
	t      *testing.T
	b      *rabbit.Broker
	vhost  string
	api    *rabbithole.Client
	worker *worker.Worker
}

func newWorld(t *testing.T, b *rabbit.Broker) *world {
	t.Helper()
	vhost := acctest.VHost(t, b)
	return &world{t, b, vhost, acctest.API(t, b), acctest.Worker(t, b, vhost)}
}

// audit reads the virtual host in a process of its own.
func (w *world) audit() []finding {
	w.t.Helper()
	return read(w.t, configured(w.t, w.b), map[string]any{"vhost": w.vhost})
}

type args = map[string]any

func (w *world) queue(name, kind string, arguments args) {
	w.t.Helper()
	resp, err := w.api.DeclareQueue(w.vhost, name, rabbithole.QueueSettings{Type: kind, Durable: true, Arguments: arguments})
	acctest.Do(w.t, resp, err)
}

func (w *world) deleteQueue(name string) {
	w.t.Helper()
	resp, err := w.api.DeleteQueue(w.vhost, name)
	acctest.Do(w.t, resp, err)
}

func (w *world) exchange(name, kind string, arguments args) {
	w.t.Helper()
	resp, err := w.api.DeclareExchange(w.vhost, name, rabbithole.ExchangeSettings{Type: kind, Durable: true, Arguments: arguments})
	acctest.Do(w.t, resp, err)
}

func (w *world) bind(exchange, queue, key string, arguments args) {
	w.t.Helper()
	resp, err := w.api.DeclareBinding(w.vhost, rabbithole.BindingInfo{
		Source: exchange, Destination: queue, DestinationType: "queue", RoutingKey: key, Arguments: arguments,
	})
	acctest.Do(w.t, resp, err)
}

func (w *world) unbind(exchange, queue string) {
	w.t.Helper()
	bindings, err := w.api.ListQueueBindingsBetween(w.vhost, exchange, queue)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, b := range bindings {
		resp, err := w.api.DeleteBinding(w.vhost, b)
		acctest.Do(w.t, resp, err)
	}
}

// policy sets a policy of priority 0 for the queues of that name.
func (w *world) policy(queue string, definition args) {
	w.rankedPolicy(queue, "^"+queue+"$", 0, definition)
}

func (w *world) rankedPolicy(name, pattern string, priority int, definition args) {
	w.t.Helper()
	resp, err := w.api.PutPolicy(w.vhost, name, rabbithole.Policy{
		Vhost: w.vhost, Name: name, Pattern: pattern, ApplyTo: "all", Priority: priority, Definition: definition,
	})
	acctest.Do(w.t, resp, err)
}

func (w *world) deletePolicy(name string) {
	w.t.Helper()
	resp, err := w.api.DeletePolicy(w.vhost, name)
	acctest.Do(w.t, resp, err)
}

func (w *world) publish(exchange, key, id string) {
	w.t.Helper()
	w.publishHeaders(exchange, key, id, nil)
}

func (w *world) publishHeaders(exchange, key, id string, headers amqp.Table) {
	w.t.Helper()
	if err := w.worker.Publish(w.t.Context(), exchange, key, amqp.Publishing{MessageId: id, Headers: headers}); err != nil {
		w.t.Fatal(err)
	}
}

// expectUnroutable publishes a message that no queue takes.
func (w *world) expectUnroutable(exchange string, headers amqp.Table) {
	w.t.Helper()
	err := w.worker.Publish(w.t.Context(), exchange, "key", amqp.Publishing{Headers: headers})
	if err == nil || !strings.Contains(err.Error(), "no queue took the message") {
		w.t.Errorf("published to %q: %v, expected that no queue takes the message", exchange, err)
	}
}

// settle takes a message out of the queue and gives it back or rejects it.
func (w *world) settle(queue string, settle func(amqp.Delivery) error) {
	w.t.Helper()
	ch, err := w.worker.Connection().Channel()
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	w.eventually("a message in "+queue, func() bool {
		d, ok, err := ch.Get(queue, false)
		if err != nil {
			w.t.Fatal(err)
		}
		if ok {
			err = settle(d)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		return ok
	})
}

func (w *world) reject(queue string) {
	w.t.Helper()
	w.settle(queue, func(d amqp.Delivery) error { return d.Reject(false) })
}

// putBack looks at a message that many times.
func (w *world) putBack(queue string, times int) {
	w.t.Helper()
	for range times {
		w.settle(queue, func(d amqp.Delivery) error { return d.Reject(true) })
	}
}

// expectIn waits for the message and takes it out.
func (w *world) expectIn(queue, id string) {
	w.t.Helper()
	w.eventually("message "+id+" in "+queue, func() bool {
		drained, err := w.worker.Drain(queue)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, d := range drained {
			if d.MessageId == id {
				return true
			}
			w.t.Errorf("message %q is in %s", d.MessageId, queue)
		}
		return false
	})
}

// expectGone waits until no queue of the virtual host has a message, for long
// enough to be no moment between two queues.
func (w *world) expectGone() {
	w.t.Helper()
	quiet := 0
	w.eventually("no message left", func() bool {
		quiet++
		if w.ready() > 0 {
			quiet = 0
		}
		return quiet == 4
	})
}

// ready is the exact number of messages in all queues.
func (w *world) ready() int {
	w.t.Helper()
	queues, err := w.api.ListQueuesIn(w.vhost)
	if err != nil {
		w.t.Fatal(err)
	}
	total := 0
	for _, q := range queues {
		n, err := w.worker.Ready(q.Name)
		if err == nil {
			total += n
		}
	}
	return total
}

// consumeAndLeave has a consumer that takes messages, settles none, and goes.
func (w *world) consumeAndLeave(queue string) {
	w.t.Helper()
	ch, err := w.worker.Connection().Channel()
	if err != nil {
		w.t.Fatal(err)
	}
	deliveries, err := ch.ConsumeWithContext(w.t.Context(), queue, "", false, false, false, false, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	<-deliveries
	if err := ch.Close(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) expectNoQueue(name string) {
	w.t.Helper()
	w.eventually("the end of queue "+name, func() bool {
		_, err := w.api.GetQueue(w.vhost, name)
		var answer rabbithole.ErrorResponse
		return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
	})
}

func (w *world) eventually(what string, condition func() bool) {
	w.t.Helper()
	if !poll.Until(patience, condition) {
		w.t.Fatalf("waited %s for %s", patience, what)
	}
}
