package simulator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// rules are the differences between versions of RabbitMQ that decide what
// happens to a message.
type rules struct {
	// equality of headers: before 3.13 a headers exchange takes 1 for 1.0.
	equality topology.Equality
	// lastDeath: x-last-death-* are written (3.13.0).
	lastDeath bool
	// keyRemovesCC: a dead-letter routing key removes the header CC (until
	// 3.12). The documentation of later versions still says so; their tests say
	// otherwise (dead_lettering_SUITE).
	keyRemovesCC bool
	// trustsClients: the x-death of a publisher is taken for history (until
	// 3.13, but for 3.13.0 to 3.13.2; 4.0 ignores it).
	trustsClients bool
	// shufflesDeaths: every further death turns the order of the entries before
	// it around, so that the history is not in the order of time (until 3.12,
	// rabbit_dead_letter:group_by_queue_and_reason; measured on 3.10.8).
	shufflesDeaths bool
	// carriesCount: the delivery count of a quorum queue goes with a dead
	// letter (4.0).
	carriesCount bool
	// classicCounts: classic queues count failed deliveries, too, and give the
	// count on (4.3, rabbit_variable_queue; measured on 4.3.6).
	classicCounts bool
	// countsAcquired: a quorum queue counts how often a message was taken out
	// beside how often its delivery failed (4.0).
	countsAcquired bool
	// limitsAcquired: the delivery limit applies to the former (4.0 to 4.2).
	limitsAcquired bool
	// nackIsRelease: basic.nack is no failed delivery (4.3).
	nackIsRelease bool
	// rejectFails: basic.reject with requeue is a failed delivery (3.x, 4.3).
	rejectFails bool
	// defaultLimit: quorum queues without a delivery limit have one of 20, and a
	// negative limit stands for none (4.0). Before, a negative limit kills a
	// message at its first return.
	defaultLimit bool
	// requeuesBehind: a quorum queue without a delivery limit puts a message
	// that is requeued at its end (3.10 to 4.2); one that comes back because a
	// channel closed goes to the front all the same.
	requeuesBehind bool
	// expiresReturned: returned messages do not stand between an expired message
	// and the head of a quorum queue (4.3, rabbit_fifo:expire_batch).
	expiresReturned bool
	// keepsOwn: an at-least-once queue that dead-letters into itself never lets go
	// of the message that it delivered (until 3.11.19 and 3.12.1, server#8799;
	// measured on 3.10.8).
	keepsOwn bool
	// delaysReturned: a quorum queue can hold back what comes back to it (4.3).
	delaysReturned bool
	// delayedExchange: there are exchanges of type x-delayed-message, of a plugin
	// (until 4.2).
	delayedExchange bool
	// keepsDelay: a message that was held back has the delay in a classic queue as
	// it was published (measured on 3.10.8; a quorum queue there and both types on
	// 4.0.5 show it with its sign turned).
	keepsDelay bool
	// getSetsCount: basic.get on a quorum queue always tells x-delivery-count,
	// 0 included (3.x, rabbit_fifo_client:dequeue).
	getSetsCount bool
}

func rulesOf(version string) (rules, error) {
	v, err := parseVersion(version)
	if err != nil {
		return rules{}, err
	}
	r := rules{
		lastDeath:       v.atLeast(3, 13, 0),
		keyRemovesCC:    !v.atLeast(3, 13, 0),
		trustsClients:   !v.atLeast(4, 0, 0) && (v.atLeast(3, 13, 3) || !v.atLeast(3, 13, 0)),
		shufflesDeaths:  !v.atLeast(3, 13, 0),
		classicCounts:   v.atLeast(4, 3, 0),
		carriesCount:    v.atLeast(4, 0, 0),
		countsAcquired:  v.atLeast(4, 0, 0),
		limitsAcquired:  v.atLeast(4, 0, 0) && !v.atLeast(4, 3, 0),
		nackIsRelease:   v.atLeast(4, 3, 0),
		rejectFails:     v.atLeast(4, 3, 0) || !v.atLeast(4, 0, 0),
		defaultLimit:    v.atLeast(4, 0, 0),
		requeuesBehind:  !v.atLeast(4, 3, 0),
		expiresReturned: v.atLeast(4, 3, 0),
		delaysReturned:  v.atLeast(4, 3, 0),
		keepsOwn:        !v.atLeast(3, 11, 20) || v.atLeast(3, 12, 0) && !v.atLeast(3, 12, 2),
		delayedExchange: !v.atLeast(4, 3, 0),
		keepsDelay:      !v.atLeast(3, 13, 0),
		getSetsCount:    !v.atLeast(4, 0, 0),
	}
	if !v.atLeast(3, 13, 0) {
		r.equality = topology.Numeric
	}
	return r, nil
}

type version [3]int

// parseVersion reads the three numbers of a version and ignores the rest.
func parseVersion(text string) (version, error) {
	base, _, _ := strings.Cut(text, "-")
	parts := strings.Split(base, ".")
	var v version
	if len(parts) < len(v) {
		return v, fmt.Errorf("%q is no version such as 4.0.5", text)
	}
	for i := range v {
		n, err := strconv.Atoi(parts[i])
		if err != nil {
			return v, fmt.Errorf("%q is no version such as 4.0.5", text)
		}
		v[i] = n
	}
	return v, nil
}

func (v version) atLeast(major, minor, patch int) bool {
	other := version{major, minor, patch}
	for i := range v {
		if v[i] != other[i] {
			return v[i] > other[i]
		}
	}
	return true
}
