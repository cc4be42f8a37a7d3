package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// What a policy applies to. The last three exist from RabbitMQ 3.12 on.
const (
	ApplyToAll           = "all"
	ApplyToExchanges     = "exchanges"
	ApplyToQueues        = "queues"
	ApplyToClassicQueues = "classic_queues"
	ApplyToQuorumQueues  = "quorum_queues"
	ApplyToStreams       = "streams"
)

// Keys of a policy's definition. They are the arguments of the same meaning
// without "x-".
const (
	KeyDeadLetterExchange   = "dead-letter-exchange"
	KeyDeadLetterRoutingKey = "dead-letter-routing-key"
	KeyDeadLetterStrategy   = "dead-letter-strategy"
	KeyDeliveryLimit        = "delivery-limit"
	KeyDelayedRetryType     = "delayed-retry-type"
	KeyDelayedRetryMin      = "delayed-retry-min"
	KeyDelayedRetryMax      = "delayed-retry-max"
	KeyExpires              = "expires"
	KeyMaxLength            = "max-length"
	KeyMaxLengthBytes       = "max-length-bytes"
	KeyMessageTTL           = "message-ttl"
	KeyOverflow             = "overflow"
)

// Policy is a policy or an operator policy of a virtual host.
type Policy struct {
	Name     string
	Operator bool
	// Pattern is a PCRE that is matched anywhere in a name.
	Pattern  string
	ApplyTo  string
	Priority int64
	// Definition holds keys and values, such as message-ttl=60000.
	Definition Arguments
}

// Arguments are the arguments of a queue that mean the same as the definition.
func (p Policy) Arguments() Arguments {
	arguments := Arguments{}
	for key, value := range p.Definition {
		arguments["x-"+key] = value
	}
	return arguments
}

// Equal says whether both are the same policy with the same effect.
func (p Policy) Equal(other Policy) bool {
	return p.Name == other.Name && p.Operator == other.Operator && p.Pattern == other.Pattern &&
		p.ApplyTo == other.ApplyTo && p.Priority == other.Priority && p.Definition.Equal(other.Definition)
}

// Line describes the policy in one line, without its name.
func (p Policy) Line() string {
	parts := []string{p.ApplyTo, "pattern=" + strconv.Quote(p.Pattern), fmt.Sprintf("priority=%d", p.Priority)}
	if text := p.Definition.Text(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// Kind names the kind of policy for people.
func (p Policy) Kind() string {
	if p.Operator {
		return "operator policy"
	}
	return "policy"
}

func (p Policy) key() policyKey { return policyKey{p.Operator, p.Name} }

type policyKey struct {
	operator bool
	name     string
}
