package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Destination says where redriven messages go. The zero value is the queue that
// each message failed in. Only one of Queue and Exchange may be set.
type Destination struct{ Queue, Exchange string }

// Redrive moves messages of a queue, see [messages.Session.Redrive]. It sets
// options.Route. The outcome is valid together with an error.
func (c *Client) Redrive(ctx context.Context, vhost, queue string, to Destination, options messages.RedriveOptions) (messages.Outcome, error) {
	s, err := c.Parked(ctx, vhost, queue)
	if err != nil {
		return messages.Outcome{}, err
	}
	defer s.Close() //nolint:errcheck // the broker has answered everything
	err = c.View(ctx, vhost, func(t *topology.Topology) { options.Route = routes(t, queue, to) })
	if err != nil {
		return messages.Outcome{}, err
	}
	outcome, err := s.Redrive(ctx, queue, options)
	return outcome, c.redriveProblem(ctx, vhost, queue, err)
}

// Discard deletes messages of a queue, see [messages.Session.Discard]. The
// outcome is valid together with an error.
func (c *Client) Discard(ctx context.Context, vhost, queue string, options messages.RedriveOptions) (messages.Outcome, error) {
	s, err := c.Parked(ctx, vhost, queue)
	if err != nil {
		return messages.Outcome{}, err
	}
	defer s.Close() //nolint:errcheck // the broker has answered everything
	outcome, err := s.Discard(ctx, queue, options)
	return outcome, c.redriveProblem(ctx, vhost, queue, err)
}

// routes says where the messages of the queue go. The topology is used only
// here, and not kept.
func routes(t *topology.Topology, queue string, to Destination) func(deadletter.Message) (messages.Route, bool) {
	entries := retry.FindEntries(t)
	through := func(e retry.Entry) (messages.Route, bool) {
		r := messages.Route{Exchange: e.Exchange, Fanout: true}
		if e.CountHeader != "" {
			r.Drop = []string{e.CountHeader}
		}
		return r, e.Queue != queue
	}
	switch entry, found := entries.For(to.Queue, ""); {
	case to.Exchange != "":
		exchange, _ := t.Exchange(to.Exchange)
		r := messages.Route{Exchange: to.Exchange, Topic: exchange.Type == topology.Topic}
		return func(deadletter.Message) (messages.Route, bool) { return r, true }
	case to.Queue != "" && found && entry.Queue == to.Queue:
		return func(deadletter.Message) (messages.Route, bool) { return through(entry) }
	case to.Queue != "":
		return func(deadletter.Message) (messages.Route, bool) { return messages.Route{RoutingKey: to.Queue}, true }
	}
	exists := map[string]bool{}
	for _, q := range t.Queues() {
		exists[q.Name] = true
	}
	return func(m deadletter.Message) (messages.Route, bool) {
		if entry, found := entries.For(m.OriginQueue, m.Through()); found {
			return through(entry)
		}
		return messages.Route{RoutingKey: m.OriginQueue}, exists[m.OriginQueue] && m.OriginQueue != queue
	}
}

// redriveProblem explains an error of a redrive or a discard.
func (c *Client) redriveProblem(ctx context.Context, vhost, queue string, err error) error {
	var publishing *messages.PublishError
	var refused *messages.RefusedError
	if errors.As(err, &publishing) && errors.As(publishing.Err, &refused) {
		exchange := publishing.Route.Exchange
		if exchange == "" {
			exchange = "amq.default"
		}
		return c.permissionError(ctx, operation{
			text:   fmt.Sprintf("publish to %s in vhost %q", publishing.Route, vhost),
			vhost:  vhost,
			object: fmt.Sprintf("exchange %q", exchange),
			needs:  fmt.Sprintf("write permission on exchange %q", exchange),
		}, &APIError{Reason: refused.Reason})
	}
	return c.PassError(ctx, vhost, queue, err)
}
