package broker

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// arguments decodes the arguments of an object. A number without fraction or
// exponent is an integer, as in AMQP: RabbitMQ writes the float 5.0 as "5.0"
// (seen on 3.10, 4.0 and 4.3).
type arguments topology.Arguments

func (a *arguments) UnmarshalJSON(text []byte) error {
	*a = arguments{}
	// An empty Erlang list of arguments can come out as [] instead of {}.
	if text = bytes.TrimSpace(text); len(text) <= 4 && text[0] != '{' || string(text) == "{}" {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var table map[string]any
	if err := decoder.Decode(&table); err != nil {
		return err
	}
	for key, value := range table {
		(*a)[key] = fromJSON(value)
	}
	return nil
}

func fromJSON(value any) any {
	switch v := value.(type) {
	case json.Number:
		return number(v)
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = fromJSON(v[key])
		}
	}
	return value
}

func number(n json.Number) any {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return f
}

// toJSON is the reverse: a float keeps its fraction, without which RabbitMQ
// would store an integer.
func toJSON(a topology.Arguments) map[string]any {
	out := make(map[string]any, len(a))
	for key, value := range a {
		out[key] = valueToJSON(value)
	}
	return out
}

func valueToJSON(value any) any {
	switch v := value.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1e21 {
			return json.Number(strconv.FormatFloat(v, 'f', 1, 64))
		}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = valueToJSON(v[i])
		}
		return out
	case map[string]any:
		return toJSON(v)
	}
	return value
}

type exchangeJSON struct {
	Name       string                `json:"name"`
	Type       string                `json:"type"`
	Durable    bool                  `json:"durable"`
	AutoDelete rabbithole.AutoDelete `json:"auto_delete"`
	Internal   bool                  `json:"internal"`
	Arguments  arguments             `json:"arguments"`
}

const exchangeColumns = "name,type,durable,auto_delete,internal,arguments"

func (e exchangeJSON) exchange() topology.Exchange {
	return topology.Exchange{
		Name:       e.Name,
		Type:       e.Type,
		Durable:    e.Durable,
		AutoDelete: bool(e.AutoDelete),
		Internal:   e.Internal,
		Arguments:  topology.Arguments(e.Arguments),
	}
}

type queueJSON struct {
	Name       string                `json:"name"`
	Type       string                `json:"type"`
	Durable    bool                  `json:"durable"`
	AutoDelete rabbithole.AutoDelete `json:"auto_delete"`
	Exclusive  bool                  `json:"exclusive"`
	Arguments  arguments             `json:"arguments"`
	// State is "down" for a classic queue whose node is down.
	State string `json:"state"`
	Node  string `json:"node"`
}

const queueColumns = "name,type,durable,auto_delete,exclusive,arguments,state,node"

func (q queueJSON) queue() topology.Queue {
	args := topology.Arguments(q.Arguments).Clone()
	kind := q.Type
	if kind == "" {
		kind = args.String(topology.QueueTypeArgument)
	}
	// Some releases name the module, "rabbit_quorum_queue".
	kind = strings.TrimSuffix(strings.TrimPrefix(kind, "rabbit_"), "_queue")
	if kind == "" {
		kind = string(topology.Classic)
	}
	delete(args, topology.QueueTypeArgument)
	return topology.Queue{
		Name:       q.Name,
		Type:       topology.QueueType(kind),
		Durable:    q.Durable,
		AutoDelete: bool(q.AutoDelete),
		Exclusive:  q.Exclusive,
		Arguments:  args,
	}
}

type bindingJSON struct {
	Source          string    `json:"source"`
	Destination     string    `json:"destination"`
	DestinationType string    `json:"destination_type"`
	RoutingKey      string    `json:"routing_key"`
	Arguments       arguments `json:"arguments"`
	PropertiesKey   string    `json:"properties_key"`
}

func (b bindingJSON) binding() topology.Binding {
	return topology.Binding{
		Source:          b.Source,
		Destination:     b.Destination,
		DestinationKind: topology.Kind(b.DestinationType),
		RoutingKey:      b.RoutingKey,
		Arguments:       topology.Arguments(b.Arguments),
	}
}

type policyJSON struct {
	Name       string    `json:"name"`
	Pattern    string    `json:"pattern"`
	ApplyTo    string    `json:"apply-to"`
	Priority   int64     `json:"priority"`
	Definition arguments `json:"definition"`
}

func (p policyJSON) policy(operator bool) topology.Policy {
	return topology.Policy{
		Name:       p.Name,
		Operator:   operator,
		Pattern:    p.Pattern,
		ApplyTo:    p.ApplyTo,
		Priority:   p.Priority,
		Definition: topology.Arguments(p.Definition),
	}
}
