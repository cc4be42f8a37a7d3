package topology

import "strings"

// QueueType is the type of a queue as RabbitMQ names it.
type QueueType string

// The queue types a topology distinguishes.
const (
	Classic QueueType = "classic"
	Quorum  QueueType = "quorum"
	Stream  QueueType = "stream"
)

// The exchange types of every RabbitMQ.
const (
	Direct  = "direct"
	Fanout  = "fanout"
	Topic   = "topic"
	Headers = "headers"
)

// Arguments of exchanges and bindings, and headers, that RabbitMQ gives a meaning.
const (
	AlternateExchange = "alternate-exchange"

	Match            = "x-match"
	MatchAll         = "all"
	MatchAny         = "any"
	MatchAllWithX    = "all-with-x"
	MatchAnyWithX    = "any-with-x"
	FirstDeathReason = "x-first-death-reason"
	LastDeathReason  = "x-last-death-reason"
	LastDeathSource  = "x-last-death-exchange"
)

// Exchange is an exchange of a virtual host.
type Exchange struct {
	Name       string
	Type       string
	Durable    bool
	AutoDelete bool
	Internal   bool
	Arguments  Arguments
}

// Equal says whether RabbitMQ would take one as a redeclaration of the other.
func (e Exchange) Equal(other Exchange) bool {
	return e.Name == other.Name && e.Type == other.Type && e.Durable == other.Durable &&
		e.AutoDelete == other.AutoDelete && e.Internal == other.Internal && e.Arguments.Equal(other.Arguments)
}

// Line describes the exchange in one line, without its name.
func (e Exchange) Line() string {
	return line(e.Type, e.Arguments, flag{!e.Durable, "transient"}, flag{e.AutoDelete, "auto-delete"}, flag{e.Internal, "internal"})
}

// Alternate returns the name of the alternate exchange, or "" without one.
func (e Exchange) Alternate() string { return e.Arguments.String(AlternateExchange) }

// Queue is a queue of a virtual host. Arguments never hold x-queue-type: Type
// says it, because RabbitMQ 4.0 and later add that argument by themselves and
// 3.x does so only with a default queue type.
type Queue struct {
	Name       string
	Type       QueueType
	Durable    bool
	AutoDelete bool
	Exclusive  bool
	Arguments  Arguments
}

// Equal says whether both are the same queue with the same properties.
func (q Queue) Equal(other Queue) bool {
	return q.Name == other.Name && q.Type == other.Type && q.Durable == other.Durable &&
		q.AutoDelete == other.AutoDelete && q.Exclusive == other.Exclusive && q.Arguments.Equal(other.Arguments)
}

// Line describes the queue in one line, without its name.
func (q Queue) Line() string {
	return line(string(q.Type), q.Arguments,
		flag{!q.Durable, "transient"}, flag{q.AutoDelete, "auto-delete"}, flag{q.Exclusive, "exclusive"})
}

type flag struct {
	set  bool
	text string
}

func line(first string, arguments Arguments, flags ...flag) string {
	parts := []string{first}
	for _, f := range flags {
		if f.set {
			parts = append(parts, f.text)
		}
	}
	if text := arguments.Text(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// Kind tells queues from exchanges where a name alone does not.
type Kind string

// The kinds of object a binding can lead to.
const (
	KindQueue    Kind = "queue"
	KindExchange Kind = "exchange"
)

// Binding leads from a source exchange to a queue or to another exchange.
type Binding struct {
	Source          string
	Destination     string
	DestinationKind Kind
	RoutingKey      string
	Arguments       Arguments
}

// ID identifies the binding: RabbitMQ allows one binding per source,
// destination, routing key and arguments.
func (b Binding) ID() string {
	return strings.Join([]string{b.Source, string(b.DestinationKind), b.Destination, b.RoutingKey, b.Arguments.Text()}, "\x00")
}

// Label names the binding for people: "source -> queue", with the routing key
// and the headers that publishers set where there are any. Headers that start
// with "x-" are left out, so that the bindings between a chain's own objects
// have short and stable names.
func (b Binding) Label() string {
	label := b.Source + " -> "
	if b.DestinationKind == KindExchange {
		label += "exchange "
	}
	label += b.Destination
	return label + b.labelEnd()
}

// keyBegin precedes the routing key in a label.
const keyBegin = " ("

// labelEnd is what follows the name of the destination in a label.
func (b Binding) labelEnd() string {
	text := ""
	if b.RoutingKey != "" {
		text += keyBegin + b.RoutingKey + ")"
	}
	own := Arguments{}
	for key, value := range b.Arguments {
		if !strings.HasPrefix(key, ArgumentPrefix) {
			own[key] = value
		}
	}
	if len(own) > 0 {
		text += " {" + own.Text() + "}"
	}
	return text
}

// Line describes the binding in one line, without what its label says: it is empty
// for a binding without arguments.
func (b Binding) Line() string {
	if !strings.Contains(" "+b.Destination+b.RoutingKey, keyBegin) {
		b.RoutingKey = "" // the label tells it plainly
	}
	return b.text()
}

// text is the routing key and the arguments.
func (b Binding) text() string {
	parts := make([]string, 0, 2)
	if b.RoutingKey != "" {
		parts = append(parts, Arguments{"routing_key": b.RoutingKey}.Text())
	}
	if text := b.Arguments.Text(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}
