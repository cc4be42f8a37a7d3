package audit

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func (g *graph) missingAlternateExchange() []Finding {
	var findings []Finding
	for _, e := range g.Exchanges() {
		name := e.Alternate()
		if name == "" {
			continue
		}
		if _, exists := g.Exchange(name); exists {
			continue
		}
		findings = append(findings, Finding{
			Object: Object{"exchange", e.Name},
			Message: fmt.Sprintf("The alternate exchange %q does not exist. A message that no binding of %q takes is deleted, and "+
				"nothing says so.", name, e.Name),
			Fix: fmt.Sprintf("Declare the exchange %q and bind a queue to it, or correct the name.", name),
		})
	}
	return findings
}

// alternateExchangeNoRoute looks at alternate exchanges that exist.
func (g *graph) alternateExchangeNoRoute() []Finding {
	var findings []Finding
	for _, e := range g.Exchanges() {
		name := e.Alternate()
		if _, exists := g.Exchange(name); !exists || g.leadsToQueues(name) {
			continue
		}
		findings = append(findings, Finding{
			Object: Object{"exchange", e.Name},
			Message: fmt.Sprintf("No binding leads from the alternate exchange %q to any queue. RabbitMQ deletes messages that no "+
				"binding of %q takes.", name, e.Name),
			Fix: fmt.Sprintf("Bind a queue to the alternate exchange %q so that it takes every message.", name),
		})
	}
	return findings
}

// exchangeWithoutBinding leaves out RabbitMQ's own exchanges, and those of plugins,
// which need no bindings.
func (g *graph) exchangeWithoutBinding() []Finding {
	var findings []Finding
	for _, e := range g.Exchanges() {
		if topology.IsReserved(e.Name) || !e.KnownType() || e.Alternate() != "" || len(g.From(e.Name)) > 0 {
			continue
		}
		findings = append(findings, Finding{
			Object: Object{"exchange", e.Name},
			Message: "The exchange has neither a binding nor an alternate exchange. RabbitMQ deletes every message that is " +
				"published to it.",
			Fix: "Bind a queue to the exchange, or delete the exchange.",
		})
	}
	return findings
}

func (g *graph) delayedMessageExchange() []Finding {
	var findings []Finding
	for _, e := range g.Exchanges() {
		if e.Type == topology.DelayedMessage {
			findings = append(findings, Finding{
				Object: Object{"exchange", e.Name},
				Message: "The plugin behind this exchange keeps waiting messages on one node only, and it does not run on RabbitMQ 4.3: " +
					"an upgrade loses them.",
				Fix: "Move to rabbitmq_delay_network, or to a retry chain, before the upgrade.",
			})
		}
	}
	return findings
}

// headersBindings calls look for every binding of a headers exchange.
func (g *graph) headersBindings(look func(b topology.Binding)) {
	for _, b := range g.Bindings() {
		if e, exists := g.Exchange(b.Source); exists && e.Type == topology.Headers {
			look(b)
		}
	}
}

func (g *graph) matchIgnoresXHeaders() []Finding {
	var findings []Finding
	g.headersBindings(func(b topology.Binding) {
		kind := b.Arguments.String(topology.Match)
		if kind == topology.MatchAllWithX || kind == topology.MatchAnyWithX {
			return
		}
		var skipped []string
		compared := 0
		for key := range b.Arguments {
			switch {
			case key == topology.Match:
			case strings.HasPrefix(key, topology.ArgumentPrefix):
				skipped = append(skipped, key)
			default:
				compared++
			}
		}
		if len(skipped) == 0 {
			return
		}
		slices.Sort(skipped)
		takes, better := "it takes every message that the other headers match", topology.MatchAllWithX
		switch {
		case kind == topology.MatchAny && compared == 0:
			takes, better = "nothing is left to compare, and it takes no message", topology.MatchAnyWithX
		case kind == topology.MatchAny:
			better = topology.MatchAnyWithX
		case compared == 0:
			takes = "nothing is left to compare, and it takes every message"
		}
		findings = append(findings, Finding{
			Object:  Object{"binding", b.Label()},
			Message: fmt.Sprintf("With x-match = %s RabbitMQ skips %s: %s.", matchOf(kind), strings.Join(skipped, ", "), takes),
			Fix:     fmt.Sprintf("Use x-match = %s.", better),
		})
	})
	return findings
}

func matchOf(kind string) string {
	if kind == "" {
		return topology.MatchAll + ", the default,"
	}
	return kind
}

// headerTypeMismatch compares the bindings of each headers exchange with each
// other. Texts that are numbers are often meant as numbers.
func (g *graph) headerTypeMismatch() []Finding {
	var findings []Finding
	for _, e := range g.Exchanges() {
		if e.Type != topology.Headers {
			continue
		}
		numbers, texts := g.headerValues(e.Name)
		for _, header := range slices.Sorted(maps.Keys(texts)) {
			text := texts[header]
			switch number, mixed := numbers[header]; {
			case mixed:
				findings = append(findings, Finding{
					Object: Object{"exchange", e.Name},
					Message: fmt.Sprintf("One binding compares the header %q with the number %v, another one with the text %q. A "+
						"message has it as the one or the other, and the binding of the other kind never takes it.",
						header, number, text),
					Fix: "Write the same type in all bindings, the one that publishers send. In HCL a number has no quotes.",
				})
			case isNumber(text):
				findings = append(findings, Finding{
					Severity: Info,
					Object:   Object{"exchange", e.Name},
					Message: fmt.Sprintf("A binding compares the header %q with the text %q. A message that has the number %s there is "+
						"not taken.", header, text, text),
					Fix: fmt.Sprintf("If publishers send a number, write %s without quotes in HCL.", text),
				})
			}
		}
	}
	return findings
}

// headerValues returns a number and a text that bindings compare each header
// with, the text preferably one that is a number.
func (g *graph) headerValues(exchange string) (numbers map[string]any, texts map[string]string) {
	numbers, texts = map[string]any{}, map[string]string{}
	for _, b := range g.From(exchange) {
		for key, value := range b.Arguments {
			switch v := value.(type) {
			case int64, float64:
				numbers[key] = v
			case string:
				if key != topology.Match && !isNumber(texts[key]) {
					texts[key] = v
				}
			}
		}
	}
	return numbers, texts
}

func isNumber(text string) bool {
	_, err := strconv.ParseFloat(text, 64)
	return err == nil
}
