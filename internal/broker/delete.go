package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// DeleteMode says what a queue may hold when it is deleted.
type DeleteMode int

const (
	// OnlyIfEmpty deletes a queue that [Client.ProveEmpty] has just proved
	// empty, and keeps it when it holds or gets something all the same.
	OnlyIfEmpty DeleteMode = iota
	// Always deletes the queue with all its messages.
	Always
)

// DeleteQueue deletes the queue and its bindings. It is no error when the
// queue is gone.
//
// With OnlyIfEmpty a queue with ready messages or consumers is an [InUseError].
// For classic queues the broker itself sees to that; messages that are delivered
// but not acknowledged it does not count (3.10 to 4.3). Streams ignore the
// condition; they are asked over AMQP right before.
//
// Quorum queues cannot be deleted conditionally in these versions. We consume
// the queue while it is being deleted, and so get what it takes in before its
// end. When something came, the queue is made again with its arguments and
// bindings, the messages are published to it, and the result is an [InUseError].
// A message can come twice then. Only when that fails until ctx ends, or is
// refused, the result is a [MessagesLostError]. The user needs the permissions
// to read the queue, and to publish through the default exchange or an exchange
// whose name begins with the queue's.
//
// Stop the publishers first. What is on its way to a queue that is being deleted
// RabbitMQ drops and confirms, for every type of queue and however it is deleted
// (rabbit_channel:handle_cast/2, eol, 3.10 to 4.3). And in a cluster a quorum
// queue delivers from the member on the node of our connection
// (rabbit_fifo:delivery_effect/3), which may reach its end behind the leader.
func (c *Client) DeleteQueue(ctx context.Context, vhost string, q topology.Queue, mode DeleteMode) error {
	if err := checkNames(vhost, q.Name); err != nil {
		return err
	}
	switch {
	case mode == Always:
		_, err := c.deleteQueue(ctx, vhost, q.Name)
		return err
	case q.Type == topology.Classic, q.Type == "":
		_, err := c.deleteQueue(ctx, vhost, q.Name, rabbithole.QueueDeleteOptions{IfEmpty: true, IfUnused: true})
		return inUse(err, vhost, q.Name)
	case q.Type == topology.Quorum:
		return c.deleteWatched(ctx, vhost, q.Name)
	}
	if err := c.checkUnused(ctx, vhost, q.Name); err != nil {
		return err
	}
	_, err := c.deleteQueue(ctx, vhost, q.Name)
	return err
}

func (c *Client) deleteQueue(ctx context.Context, vhost, name string, options ...rabbithole.QueueDeleteOptions) (*call, error) {
	op := operation{
		text:   fmt.Sprintf("delete queue %q in vhost %q", name, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", name),
		needs:  fmt.Sprintf("configure on %q", name),
	}
	k, err := c.write(ctx, op, nil, func(rh *rabbithole.Client) error {
		return closed(rh.DeleteQueue(vhost, name, options...))
	})
	if err == nil {
		c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, name) })
	}
	return k, err
}

// checkUnused fails when the queue has ready messages or consumers.
func (c *Client) checkUnused(ctx context.Context, vhost, queue string) error {
	s, err := c.openSession(ctx, vhost)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // nothing was sent that could be lost
	found, err := s.Depths(ctx, []string{queue})
	if err != nil {
		return err
	}
	return unused(found[queue], 0, vhost, queue)
}

// unused fails when the queue has ready messages, or consumers beside ours.
func unused(depth messages.Depth, ours int, vhost, queue string) error {
	switch {
	case depth.Ready > 0:
		return &InUseError{Vhost: vhost, Queue: queue, Reason: fmt.Sprintf("it holds messages (%d ready)", depth.Ready)}
	case depth.Consumers > ours:
		return &InUseError{Vhost: vhost, Queue: queue, Reason: fmt.Sprintf("it has consumers (%d)", depth.Consumers-ours)}
	}
	return nil
}

// deleteWatched deletes a quorum queue under a watch.
func (c *Client) deleteWatched(ctx context.Context, vhost, queue string) error {
	was, exists, err := c.remember(ctx, vhost, queue)
	if err != nil {
		return err
	}
	if !exists {
		c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, queue) })
		return nil
	}
	s, err := c.openSession(ctx, vhost)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // what was not settled goes back to the queue
	// A message that is seen here need not be touched.
	depth, err := s.Glance(ctx, queue)
	if err == nil {
		err = unused(depth, 0, vhost, queue)
	}
	if err != nil {
		return err
	}
	if err := s.MayPutBack(ctx, queue); err != nil {
		return c.cannotWatch(vhost, queue, `write on "amq.default"`, err)
	}
	w, err := watchSoon(ctx, s, queue)
	if err != nil {
		return c.deleteUnwatched(ctx, vhost, queue, err)
	}
	err = c.checkWatched(ctx, w, vhost, queue)
	if errors.Is(err, messages.ErrNotFound) {
		c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, queue) })
		return nil // somebody else has just deleted it
	}
	if err != nil {
		return errors.Join(err, c.release(ctx, w, vhost, was.queue))
	}
	return c.deleteUnder(ctx, w, vhost, was)
}

// watchSoon starts a watch. A queue that is half made may never answer.
func watchSoon(ctx context.Context, s session, queue string) (watch, error) {
	soon, stop := context.WithTimeout(ctx, probeTime)
	defer stop()
	return s.Watch(soon, queue)
}

// deleteUnwatched deletes a queue that cannot be watched, for the given reason,
// when it is half made: then it holds nothing.
func (c *Client) deleteUnwatched(ctx context.Context, vhost, queue string, reason error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if !isMute(reason) {
		return c.cannotWatch(vhost, queue, fmt.Sprintf("read on %q", queue), reason)
	}
	half, err := c.halfMade(ctx, vhost, queue, c.proof.patience+c.unsettled(ctx))
	switch {
	case err != nil:
		return err
	case !half:
		return reason
	}
	_, err = c.deleteQueue(ctx, vhost, queue)
	return err
}

// cannotWatch explains why the queue cannot be watched.
func (c *Client) cannotWatch(vhost, queue, needs string, err error) error {
	var refused *messages.RefusedError
	switch {
	case errors.Is(err, messages.ErrNotFound):
		c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, queue) })
		return nil
	case errors.As(err, &refused):
		return &PermissionError{
			Operation: fmt.Sprintf("keep the messages that come while queue %q in vhost %q is deleted", queue, vhost),
			Username:  c.username,
			Vhost:     vhost,
			Object:    fmt.Sprintf("queue %q", queue),
			Needs:     needs,
			Reason:    refused.Reason,
		}
	}
	return err
}

// checkWatched fails unless the queue is empty and ours is its only consumer.
// The broker shows a consumer at once or almost so; without ours, its numbers
// are not those of the queue's leader (rabbit_quorum_queue:stat/2).
func (c *Client) checkWatched(ctx context.Context, w watch, vhost, queue string) error {
	for began := time.Now(); ; {
		depth, err := w.Depth(ctx)
		if err != nil {
			return err
		}
		if n := len(w.Held()); n > 0 {
			depth.Ready += n
		}
		if depth.Consumers > 0 || depth.Ready > 0 {
			return unused(depth, 1, vhost, queue)
		}
		if time.Since(began) > c.proof.leader {
			return &InUseError{Vhost: vhost, Queue: queue, Reason: "its leader does not say whether it holds messages"}
		}
		if err := c.sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// deleteUnder deletes the queue under the watch and puts it back if something
// came meanwhile.
func (c *Client) deleteUnder(ctx context.Context, w watch, vhost string, was former) error {
	k, failure := c.deleteQueue(ctx, vhost, was.queue.Name)
	if failure != nil && !k.uncertain {
		return errors.Join(failure, c.release(ctx, w, vhost, was.queue))
	}
	// From here on nothing that came may be dropped, even if ctx ends.
	keeping, cancel := outlive(ctx, c.proof.grace)
	defer cancel()
	waiting, stop := context.WithTimeout(keeping, c.proof.leader)
	defer stop()
	held, gone := w.Rest(waiting)
	switch {
	case !gone && failure != nil:
		return errors.Join(failure, c.release(keeping, w, vhost, was.queue))
	case len(held) > 0:
		return c.putBack(keeping, vhost, was, held)
	case !gone && k.status != http.StatusNotFound:
		return &MessagesLostError{Vhost: vhost, Queue: was.queue.Name, Err: errors.New("the AMQP connection broke")}
	}
	return nil
}

// release ends the watch of a queue that stays.
func (c *Client) release(ctx context.Context, w watch, vhost string, q topology.Queue) error {
	limit := int64(-1)
	if len(w.Held()) > 0 {
		var err error
		if limit, err = c.deliveryLimit(ctx, vhost, q); err != nil {
			return err
		}
	}
	return w.Release(ctx, limit)
}

// defaultDeliveryLimit is that of quorum queues since 4.0
// (rabbit_quorum_queue:resolve_delivery_limit/2).
const defaultDeliveryLimit = 20

// deliveryLimit returns the delivery limit of the quorum queue, -1 for none.
func (c *Client) deliveryLimit(ctx context.Context, vhost string, q topology.Queue) (int64, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	modern := info.Version.AtLeast("4.0.0")
	var limit int64
	var set bool
	err = c.View(ctx, vhost, func(t *topology.Topology) {
		limit, set = t.Effective(q, modern).Int(topology.DeliveryLimit)
	})
	switch {
	case err != nil:
		return 0, err
	case !set && modern:
		return defaultDeliveryLimit, nil
	case !set:
		return -1, nil
	case limit < 0 && !modern:
		return 0, nil // every return exceeds it (rabbit_fifo:update_config/2)
	}
	return limit, nil
}

// outlive returns a context that ends the given time after ctx.
func outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
