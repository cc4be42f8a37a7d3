package delay

import (
	"fmt"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Defaults of a network: a maximum delay of 268,435,455 s, 8.5 years.
const (
	DefaultUnit   = time.Second
	DefaultLevels = 28
)

// MaxLevels is the largest number of levels: with a unit of 1 ms, the smallest
// one, the highest of 39 levels is the last below [retry.MaxDelay].
const MaxLevels = 39

// Network describes one delay network. A message enters it through an exchange
// with a routing key that holds the delay in binary, see [Network.Key], waits
// in the queue of every level whose bit is 1, the highest first, and leaves it
// through the delivery exchange.
type Network struct {
	// Name is the name of the exchange that messages enter through, and the
	// prefix of every other object.
	Name string
	// Unit is the delay of level 0. Every level holds messages twice as long as
	// the one below.
	Unit               time.Duration
	Levels             int
	QueueType          topology.QueueType
	DeadLetterStrategy retry.DeadLetterStrategy
}

// EntryExchange is the exchange to publish to.
func (n Network) EntryExchange() string { return n.Name }

// DeliveryExchange is the topic exchange that leads to the destinations.
func (n Network) DeliveryExchange() string { return n.Name + ".delivery" }

// Unrouted is the name of the fanout exchange and of the queue for messages
// that match nothing: their destination is not attached, or their routing key
// is no key of the network.
func (n Network) Unrouted() string { return n.Name + ".unrouted" }

// Level is the name of the exchange and of the queue of a level.
func (n Network) Level(level int) string { return fmt.Sprintf("%s.level.%d", n.Name, level) }

// Wait is how long a message stays in the queue of a level.
func (n Network) Wait(level int) time.Duration { return n.Unit << level }

// Maximum is the longest delay, all levels together.
func (n Network) Maximum() time.Duration { return n.Unit * (1<<n.Levels - 1) }

// Key returns the routing key for a delay and a destination: one digit per
// level, the highest first, and the name of the destination, separated by dots.
// The delay is rounded up to the unit. Key fails for a delay that is negative or
// over [Network.Maximum] and for what [Network.CheckDestination] refuses.
func (n Network) Key(d time.Duration, destination string) (string, error) {
	switch {
	case d < 0:
		return "", fmt.Errorf("the delay %s is negative", d)
	case d > n.Maximum():
		return "", fmt.Errorf("the delay %s is over %s, the maximum of %d levels with a unit of %s",
			retry.FormatDuration(d), retry.FormatDuration(n.Maximum()), n.Levels, retry.FormatDuration(n.Unit))
	}
	if err := n.CheckDestination(destination); err != nil {
		return "", err
	}
	units := d / n.Unit
	if d%n.Unit > 0 {
		units++
	}
	var key strings.Builder
	for level := n.Levels - 1; level >= 0; level-- {
		fmt.Fprintf(&key, "%d.", units>>level&1)
	}
	return key.String() + destination, nil
}

// DestinationKey returns the routing key of the binding that attaches a
// destination to the delivery exchange: exactly one "*" per level and the name.
// With "#" in their place the destination "orders" would get the messages for
// "eu.orders" as well.
func (n Network) DestinationKey(destination string) string {
	return strings.Repeat("*.", n.Levels) + destination
}

// MaxDestinationBytes is the longest name of a destination, in bytes of UTF-8:
// what the digits and dots leave of a routing key.
func (n Network) MaxDestinationBytes() int { return topology.MaxNameBytes - 2*n.Levels }

// CheckDestination says whether messages can be addressed to the name. Dots are
// allowed.
func (n Network) CheckDestination(name string) error {
	if name == "" {
		return fmt.Errorf("the name of a destination must not be empty")
	}
	if bytes := n.MaxDestinationBytes(); len(name) > bytes {
		return fmt.Errorf("the name of the destination has %d bytes; a routing key has at most %d, of which %d levels leave %d",
			len(name), topology.MaxNameBytes, n.Levels, bytes)
	}
	for word := range strings.SplitSeq(name, ".") {
		if word == "*" || word == "#" {
			return fmt.Errorf("the name of the destination %q holds the word %q, which stands for other words in the binding of a topic "+
				"exchange", name, word)
		}
	}
	return nil
}

// Problems returns what can be said about the network without a broker.
func (n Network) Problems() []retry.Problem {
	var p problems
	n.checkName(&p)
	n.checkLevels(&p)
	if n.QueueType == topology.Classic && n.DeadLetterStrategy == retry.AtLeastOnce {
		p.errorf("dead_letter_strategy", "At-Least-Once Needs Quorum Queues",
			"Classic queues dead-letter at most once; only quorum queues can do so at least once. Set queue_type = \"quorum\", or "+
				"dead_letter_strategy = \"at-most-once\".")
	}
	return p
}

func (n Network) checkName(p *problems) {
	longest := n.Unrouted()
	if level := n.Level(MaxLevels); len(level) > len(longest) {
		longest = level
	}
	switch {
	case n.Name == "":
		p.errorf("name", "Empty Name", "name must not be empty.")
	case topology.IsReserved(n.Name):
		p.errorf("name", "Reserved Name", "name is %q. RabbitMQ keeps names that start with \"amq.\" for itself. Choose another name.",
			n.Name)
	case len(longest) > topology.MaxNameBytes:
		p.errorf("name", "Name Too Long", "name has %d bytes. Other objects of the network have up to %d bytes more in their names, and "+
			"RabbitMQ allows %d. Choose a shorter name.",
			len(n.Name), len(longest)-len(n.Name), topology.MaxNameBytes)
	}
}

// checkLevels divides instead of multiplying, which could overflow.
func (n Network) checkLevels(p *problems) {
	switch {
	case n.Unit < time.Millisecond:
		p.errorf("unit", "Unit Too Short", "unit is %q. The shortest unit is \"1ms\".", retry.FormatDuration(n.Unit))
	case n.Levels < 1 || n.Levels > MaxLevels:
		p.errorf("levels", "Number of Levels Out of Range", "levels is %d. A network has 1 to %d levels.", n.Levels, MaxLevels)
	case n.Unit > retry.MaxDelay>>(n.Levels-1):
		fit := n.Levels
		for n.Unit > retry.MaxDelay>>(fit-1) {
			fit--
		}
		p.errorf("levels", "Level Too Long",
			"The highest of %d levels would hold a message for the unit, %s, times 2 to the power of %d. RabbitMQ accepts a "+
				"time-to-live of at most ten years (%s). With this unit a network has at most %d levels.",
			n.Levels, retry.FormatDuration(n.Unit), n.Levels-1, retry.FormatDuration(retry.MaxDelay), fit)
	}
}

type problems []retry.Problem

func (p *problems) errorf(attribute, summary, detail string, args ...any) {
	*p = append(*p, retry.Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(detail, args...)})
}
