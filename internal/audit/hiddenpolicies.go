package audit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// group collects queues about which the same is to be said.
type group struct {
	Finding
	queues []string
}

// groups are groups by key, in the order in which they were first met.
type groups struct {
	inOrder []*group
	byKey   map[string]*group
}

// add puts the queue into the group of the key, which start starts.
func (gs *groups) add(key, queueName string, start func() Finding) {
	g := gs.byKey[key]
	if g == nil {
		if gs.byKey == nil {
			gs.byKey = map[string]*group{}
		}
		g = &group{Finding: start()}
		gs.byKey[key] = g
		gs.inOrder = append(gs.inOrder, g)
	}
	g.queues = append(g.queues, queueName)
}

// shown is how many queues a finding names.
const shown = 10

// list names some of the queues.
func list(queues []string) string {
	names := strings.Join(quoted(queues[:min(len(queues), shown)]), ", ")
	if more := len(queues) - shown; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return names
}

func (g *graph) ignoredPolicy() []Finding {
	var all groups
	g.eachPolicy(func(q *queue, m matches) {
		for _, m := range m.all {
			if len(m.Unsupported) == 0 || len(m.Unsupported) == len(m.Definition) {
				continue
			}
			all.add(m.Kind()+m.Name+string(q.Type), q.Name, func() Finding {
				lost := maps.Clone(m.Definition)
				maps.DeleteFunc(lost, func(key string, _ any) bool { return slices.Contains(m.Unsupported, key) })
				return Finding{
					Object: Object{m.Kind(), m.Name},
					Message: fmt.Sprintf("%s queues do not know %s, and so RabbitMQ does not apply this %s to them at all: %s is not in "+
						"effect on",
						capital(string(q.Type)), strings.Join(m.Unsupported, ", "), m.Kind(), lost.Text()),
					Fix: "Make one policy for each type of queue, told apart by the pattern or, from RabbitMQ 3.12 on, by apply-to " +
						"classic_queues and quorum_queues.",
				}
			})
		}
	})
	return all.named()
}

// eachPolicy calls look for every queue with the policies that match it, and then
// with the operator policies.
func (g *graph) eachPolicy(look func(q *queue, m matches)) {
	for i := range g.queues {
		look(&g.queues[i], g.queues[i].policies)
	}
	for i := range g.queues {
		look(&g.queues[i], g.queues[i].operators)
	}
}

// named ends each message with the queues.
func (gs *groups) named() []Finding {
	findings := make([]Finding, 0, len(gs.inOrder))
	for _, g := range gs.inOrder {
		g.Message += " " + list(g.queues) + "."
		g.Queues = g.queues
		findings = append(findings, g.Finding)
	}
	return findings
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// hiddenPolicy looks for keys that a policy would set if another one were not
// there. It is bad only where a queue loses its dead-lettering by it.
func (g *graph) hiddenPolicy() []Finding {
	var all groups
	g.eachPolicy(func(q *queue, m matches) {
		if len(m.governing) != 1 {
			return
		}
		winner := m.governing[0]
		for _, m := range m.all {
			lost := m.Definition.Clone()
			maps.DeleteFunc(lost, func(key string, _ any) bool { _, set := winner.Definition[key]; return set })
			if m.Priority >= winner.Priority || len(m.Unsupported) > 0 || len(lost) == 0 {
				continue
			}
			severity := Info
			if _, set := lost[topology.KeyDeadLetterExchange]; set && !q.deadLetters() {
				severity = Warning
			}
			all.add(strings.Join([]string{m.Kind(), m.Name, winner.Name, string(severity)}, "\x00"), q.Name, func() Finding {
				return hidden(m.Policy, winner, lost, severity)
			})
		}
	})
	return all.named()
}

func hidden(p, winner topology.Policy, lost topology.Arguments, severity Severity) Finding {
	what := "These settings are not in effect"
	if severity == Warning {
		what = "Messages that die are deleted, because these settings are not in effect"
	}
	return Finding{
		Severity: severity,
		Object:   Object{p.Kind(), p.Name},
		Message: fmt.Sprintf("The %s %q (priority %d) matches as well, and RabbitMQ applies only the one of the highest priority, not "+
			"this one (priority %d). %s: %s. Queues:",
			winner.Kind(), winner.Name, winner.Priority, p.Priority, what, lost.Text()),
		Fix: fmt.Sprintf("Put the settings into %q as well, or narrow its pattern %q.", winner.Name, winner.Pattern),
	}
}

func (g *graph) equalPriorityPolicies() []Finding {
	var all groups
	g.eachPolicy(func(q *queue, m matches) {
		governing := slices.DeleteFunc(slices.Clone(m.governing), func(p topology.Policy) bool {
			first := m.governing[0]
			return p.Priority != first.Priority || p.Definition.Equal(first.Definition) && p.Name != first.Name
		})
		if len(governing) < 2 || !m.certain(governing) {
			return
		}
		names := make([]string, 0, len(governing))
		for _, p := range governing {
			names = append(names, p.Name)
		}
		first := governing[0]
		all.add(first.Kind()+strings.Join(names, "\x00"), q.Name, func() Finding {
			return Finding{
				Object: Object{first.Kind(), first.Name},
				Message: fmt.Sprintf("The policies %s have the same priority %d and different settings. Nobody can know which one "+
					"RabbitMQ applies to",
					strings.Join(quoted(names), ", "), first.Priority),
				Fix: "Give them different priorities.",
			}
		})
	})
	return all.named()
}

// certain says whether each of the policies matches the queue for certain.
func (m matches) certain(policies []topology.Policy) bool {
	for _, p := range policies {
		if !slices.ContainsFunc(m.all, func(match topology.PolicyMatch) bool { return match.Name == p.Name }) {
			return false
		}
	}
	return true
}
