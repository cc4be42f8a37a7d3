package retry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// NewShared describes shared tiers: a chain without a work queue. Any number of
// queues can be attached to it, see [Attachment], and none of that changes it.
//
// The dead letters of an attached queue carry the queue's name as routing key,
// which no tier changes. Every tier returns through an exchange of its own, as
// in a chain, and these lead to one direct exchange, from where the key leads to
// the queue. A message for a queue that is not attached goes on to the alternate
// exchange of that one, and is parked.
func NewShared(name string) Chain {
	c := Chain{Name: name, Strategy: Headers, Shared: true}
	c.Parking.Name = c.DefaultParkingQueue()
	return c
}

// SharedProblems returns what can be said about shared tiers without a broker.
func (c Chain) SharedProblems() []Problem {
	var p problems
	c.checkKind(&p)
	c.checkDelays(&p)
	c.checkName(&p, "name", "The name", c.Name)
	c.checkExpandedNames(&p)
	return p
}

// SharedBrokerProblems refuses brokers on which no tiers can be shared. Only the
// routing key and headers can tell where a message is. The key is the name of its
// queue; x-last-death-exchange is the only header that the broker changes and
// that a headers exchange can match (the count is inside the list x-death).
func SharedBrokerProblems(attribute, version string, f Features) []Problem {
	if f.LastDeathHeaders {
		return nil
	}
	var p problems
	p.errorf(attribute, "Shared Tiers Not Supported by This Broker",
		"Shared tiers need RabbitMQ 3.13.3 or later. The routing key of a message has to name the queue that it came from, and earlier "+
			"versions write no other header that tells the tier that it waited in last. This broker runs %s. Use rabbitmq_retry_chain "+
			"with strategy = \"routing_key\", which needs 3.10 or later.", version)
	return p
}

// ReadShared reads shared tiers back from the objects of a virtual host, for an
// import. What cannot be read gets the value that it would have by default.
func ReadShared(name string, in *topology.Topology, live abilities.Version) (Chain, Features, error) {
	c := NewShared(name)
	tiers := c.tiersOnBroker(in)
	tiers = slices.DeleteFunc(tiers, func(t Tier) bool { return !c.isTier(t) })
	_, retries := in.Exchange(c.RetryExchange())
	back, returns := in.Exchange(c.ReturnExchange())
	if !retries && !returns && len(tiers) == 0 && !c.begun(in) {
		return Chain{}, Features{}, ErrNoChain
	}
	if returns && back.Type != topology.Direct || !returns && c.looksLikeChain(in, tiers) {
		return Chain{}, Features{}, &NotAChainError{fmt.Sprintf("%q are no shared tiers, which have a direct exchange %q; they may be a "+
			"retry chain", name, c.ReturnExchange())}
	}
	c.QueueType, c.DeadLetterStrategy = c.readQueueType(in, tiers)
	c.Delays = c.readDelays(in, tiers)
	return c, c.readFeatures(in, live), nil
}

// begun says whether there is an exchange of tiers whose create was broken off early. A
// retry chain has an exchange of the same name, and one for redrives besides.
func (c Chain) begun(in *topology.Topology) bool {
	_, first := in.Exchange(c.FirstExchange())
	_, parking := in.Exchange(c.ParkingExchange())
	_, chain := in.Exchange(c.RedriveExchange())
	return (first || parking || len(c.returnExchanges(in)) > 0) && !chain
}

// looksLikeChain says whether a tier returns to a queue.
func (c Chain) looksLikeChain(in *topology.Topology, tiers []Tier) bool {
	return slices.ContainsFunc(tiers, func(t Tier) bool {
		return slices.ContainsFunc(in.From(t.Return), func(b topology.Binding) bool { return b.DestinationKind == topology.KindQueue })
	})
}

// Attached names what leads into shared tiers or is led to from them: queues
// that are bound to the return exchange, queues whose dead letters go to the
// retry exchange by an argument, and policies that send them there.
func (c Chain) Attached(in *topology.Topology) []string {
	var found []string
	queue := func(name string) { found = append(found, fmt.Sprintf("queue %q", name)) }
	for _, b := range in.From(c.ReturnExchange()) {
		if b.DestinationKind == topology.KindQueue {
			queue(b.Destination)
		} else {
			found = append(found, fmt.Sprintf("exchange %q", b.Destination))
		}
	}
	for _, q := range in.Queues() {
		if q.Arguments.String(topology.DeadLetterExchange) == c.RetryExchange() {
			queue(q.Name)
		}
	}
	for _, p := range in.Policies() {
		if p.Definition.String(topology.KeyDeadLetterExchange) == c.RetryExchange() {
			found = append(found, fmt.Sprintf("%s %q", p.Kind(), p.Name))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// SharedTiersOn returns the tiers of that name that exist in a virtual host,
// also those that are draining.
func SharedTiersOn(name string, in *topology.Topology) []Tier {
	return NewShared(name).tiersOnBroker(in)
}

// sharedText writes texts about the chain of an attachment for its owner, who
// knows the attributes by other names.
var sharedText = strings.NewReplacer("the chain's own policy", "the attachment's own policy", "this chain would displace",
	"this attachment would displace",
	"The chain's policy", "The attachment's policy", "the chain's policy", "the attachment's policy", "into the chain", "into the tiers")
