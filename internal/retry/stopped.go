package retry

import (
	"fmt"
	"maps"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Stopping lists the missing objects without which no message is retried or parked, and
// says what happens meanwhile to messages that fail.
func (c Chain) Stopping(have topology.Lines, wanted *topology.Topology) (missing []string, fate string) {
	return stopping(c, have, wanted), fateOf(c, have, wanted)
}

// fateOf says what happens to messages that fail while parts of the chain are
// missing. Where only the ways back to the work queue are, as after an
// application has declared its queue again, the exchange of each tier parks what it
// cannot route.
func fateOf(c Chain, have topology.Lines, wanted *topology.Topology) string {
	whole := have
	whole.Bindings = maps.Clone(have.Bindings)
	for _, b := range wanted.Bindings() {
		if e, _ := wanted.Exchange(b.Source); isWayBack(c, b, wanted) && e.Alternate() == c.ParkingExchange() {
			whole.Bindings[b.Label()] = ""
		}
	}
	if len(stopping(c, whole, wanted)) == 0 {
		return "messages that come back from a tier are parked"
	}
	return "messages that fail are lost or wait where they are"
}

// isWayBack says whether a binding leads from one of the chain's tiers to the work queue.
func isWayBack(c Chain, b topology.Binding, wanted *topology.Topology) bool {
	return b.Destination == c.Work.Name && b.Source != c.RedriveExchange() && ownExchange(wanted, b.Source)
}

// stopping lists the missing objects without which no message is retried or
// parked: the exchanges behind the work queue, the ways back to it, the way into
// the parking queue, and the policy that attaches an existing work queue.
func stopping(c Chain, have topology.Lines, wanted *topology.Topology) []string {
	var missing []string
	for _, name := range []string{c.RetryExchange(), c.FirstExchange(), c.FailedExchange(), c.WaitExchange(), c.ParkingExchange()} {
		if _, exists := have.Exchanges[name]; !exists && ownExchange(wanted, name) {
			missing = append(missing, fmt.Sprintf("exchange %q", name))
		}
	}
	if _, exists := have.Policies[c.AttachPolicy()]; c.Work.Existing && !exists {
		missing = append(missing, fmt.Sprintf("policy %q", c.AttachPolicy()))
	}
	for _, b := range wanted.Bindings() {
		_, exists := have.Bindings[b.Label()]
		if !exists && (isWayBack(c, b, wanted) || b.Source == c.ParkingExchange()) {
			missing = append(missing, fmt.Sprintf("binding %q", b.Label()))
		}
	}
	return missing
}

func ownExchange(wanted *topology.Topology, name string) bool {
	_, own := wanted.Exchange(name)
	return own
}
