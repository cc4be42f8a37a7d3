package broker

import (
	"context"
	"errors"
	"fmt"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// WorkQueues reads from a virtual host which queue belongs to which work queue; what it
// returns gives "" for a queue that belongs to none.
type WorkQueues func(*topology.Topology) func(queue string) string

// Routes reads from a virtual host where messages go, see [messages.RedriveOptions].
type Routes func(*topology.Topology) func(deadletter.Message) (messages.Route, bool)

// Redrive moves messages of a queue, see [messages.Session.Redrive]. It sets
// options.Route. The outcome is valid together with an error.
func (c *Client) Redrive(
	ctx context.Context, vhost, queue string, work WorkQueues, to Routes, options messages.RedriveOptions,
) (messages.Outcome, error) {
	s, err := c.Parked(ctx, vhost, queue, work)
	if err != nil {
		return messages.Outcome{}, err
	}
	defer s.Close() //nolint:errcheck // the broker has answered everything
	err = c.View(ctx, vhost, func(t *topology.Topology) { options.Route = to(t) })
	if err != nil {
		return messages.Outcome{}, err
	}
	outcome, err := s.Redrive(ctx, queue, options)
	return outcome, c.redriveProblem(ctx, vhost, queue, err)
}

// Discard deletes messages of a queue, see [messages.Session.Discard]. The
// outcome is valid together with an error.
func (c *Client) Discard(
	ctx context.Context, vhost, queue string, work WorkQueues, options messages.RedriveOptions,
) (messages.Outcome, error) {
	s, err := c.Parked(ctx, vhost, queue, work)
	if err != nil {
		return messages.Outcome{}, err
	}
	defer s.Close() //nolint:errcheck // the broker has answered everything
	outcome, err := s.Discard(ctx, queue, options)
	return outcome, c.redriveProblem(ctx, vhost, queue, err)
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
