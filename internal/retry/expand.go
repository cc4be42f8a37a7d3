package retry

import (
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// deliveryHeadroom is added to the delivery limit of every work queue. From
// RabbitMQ 4.0 on the delivery count survives dead-lettering, and on 4.3 every
// basic.reject round adds one, so a message uses up one delivery per tier. The
// number is [MaxTiers] and not the number of tiers, because the limit is a
// queue argument: it must not change when a delay is added. A chain that was
// made without delays has none (see [Features.ExactLimit]).
const deliveryHeadroom = MaxTiers

// Topology expands the chain into the objects that make it work. It expects a
// chain without problems (see [Chain.Problems]).
func (c Chain) Topology(f Features) *topology.Topology {
	t := topology.New()
	c.addParking(t, f)
	if c.Shared {
		t.SetExchange(exchange(c.ReturnExchange(), topology.Direct, c.ParkingExchange()))
		c.addHeadersSteps(t, f)
		return t
	}
	d := c.design()
	if d.Expand == nil {
		return topology.New() // an unknown strategy, which [Chain.Problems] refuses
	}
	c.addRedrive(t)
	d.Expand(c, t, f)
	if c.Work.Existing {
		c.addAttachment(t)
	} else {
		c.addWorkQueue(t, f)
	}
	if c.Policy.Shield {
		t.SetPolicy(c.shield())
	}
	return t
}

func (c Chain) addParking(t *topology.Topology, f Features) {
	t.SetExchange(exchange(c.ParkingExchange(), topology.Fanout, ""))
	t.Bind(toQueue(c.ParkingExchange(), c.Parking.Name, "", nil))
	if !c.Parking.Existing {
		t.SetQueue(c.queue(c.Parking.Name, c.parkingArguments(f)))
	}
}

func (c Chain) parkingArguments(f Features) topology.Arguments {
	arguments := c.storeArguments(f)
	if c.Parking.MessageTTL != nil {
		arguments[topology.MessageTTL] = milliseconds(*c.Parking.MessageTTL)
	}
	return arguments
}

// storeArguments are those of a queue that keeps messages until somebody takes
// them. Without them RabbitMQ 4.0 and later delete a message that was looked at
// (got and requeued) 21 times.
func (c Chain) storeArguments(f Features) topology.Arguments {
	arguments := topology.Arguments{}
	if c.QueueType == topology.Quorum && f.UnlimitedDelivery {
		arguments[topology.DeliveryLimit] = int64(Unlimited)
	}
	return arguments
}

func (c Chain) addRedrive(t *topology.Topology) {
	t.SetExchange(exchange(c.RedriveExchange(), topology.Fanout, ""))
	t.Bind(toQueue(c.RedriveExchange(), c.Work.Name, "", nil))
}

func (c Chain) addTier(t *topology.Topology, tier Tier, routingKey string) {
	arguments := c.deadLetterArguments(tier.Return)
	arguments[topology.MessageTTL] = milliseconds(tier.Delay)
	if routingKey != "" {
		arguments[topology.DeadLetterRoutingKey] = routingKey
	}
	t.SetQueue(c.queue(tier.Queue, arguments))
}

func (c Chain) addWorkQueue(t *topology.Topology, f Features) {
	w := c.Work
	arguments := w.Arguments.Clone()
	for key, value := range c.deadLetterArguments(c.deadLetterExchange()) {
		arguments[key] = value
	}
	if w.DeliveryLimit != nil {
		setDeliveryLimit(arguments, *w.DeliveryLimit, f)
	}
	for key, value := range c.holdingArguments() {
		arguments[key] = value
	}
	for _, s := range workSettings {
		if value := s.value(&w); value != nil {
			arguments[s.argument] = value
		}
	}
	t.SetQueue(c.queue(w.Name, arguments))
	for _, b := range w.Bindings {
		t.Bind(toQueue(b.Exchange, w.Name, b.RoutingKey, b.Arguments))
	}
}

// holdingArguments make the work queue itself hold messages back.
func (c Chain) holdingArguments() topology.Arguments {
	if d := c.design(); d.HoldsBack() {
		return d.WorkArguments(c)
	}
	return nil
}

func setDeliveryLimit(arguments topology.Arguments, limit int64, f Features) {
	switch {
	case limit >= 0 && f.ExactLimit:
		arguments[topology.DeliveryLimit] = limit
	case limit >= 0:
		arguments[topology.DeliveryLimit] = limit + deliveryHeadroom
	case f.UnlimitedDelivery:
		arguments[topology.DeliveryLimit] = int64(Unlimited)
	}
}

// deadLetterArguments lead from a queue to an exchange. At-least-once needs
// both arguments: with any other overflow behaviour than reject-publish the
// broker falls back to at-most-once without a word (RabbitMQ 3.10 and later).
func (c Chain) deadLetterArguments(to string) topology.Arguments {
	arguments := topology.Arguments{topology.DeadLetterExchange: to}
	if c.QueueType == topology.Quorum {
		arguments[topology.DeadLetterStrategy] = string(c.DeadLetterStrategy)
	}
	if c.DeadLetterStrategy == AtLeastOnce {
		arguments[topology.Overflow] = topology.RejectPublish
	}
	return arguments
}

func (c Chain) queue(name string, arguments topology.Arguments) topology.Queue {
	return topology.Queue{Name: name, Type: c.QueueType, Durable: true, Arguments: arguments}
}

func exchange(name, kind, alternate string) topology.Exchange {
	arguments := topology.Arguments{}
	if alternate != "" {
		arguments[topology.AlternateExchange] = alternate
	}
	return topology.Exchange{Name: name, Type: kind, Durable: true, Arguments: arguments}
}

// back is the way from the exchange behind a tier to the work queue, or to the
// exchange that finds it by the routing key. A message keeps the name of the
// first of two exchanges that it passes, and so x-last-death-exchange tells the
// tier in both cases.
func (c Chain) back(source string) topology.Binding {
	if c.Shared {
		return topology.Binding{
			Source: source, Destination: c.ReturnExchange(), DestinationKind: topology.KindExchange, Arguments: topology.Arguments{},
		}
	}
	return toQueue(source, c.Work.Name, "", nil)
}

// leadsBack says whether the binding leads to where [Chain.back] does.
func (c Chain) leadsBack(b topology.Binding) bool {
	to := c.back(b.Source)
	return b.DestinationKind == to.DestinationKind && b.Destination == to.Destination
}

func toQueue(source, queue, routingKey string, arguments topology.Arguments) topology.Binding {
	return topology.Binding{
		Source: source, Destination: queue, DestinationKind: topology.KindQueue,
		RoutingKey: routingKey, Arguments: arguments,
	}
}

func milliseconds(d time.Duration) int64 { return d.Milliseconds() }
