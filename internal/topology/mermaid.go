package topology

import (
	"fmt"
	"strings"
)

// Mermaid draws the topology as a Mermaid flowchart: exchanges as rounded
// boxes, queues as cylinders, bindings as arrows with routing key and arguments as text,
// dead-letter and alternate exchanges as dotted arrows, also of a policy that
// matches one queue only. Exchanges and queues of
// others appear where an arrow starts or ends.
func (t *Topology) Mermaid() string {
	d := drawing{ids: map[string]string{}}
	d.printf("flowchart LR\n")
	for _, e := range t.Exchanges() {
		d.node(KindExchange, e.Name)
	}
	for _, q := range t.Queues() {
		d.node(KindQueue, q.Name)
	}
	for _, b := range t.Bindings() {
		d.arrow("-->", KindExchange, b.Source, b.DestinationKind, b.Destination, b.text())
	}
	for _, q := range t.Queues() {
		if dlx, set := q.Arguments[DeadLetterExchange].(string); set {
			d.arrow("-.->", KindQueue, q.Name, KindExchange, dlx, deadLetterLabel(q))
		}
	}
	for _, p := range t.Policies() {
		dlx := p.Definition.String(KeyDeadLetterExchange)
		if m := newMatcher(unmarked(p.Pattern)); m.exact && dlx != "" {
			d.arrow("-.->", KindQueue, m.prefix, KindExchange, dlx, "dead letters, by policy "+p.Name)
		}
	}
	for _, e := range t.Exchanges() {
		if alternate := e.Alternate(); alternate != "" {
			d.arrow("-.->", KindExchange, e.Name, KindExchange, alternate, "nothing matched")
		}
	}
	return d.text.String()
}

func deadLetterLabel(q Queue) string {
	if ttl, limited := q.Arguments.Int(MessageTTL); limited {
		return fmt.Sprintf("dead letters, after %d ms", ttl)
	}
	return "dead letters"
}

type drawing struct {
	text strings.Builder
	ids  map[string]string
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.text, format, args...) }

// node draws the object once and returns its identifier in the drawing.
func (d *drawing) node(kind Kind, name string) string {
	key := string(kind) + " " + name
	if id, drawn := d.ids[key]; drawn {
		return id
	}
	id := fmt.Sprintf("n%d", len(d.ids)+1)
	d.ids[key] = id
	shape := "  %s([\"%s\"])\n"
	if kind == KindQueue {
		shape = "  %s[(\"%s\")]\n"
	}
	d.printf(shape, id, escapeMermaid(name))
	return id
}

func (d *drawing) arrow(line string, fromKind Kind, from string, toKind Kind, to, label string) {
	a, b := d.node(fromKind, from), d.node(toKind, to)
	if label != "" {
		label = fmt.Sprintf("|\"%s\"|", escapeMermaid(label))
	}
	d.printf("  %s %s%s %s\n", a, line, label, b)
}

// mermaidEntities are what would end a Mermaid label.
var mermaidEntities = strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ")

func escapeMermaid(text string) string { return mermaidEntities.Replace(text) }
