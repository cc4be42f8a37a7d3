package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Problem is something about a chain that is wrong, or that its owner should
// know before it is made.
type Problem struct {
	// Attribute is the attribute of the chain that the problem is about,
	// written as in HCL: "delays[2]", "work_queue.overflow".
	Attribute string
	Summary   string
	Detail    string
	// Warning: the chain works, but not as one may expect.
	Warning bool
	// Policy is the policy of others that the problem comes from, if any.
	Policy *topology.Policy
}

// Problems returns what can be said about the chain without a broker.
func (c Chain) Problems() []Problem {
	var p problems
	if !c.checkStrategy(&p) {
		return p
	}
	c.checkKind(&p)
	c.checkDelays(&p)
	if d := c.design(); d.Problems != nil {
		p = append(p, d.Problems(c)...)
	}
	c.checkCountHeader(&p)
	c.checkNames(&p)
	c.checkWorkQueue(&p)
	c.checkArguments(&p)
	c.checkBindings(&p)
	c.checkExisting(&p)
	c.checkPolicySettings(&p)
	return p
}

// BrokerProblems returns what the chain asks for and a broker of that version
// cannot do.
func (c Chain) BrokerProblems(version string, f Features) []Problem {
	var p problems
	if d := c.design(); d.BrokerProblems != nil {
		p = append(p, d.BrokerProblems(c, version, f)...)
	}
	p = append(p, c.checkSettings(version)...)
	c.checkExactLimit(&p, f)
	return p
}

// ExchangeTypeProblems tells why a broker that can declare these types of exchanges cannot
// carry the chain.
func (c Chain) ExchangeTypeProblems(types []string, f Features) []Problem {
	if d := c.design(); d.ExchangeTypeProblems != nil {
		return d.ExchangeTypeProblems(c, types, f)
	}
	return nil
}

// confusesDeaths says whether a message that dies otherwise than by a rejection
// would be sent through a tier, because the broker does not tell the two apart.
// Without tiers everything is parked.
func (c Chain) confusesDeaths(f Features) bool {
	d := c.design()
	return d.ConfusesDeaths != nil && d.ConfusesDeaths(f) && len(c.Delays) > 0
}

// checkExactLimit warns when a work queue with an exact delivery limit gets
// delays: from RabbitMQ 4.0 on rounds through tiers can count as deliveries.
func (c Chain) checkExactLimit(p *problems, f Features) {
	limit := c.Work.DeliveryLimit
	if !f.ExactLimit || c.Work.Existing || limit == nil || *limit < 0 || len(c.Delays) == 0 {
		return
	}
	p.warnf("delays", "Retries Count Towards the Delivery Limit",
		"This chain was made without delays, and so its work queue %q was declared with a delivery limit of exactly %d, which RabbitMQ "+
			"cannot change. It leaves no room for the rounds through the tiers, which RabbitMQ 4.0 and later can count as deliveries: a "+
			"message whose consumer crashes after a retry may be parked before its last attempt. A chain of another name has that room.",
		c.Work.Name, *limit)
}

type problems []Problem

func (p *problems) errorf(attribute, summary, detail string, args ...any) {
	*p = append(*p, Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(detail, args...)})
}

func (p *problems) warnf(attribute, summary, detail string, args ...any) {
	*p = append(*p, Problem{Attribute: attribute, Summary: summary, Detail: fmt.Sprintf(detail, args...), Warning: true})
}

// from notes which policy the last problem comes from.
func (p problems) from(policy topology.Policy) { p[len(p)-1].Policy = &policy }

func (c Chain) checkKind(p *problems) {
	if c.QueueType == topology.Classic && c.DeadLetterStrategy == AtLeastOnce {
		p.errorf("dead_letter_strategy", "At-Least-Once Needs Quorum Queues",
			"Classic queues dead-letter at most once; only quorum queues can do so at least once. Set queue_type = \"quorum\", or "+
				"dead_letter_strategy = \"at-most-once\".")
	}
}

func (c Chain) checkCountHeader(p *problems) {
	switch named := c.design().NamesHeader; {
	case !named && c.CountHeader != "":
		p.errorf("count_header", "Nothing Counts", "Only strategy \"republish\" counts in a header. Leave count_header out.")
	case named && strings.HasPrefix(c.CountHeader, topology.ArgumentPrefix):
		p.errorf("count_header", "Header Not Matched",
			"count_header is %q. A headers exchange ignores headers that start with \"x-\". Choose another name.", c.CountHeader)
	case named && c.CountHeader == "":
		p.errorf("count_header", "Empty Header", "count_header must not be empty.")
	}
}

func (c Chain) checkDelays(p *problems) {
	if len(c.Delays) > MaxTiers {
		p.errorf("delays", "Too Many Delays",
			"A chain can have %d delays at most; this one has %d.", MaxTiers, len(c.Delays))
	}
}

func (c Chain) checkNames(p *problems) {
	c.checkName(p, "name", "The name", c.Name)
	c.checkName(p, "work_queue.name", "The work queue's name", c.Work.Name)
	c.checkName(p, "parking_queue.name", "The parking queue's name", c.Parking.Name)
	c.checkExpandedNames(p)
	c.checkCollisions(p)
}

func (c Chain) checkName(p *problems, attribute, subject, name string) {
	switch {
	case name == "":
		p.errorf(attribute, "Empty Name", "%s must not be empty.", subject)
	case strings.ContainsAny(name, "\r\n"):
		p.errorf(attribute, "Line Break in Name",
			"%s %q contains a line break. RabbitMQ strips CR and LF from names, so the object would get another name than the one asked "+
				"for.", subject, name)
	case topology.IsReserved(name):
		p.errorf(attribute, "Reserved Name",
			"%s %q starts with \"amq.\", which RabbitMQ keeps for itself. Choose another name.", subject, name)
	case len(name) > topology.MaxNameBytes:
		p.errorf(attribute, "Name Too Long", "%s is %d bytes long; RabbitMQ allows %d.", subject, len(name), topology.MaxNameBytes)
	}
}

// checkExpandedNames looks at the longest of the names made from the chain's.
func (c Chain) checkExpandedNames(p *problems) {
	if len(c.Name) > topology.MaxNameBytes {
		return
	}
	longest := c.FirstExchange()
	for _, tier := range c.Tiers() {
		longest = slices.MaxFunc([]string{longest, tier.Queue, tier.Return}, func(a, b string) int { return len(a) - len(b) })
	}
	if len(longest) > topology.MaxNameBytes {
		p.errorf("name", "Name Too Long",
			"The chain needs an object named %q, which is %d bytes long; RabbitMQ allows %d. Shorten the name by %d bytes.",
			longest, len(longest), topology.MaxNameBytes, len(longest)-topology.MaxNameBytes)
	}
}

// checkCollisions finds queues of the chain that would share a name.
func (c Chain) checkCollisions(p *problems) {
	if c.Work.Name == c.Parking.Name {
		p.errorf("parking_queue.name", "Two Queues of One Name", "The parking queue and the work queue are both named %q.", c.Work.Name)
	}
	for attribute, name := range map[string]string{"work_queue.name": c.Work.Name, "parking_queue.name": c.Parking.Name} {
		if slices.Contains(c.stores(), name) {
			p.errorf(attribute, "Two Queues of One Name",
				"The name %q belongs to a queue that the chain declares for its strategy, %q.", name, c.Strategy)
		}
	}
	for _, tier := range c.Tiers() {
		if tier.Queue == c.Work.Name {
			p.errorf("work_queue.name", "Two Queues of One Name",
				"The work queue has the name of the tier for %s, %q.", tier.Label, tier.Queue)
		}
		if tier.Queue == c.Parking.Name {
			p.errorf("parking_queue.name", "Two Queues of One Name",
				"The parking queue has the name of the tier for %s, %q.", tier.Label, tier.Queue)
		}
	}
}

// checkExisting refuses settings of queues that the chain does not declare.
func (c Chain) checkExisting(p *problems) {
	w := c.Work
	set := map[string]bool{"delivery_limit": w.DeliveryLimit != nil, "arguments": len(w.Arguments) > 0, "bindings": len(w.Bindings) > 0}
	for _, s := range workSettings {
		set[s.attribute] = s.value(&w) != nil && !s.byPolicy
	}
	for _, attribute := range slices.Sorted(maps.Keys(set)) {
		if w.Existing && set[attribute] {
			p.errorf("work_queue."+attribute, "Queue Belongs to Others",
				"With work_queue.ownership = \"application\" the queue %q is neither declared nor changed by this chain. "+
					"Set this where the queue is declared, and leave it out here.", w.Name)
		}
	}
	if c.Parking.Existing && c.Parking.MessageTTL != nil {
		p.errorf("parking_queue.message_ttl", "Queue Belongs to Others",
			"With parking_queue.ownership = \"application\" the queue %q is neither declared nor changed by this chain. Set this where "+
				"the queue is declared, and leave it out here.", c.Parking.Name)
	}
}

// maxPatternBytes is the longest pattern of a policy from RabbitMQ 4.3 on
// (rabbit_re).
const maxPatternBytes = 1024

// maxShieldBytes leaves room for what a pattern carries while the policy is set or
// deleted.
const maxShieldBytes = maxPatternBytes - topology.PatternBytes

func (c Chain) checkPolicySettings(p *problems) {
	if c.Policy.Inherit && !c.Work.Existing {
		p.errorf("policy.inherit", "Nothing to Inherit",
			"policy.inherit is about the policy of an existing work queue. Leave it out, or set work_queue.ownership = \"application\".")
	}
	if n := len(c.shield().Pattern); c.Policy.Shield && n > maxShieldBytes {
		p.errorf("policy.shield", "Shield's Pattern Too Long",
			"The pattern that names the chain's queues is %d bytes long; RabbitMQ 4.3 allows %d, of which the provider needs %d. Use "+
				"shorter names, or no shield.",
			n, maxPatternBytes, topology.PatternBytes)
	}
}

func (c Chain) limited() bool { return c.Work.MaxLength != nil || c.Work.MaxLengthBytes != nil }

// overflow is the behaviour that the work queue really has at its limit.
func (c Chain) overflow() string {
	switch {
	case c.Work.Overflow != "":
		return c.Work.Overflow
	case c.DeadLetterStrategy == AtLeastOnce:
		return topology.RejectPublish
	default:
		return topology.DropHead
	}
}

func (c Chain) checkWorkQueue(p *problems) {
	w := c.Work
	if w.DeliveryLimit != nil && c.QueueType == topology.Classic {
		p.errorf("work_queue.delivery_limit", "Delivery Limit Needs Quorum Queues",
			"Classic queues have no delivery limit. Leave work_queue.delivery_limit out, or set queue_type = \"quorum\".")
	}
	if w.DeliveryLimit != nil && *w.DeliveryLimit < Unlimited {
		p.errorf("work_queue.delivery_limit", "Invalid Delivery Limit",
			"The delivery limit is %d; it must be 0 or more, or -1 for no limit.", *w.DeliveryLimit)
	}
	if c.DeadLetterStrategy == AtLeastOnce && w.Overflow == topology.DropHead {
		p.errorf("work_queue.overflow", "At-Least-Once Needs reject-publish",
			"With overflow \"drop-head\" RabbitMQ falls back to at-most-once dead-lettering without a word. Leave work_queue.overflow "+
				"out, or set dead_letter_strategy = \"at-most-once\".")
	}
	if c.QueueType == topology.Classic && w.Overflow == topology.RejectPublish {
		p.errorf("work_queue.overflow", "Classic reject-publish Loses Retries",
			"A full classic queue with overflow \"reject-publish\" refuses the messages that come back from a tier, and they are lost. "+
				"Use overflow \"drop-head\" (what is dropped goes to the parking queue), or queue_type = \"quorum\".")
	}
	if c.limited() && c.DeadLetterStrategy == AtLeastOnce {
		p.warnf("work_queue", "Length Limit May Hold Up Retries",
			"When the work queue %q is full, messages that come back from a tier are refused and tried again by the broker after 180 "+
				"seconds only. Rejected messages that wait to be dead-lettered count towards the limit as well.", w.Name)
	}
}

// ownerOf returns what sets a queue argument of the chain, "" if only work_queue.arguments
// can.
func ownerOf(argument string) string {
	switch argument {
	case topology.DeadLetterExchange, topology.DeadLetterRoutingKey:
		return "the chain itself"
	case topology.DeadLetterStrategy:
		return "dead_letter_strategy"
	case topology.QueueTypeArgument:
		return "queue_type"
	case topology.DeliveryLimit:
		return "work_queue.delivery_limit"
	}
	for _, s := range workSettings {
		if s.argument == argument {
			return "work_queue." + s.attribute
		}
	}
	return ""
}

func (c Chain) checkArguments(p *problems) {
	for _, key := range slices.Sorted(maps.Keys(c.Work.Arguments)) {
		switch owner := ownerOf(key); {
		case owner != "":
			p.errorf("work_queue.arguments", "Argument Set Elsewhere",
				"The argument %q of the work queue is set by %s. Remove it from work_queue.arguments.", key, owner)
		case key == topology.Expires:
			p.errorf("work_queue.arguments", "x-expires Would Lose Messages",
				"A queue that expires is deleted with everything in it; nothing is dead-lettered. Remove \"x-expires\" from "+
					"work_queue.arguments.")
		case topology.HoldsBack(key):
			p.errorf("work_queue.arguments", "Two Ways to Retry", "The argument %q makes the queue itself hold back messages, beside the "+
				"chain's tiers. Remove it from work_queue.arguments.", key)
		}
	}
}

func (c Chain) checkBindings(p *problems) {
	seen := map[string]bool{}
	own := c.ownExchanges()
	for i, b := range c.Work.Bindings {
		at := fmt.Sprintf("work_queue.bindings[%d]", i)
		switch {
		case b.Exchange == "":
			p.errorf(at+".exchange", "Default Exchange Cannot Be Bound",
				"The exchange is empty. The default exchange leads to every queue by its name already; remove this binding or name an "+
					"exchange.")
		case own[b.Exchange]:
			p.errorf(at+".exchange", "Exchange of the Chain",
				"%q is an exchange of this chain. Bind the work queue only to exchanges of your own.", b.Exchange)
		case len(b.RoutingKey) > topology.MaxNameBytes:
			p.errorf(at+".routing_key", "Routing Key Too Long",
				"The routing key is %d bytes long; RabbitMQ allows %d.", len(b.RoutingKey), topology.MaxNameBytes)
		}
		if match, set := b.Arguments[topology.Match]; set && !validMatch(match) {
			p.errorf(at+".arguments", "Invalid x-match", "x-match is %v; RabbitMQ knows all, any, all-with-x and any-with-x.", match)
		}
		id := toQueue(b.Exchange, c.Work.Name, b.RoutingKey, b.Arguments).ID()
		if seen[id] {
			p.errorf(at, "Binding Given Twice", "The same binding stands earlier in the list. Remove one of the two.")
		}
		seen[id] = true
	}
}

func validMatch(value any) bool {
	return slices.Contains([]any{topology.MatchAll, topology.MatchAny, topology.MatchAllWithX, topology.MatchAnyWithX}, value)
}

func (c Chain) ownExchanges() map[string]bool {
	own := map[string]bool{}
	for name := range c.exchangeTypes() {
		own[name] = true
	}
	for _, tier := range c.Tiers() {
		own[tier.Return] = true
	}
	return own
}
