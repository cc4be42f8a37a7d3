package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

func (g *graph) missingDeadLetterExchange() []Finding {
	return g.each(func(q *queue) *Finding {
		if !q.deadLetters() || *q.DeadLetterExchange == "" {
			return nil
		}
		name := *q.DeadLetterExchange
		if _, exists := g.Exchange(name); exists {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("The dead-letter exchange %q does not exist. A message that dies in this queue %s.", name, fate(q)),
			Fix:     fmt.Sprintf("Declare the exchange %q and bind a queue to it, or correct the name.", name),
		}
	})
}

// fate says what becomes of a dead letter of the queue that cannot be delivered.
func fate(q *queue) string {
	if q.AtLeastOnce {
		return "is held by the queue, which tries again every 3 minutes; 32 such messages stop it from dead-lettering any other"
	}
	return "is deleted, and nothing says so"
}

// deadLetterNoRoute looks at what is certain only: where nobody knows the
// routing keys or headers of messages, it looks for an exchange that leads no
// message to any queue.
func (g *graph) deadLetterNoRoute() []Finding {
	lost := map[string]Finding{}
	for _, s := range g.steps() {
		if f, found := lost[s.queue.Name]; s.certain && s.out.Cause == simulator.NoRoute && (!found || f.Severity == Warning && s.alone) {
			lost[s.queue.Name] = s.noRoute()
		}
	}
	return g.each(func(q *queue) *Finding {
		f, found := lost[q.Name]
		if g.leadsNowhere(q) {
			f = Finding{Message: fmt.Sprintf("No binding leads from the dead-letter exchange %q to any queue. A message that dies here",
				*q.DeadLetterExchange)}
			found = true
		}
		if !found {
			return nil
		}
		f.Message += " " + fate(q) + "."
		f.Fix = fmt.Sprintf("Bind a queue to the dead-letter exchange %q so that it takes every message, or give that exchange an "+
			"alternate exchange.",
			*q.DeadLetterExchange)
		return &f
	})
}

// noRoute is the finding of a step that leads nowhere, without what follows for the
// message. Unless the queue sets a dead-letter routing key, RabbitMQ routes a dead
// letter by all its keys, those of CC and BCC included (rabbit_dead_letter:publish/5,
// rabbit_fifo_dlx_worker:forward/6, 3.10 to 4.3).
func (s step) noRoute() Finding {
	message := fmt.Sprintf("The dead-letter exchange %q routes no message with the routing key %q.", *s.queue.DeadLetterExchange, s.example)
	if s.alone {
		return Finding{Message: message + fmt.Sprintf(" If it dies here (%s), it", s.reason)}
	}
	return Finding{
		Severity: Warning,
		Message:  message + fmt.Sprintf(" If it dies here (%s) and its headers CC and BCC name no other key, it", s.reason),
	}
}

// leadsNowhere says whether the queue has a dead-letter exchange that exists and
// leads no message to any queue.
func (g *graph) leadsNowhere(q *queue) bool {
	if !q.deadLetters() || *q.DeadLetterExchange == "" {
		return false
	}
	_, exists := g.Exchange(*q.DeadLetterExchange)
	return exists && !g.leadsToQueues(*q.DeadLetterExchange)
}

func (g *graph) noDeadLetterExchange() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.deadLetters() || q.isPassing() || g.fed[q.Name] {
			return nil
		}
		return &Finding{
			Message: "A consumer that rejects a message without requeue deletes it.",
			Fix: "Attach a retry chain (rabbitmq_retry_chain with work_queue.ownership = \"application\"), or set a dead-letter " +
				"exchange by a policy.",
		}
	})
}

func (g *graph) deadLetterSettingsWithoutExchange() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.deadLetters() {
			return nil
		}
		for _, key := range []string{topology.DeadLetterRoutingKey, topology.DeadLetterStrategy} {
			value, set := q.effective[key]
			if !set || value == string(retry.AtMostOnce) {
				continue
			}
			return &Finding{
				Message: fmt.Sprintf("%s is set, and no dead-letter exchange: a message that dies is deleted.",
					topology.Arguments{key: value}.Text()),
				Fix: "Set a dead-letter exchange as well, \"\" for the default exchange.",
			}
		}
		return nil
	})
}

func (g *graph) atLeastOnceWithoutRejectPublish() []Finding {
	return g.each(func(q *queue) *Finding {
		wanted := q.effective.String(topology.DeadLetterStrategy) == string(retry.AtLeastOnce)
		if !wanted || !q.deadLetters() || q.AtLeastOnce || q.Type != topology.Quorum {
			return nil
		}
		overflow := q.effective.String(topology.Overflow)
		if overflow == "" {
			overflow = topology.DropHead + ", the default"
		}
		return &Finding{
			Message: fmt.Sprintf("At-least-once dead-lettering needs the overflow behaviour reject-publish and the queue has %s: %s. "+
				"A dead letter whose target queue is missing or down is lost.", overflow, retry.HarmOfFallback),
			Fix: "Set overflow to reject-publish, by the argument x-overflow or by a policy.",
		}
	})
}

// deadLetterCycle reports each cycle once, for the first queue by name.
func (g *graph) deadLetterCycle() []Finding {
	var findings []Finding
	seen := map[string]bool{}
	for _, j := range g.journeys {
		for _, s := range j.steps {
			for _, back := range s.out.Cyclic {
				i := slices.Index(s.path, back)
				if i < 0 {
					i = 0 // the message died there before it came on this journey
				}
				cycle := s.path[i:]
				if id := identity(cycle); !seen[id] {
					seen[id] = true
					findings = append(findings, g.cycleFinding(j, s, append(slices.Clone(cycle), back)))
				}
			}
		}
	}
	return findings
}

func identity(queues []string) string {
	sorted := slices.Sorted(slices.Values(queues))
	return strings.Join(slices.Compact(sorted), "\x00")
}

func (g *graph) cycleFinding(j journey, last step, cycle []string) Finding {
	end := "is dropped there"
	if last.queue.AtLeastOnce {
		end = fmt.Sprintf("stays in %q for ever, and 32 such messages stop that queue for all others", last.queue.Name)
	}
	return Finding{
		Object: Object{"queue", j.start.Name},
		Message: fmt.Sprintf("A message that dies in %q by %q goes %s. No rejection lies in that cycle, and so it %s.",
			j.start.Name, j.reason, strings.Join(quoted(cycle), " to "), end),
		Fix: fmt.Sprintf("Let only rejected messages go round: bind the waiting queue with x-match = all-with-x and "+
			"x-last-death-reason = rejected (RabbitMQ 3.13 and later) and lead everything else to a queue that keeps it, or take away "+
			"from %q what lets messages die by %q.",
			j.start.Name, j.reason),
	}
}

func quoted(names []string) []string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = fmt.Sprintf("%q", name)
	}
	return texts
}

func (g *graph) hotLoop() []Finding {
	return g.loops(func(j journey) *Finding {
		if j.wait > 0 {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("A message that is rejected each time goes %s at once and without end.",
				strings.Join(quoted(j.loop), " to ")),
			Fix: "Put a queue with a time-to-live into the way back, and a limit to the number of rounds: a retry chain has both.",
		}
	})
}

func (g *graph) endlessRetry() []Finding {
	return g.loops(func(j journey) *Finding {
		if j.wait == 0 {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("A message that is rejected each time goes %s without end, once every %s, unless the consumer counts "+
				"its deaths.",
				strings.Join(quoted(j.loop), " to "), retry.FormatDuration(j.wait)),
			Fix: "Use a retry chain, which parks a message after its last attempt, or let the consumer look at x-death and give up.",
		}
	})
}

// loops reports each loop of rejected messages once.
func (g *graph) loops(find func(j journey) *Finding) []Finding {
	var findings []Finding
	seen := map[string]bool{}
	for _, j := range g.journeys {
		if j.loop == nil || seen[identity(j.loop)] {
			continue
		}
		if f := find(j); f != nil {
			seen[identity(j.loop)] = true
			f.Object = Object{"queue", g.failing(j.loop)}
			findings = append(findings, *f)
		}
	}
	return findings
}

// failing is the queue of a loop that has consumers, as far as one can tell.
func (g *graph) failing(loop []string) string {
	for _, name := range loop {
		if !g.byName[name].waits() {
			return name
		}
	}
	return loop[0]
}

// retryReachesSeveralQueues looks at the ways out of the queues in which failed
// messages wait.
func (g *graph) retryReachesSeveralQueues() []Finding {
	found := map[string]Finding{}
	for _, j := range g.journeys {
		for _, s := range j.steps {
			if others := j.others(s); len(others) > 0 {
				found[s.queue.Name] = Finding{
					Message: fmt.Sprintf("A message that failed in %q comes back there after its wait, and to %s as well, where it did "+
						"not fail.",
						j.start.Name, strings.Join(quoted(others), ", ")),
					Fix: fmt.Sprintf("Return through an exchange to which only %q is bound, one for each work queue.", j.start.Name),
				}
			}
		}
	}
	return g.each(func(q *queue) *Finding {
		if f, exists := found[q.Name]; exists {
			return &f
		}
		return nil
	})
}

// others are the queues that get a copy of a failed message beside the one that
// it failed in and comes back to in this step.
func (j journey) others(s step) []string {
	if j.reason != simulator.Rejected || s.reason != simulator.Expired || s.queue == j.start {
		return nil
	}
	var others []string
	for _, letter := range s.out.Letters {
		if letter.Queue != j.start.Name {
			others = append(others, letter.Queue)
		}
	}
	if len(others) == len(s.out.Letters) {
		return nil // it does not come back
	}
	return others
}

func (g *graph) fullQueueRefusesDeadLetters() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.Type != topology.Classic || !g.fed[q.Name] || !q.isLimited() || q.Overflow != topology.RejectPublish {
			return nil
		}
		return &Finding{
			Message: "Dead letters come to this queue: " + retry.HarmOfRefusal + ", unless the queue that they come from dead-letters " +
				"at least once.",
			Fix: "Take the length limit away, use overflow = drop-head with a dead-letter exchange, or use quorum queues with " +
				"at-least-once dead-lettering.",
		}
	})
}
