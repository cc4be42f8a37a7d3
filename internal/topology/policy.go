package topology

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
		arguments[ArgumentOf(key)] = value
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

// UnreachableLimit is a length limit that no queue reaches: the largest integer that
// every JSON reader keeps exact.
const UnreachableLimit = int64(1)<<53 - 1

// Unreachable says whether a key of a policy is a length limit that no queue reaches, such
// as that of a retry chain's shield.
func Unreachable(key string, value any) bool {
	limit, isNumber := value.(int64)
	return (key == KeyMaxLength || key == KeyMaxLengthBytes) && isNumber && limit >= UnreachableLimit
}

const (
	mark      = "(?#apply-"
	markBytes = len(mark + "00000000)")
	withdrawn = "(?!)(?:"
)

// PatternBytes is the most that [MarkPattern] and [WithdrawPattern] add.
const PatternBytes = len(withdrawn+")") + markBytes

// MarkPattern returns a pattern that matches the same names and has another text: a
// comment of PCRE follows it, a new one with every call.
func MarkPattern(pattern string) string {
	return fmt.Sprintf("%s%s%08x)", unmarked(pattern), mark, rand.Uint32()) //nolint:gosec // nothing secret
}

func unmarked(pattern string) string {
	if at := len(pattern) - markBytes; at >= 0 && strings.HasPrefix(pattern[at:], mark) {
		return pattern[:at]
	}
	return pattern
}

// WithdrawPattern returns a marked pattern that matches nothing and tells what it has
// matched before.
func WithdrawPattern(pattern string) string { return MarkPattern(withdrawn + unmarked(pattern) + ")") }

// WithdrawnPattern returns what the pattern has matched before, and whether it is one of
// [WithdrawPattern].
func WithdrawnPattern(pattern string) (before string, is bool) {
	inner, is := strings.CutPrefix(unmarked(pattern), withdrawn)
	if !is {
		return pattern, false
	}
	return strings.TrimSuffix(inner, ")"), true
}

// Kind names the kind of policy for people.
func (p Policy) Kind() string {
	if p.Operator {
		return "operator policy"
	}
	return "policy"
}

// Target is a queue to which a policy applies, and no other policy.
type Target struct {
	Policy Policy
	Queue  Queue
}

// Obeyed says whether the settings that RabbitMQ reports as in effect for the queue are
// those of the policy, apart from keys that operator policies set.
func (t *Topology) Obeyed(target Target, reported Arguments) bool {
	operators := t.Governing(target.Queue.Name, target.Queue.Type, true)
	for key, value := range target.Policy.Definition {
		set := func(operator Policy) bool {
			_, sets := operator.Definition[key]
			return sets
		}
		found, is := reported[key]
		same := is && (Arguments{key: found}).Equal(Arguments{key: value})
		if !same && !slices.ContainsFunc(operators, set) {
			return false
		}
	}
	return true
}

func (p Policy) key() policyKey { return policyKey{p.Operator, p.Name} }

type policyKey struct {
	operator bool
	name     string
}
