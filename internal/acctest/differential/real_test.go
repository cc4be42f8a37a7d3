package differential

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// real is a virtual host of a real broker as a world.
type real struct {
	connection *amqp.Connection
	channel    *amqp.Channel
	returned   chan amqp.Return
	last       amqp.Delivery
}

func newReal(connection *amqp.Connection) (*real, error) {
	r := &real{connection: connection}
	return r, r.open()
}

func (r *real) open() error {
	channel, err := r.connection.Channel()
	if err != nil {
		return err
	}
	if err := channel.Confirm(false); err != nil {
		return err
	}
	r.channel = channel
	r.returned = channel.NotifyReturn(make(chan amqp.Return, 10))
	return nil
}

func (r *real) close() { _ = r.channel.Close() }

// declare makes the topology: exchanges, queues and then bindings.
func (r *real) declare(t *topology.Topology) error {
	for _, e := range t.Exchanges() {
		if err := r.channel.ExchangeDeclare(e.Name, e.Type, true, false, e.Internal, false, table(e.Arguments)); err != nil {
			return fmt.Errorf("exchange %q: %w", e.Name, err)
		}
	}
	for _, q := range t.Queues() {
		a := table(q.Arguments)
		a[topology.QueueTypeArgument] = string(q.Type)
		if _, err := r.channel.QueueDeclare(q.Name, true, false, false, false, a); err != nil {
			return fmt.Errorf("queue %q: %w", q.Name, err)
		}
	}
	for _, b := range t.Bindings() {
		bind := r.channel.QueueBind
		if b.DestinationKind == topology.KindExchange {
			bind = r.channel.ExchangeBind
		}
		if err := bind(b.Destination, b.RoutingKey, b.Source, false, table(b.Arguments)); err != nil {
			return fmt.Errorf("binding %s: %w", b.Label(), err)
		}
	}
	return nil
}

func (r *real) publish(p simulator.Publishing) (simulator.Outcome, error) {
	message := amqp.Publishing{Headers: table(p.Headers), Body: []byte(p.Body), DeliveryMode: amqp.Persistent}
	if p.Expiration != nil {
		message.Expiration = strconv.FormatInt(p.Expiration.Milliseconds(), 10)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	confirmation, err := r.channel.PublishWithDeferredConfirmWithContext(ctx, p.Exchange, p.RoutingKey, true, false, message)
	if err != nil {
		return "", err
	}
	confirmed, err := confirmation.WaitContext(ctx)
	if err != nil {
		return "", err
	}
	select {
	case <-r.returned:
		return simulator.Unroutable, nil
	default:
	}
	if !confirmed {
		return simulator.Refused, nil
	}
	return simulator.Confirmed, nil
}

func (r *real) get(queue string) (observation, bool, error) {
	d, ok, err := r.channel.Get(queue, false)
	if err != nil || !ok {
		return observation{}, false, err
	}
	r.last = d
	headers, err := received(d.Headers)
	if err != nil {
		return observation{}, false, err
	}
	return observation{
		Queue: queue, Exchange: d.Exchange, RoutingKey: d.RoutingKey, Redelivered: d.Redelivered,
		Expiration: d.Expiration, Body: string(d.Body), Headers: withoutTimes(headers),
	}, true, nil
}

func (r *real) settle(how outcome) error {
	tag := r.last.DeliveryTag
	switch how {
	case ack:
		return r.channel.Ack(tag, false)
	case reject, rejectRequeue:
		return r.channel.Reject(tag, how == rejectRequeue)
	case nack:
		return r.channel.Nack(tag, false, false)
	case nackRequeue, leave:
		return r.channel.Nack(tag, false, true)
	default:
		return errors.Join(r.channel.Close(), r.open())
	}
}

func (r *real) wait(d time.Duration) { time.Sleep(d) }

func table(a topology.Arguments) amqp.Table {
	t := amqp.Table{}
	for key, value := range a {
		t[key] = toAMQP(value)
	}
	return t
}

func toAMQP(value any) any {
	switch v := value.(type) {
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = toAMQP(element)
		}
		return list
	case map[string]any:
		return table(v)
	default:
		return v
	}
}

// received converts headers that came from a broker.
func received(headers amqp.Table) (topology.Arguments, error) {
	converted := topology.Arguments{}
	for key, value := range headers {
		normal, err := topology.Normalize(fromAMQP(value))
		if err != nil {
			return nil, fmt.Errorf("header %q: %w", key, err)
		}
		converted[key] = normal
	}
	return converted, nil
}

func fromAMQP(value any) any {
	switch v := value.(type) {
	case time.Time:
		return v.Unix()
	case amqp.Table:
		t := map[string]any{}
		for key, element := range v {
			t[key] = fromAMQP(element)
		}
		return t
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = fromAMQP(element)
		}
		return list
	default:
		return v
	}
}
