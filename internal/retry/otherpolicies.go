package retry

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// PolicyProblems tells what other policies and operator policies do to the
// chain's queues, and whether they leave the chain's own policies in effect.
// RabbitMQ applies one policy and one operator policy to a queue, those of the
// highest priority.
func (c Chain) PolicyProblems(in *topology.Topology, f Features) []Problem {
	var p problems
	members := c.members()
	for _, tier := range c.Retired(in, c.Topology(f)) { // they still give back messages
		members = append(members, member{chain: c, role: tierRole, name: tier.Queue, kind: c.QueueType, delay: tier.Delay})
	}
	for _, m := range members {
		m.checkPolicies(&p, in, f)
	}
	return p
}

// role is what a queue does in a chain.
type role string

const (
	workRole    role = "work queue"
	tierRole    role = "tier"
	parkingRole role = "parking queue"
	storeRole   role = "queue"
)

// member is a queue of the chain, or one of others that the chain uses.
type member struct {
	chain Chain
	role  role
	name  string
	kind  topology.QueueType
	delay time.Duration
	// existing: the queue belongs to others.
	existing bool
}

// members lists the queues of the chain. An existing one of unknown type is
// left out.
func (c Chain) members() []member {
	var members []member
	add := func(m member) {
		if m.kind != "" {
			members = append(members, m)
		}
	}
	work := member{chain: c, role: workRole, name: c.Work.Name, kind: c.QueueType, existing: c.Work.Existing}
	if c.Work.Existing {
		work.kind = c.Work.Type
	}
	if c.Work.Name != "" { // shared tiers have none, and an attachment nothing else
		add(work)
	}
	for _, tier := range c.Tiers() {
		add(member{chain: c, role: tierRole, name: tier.Queue, kind: c.QueueType, delay: tier.Delay})
	}
	for _, name := range c.stores() {
		add(member{chain: c, role: storeRole, name: name, kind: c.QueueType})
	}
	if c.Parking.Name == "" {
		return members
	}
	add(member{chain: c, role: parkingRole, name: c.Parking.Name, kind: c.QueueType, existing: c.Parking.Existing})
	return members
}

// stores says whether messages stay in the queue until somebody takes them.
func (m member) stores() bool { return m.role == parkingRole || m.role == storeRole }

// attribute is where a problem of the queue is shown.
func (m member) attribute() string {
	switch m.role {
	case workRole:
		return "work_queue"
	case parkingRole:
		return "parking_queue"
	case storeRole:
		return "strategy"
	default:
		return "delays"
	}
}

// own is the policy of the chain that is meant to apply to the queue, if any.
func (m member) own() (topology.Policy, bool) {
	switch {
	case m.role == workRole && m.existing:
		t := topology.New()
		m.chain.addAttachment(t)
		return t.Policy(m.chain.AttachPolicy())
	case m.chain.Policy.Shield && !m.existing:
		return m.chain.shield(), true
	default:
		return topology.Policy{}, false
	}
}

// Targets lists the queues to which the chain's own policies apply, if they are listed
// as they should be and no other policy hides them.
func (c Chain) Targets(in *topology.Topology) []topology.Target {
	var targets []topology.Target
	for _, m := range c.members() {
		own, has := m.own()
		if !has {
			continue
		}
		q, exists := in.Queue(m.name)
		listed, set := in.Policy(own.Name)
		if !exists || !set || !listed.Equal(own) {
			continue
		}
		if governing := in.Governing(q.Name, q.Type, false); len(governing) == 1 && governing[0].Name == own.Name {
			targets = append(targets, topology.Target{Policy: own, Queue: q})
		}
	}
	return targets
}

func (m member) checkPolicies(p *problems, in *topology.Topology, f Features) {
	kind := m.kind
	if q, exists := in.Queue(m.name); exists {
		kind = q.Type
	}
	foreign := m.chain.foreign(in, m.name, kind)
	own, has := m.own()
	switch {
	case !has:
		m.checkKeys(p, foreign, f)
	case m.existing && m.checkOtherChain(p, in, foreign):
	case slices.ContainsFunc(foreign, func(other topology.Policy) bool { return other.Priority >= own.Priority }):
		m.addHidden(p, own, foreign)
	default:
		m.checkDisplaced(p, foreign, f)
		if m.existing && m.chain.Policy.Inherit {
			m.checkKeys(p, []topology.Policy{own}, f)
		}
	}
	m.checkKeys(p, in.Governing(m.name, kind, true), f)
}

// checkOtherChain refuses to take a work queue away from another chain.
func (m member) checkOtherChain(p *problems, in *topology.Topology, foreign []topology.Policy) bool {
	for _, other := range foreign {
		name, is := chainOf(other.Arguments(), in)
		if is && name != m.chain.Name {
			owner := "is the work queue of the retry chain"
			if strings.HasPrefix(other.Name, NewShared(name).attachPrefix()) {
				owner = "is attached to the shared tiers"
			}
			p.errorf("work_queue.name", "Queue Has Another Chain",
				"The queue %q %s %q, whose policy %q this chain would displace. A queue can have one chain only, or one set of shared "+
					"tiers.", m.name, owner, name, other.Name)
			p.from(other)
			return true
		}
	}
	return false
}

// addHidden refuses another policy that RabbitMQ would apply, or could
// apply, in place of the chain's own.
func (m member) addHidden(p *problems, own topology.Policy, foreign []topology.Policy) {
	what := "the chain's shield, which keeps other policies away"
	if m.existing {
		what = "the chain's own policy, and rejected messages would be lost instead of being retried"
	}
	for _, other := range foreign {
		p.errorf("policy.priority", "Policy Hidden by Another",
			"Policy %q (%s) applies to the queue %q as well and hides %s: RabbitMQ applies only one policy to a queue, and its priority "+
				"%d is not below the %d of %q. Set policy.priority to %d or more, or lower the priority of %q or narrow its pattern.",
			other.Name, other.Line(), m.name, what, other.Priority, own.Priority, own.Name, other.Priority+1, other.Name)
		p.from(other)
	}
}

// checkDisplaced tells which other settings the chain's own policy puts out
// of effect.
func (m member) checkDisplaced(p *problems, foreign []topology.Policy, f Features) {
	inherits := m.existing && m.chain.Policy.Inherit
	if len(foreign) > 1 && inherits {
		p.errorf("policy.inherit", "Displaced Policy Not Clear",
			"The policies %s apply to the queue %q with the same priority, so that nobody can know which one is in effect and whose keys "+
				"are to be carried over. Give them different priorities, or set policy.inherit = false.", policyNames(foreign), m.name)
	}
	for _, other := range foreign {
		lost := m.lostKeys(other, f)
		if len(lost) == 0 {
			continue
		}
		advice := ""
		if m.existing && !inherits && len(m.chain.inheritable(other)) > 0 {
			advice = " Set policy.inherit = true to carry over what does not concern dead-lettering."
		}
		p.warnf("policy", "Policy Displaced",
			"The chain's policy takes the place of policy %q on the queue %q, because RabbitMQ applies only one. These settings of it "+
				"are no longer in effect there: %s.%s",
			other.Name, m.name, lost.Text(), advice)
	}
}

// lostKeys are the settings of a displaced policy that nobody carries over and
// that somebody may miss.
func (m member) lostKeys(displaced topology.Policy, f Features) topology.Arguments {
	lost := displaced.Definition.Clone()
	switch {
	case !m.existing: // a shield keeps away what endangers messages on purpose
		maps.DeleteFunc(lost, func(key string, value any) bool { return m.harm(key, value, f) != "" })
	case m.chain.Policy.Inherit:
		inherited := m.chain.inheritable(displaced)
		maps.DeleteFunc(lost, func(key string, _ any) bool { _, kept := inherited[key]; return kept })
	}
	return lost
}

func policyNames(policies []topology.Policy) string {
	names := make([]string, 0, len(policies))
	for _, p := range policies {
		names = append(names, fmt.Sprintf("%q", p.Name))
	}
	return strings.Join(names, ", ")
}

// checkKeys looks for keys that lose messages of the queue or break the chain.
func (m member) checkKeys(p *problems, policies []topology.Policy, f Features) {
	for _, policy := range policies {
		for _, key := range slices.Sorted(maps.Keys(policy.Definition)) {
			value := policy.Definition[key]
			effect := m.harm(key, value, f)
			if effect == "" {
				continue
			}
			p.errorf(m.attribute(), "Policy Endangers Messages",
				"The %s %q sets %s on the %s %q: %s. %s",
				policy.Kind(), policy.Name, topology.Arguments{key: value}.Text(), m.role, m.name, effect, m.wayOut(policy))
			p.from(policy)
		}
	}
}

// wayOut says what can be done about a policy.
func (m member) wayOut(policy topology.Policy) string {
	narrow := fmt.Sprintf("Narrow its pattern %q so that it does not match this queue, or remove the key", policy.Pattern)
	switch {
	case policy.Operator:
		return narrow + "; a policy of the chain cannot shield from an operator policy."
	case policy.Name == m.chain.AttachPolicy():
		return "The key is inherited: remove it from the displaced policy, or set policy.inherit = false."
	case m.existing:
		return narrow + "."
	case m.chain.Shared:
		return narrow + ", or give this queue a harmless policy of higher priority."
	case m.chain.Policy.Shield:
		return narrow + fmt.Sprintf(", or set policy.priority above %d.", policy.Priority)
	default:
		return narrow + fmt.Sprintf(", or set policy = { shield = true, priority = %d }.", max(DefaultPriority, policy.Priority+1))
	}
}

// harm says what a key of a policy does to messages of the queue that must not
// be, or returns "". All of it was seen on 3.10.8, 4.0.5 and 4.3.6.
func (m member) harm(key string, value any, f Features) string {
	if topology.Unreachable(key, value) {
		return ""
	}
	n, isNumber := value.(int64)
	switch key {
	case topology.KeyExpires:
		if m.role == workRole && m.existing {
			return "" // its owner's own decision
		}
		return HarmOfExpires(n)
	case topology.KeyDeadLetterRoutingKey:
		return m.harmOfRoutingKey(value)
	case topology.KeyOverflow:
		return m.harmOfOverflow(value)
	case topology.KeyDelayedRetryType, topology.KeyDelayedRetryMin, topology.KeyDelayedRetryMax:
		return m.harmOfDelayedRetry(key, value)
	case topology.KeyDeliveryLimit:
		if isNumber && n >= 0 {
			return m.harmOfDeliveryLimit(n, f)
		}
		return m.harmToWork(key, f)
	}
	switch m.role {
	case parkingRole, storeRole:
		return HarmToStore(key, n)
	case tierRole:
		return HarmToTier(key, n, m.delay)
	default:
		return m.harmToWork(key, f)
	}
}

func (m member) harmOfDeliveryLimit(n int64, f Features) string {
	ramp := m.ramp()
	switch {
	case ramp != nil && n < int64(len(ramp)):
		return fmt.Sprintf("messages get %d attempts and not %d", n+1, len(ramp)+1)
	case m.stores():
		return HarmOfDeliveryLimit(n)
	default:
		return m.harmToWork(topology.KeyDeliveryLimit, f)
	}
}

// ramp are the delays for which the queue itself holds messages back, nil if it
// does not.
func (m member) ramp() []time.Duration {
	if m.role != workRole || !m.chain.design().HoldsBack() || len(m.chain.Delays) == 0 {
		return nil
	}
	return m.chain.Delays
}

// harmOfDelayedRetry: the type of a policy wins over the queue's, and of the
// times the shorter one (rabbit_quorum_queue:get_delayed_retry_config/1, 4.3).
func (m member) harmOfDelayedRetry(key string, value any) string {
	ramp := m.ramp()
	if ramp == nil {
		return ""
	}
	n, isNumber := value.(int64)
	switch {
	case key == topology.KeyDelayedRetryType && value != delayedRetryAll:
		return "messages come back at once that should wait"
	case key == topology.KeyDelayedRetryMin && isNumber && n != ramp[0].Milliseconds(),
		key == topology.KeyDelayedRetryMax && isNumber && n < ramp[len(ramp)-1].Milliseconds():
		return fmt.Sprintf("messages wait for other times than [%s]", quoted(ramp))
	default:
		return ""
	}
}

func (m member) atLeastOnce() bool {
	return !m.stores() && m.kind == topology.Quorum && m.chain.DeadLetterStrategy == AtLeastOnce
}

func (m member) harmOfOverflow(value any) string {
	switch {
	case m.atLeastOnce() && value != topology.RejectPublish:
		return HarmOfFallback
	case m.role == workRole && !m.existing && m.chain.Work.Overflow != "": // its own argument wins
		return ""
	case m.role == workRole && m.kind == topology.Classic && value != topology.DropHead:
		return HarmOfRefusal
	default:
		return ""
	}
}

func (m member) harmOfRoutingKey(value any) string {
	switch {
	case m.chain.Shared:
		return m.harmOfOrigin(value)
	case m.stores(), m.role == tierRole && m.chain.design().KeyCounts: // there its own argument wins
		return ""
	case m.chain.design().KeyCounts:
		return "with strategy \"routing_key\" this key counts the attempts, and messages would go round for ever"
	default:
		return "consumers would get retried messages with this routing key in place of their own"
	}
}

// harmOfOrigin concerns the routing key of shared tiers, which names the queue
// to which a message returns.
func (m member) harmOfOrigin(value any) string {
	switch {
	case m.stores(), value == m.name, m.role == workRole && !m.existing: // there its own argument wins
		return ""
	case m.role == workRole:
		return "this key has to be the name of the queue, by which messages find their way back from the tiers"
	default:
		return "messages lose the name of the queue that they came from, and are parked or go to another one"
	}
}

// harmToWork concerns brokers that cannot tell a rejected message from one that
// died otherwise.
func (m member) harmToWork(key string, f Features) string {
	if m.role != workRole || !m.chain.confusesDeaths(f) {
		return ""
	}
	switch key {
	case topology.KeyMessageTTL, topology.KeyMaxLength, topology.KeyMaxLengthBytes, topology.KeyDeliveryLimit:
		return "before RabbitMQ 3.13 strategy \"routing_key\" cannot tell a message that dies for this reason from a rejected one, and " +
			"it would be lost later"
	default:
		return ""
	}
}
