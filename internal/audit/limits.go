package audit

import (
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// severity of what happens to messages in a queue that somebody may not mean to
// keep any.
func (q *queue) severity() Severity {
	if q.isPassing() {
		return Info
	}
	return Warning
}

func (g *graph) expiryWithoutDLX() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.TTL == nil || q.deadLetters() {
			return nil
		}
		return &Finding{
			Severity: q.severity(),
			Message:  fmt.Sprintf("There is no dead-letter exchange: %s.", retry.HarmToStore(topology.KeyMessageTTL, q.TTL.Milliseconds())),
			Fix:      "Set a dead-letter exchange, or take the time-to-live away.",
		}
	})
}

func (g *graph) limitWithoutDLX() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.dropsHead() || q.deadLetters() {
			return nil
		}
		return &Finding{
			Severity: q.severity(),
			Message:  fmt.Sprintf("There is no dead-letter exchange: %s.", retry.HarmToStore(topology.KeyMaxLength, 0)),
			Fix:      "Set a dead-letter exchange, or overflow = reject-publish so that publishers notice, or take the limit away.",
		}
	})
}

func (g *graph) defaultDeliveryLimit() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.DeliveryLimit == nil || q.hasOwnLimit() || q.deadLetters() || g.keepsForOthers(q) {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("No delivery limit is set, and so it is %d; there is no dead-letter exchange either: %s.",
				*q.DeliveryLimit, retry.HarmOfDeliveryLimit(*q.DeliveryLimit)),
			Fix: "Set a dead-letter exchange, or delivery-limit = -1 for no limit.",
		}
	})
}

func (q *queue) hasOwnLimit() bool {
	_, set := q.effective.Int(topology.DeliveryLimit)
	return set
}

func (g *graph) deliveryLimitWithoutDLX() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.DeliveryLimit == nil || !q.hasOwnLimit() || *q.DeliveryLimit < 0 || q.deadLetters() || g.keepsForOthers(q) {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("There is no dead-letter exchange: %s.", retry.HarmOfDeliveryLimit(*q.DeliveryLimit)),
			Fix:     "Set a dead-letter exchange, or take the delivery limit away (delivery-limit = -1 from RabbitMQ 4.0 on).",
		}
	})
}

func (g *graph) parkingDeliveryLimit() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.DeliveryLimit == nil || *q.DeliveryLimit < 0 || !g.keepsForOthers(q) {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("Dead letters are kept here, and the delivery limit is %d: %s.",
				*q.DeliveryLimit, retry.HarmOfDeliveryLimit(*q.DeliveryLimit)),
			Fix: "Declare the queue with x-delivery-limit = -1 (RabbitMQ 4.0 and later), or without a limit (3.x), or, if it was declared without one, set delivery-limit = -1 by a policy.",
		}
	})
}

func (g *graph) negativeDeliveryLimit() []Finding {
	if g.broker.AtLeast("4.0.0") {
		return nil
	}
	return g.each(func(q *queue) *Finding {
		if q.DeliveryLimit == nil || *q.DeliveryLimit >= 0 {
			return nil
		}
		what := "deleted"
		if q.deadLetters() {
			what = "dead-lettered"
		}
		return &Finding{
			Message: fmt.Sprintf("The delivery limit is %d, which means no limit from RabbitMQ 4.0 on only; this broker is %s. A message that is put back once is %s.",
				*q.DeliveryLimit, g.broker.Version, what),
			Fix: "Leave the delivery limit out.",
		}
	})
}

func (g *graph) waitingQueueExpires() []Finding {
	return g.each(func(q *queue) *Finding {
		n, set := q.effective.Int(topology.Expires)
		if !set || !q.waits() && !g.keepsForOthers(q) {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("Messages are kept here without a consumer: %s. They are not dead-lettered.", retry.HarmOfExpires(n)),
			Fix:     "Take x-expires, or the policy's key expires, away. Delete the queue by hand when it is empty.",
		}
	})
}

// waitingQueueLimit looks at queues in which dead letters wait for another try.
func (g *graph) waitingQueueLimit() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.waits() || !g.fed[q.Name] || !q.isLimited() {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("Dead letters wait here for another try, and the queue has a length limit: %s.", retry.HarmToTier(topology.KeyMaxLength, 0, 0)),
			Fix:     "Take the length limit away.",
		}
	})
}

func (g *graph) shortenedWait() []Finding {
	return g.each(func(q *queue) *Finding {
		declared, set := q.Arguments.Int(topology.MessageTTL)
		if !set || !q.waits() {
			return nil
		}
		wait := time.Duration(declared) * time.Millisecond
		harm := retry.HarmToTier(topology.KeyMessageTTL, q.TTL.Milliseconds(), wait)
		if harm == "" {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("A policy or an operator policy sets a shorter time-to-live than the queue was declared with: %s.", harm),
			Fix:     "Narrow the policy's pattern so that it does not match this queue.",
		}
	})
}
