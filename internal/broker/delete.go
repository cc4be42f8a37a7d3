package broker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
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

// DeleteQueue deletes the queue and its bindings. It is not an error if the
// queue is gone. A queue of which that is not known is an [UnknownError].
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
		err := c.deleteWatched(ctx, vhost, q.Name)
		if ctx.Err() != nil && err != nil {
			return fmt.Errorf("stopped while deleting queue %q in vhost %q: %w", q.Name, vhost, err)
		}
		return err
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
	if err == nil && k.status == http.StatusNotFound {
		err = c.deletedOrGone(ctx, vhost, name)
	}
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
		return c.unavailable(ctx, vhost, err)
	}
	if depth, exists := found[queue]; exists {
		return unused(depth, 0, vhost, queue)
	}
	_, err = c.gone(ctx, s, vhost, queue)
	return err
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
	s, err := c.openSession(ctx, vhost)
	if err != nil {
		return err
	}
	defer s.Close() //nolint:errcheck // what was not settled goes back to the queue
	was, exists, err := c.remember(ctx, vhost, queue)
	if err != nil {
		return err
	}
	if !exists {
		return c.goneMeanwhile(ctx, s, vhost, queue)
	}
	// A message that is seen here need not be touched.
	depth, err := s.Glance(ctx, queue)
	if err == nil {
		err = unused(depth, 0, vhost, queue)
	}
	if err != nil {
		return c.unavailable(ctx, vhost, err)
	}
	if err := s.MayPutBack(ctx, queue); err != nil {
		return c.cannotWatch(vhost, queue, `write on "amq.default"`, err)
	}
	w, err := watchSoon(ctx, s, queue)
	switch {
	case errors.Is(err, messages.ErrNotFound):
		return c.goneMeanwhile(ctx, s, vhost, queue)
	case err != nil:
		return c.deleteUnwatched(ctx, vhost, queue, err)
	}
	err = c.checkWatched(ctx, w, vhost, queue)
	switch {
	case errors.Is(err, messages.ErrNotFound):
		return c.goneMeanwhile(ctx, s, vhost, queue)
	case err != nil:
		return errors.Join(c.unavailable(ctx, vhost, err), c.release(ctx, w, vhost, was.queue))
	}
	return c.deleteUnder(ctx, w, vhost, was)
}

// goneMeanwhile fails unless the queue, which one side says does not exist, is gone.
func (c *Client) goneMeanwhile(ctx context.Context, s session, vhost, queue string) error {
	gone, err := c.gone(ctx, s, vhost, queue)
	switch {
	case err != nil:
		return err
	case !gone:
		return &InUseError{Vhost: vhost, Queue: queue, Reason: "it was deleted and declared again meanwhile"}
	}
	c.wrote(vhost, func(t *topology.Topology) { dropQueue(t, queue) })
	return nil
}

// watchSoon starts a watch. A queue that is half made may never answer.
func watchSoon(ctx context.Context, s session, queue string) (watch, error) {
	soon, stop := messages.Patience(ctx, queue, probeTime)
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
		return c.unavailable(ctx, vhost, c.cannotWatch(vhost, queue, fmt.Sprintf("read on %q", queue), reason))
	}
	half, err := c.halfMade(ctx, vhost, queue, c.proof.patience+c.unsettled(ctx))
	switch {
	case err != nil:
		return err
	case !half:
		return c.unavailable(ctx, vhost, reason)
	}
	_, err = c.deleteQueue(ctx, vhost, queue)
	return err
}

// cannotWatch explains why the queue cannot be watched.
func (c *Client) cannotWatch(vhost, queue, needs string, err error) error {
	var refused *messages.RefusedError
	if errors.As(err, &refused) {
		if err := c.unlessExpired(c.Endpoint(), refused); is[*CredentialsError](err) {
			return err
		}
		return &PermissionError{
			Operation: fmt.Sprintf("keep the messages that come while queue %q in vhost %q is deleted", queue, vhost),
			Username:  c.Username(),
			Token:     c.UsesToken(),
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
	keeping, cancel := Outlive(ctx, c.proof.grace)
	defer cancel()
	soon, cancelSoon := Outlive(ctx, c.proof.soon)
	defer cancelSoon()
	waiting, stop := context.WithTimeout(soon, c.proof.leader)
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

// deliveryLimit returns the delivery limit of the quorum queue, -1 for none; where
// RabbitMQ may apply one of several, the smallest.
func (c *Client) deliveryLimit(ctx context.Context, vhost string, q topology.Queue) (int64, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return 0, err
	}
	modern := info.Version.Has(abilities.UnlimitedDelivery)
	smallest := int64(-1)
	err = c.View(ctx, vhost, func(t *topology.Topology) {
		for _, effective := range t.Candidates(q, modern) {
			if limit := limitOf(effective, modern); limit >= 0 && (smallest < 0 || limit < smallest) {
				smallest = limit
			}
		}
	})
	return smallest, err
}

func limitOf(effective topology.Arguments, modern bool) int64 {
	limit, set := effective.Int(topology.DeliveryLimit)
	switch {
	case !set && modern:
		return topology.DefaultDeliveryLimit
	case !set:
		return -1
	case limit < 0 && !modern:
		return 0 // every return exceeds it (rabbit_fifo:update_config/2)
	}
	return limit
}

// Outlive returns a context that ends the given time after ctx.
func Outlive(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		time.AfterFunc(by, func() { cancel(context.Cause(ctx)) })
	})
	return longer, func() {
		stop()
		cancel(nil)
	}
}
