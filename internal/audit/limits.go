package audit

import (
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
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

// defaultDeliveryLimit has one finding for all queues: the limit is the broker's, and
// applies to each queue that sets none.
func (g *graph) defaultDeliveryLimit() []Finding {
	var all groups
	g.each(func(q *queue) *Finding {
		if q.DeliveryLimit == nil || q.hasOwnLimit() || q.deadLetters() || g.keepsForOthers(q) {
			return nil
		}
		all.add("", q.Name, func() Finding {
			return Finding{
				Object: Object{"queue", q.Name},
				Message: fmt.Sprintf("The delivery limit is RabbitMQ's default, %d, and there is no dead-letter exchange: %s. Queues:",
					*q.DeliveryLimit, retry.HarmOfDeliveryLimit(*q.DeliveryLimit)),
				Fix: "Set a dead-letter exchange, or delivery-limit = -1 for no limit, for example by a policy.",
			}
		})
		return nil
	})
	return all.named()
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
			Fix: "If the limit comes from a policy or from the default of RabbitMQ 4.0 and later, set delivery-limit = -1 by a policy " +
				"(on 3.x remove it). If it is an argument, use a queue without it. " + retry.Redeclare,
		}
	})
}

func (g *graph) negativeDeliveryLimit() []Finding {
	if g.broker.Version.Has(abilities.UnlimitedDelivery) {
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
			Message: fmt.Sprintf("The delivery limit is %d, which means no limit from RabbitMQ 4.0 on only; this broker is %s. A "+
				"message that is put back once is %s.",
				*q.DeliveryLimit, g.broker.Version, what),
			Fix: "Leave the delivery limit out.",
		}
	})
}

func (g *graph) waitingQueueExpires() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.waits() && !g.keepsForOthers(q) {
			return nil
		}
		return q.deletesItself("Messages are kept here without a consumer")
	})
}

// deletesItself is a finding about a queue that is deleted while it has messages, or
// nil. In both cases RabbitMQ deletes the messages and dead-letters none.
func (q *queue) deletesItself(why string) *Finding {
	if n, set := q.effective.Int(topology.Expires); set {
		return &Finding{
			Message: fmt.Sprintf("%s: %s. They are not dead-lettered.", why, retry.HarmOfExpires(n)),
			Fix:     "Remove the key expires from the policy. If it is the argument x-expires, use a queue without it. " + retry.Redeclare,
		}
	}
	if q.AutoDelete {
		return &Finding{
			Message: why + ": an auto-delete queue is deleted with all its messages when its last consumer leaves. They are not " +
				"dead-lettered.",
			Fix: "Use a queue without auto-delete. " + retry.Redeclare,
		}
	}
	return nil
}

// workQueueDeletesItself looks at queues whose messages should be kept when
// they fail.
func (g *graph) workQueueDeletesItself() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.deadLetters() || q.waits() || q.Exclusive {
			return nil
		}
		return q.deletesItself("The queue has a dead-letter exchange for messages that fail")
	})
}

// streamDeletesDeadLetters looks at the retention of streams that dead letters reach.
func (g *graph) streamDeletesDeadLetters() []Finding {
	var findings []Finding
	for i := range g.queues {
		q := &g.queues[i]
		limits := topology.Arguments{}
		for _, key := range []string{topology.MaxAge, topology.MaxLengthBytes} {
			if value, set := q.effective[key]; set {
				limits[key] = value
			}
		}
		if q.Type != topology.Stream || !g.fed[q.Name] || len(limits) == 0 {
			continue
		}
		findings = append(findings, Finding{
			Object: Object{"queue", q.Name},
			Message: fmt.Sprintf("Dead letters come to this stream, and its retention (%s) deletes the oldest messages, whether or not "+
				"they were read.", limits.Text()),
			Fix: "Remove the retention, or keep dead letters in a quorum queue.",
		})
	}
	return findings
}

// waitingQueueLimit looks at queues in which dead letters wait for another try.
func (g *graph) waitingQueueLimit() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.waits() || !g.fed[q.Name] || !q.isLimited() {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("Dead letters wait here for another try, and the queue has a length limit: %s.",
				retry.HarmToTier(topology.KeyMaxLength, 0, 0)),
			Fix: "Take the length limit away.",
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
