package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// This file holds the rule for queues that may be gone. A queue is gone, empty, holds
// something, or is unknown, and unknown is never taken for empty:
//
//   - It is gone only if the management API does not list it and AMQP says that there
//     is no such queue.
//   - If the two disagree, or AMQP gives another answer or none in time, it is unknown:
//     an [UnknownError].
//   - After a DELETE that answered 404 the API must not list it either.
//
// Whether it is empty or holds something, [Client.ProveEmpty] finds out.

// UnknownError says that nobody knows whether a queue exists or what it holds, and so
// it was not deleted.
type UnknownError struct {
	Vhost string
	Queue string
	// Listed is what the management API says of the queue, such as "lists it (type
	// classic, state down, node rabbit@b)".
	Listed string
	// Answer is what AMQP says, or what else was seen.
	Answer string
	// Down names the nodes that are down, "" if none is known to be.
	Down string
}

func (e *UnknownError) Error() string {
	text := fmt.Sprintf("it is not known what queue %q in vhost %q holds: the management API %s, but %s",
		e.Queue, e.Vhost, e.Listed, e.Answer)
	if e.Down != "" {
		return text + "; " + e.Down + "; start them, and try again"
	}
	return text + "; look into the broker's log, and try again when the queue answers, or delete the queue yourself if nothing that it " +
		"may hold is needed"
}

// listing is what the list of queues says of one.
type listing struct {
	queueJSON
	State   string   `json:"state"`
	Node    string   `json:"node"`
	Leader  string   `json:"leader"`
	Members []string `json:"members"`
	Online  []string `json:"online"`
}

const listingColumns = queueColumns + ",state,node,leader,members,online"

// listed returns what the management API lists of the queue, nil if it lists none. It
// asks for the list, because RabbitMQ 3.10 answers 404 to a request for a single queue
// whose node is down, and 4.0 calls such a queue running.
func (c *Client) listed(ctx context.Context, vhost, queue string) (*listing, error) {
	k := c.newCall(ctx, operation{text: fmt.Sprintf("look whether vhost %q has a queue %q", vhost, queue), vhost: vhost})
	k.query = withoutStats(listingColumns)
	all, err := get[[]listing](k, func(rh *rabbithole.Client) (any, error) { return rh.ListQueuesIn(vhost) })
	if err != nil {
		return nil, err
	}
	for _, l := range all {
		if l.Name == queue {
			return &l, nil
		}
	}
	return nil, nil
}

// onlyListed returns what the list says of a queue that a request for it alone did not
// find, nil if nothing. From 4.0 on that request finds every queue.
func (c *Client) onlyListed(ctx context.Context, vhost, queue string) (*listing, error) {
	info, err := c.Info(ctx)
	if err != nil || info.Version.Has(abilities.FindsDownQueues) {
		return nil, err
	}
	return c.listed(ctx, vhost, queue)
}

// String continues "the management API …".
func (l *listing) String() string {
	if l == nil {
		return "does not list it"
	}
	var parts []string
	add := func(what, value string) {
		if value != "" {
			parts = append(parts, what+" "+value)
		}
	}
	add("type", l.Type)
	add("state", l.State)
	add("node", l.at())
	add("members not online", strings.Join(l.away(), ", "))
	if len(parts) == 0 {
		return "lists it"
	}
	return "lists it (" + strings.Join(parts, ", ") + ")"
}

// at is the node of the queue, or of its leader.
func (l *listing) at() string {
	if l.Node != "" {
		return l.Node
	}
	return l.Leader
}

// away are the members that are not online.
func (l *listing) away() []string {
	return slices.DeleteFunc(slices.Clone(l.Members), func(node string) bool { return slices.Contains(l.Online, node) })
}

// works says whether the list calls the queue able to answer. States of a queue that
// is not are down, minority, stopped, crashed, recovering and timeout
// (rabbit_quorum_queue, rabbit_classic_queue and rabbit_mgmt_format, 3.10 to 4.3).
func (l *listing) works() bool {
	return slices.Contains([]string{"", "running", "live", "idle", "flow", "syncing"}, l.State)
}

// gone says whether the queue does not exist. It is an [UnknownError] if the
// management API and AMQP disagree, or if AMQP cannot say.
func (c *Client) gone(ctx context.Context, s session, vhost, queue string) (bool, error) {
	depths, err := s.Depths(ctx, []string{queue})
	if err != nil {
		return false, c.unavailable(ctx, vhost, err)
	}
	found, err := c.listed(ctx, vhost, queue)
	if err != nil {
		return false, err
	}
	_, exists := depths[queue]
	switch {
	case exists && found != nil:
		return false, nil
	case !exists && found == nil:
		return true, nil
	case exists:
		return false, c.unknown(ctx, vhost, queue, found, "AMQP says that it exists; check that endpoint and amqp_endpoint lead to "+
			"one cluster")
	default:
		return false, c.unknown(ctx, vhost, queue, found, "AMQP says that it does not exist; check that endpoint and amqp_endpoint lead "+
			"to one cluster")
	}
}

// deletedOrGone fails unless the queue that a DELETE did not find is gone: RabbitMQ
// 3.10 answers 404 for a queue whose node is down.
func (c *Client) deletedOrGone(ctx context.Context, vhost, queue string) error {
	found, err := c.listed(ctx, vhost, queue)
	if err != nil || found == nil {
		return err
	}
	return c.unknown(ctx, vhost, queue, found, "answers 404 to its deletion")
}

// Available fails with an [UnknownError] if the management API lists the queue as
// unable to answer. Use it before changes around a queue that stays.
func (c *Client) Available(ctx context.Context, vhost, queue string) error {
	found, err := c.listed(ctx, vhost, queue)
	if err != nil || found == nil || found.works() {
		return err
	}
	return c.unknown(ctx, vhost, queue, found, "in that state it cannot be asked what it holds")
}

// unknown makes an [UnknownError].
func (c *Client) unknown(ctx context.Context, vhost, queue string, found *listing, answer string) error {
	return &UnknownError{Vhost: vhost, Queue: queue, Listed: found.String(), Answer: answer, Down: c.DownText(ctx)}
}

// unavailable makes an [UnknownError] of a [messages.UnavailableError], and leaves
// other errors as they are.
func (c *Client) unavailable(ctx context.Context, vhost string, err error) error {
	var none *messages.UnavailableError
	if !errors.As(err, &none) || ctx.Err() != nil {
		return err
	}
	found, listErr := c.listed(ctx, vhost, none.Queue)
	if listErr != nil {
		return errors.Join(err, listErr)
	}
	return c.unknown(ctx, vhost, none.Queue, found, "over AMQP: "+none.Answer)
}
