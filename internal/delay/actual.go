package delay

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// ErrNoNetwork says that a virtual host holds nothing of a network of that name.
var ErrNoNetwork = errors.New("no delay network")

// Actual picks from the topology of a virtual host what belongs to the network:
// its objects in the form in which they exist, and every binding that starts at
// one of its exchanges but the delivery exchange, whose bindings belong to the
// destinations.
func (n Network) Actual(in *topology.Topology, f retry.Features) *topology.Topology {
	actual := topology.New()
	wanted := n.Topology(f)
	for _, q := range wanted.Queues() {
		if existing, exists := in.Queue(q.Name); exists {
			actual.SetQueue(existing)
		}
	}
	for _, e := range wanted.Exchanges() {
		existing, exists := in.Exchange(e.Name)
		if !exists {
			continue
		}
		actual.SetExchange(existing)
		if e.Name == n.DeliveryExchange() {
			continue
		}
		for _, b := range in.From(e.Name) {
			actual.Bind(b)
		}
	}
	return actual
}

// Attached returns the bindings of the destinations, in no given order. The
// caller must not change the result.
func (n Network) Attached(in *topology.Topology) []topology.Binding {
	return in.From(n.DeliveryExchange())
}

// Levels counts the levels of the network of that name in a virtual host: one
// more than the highest level of which anything exists, 0 without a network.
func Levels(name string, in *topology.Topology) int {
	prefix := name + ".level."
	levels := 0
	for _, names := range [][]string{in.ExchangesWithPrefix(prefix), in.QueuesWithPrefix(prefix)} {
		for _, object := range names {
			level, err := strconv.Atoi(strings.TrimPrefix(object, prefix))
			if err == nil && level >= 0 && level < MaxLevels && object == (Network{Name: name}).Level(level) {
				levels = max(levels, level+1)
			}
		}
	}
	return levels
}

// FinalLevels is [Levels] for a network that is whole, and else 0: one without a way in is
// half made and may get more levels.
func FinalLevels(name string, in *topology.Topology) int {
	if len(in.From(Network{Name: name}.EntryExchange())) == 0 {
		return 0
	}
	return Levels(name, in)
}

// Read recognizes the network of that name in the topology of a virtual host,
// also one of which only a part exists: what cannot be read has its default.
// live answers whether the broker runs the given version or a later one. The
// error is [ErrNoNetwork].
func Read(name string, in *topology.Topology, live abilities.Version) (Network, retry.Features, error) {
	n := Network{Name: name, Unit: DefaultUnit, Levels: Levels(name, in), QueueType: topology.Quorum}
	f := retry.FeaturesOf(live)
	if n.Levels == 0 {
		if !n.begun(in) {
			return Network{}, f, fmt.Errorf("%w: no exchange and no queue is named %s.level. and a number", ErrNoNetwork, name)
		}
		n.Levels = DefaultLevels
	}
	n.DeadLetterStrategy = retry.AtLeastOnce
	for level := range n.Levels {
		q, exists := in.Queue(n.Level(level))
		if !exists {
			continue
		}
		n.QueueType = q.Type
		n.DeadLetterStrategy = retry.AtMostOnce
		if q.Arguments.String(topology.DeadLetterStrategy) == string(retry.AtLeastOnce) {
			n.DeadLetterStrategy = retry.AtLeastOnce
		}
		if ttl, set := q.Arguments.Int(topology.MessageTTL); set && ttl > 0 {
			n.Unit = max(time.Duration(ttl)*time.Millisecond>>level, time.Millisecond).Truncate(time.Millisecond)
		}
		break
	}
	if q, exists := in.Queue(n.Unrouted()); exists && q.Type == topology.Quorum {
		_, f.UnlimitedDelivery = q.Arguments.Int(topology.DeliveryLimit)
	}
	return n, f, nil
}

// begun says whether one of the exchanges exists that have no level: all that a
// create that was killed early may have made.
func (n Network) begun(in *topology.Topology) bool {
	for _, wanted := range []topology.Exchange{
		n.exchange(n.EntryExchange()), n.exchange(n.DeliveryExchange()), n.unroutedExchange(),
	} {
		if e, exists := in.Exchange(wanted.Name); exists && e.Equal(wanted) {
			return true
		}
	}
	return false
}
