package simulator

import (
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Publishing is a message as a client sends it. The lists of strings in its
// headers CC and BCC are further routing keys.
type Publishing struct {
	Exchange   string
	RoutingKey string
	Headers    topology.Arguments
	Body       string
	// Expiration is the message's own time-to-live, nil for none.
	Expiration *time.Duration
}

// Outcome is what a publisher with confirms and mandatory messages learns.
type Outcome string

// The outcomes of a publish.
const (
	Confirmed  Outcome = "confirmed"
	Refused    Outcome = "refused" // a queue was full: basic.nack
	Unroutable Outcome = "unroutable"
)

// Receipt is the answer to a publish.
type Receipt struct {
	ID      ID
	Outcome Outcome
	// Queues are those that took the message.
	Queues []string
	// HeldBack are the exchanges that hold the message back. That counts as not
	// routed: the outcome is [Unroutable] if no queue took it. A publisher without
	// mandatory gets a confirm.
	HeldBack []string
}

// Publish sends a message. It fails if the exchange does not exist or may not
// be published to; a broker closes the channel then.
func (b *Broker) Publish(p Publishing) (Receipt, error) {
	if e, exists := b.topology.Exchange(p.Exchange); exists && e.Internal {
		return Receipt{}, fmt.Errorf("exchange %q is internal", p.Exchange)
	}
	b.lastID++
	m := b.message(p)
	b.event(Event{Kind: Published, Message: m.id, Exchange: p.Exchange, RoutingKey: p.RoutingKey})
	targets, holding, err := b.route(p.Exchange, m)
	if err != nil {
		b.lastID--
		return Receipt{}, err
	}
	b.holdBackAt(holding, m)
	receipt := Receipt{ID: m.id, Outcome: Confirmed, HeldBack: holding}
	if len(targets) == 0 {
		receipt.Outcome = Unroutable
		b.event(Event{Kind: Returned, Message: m.id, Exchange: p.Exchange, RoutingKey: p.RoutingKey})
		b.fates.returned[m.id] = len(holding) == 0
	}
	for _, name := range targets {
		switch b.offer(name, m, tracked) {
		case taken:
			receipt.Queues = append(receipt.Queues, name)
		case refused, deadLettered:
			receipt.Outcome = Refused
		}
	}
	if receipt.Outcome == Refused {
		b.fates.refused[m.id] = true
	}
	b.settle()
	return receipt, nil
}

func (b *Broker) message(p Publishing) *message {
	headers := p.Headers.Clone()
	m := &message{
		id: b.lastID, body: p.Body, exchange: p.Exchange, expiration: p.Expiration,
		keys: topology.RoutingKeys(p.RoutingKey, headers), headers: headers,
	}
	if bcc, set := headers["BCC"]; set {
		m.bcc = topology.RoutingKeys("", topology.Arguments{"BCC": bcc})[1:]
		delete(headers, "BCC")
	}
	if b.rules.trustsClients {
		m.deaths = readDeaths(headers["x-death"])
	}
	return m
}
