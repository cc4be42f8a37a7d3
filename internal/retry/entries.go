package retry

import (
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Entry is the way back into the work queue of a chain. A message that takes it
// has all attempts again and keeps its routing key.
type Entry struct {
	// Exchange is the chain's redrive exchange, which leads to Queue only.
	Exchange, Queue string
	// CountHeader is what the user's process counts in, "" with strategies that
	// need none. The message must not keep it. Nothing on the broker tells which
	// it is with strategy "delayed_exchange"; there it is [DefaultCountHeader].
	CountHeader string
}

// Entries are those of all chains of a virtual host.
type Entries struct{ byQueue, byExchange map[string]Entry }

const redriveSuffix = ".redrive"

// FindEntries looks for redrive exchanges that lead to one queue and nowhere
// else.
func FindEntries(in *topology.Topology) Entries {
	found := Entries{byQueue: map[string]Entry{}, byExchange: map[string]Entry{}}
	for _, e := range in.Exchanges() {
		name, ok := strings.CutSuffix(e.Name, redriveSuffix)
		if !ok || name == "" || e.Type != topology.Fanout || e.Internal {
			continue
		}
		if to := in.From(e.Name); len(to) == 1 && to[0].DestinationKind == topology.KindQueue {
			found.add(Chain{Name: name}, to[0].Destination, in)
		}
	}
	return found
}

func (e Entries) add(c Chain, work string, in *topology.Topology) {
	tiers := c.tiersOnBroker(in)
	c.Strategy = c.readStrategy(in, tiers)
	entry := Entry{Exchange: c.RedriveExchange(), Queue: work}
	if read := c.design().CountHeader; read != nil {
		entry.CountHeader = read(c, in)
	}
	e.byQueue[work] = entry
	for _, tier := range tiers {
		e.byQueue[tier.Queue] = entry
	}
	for _, queue := range c.stores() {
		e.byQueue[queue] = entry
	}
	for _, exchange := range []string{c.RetryExchange(), c.ParkingExchange()} {
		e.byExchange[exchange] = entry
	}
}

// For returns the entry for a message that failed in the queue, which may be a
// tier as well. Where the death headers name none, because a process of strategy
// "republish" has stripped them, the exchange through which the message was
// parked tells the chain.
func (e Entries) For(queue, exchange string) (Entry, bool) {
	if queue != "" {
		entry, found := e.byQueue[queue]
		return entry, found
	}
	entry, found := e.byExchange[exchange]
	return entry, found
}

// WorkQueue returns the work queue of the chain to which the queue belongs, ""
// for none.
func (e Entries) WorkQueue(queue string) string { return e.byQueue[queue].Queue }
