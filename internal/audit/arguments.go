package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// exchangeArguments are those of the core's exchange types and of common plugins.
var exchangeArguments = []string{
	topology.AlternateExchange, "hash-header", "hash-property", topology.DelayedType,
	"x-recent-history-length", "x-recent-history-no-store",
}

func (g *graph) unknownArgument() []Finding {
	var findings []Finding
	known := topology.QueueArguments()
	for _, q := range g.Queues() {
		findings = append(findings, unknown(Object{"queue", q.Name}, q.Arguments, known)...)
	}
	for _, e := range g.Exchanges() {
		findings = append(findings, unknown(Object{"exchange", e.Name}, e.Arguments, exchangeArguments)...)
	}
	return findings
}

func unknown(object Object, arguments topology.Arguments, known []string) []Finding {
	var findings []Finding
	for _, key := range slices.Sorted(maps.Keys(arguments)) {
		if slices.Contains(known, key) {
			continue
		}
		f := Finding{
			Object:  object,
			Message: fmt.Sprintf("RabbitMQ does not know the argument %s and ignores it.", topology.Arguments{key: arguments[key]}.Text()),
			Fix:     "Remove it, unless an application reads it.",
		}
		if near := nearest(key, known); near != "" {
			f.Fix = fmt.Sprintf("Declare the %s again with %q.", object.Kind, near)
			if object.Kind == string(topology.KindQueue) {
				f.Fix += " " + retry.Redeclare
			}
		} else {
			f.Severity = Info
		}
		findings = append(findings, f)
	}
	return findings
}

// nearest returns the known word that a misspelt one most likely means, or "".
func nearest(word string, known []string) string {
	best, least := "", len(word)/4+1
	for _, candidate := range known {
		d := distance(plain(word), plain(candidate))
		if d < least {
			best, least = candidate, d
		}
	}
	return best
}

// plain leaves out what people mix up most.
func plain(word string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.TrimPrefix(strings.ToLower(word), topology.ArgumentPrefix))
}

// distance is the number of letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func (g *graph) delayedRetryIgnored() []Finding {
	setting, _ := topology.SettingOf(topology.DelayedRetryType)
	return g.each(func(q *queue) *Finding {
		kind := q.Arguments.String(topology.DelayedRetryType)
		if kind == "" || kind == topology.DelayedRetryDisabled || setting.WorksOn(g.broker.Version, q.Type) {
			return nil
		}
		return &Finding{
			Message: fmt.Sprintf("%s needs RabbitMQ 4.3 and a quorum queue; this is a %s queue on %s. A message that is put back is "+
				"delivered again at once.",
				topology.Arguments{topology.DelayedRetryType: kind}.Text(), q.Type, g.broker.Version),
			Fix: "Use a retry chain with strategy \"headers\" or \"routing_key\".",
		}
	})
}

func (g *graph) deprecatedFeature() []Finding {
	// here are, for the features that leave a trace in a virtual host, those of this one.
	here := map[string][]Finding{
		"transient_nonexcl_queues": g.transientQueues(),
		"queue_master_locator":     g.oldArguments(),
		"classic_queue_mirroring":  g.mirroringPolicies(),
	}
	var findings []Finding
	for _, name := range g.broker.Deprecated {
		if traces, visible := here[name]; visible && len(traces) == 0 {
			continue // another virtual host uses it
		}
		findings = append(findings, Finding{
			Severity: Info,
			Object:   Object{"broker", name},
			Message:  fmt.Sprintf("The broker says that the deprecated feature %s is in use, in this or another virtual host.", name),
			Fix:      "See what the documentation says about it before the next upgrade.",
		})
	}
	for _, name := range slices.Sorted(maps.Keys(here)) {
		findings = append(findings, here[name]...)
	}
	return findings
}

func (g *graph) transientQueues() []Finding {
	return g.each(func(q *queue) *Finding {
		if q.Durable || q.Exclusive {
			return nil
		}
		return &Finding{
			Message: "The queue is neither durable nor exclusive: when its node stops, it is deleted with all its messages. RabbitMQ " +
				"4.3 refuses to declare such queues by default (transient_nonexcl_queues).",
			Fix: "Use a durable queue. " + retry.Redeclare,
		}
	})
}

func (g *graph) oldArguments() []Finding {
	return g.each(func(q *queue) *Finding {
		var effect string
		switch {
		case q.effective[topology.QueueMode] != nil && g.broker.Version.Has(abilities.IgnoresQueueMode):
			effect = "x-queue-mode has no effect from RabbitMQ 3.12 on"
		case q.effective[topology.QueueVersion] == int64(1):
			effect = "RabbitMQ 4.3 refuses x-queue-version = 1"
		case q.effective[topology.MasterLocator] != nil:
			effect = "RabbitMQ 4.3 refuses x-queue-master-locator (queue_master_locator)"
		default:
			return nil
		}
		return &Finding{Severity: Info, Message: effect + ".", Fix: "Leave the setting out."}
	})
}

func (g *graph) mirroringPolicies() []Finding {
	var findings []Finding
	for _, p := range g.Policies() {
		if _, set := p.Definition[topology.KeyMirroring]; !set {
			continue
		}
		findings = append(findings, Finding{
			Object: Object{p.Kind(), p.Name},
			Message: "RabbitMQ 4.0 removed the mirroring of classic queues: from then on each queue has one copy, and is gone while its " +
				"node is down.",
			Fix: "Move to quorum queues before the upgrade.",
		})
	}
	return findings
}
