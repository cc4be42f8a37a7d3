package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Parked connects over AMQP to look at the messages of a queue. It refuses with
// a [messages.UnsafeError] when that would change the queue, and with
// [messages.ErrNotFound] when there is no such queue. The session must be
// closed.
func (c *Client) Parked(ctx context.Context, vhost, queue string, work WorkQueues) (*messages.Session, error) {
	traits, err := c.checkSafe(ctx, vhost, queue, work)
	if err != nil {
		return nil, err
	}
	opened, err := c.openAMQP(ctx, vhost)
	if err != nil {
		return nil, err
	}
	s, ok := opened.(*amqpSession)
	if !ok {
		return nil, fmt.Errorf("an AMQP session of type %T", opened)
	}
	s.Know(traits)
	return s.Session, nil
}

// checkSafe reads queue and policies again: a policy of the same run may have
// given the queue a limit.
func (c *Client) checkSafe(ctx context.Context, vhost, queue string, work WorkQueues) (messages.Traits, error) {
	q, exists, err := c.Queue(ctx, vhost, queue)
	if err != nil {
		return messages.Traits{}, err
	}
	if !exists {
		return messages.Traits{}, fmt.Errorf("queue %q in vhost %q: %w", queue, vhost, messages.ErrNotFound)
	}
	info, err := c.Info(ctx)
	if err != nil {
		return messages.Traits{}, err
	}
	modern := info.Version.Has(abilities.UnlimitedDelivery)
	c.Reload(vhost)
	var candidates []topology.Arguments
	var workQueue func(queue string) string
	err = c.View(ctx, vhost, func(t *topology.Topology) { candidates, workQueue = t.Candidates(q, modern), work(t) })
	if err != nil {
		return messages.Traits{}, err
	}
	traits := messages.Traits{KeepsPlaces: q.Type == topology.Classic, WorkQueue: workQueue}
	for _, effective := range candidates {
		if err := messages.Unsafe(q, effective, modern); err != nil {
			return traits, err
		}
		limit, limited := effective.Int(topology.ConsumerTimeout)
		timeout := time.Duration(limit) * time.Millisecond
		if limited && (traits.ConsumerTimeout == 0 || timeout < traits.ConsumerTimeout) {
			traits.ConsumerTimeout = timeout
		}
	}
	return traits, nil
}

// PassError explains an error of reading the queue in a session that
// [Client.Parked] opened.
func (c *Client) PassError(ctx context.Context, vhost, queue string, err error) error {
	var refused *messages.RefusedError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &refused) && !strings.Contains(refused.Reason, "exclusive"):
		answer := &APIError{Reason: refused.Reason}
		return c.permissionError(ctx, operation{
			text:   fmt.Sprintf("read queue %q in vhost %q over AMQP", queue, vhost),
			vhost:  vhost,
			object: fmt.Sprintf("queue %q", queue),
			needs:  fmt.Sprintf("read permission on queue %q", queue),
		}, answer)
	case errors.As(err, &refused):
		return fmt.Errorf("queue %q in vhost %q: a consumer has it for its own: %w", queue, vhost, refused)
	}
	return c.unlessExpired(c.Endpoint(), err)
}
