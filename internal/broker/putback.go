package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// former is what a queue was before it was deleted.
type former struct {
	queue    topology.Queue
	bindings []topology.Binding
}

// remember reads the queue and its bindings from the broker, past the snapshot:
// another client may have changed the bindings.
func (c *Client) remember(ctx context.Context, vhost, queue string) (was former, exists bool, err error) {
	if was.queue, exists, err = c.Queue(ctx, vhost, queue); !exists || err != nil {
		return former{}, false, err
	}
	k := c.newCall(ctx, operation{
		text:   fmt.Sprintf("list the bindings of queue %q in vhost %q", queue, vhost),
		vhost:  vhost,
		object: fmt.Sprintf("queue %q", queue),
	})
	found, err := get[[]bindingJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListQueueBindings(vhost, queue) })
	if isNotFound(err) {
		return former{}, false, nil
	}
	if err != nil {
		return former{}, false, err
	}
	for _, b := range found {
		if b.Source != "" {
			was.bindings = append(was.bindings, b.binding())
		}
	}
	return was, true, nil
}

// Bound says whether a binding leads to the queue. It asks the broker and not the
// snapshot: another client may just have made one.
func (c *Client) Bound(ctx context.Context, vhost, queue string) (bool, error) {
	was, _, err := c.remember(ctx, vhost, queue)
	return len(was.bindings) > 0, err
}

// putBack makes the deleted queue and its bindings again and publishes the
// messages to it. It tries until ctx ends or the broker refuses for good. The
// result is an [InUseError] when every message is in the queue again, joined
// with what went wrong with a binding, and else a [MessagesLostError].
func (c *Client) putBack(ctx context.Context, vhost string, was former, held []messages.Message) error {
	left := held
	for {
		unbound, err := c.restore(ctx, vhost, was, &left)
		if err == nil {
			return errors.Join(&InUseError{Vhost: vhost, Queue: was.queue.Name, Reason: cameText(len(held))}, unbound)
		}
		if final(err) || c.sleep(ctx, putBackPause) != nil {
			return &MessagesLostError{Vhost: vhost, Queue: was.queue.Name, Count: len(left), IDs: ids(left), Err: err}
		}
	}
}

// putBackPause lies between two tries.
const putBackPause = time.Second

// restore is one try. It takes the messages that are in the queue again from
// left. unbound is what went wrong with bindings.
func (c *Client) restore(ctx context.Context, vhost string, was former, left *[]messages.Message) (unbound, err error) {
	if _, err := c.DeclareQueue(ctx, vhost, was.queue); err != nil {
		return nil, err
	}
	var bound []topology.Binding
	for _, b := range was.bindings {
		if err := c.Bind(ctx, vhost, b); err != nil {
			unbound = errors.Join(unbound, err)
			continue
		}
		bound = append(bound, b)
	}
	s, err := c.openSession(ctx, vhost)
	if err != nil {
		return nil, err
	}
	defer s.Close() //nolint:errcheck // every message was confirmed
	*left, err = s.PutBack(ctx, was.queue.Name, c.leadingOnlyTo(ctx, vhost, was.queue.Name, bound), *left)
	return unbound, err
}

// leadingOnlyTo returns the fanout exchanges among the sources of the bindings
// that lead to the queue and nowhere else, as far as the snapshot knows.
func (c *Client) leadingOnlyTo(ctx context.Context, vhost, queue string, bindings []topology.Binding) []string {
	var only []string
	err := c.View(ctx, vhost, func(t *topology.Topology) {
		elsewhere := func(b topology.Binding) bool {
			return b.DestinationKind != topology.KindQueue || b.Destination != queue
		}
		for _, b := range bindings {
			e, _ := t.Exchange(b.Source)
			if e.Type == topology.Fanout && !e.Internal && !slices.ContainsFunc(t.From(b.Source), elsewhere) {
				only = append(only, b.Source)
			}
		}
	})
	if err != nil {
		return nil // there are other ways to publish
	}
	return only
}

func cameText(n int) string {
	came := "1 message"
	if n != 1 {
		came = fmt.Sprintf("%d messages", n)
	}
	return came + " arrived while it was being deleted, and it was put back with them"
}

func ids(list []messages.Message) []string {
	var ids []string
	for _, m := range list {
		if id := m.ID(); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// final says whether the broker refuses for good.
func final(err error) bool {
	var permission *PermissionError
	var inequivalent *InequivalentError
	var refused *messages.RefusedError
	return errors.As(err, &permission) || errors.As(err, &inequivalent) || errors.As(err, &refused)
}
