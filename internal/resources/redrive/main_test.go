package redrive_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEndpoint) != "" {
		child()
		return
	}
	acctest.Main(m)
}

const (
	redriveType = "rabbitmq_redrive"
	discardType = "rabbitmq_discard"
	chainType   = "rabbitmq_retry_chain"
)

// object is an object in a configuration.
type object = map[string]any

// server is a provider that is configured for the broker. change may be nil.
func server(t *testing.T, b *rabbit.Broker, change object) *protocol.Server {
	t.Helper()
	s := protocol.New(t, acctest.NewProvider(b))
	config := object{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password, "amqp_endpoint": "amqp://" + amqpHost(t, b)}
	for name, value := range change {
		config[name] = value
	}
	if found := s.Configure(t, config); len(found) > 0 {
		t.Fatal(found)
	}
	return s
}

func amqpHost(t *testing.T, b *rabbit.Broker) string {
	t.Helper()
	u, err := url.Parse(b.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// create creates a resource and returns its state.
func create(t *testing.T, s *protocol.Server, resource string, config object) (tftypes.Value, protocol.Diagnostics) {
	t.Helper()
	if found := s.Validate(t, resource, config); len(found.Errors()) > 0 {
		return tftypes.Value{}, found
	}
	plan := s.Plan(t, resource, config, protocol.State{})
	if len(plan.Diagnostics.Errors()) > 0 {
		return tftypes.Value{}, plan.Diagnostics
	}
	state, found := s.Apply(t, resource, plan)
	return state.Value, found
}

// run creates a resource, which must succeed, and compares its counts.
func run(t *testing.T, s *protocol.Server, resource string, config, want object) {
	t.Helper()
	state, found := create(t, s, resource, config)
	if len(found.Errors()) > 0 {
		t.Fatal(found)
	}
	for name, count := range want {
		if got := protocol.Go(protocol.At(state, name)); got != int64(count.(int)) {
			t.Errorf("%s is %v, expected %v", name, got, count)
		}
	}
}

// actions are the provider's, with the configuration of one.
func actions(t *testing.T, s *protocol.Server, action string, config object) (tfprotov6.ProviderServerWithActions, *tfprotov6.DynamicValue) { //nolint:staticcheck // the interface of this version
	t.Helper()
	ty := s.Schemas().ActionSchemas[action].Schema.ValueType().(tftypes.Object)
	values := map[string]tftypes.Value{}
	for name, part := range ty.AttributeTypes {
		values[name] = toValue(part, config[name])
	}
	packed, err := tfprotov6.NewDynamicValue(ty, tftypes.NewValue(ty, values))
	if err != nil {
		t.Fatal(err)
	}
	return s.ProviderServer.(tfprotov6.ProviderServerWithActions), &packed //nolint:staticcheck // the interface of this version
}

func validateAction(t *testing.T, s *protocol.Server, action string, config object) protocol.Diagnostics {
	t.Helper()
	server, packed := actions(t, s, action, config)
	validated, err := server.ValidateActionConfig(t.Context(), &tfprotov6.ValidateActionConfigRequest{ActionType: action, Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	return validated.Diagnostics
}

// invoke validates, plans and invokes an action.
func invoke(t *testing.T, s *protocol.Server, action string, config object) (progress []string, found protocol.Diagnostics) {
	t.Helper()
	if found := validateAction(t, s, action, config); len(found) > 0 {
		return nil, found
	}
	server, packed := actions(t, s, action, config)
	planned, err := server.PlanAction(t.Context(), &tfprotov6.PlanActionRequest{ActionType: action, Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	if len(planned.Diagnostics) > 0 {
		return nil, planned.Diagnostics
	}
	stream, err := server.InvokeAction(t.Context(), &tfprotov6.InvokeActionRequest{ActionType: action, Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	for event := range stream.Events {
		switch e := event.Type.(type) {
		case tfprotov6.ProgressInvokeActionEventType:
			progress = append(progress, e.Message)
		case tfprotov6.CompletedInvokeActionEventType:
			found = append(found, e.Diagnostics...)
		}
	}
	return progress, found
}

func toValue(ty tftypes.Type, from any) tftypes.Value {
	inner, isObject := ty.(tftypes.Object)
	parts, isMap := from.(object)
	if !isObject || !isMap {
		return tftypes.NewValue(ty, from)
	}
	values := map[string]tftypes.Value{}
	for name, part := range inner.AttributeTypes {
		values[name] = toValue(part, parts[name])
	}
	return tftypes.NewValue(ty, values)
}

// place is a virtual host with queues of the test's own: what is rejected in
// "work" or "other" goes to "parking", without a retry.
type place struct {
	t     *testing.T
	b     *rabbit.Broker
	vhost string
	w     *worker.Worker
	*protocol.Server
}

func newPlace(t *testing.T, b *rabbit.Broker, queueType string) *place {
	t.Helper()
	p := &place{t: t, b: b, vhost: acctest.VHost(t, b)}
	p.w = acctest.Worker(t, b, p.vhost)
	p.Server = server(t, b, nil)
	p.declare("parking", queueType, nil)
	for _, name := range []string{"work", "other"} {
		p.declare(name, queueType, object{"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "parking"})
	}
	p.declare("elsewhere", queueType, nil)
	return p
}

// eachPlace runs the test on every broker with both types of queue.
func eachPlace(t *testing.T, test func(p *place)) {
	t.Helper()
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"classic", "quorum"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t, b, queueType)
				p.t = t
				test(p)
			})
		}
	})
}

func (p *place) declare(name, queueType string, arguments object) {
	p.t.Helper()
	all := object{}
	if queueType == "quorum" && acctest.AtLeast(p.b, 4, 0) {
		all["x-delivery-limit"] = -1
	}
	for key, value := range arguments {
		all[key] = value
	}
	resp, err := acctest.API(p.t, p.b).DeclareQueue(p.vhost, name, rabbithole.QueueSettings{Type: queueType, Durable: true, Arguments: all})
	acctest.Do(p.t, resp, err)
}

// publish publishes n messages to the queue. Their ids and bodies are the
// numbers from 0, and every fifth has the header tenant = "blue", the others
// "red".
func (p *place) publish(queue string, n int) {
	p.t.Helper()
	ch, err := p.w.Connection().Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	confirms := make([]*amqp.DeferredConfirmation, n)
	for i := range n {
		tenant := "red"
		if blue(i) {
			tenant = "blue"
		}
		text := fmt.Sprint(i)
		confirms[i], err = ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{
			MessageId: text, Body: []byte(text), DeliveryMode: amqp.Persistent, Headers: amqp.Table{"tenant": tenant},
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
	for _, c := range confirms {
		if ok, err := c.WaitContext(p.t.Context()); !ok || err != nil {
			p.t.Fatal("not confirmed", err)
		}
	}
}

// park publishes n messages to the queue and lets them fail there.
func (p *place) park(queue string, n int) {
	p.t.Helper()
	p.publish(queue, n)
	before := p.ready("parking")
	ctx, cancel := context.WithCancel(p.t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		failed <- p.w.Consume(ctx, queue, 1000, func(worker.Delivery) worker.Outcome { return worker.Reject })
	}()
	p.wait(func() bool { return p.ready("parking") == before+n })
	cancel()
	if err := <-failed; err != nil {
		p.t.Fatal(err)
	}
}

func (p *place) ready(queue string) int {
	p.t.Helper()
	n, err := p.w.Ready(queue)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// wait polls until the condition holds.
func (p *place) wait(condition func() bool) {
	p.t.Helper()
	if !poll.Until(time.Minute, condition) {
		p.t.Fatal("it does not come to pass")
	}
}

// drain takes everything out of a queue, which must hold n messages.
func (p *place) drain(queue string, n int) []worker.Delivery {
	p.t.Helper()
	p.wait(func() bool { return p.ready(queue) >= n })
	all := make([]worker.Delivery, 0, n)
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	if ready := p.ready(queue); ready != n {
		p.t.Fatalf("queue %s holds %d messages, expected %d", queue, ready, n)
	} else if n == 0 {
		return nil
	}
	var settled error
	err := p.w.Consume(ctx, queue, 65535, func(d worker.Delivery) worker.Outcome {
		all = append(all, d)
		if last := len(all) == n; last || len(all)%50_000 == 0 {
			// One acknowledgement for many: a quorum queue does not get every one
			// of them if the channel ends right then.
			settled = errors.Join(settled, d.Ack(true))
			if last {
				cancel()
			}
		}
		return worker.Keep
	})
	if err = errors.Join(err, settled); err != nil || len(all) != n {
		p.t.Fatalf("%d of %d messages came out of queue %s: %v", len(all), n, queue, err)
	}
	return all
}

func ids(all []worker.Delivery) []string {
	list := make([]string, len(all))
	for i, d := range all {
		list[i] = d.MessageId
	}
	return list
}

// numbers are the ids from 0 to n that want selects, in order.
func numbers(n int, want func(i int) bool) []string {
	var list []string
	for i := range n {
		if want(i) {
			list = append(list, fmt.Sprint(i))
		}
	}
	return list
}

func every(int) bool  { return true }
func blue(i int) bool { return i%5 == 0 }
func red(i int) bool  { return !blue(i) }

// expectError fails the test unless the diagnostics hold an error with all texts.
func expectError(t *testing.T, found protocol.Diagnostics, texts ...string) {
	t.Helper()
	if len(found.Errors()) == 0 {
		t.Fatalf("there is no error, expected %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(found.String(), text) {
			t.Errorf("the errors lack %q:\n%s", text, found)
		}
	}
}
