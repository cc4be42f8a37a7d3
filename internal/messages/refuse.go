package messages

import (
	"fmt"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// UnsafeError says that a queue cannot be looked at without changing it.
type UnsafeError struct {
	Queue string
	// Reason is a clause such as "it is a stream".
	Reason string
	// Remedy is a sentence that says what to do, "" when nothing helps.
	Remedy string
}

func (e *UnsafeError) Error() string {
	text := fmt.Sprintf("looking at queue %q would change it: %s", e.Queue, e.Reason)
	if e.Remedy != "" {
		text += ". " + e.Remedy
	}
	return text
}

// Unsafe returns an [UnsafeError] when a [Pass] over the queue could lose, delay
// or hide messages. effective are the queue's arguments merged with its
// policies, see [topology.Topology.Effective]; modern says that the broker is
// 4.0 or later.
func Unsafe(q topology.Queue, effective topology.Arguments, modern bool) error {
	refuse := func(remedy, format string, args ...any) error {
		return &UnsafeError{Queue: q.Name, Reason: fmt.Sprintf(format, args...), Remedy: remedy}
	}
	switch {
	case q.Type != topology.Classic && q.Type != topology.Quorum:
		return refuse("", "it is of type %s, and only classic and quorum queues can be looked at", q.Type)
	case q.Exclusive:
		return refuse("", "it is exclusive to the connection that declared it")
	case q.AutoDelete:
		return refuse("", "it is an auto-delete queue, which the broker deletes with its messages when the last consumer leaves")
	case effective[topology.SingleActiveConsumer] == true:
		return refuse("", "it has a single active consumer, which looking would replace or wait for")
	case q.Type == topology.Classic:
		return nil
	}
	if kind := effective.String(topology.DelayedRetryType); kind != "" && kind != topology.DelayedRetryDisabled {
		return refuse("Take the delayed-retry keys away.", "it has delayed retries (%s), and so what was looked at comes back late", kind)
	}
	limit, limited := deliveryLimitOf(effective, modern)
	if !limited {
		return nil
	}
	remedy := "A policy with delivery-limit = -1 takes the limit away."
	if !modern {
		remedy = "Remove the policy that sets the limit. If it is an argument, move all messages to a queue without one."
	}
	return refuse(remedy,
		"it has a delivery limit of %d, every look counts as a delivery, and the broker removes a message that goes over the limit", limit)
}

// deliveryLimitOf returns the delivery limit of a quorum queue. Before 4.0 there
// is none by default and a negative one is exceeded by every return
// (rabbit_fifo:update_config/2); from 4.0 on a negative one means none.
func deliveryLimitOf(effective topology.Arguments, modern bool) (limit int64, limited bool) {
	limit, set := effective.Int(topology.DeliveryLimit)
	switch {
	case !set && modern:
		return topology.DefaultDeliveryLimit, true
	case !set:
		return 0, false
	}
	return limit, limit >= 0 || !modern
}
