package topology

import (
	"slices"
	"strconv"
	"strings"
)

// Topology reads the lines back, as [Topology.Lines] writes them. It is as exact as text
// can be: it is meant for drawings, not for decisions. A line that no topology writes
// gives an object without arguments.
func (l Lines) Topology() *Topology {
	t := New()
	for name, line := range l.Exchanges {
		parts := splitLine(line)
		t.SetExchange(Exchange{
			Name: name, Type: parts.first, Durable: !parts.has("transient"), AutoDelete: parts.has("auto-delete"),
			Internal: parts.has("internal"), Arguments: parts.arguments,
		})
	}
	for name, line := range l.Queues {
		parts := splitLine(line)
		t.SetQueue(Queue{
			Name: name, Type: QueueType(parts.first), Durable: !parts.has("transient"), AutoDelete: parts.has("auto-delete"),
			Exclusive: parts.has("exclusive"), Arguments: parts.arguments,
		})
	}
	for name, line := range l.Policies {
		parts := splitLine(line)
		p := Policy{Name: name, ApplyTo: parts.first, Pattern: parts.arguments.String("pattern"), Definition: parts.arguments}
		p.Priority, _ = parts.arguments.Int("priority")
		delete(p.Definition, "pattern")
		delete(p.Definition, "priority")
		t.SetPolicy(p)
	}
	for label, line := range l.Bindings {
		t.Bind(l.binding(label, line))
	}
	return t
}

// binding reads a binding from its label, which tells source, destination and most
// routing keys, and its line, which tells the rest. The line says what must be cut off
// the label, so that names may hold brackets.
func (l Lines) binding(label, line string) Binding {
	pieces := splitOutside(line)
	b := Binding{Arguments: pairs(pieces)}
	ends, _ := l.cutEnd(label, b)
	keyed := Binding{RoutingKey: pairs(pieces[:1]).String("routing_key"), Arguments: pairs(pieces[1:])}
	if rest, fits := l.cutEnd(label, keyed); fits && keyed.RoutingKey != "" {
		b, ends = keyed, rest
	}
	b.Source, b.Destination = l.cut(ends)
	if !l.known(b.Destination) && b.RoutingKey == "" {
		b.Destination, b.RoutingKey = cutKey(b.Destination)
	}
	b.DestinationKind = KindQueue
	if name, prefixed := strings.CutPrefix(b.Destination, "exchange "); prefixed && l.Queues[b.Destination] == "" {
		b.DestinationKind, b.Destination = KindExchange, name
	}
	return b
}

// known says whether the end of a label names a queue or exchange of the topology.
func (l Lines) known(destination string) bool {
	_, queue := l.Queues[destination]
	name, prefixed := strings.CutPrefix(destination, "exchange ")
	_, exchange := l.Exchanges[name]
	return queue || prefixed && exchange
}

// cutKey takes the routing key off the end of a label.
func cutKey(end string) (destination, key string) {
	text, closed := strings.CutSuffix(end, ")")
	if destination, key, found := strings.Cut(text, keyBegin); found && closed {
		return destination, key
	}
	return end, ""
}

// cutEnd cuts off a label what follows the name of the destination. A label that another
// binding has, too, ends with the arguments.
func (l Lines) cutEnd(label string, b Binding) (rest string, fits bool) {
	if short, long := strings.CutSuffix(label, " ["+b.Arguments.Text()+"]"); long {
		if _, twin := l.Bindings[short]; twin {
			label = short
		}
	}
	return strings.CutSuffix(label, b.labelEnd())
}

// cut splits a label at the arrow. Names may hold arrows, too; then an exchange of the
// topology is preferred as source.
func (l Lines) cut(label string) (source, destination string) {
	const arrow = " -> "
	first := strings.Index(label, arrow)
	if first < 0 {
		return label, ""
	}
	for at := first; ; {
		if _, known := l.Exchanges[label[:at]]; known {
			return label[:at], label[at+len(arrow):]
		}
		next := strings.Index(label[at+1:], arrow)
		if next < 0 {
			return label[:first], label[first+len(arrow):]
		}
		at += 1 + next
	}
}

// lineParts is a line taken apart: its first word, flags, and pairs of key and value.
type lineParts struct {
	first     string
	flags     []string
	arguments Arguments
}

func (p lineParts) has(flag string) bool { return slices.Contains(p.flags, flag) }

func splitLine(line string) lineParts {
	pieces := splitOutside(line)
	parts := lineParts{first: pieces[0], arguments: pairs(pieces[1:])}
	for _, piece := range pieces[1:] {
		if !strings.Contains(piece, "=") {
			parts.flags = append(parts.flags, piece)
		}
	}
	return parts
}

// pairs reads the pieces that are a key and a value.
func pairs(pieces []string) Arguments {
	arguments := Arguments{}
	for _, piece := range pieces {
		if key, value, pair := strings.Cut(piece, "="); pair {
			arguments[key] = parseValue(value)
		}
	}
	return arguments
}

// splitOutside splits at ", " outside of quotes and brackets.
func splitOutside(text string) []string {
	var pieces []string
	depth, begin, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			depth++
		case c == ']', c == '}':
			depth--
		case c == ',' && depth == 0 && strings.HasPrefix(text[i:], ", "):
			pieces = append(pieces, text[begin:i])
			begin = i + len(", ")
		}
	}
	return append(pieces, text[begin:])
}

// parseValue reads what [valueText] writes.
func parseValue(text string) any {
	inner := ""
	if len(text) >= 2 {
		inner = text[1 : len(text)-1]
	}
	switch {
	case strings.HasPrefix(text, `"`):
		if s, err := strconv.Unquote(text); err == nil {
			return s
		}
	case strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		list := []any{}
		if inner != "" {
			for _, piece := range splitOutside(inner) {
				list = append(list, parseValue(piece))
			}
		}
		return list
	case strings.HasPrefix(text, "{") && strings.HasSuffix(text, "}"):
		return map[string]any(pairs(splitOutside(inner)))
	case text == "true", text == "false":
		return text == "true"
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		return f
	}
	return text
}
