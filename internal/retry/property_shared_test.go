package retry_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// sharedVersions are those on which tiers can be shared.
var sharedVersions = []string{"3.13.7", "4.0.5", "4.2.9", "4.3.6"}

// workQueues have names that a careless key or pattern would mix up.
var workQueues = []string{"orders", "eu.orders", "orders.eu", "#", "retries"}

// sharing is one set of tiers and the queues that are attached to it.
type sharing struct {
	version     string
	tiers       retry.Chain
	attachments []retry.Attachment
}

func genQueueType(t *rapid.T, what string) (topology.QueueType, retry.DeadLetterStrategy) {
	switch rapid.IntRange(0, 2).Draw(t, what) {
	case 0:
		return topology.Classic, retry.AtMostOnce
	case 1:
		return topology.Quorum, retry.AtMostOnce
	default:
		return topology.Quorum, retry.AtLeastOnce
	}
}

func genShared(t *rapid.T) retry.Chain {
	c := retry.NewShared("retries")
	c.Delays = genDelays().Draw(t, "delays")
	c.QueueType, c.DeadLetterStrategy = genQueueType(t, "tiers")
	return c
}

func genSharing(t *rapid.T) sharing {
	s := sharing{version: rapid.SampledFrom(sharedVersions).Draw(t, "version"), tiers: genShared(t)}
	for _, name := range workQueues {
		a := retry.Attachment{
			Tiers: s.tiers.Name, Work: retry.WorkQueue{Name: name, Arguments: topology.Arguments{}},
			Policy: retry.PolicySettings{Priority: retry.DefaultPriority},
		}
		a.QueueType, a.DeadLetterStrategy = genQueueType(t, name)
		if a.QueueType == topology.Quorum {
			a.Work.DeliveryLimit = new(int64(retry.DefaultDeliveryLimit))
		}
		s.attachments = append(s.attachments, a)
	}
	if problems := append(s.tiers.SharedProblems(), retry.SharedBrokerProblems("name", s.version, s.features())...); len(problems) > 0 {
		t.Fatalf("the tiers have problems: %v", problems)
	}
	for _, a := range s.attachments {
		if problems := a.Problems(); len(problems) > 0 {
			t.Fatalf("an attachment has problems: %v", problems)
		}
	}
	return s
}

func (s sharing) features() retry.Features { return featuresOf(s.version) }

// topology is that of the tiers with every queue attached.
func (s sharing) topology() *topology.Topology {
	t := s.tiers.Topology(s.features())
	for _, a := range s.attachments {
		t.Add(a.Topology(s.features()))
	}
	return t
}

// failAll rejects every message wherever it comes, until nothing moves any more,
// and returns the queues of the deliveries of each message.
func failAll(t reporter, b *simulator.Broker) map[simulator.ID][]string {
	t.Helper()
	attempts := map[simulator.ID][]string{}
	for range 10_000 {
		moved := false
		for _, queue := range workQueues {
			for d, ok := b.Get(queue); ok; d, ok = b.Get(queue) {
				attempts[d.ID] = append(attempts[d.ID], queue)
				settle(t, b.Reject(d, false))
				moved = true
			}
		}
		if !moved && !b.AdvanceToNextExpiry() {
			return attempts
		}
	}
	t.Fatalf("messages go round for ever")
	return nil
}

// TestPropertySharedTiersBringBack: every message has all attempts, in its own
// queue and in no other, and is parked once, whatever happened to it before.
func TestPropertySharedTiersBringBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genSharing(t)
		all := s.topology()
		ttl := rapid.Int64Range(0, 1000).Draw(t, "ttl elsewhere")
		for _, to := range workQueues {
			all.SetQueue(topology.Queue{Name: "later " + to, Type: topology.Classic, Durable: true, Arguments: topology.Arguments{
				topology.MessageTTL: ttl, topology.DeadLetterExchange: "", topology.DeadLetterRoutingKey: to,
			}})
		}
		b := newBroker(t, s.version, all)
		from := map[simulator.ID]string{}
		for _, queue := range rapid.SliceOfN(rapid.SampledFrom(workQueues), 1, 12).Draw(t, "messages") {
			entry := rapid.SampledFrom([]string{"", "later "}).Draw(t, "elsewhere first") + queue
			from[publish(t, b, simulator.Publishing{RoutingKey: entry})] = queue
		}
		attempts := failAll(t, b)
		for id, queue := range from {
			isOnlyIn(t, b, id, s.tiers.Parking.Name)
			want := slices.Repeat([]string{queue}, s.tiers.Attempts())
			if !slices.Equal(attempts[id], want) {
				t.Fatalf("a message of %q was delivered at %q, want %q\n%s", queue, attempts[id], want, journey(b, id))
			}
		}
	})
}

// TestPropertySharedTiersParkUnattached: messages of a queue that was detached
// are parked, however many, and those of other queues come back on time.
func TestPropertySharedTiersParkUnattached(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genSharing(t)
		s.tiers.Delays = []time.Duration{time.Second}
		b := newBroker(t, s.version, s.topology())
		detached := s.attachments[0]
		var gone []simulator.ID
		for range 40 { // 32 that cannot be routed stop an at-least-once queue
			gone = append(gone, publish(t, b, simulator.Publishing{RoutingKey: detached.Work.Name}))
			d, _ := b.Get(detached.Work.Name)
			settle(t, b.Reject(d, false))
		}
		actual := detached.Actual(b.Topology())
		for _, stage := range detached.Removal(actual) {
			for _, step := range stage {
				settle(t, b.Apply(step))
			}
		}
		stays := publish(t, b, simulator.Publishing{RoutingKey: s.attachments[1].Work.Name})
		d, _ := b.Get(s.attachments[1].Work.Name)
		settle(t, b.Reject(d, false))
		b.Advance(time.Second)
		isOnlyIn(t, b, stays, s.attachments[1].Work.Name)
		for _, id := range gone {
			isOnlyIn(t, b, id, s.tiers.Parking.Name)
		}
	})
}

// TestPropertySharedTiersChange: the delays change while messages are under way,
// with runs that end anywhere. No message is lost, none gets to another queue, and
// no attachment changes. A message can be doubled when it fails for the first time
// in the moment in which the first tier changes, as in a chain.
func TestPropertySharedTiersChange(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genSharing(t)
		b := newBroker(t, s.version, s.topology())
		from := map[simulator.ID]string{}
		before := s.tiers
		for range rapid.IntRange(1, 4).Draw(t, "changes") {
			for _, queue := range rapid.SliceOfN(rapid.SampledFrom(workQueues), 0, 5).Draw(t, "messages") {
				from[publish(t, b, simulator.Publishing{RoutingKey: queue})] = queue
			}
			after := before
			after.Delays = genDelays().Draw(t, "new delays")
			changeShared(t, b, before, after, s.features(), rapid.IntRange(0, 30).Draw(t, "steps"))
			changeShared(t, b, before, after, s.features(), 1000)
			before = after
			for _, a := range s.attachments {
				if d := topology.Diff(a.Actual(b.Topology()), a.Topology(s.features())); !d.Empty() {
					t.Fatalf("the attachment of %q changed: %+v", a.Work.Name, d)
				}
			}
		}
		attempts := failAll(t, b)
		for id, queue := range from {
			elsewhere := func(fate simulator.Fate) bool {
				return fate.State != simulator.IsReady || fate.Queue != s.tiers.Parking.Name
			}
			if fates := b.Fates(id); len(fates) == 0 || slices.ContainsFunc(fates, elsewhere) {
				t.Fatalf("message %d: %v\n%s", id, fates, journey(b, id))
			}
			if i := slices.IndexFunc(attempts[id], func(at string) bool { return at != queue }); i >= 0 {
				t.Fatalf("a message of %q was delivered at %q", queue, attempts[id][i])
			}
		}
	})
}

// changeShared makes the first steps of a transition, rejecting a message after
// each.
func changeShared(t *rapid.T, b *simulator.Broker, before, after retry.Chain, f retry.Features, most int) {
	t.Helper()
	transition := after.Transition(after.Actual(b.Topology(), f), after.Topology(f), before.Tiers())
	for _, stage := range transition.Stages {
		for _, step := range stage {
			if most--; most < 0 {
				return
			}
			settle(t, b.Apply(step))
			queue := rapid.SampledFrom(workQueues).Draw(t, "queue")
			if d, ok := b.Get(queue); ok {
				settle(t, b.Reject(d, false))
			}
			if rapid.Bool().Draw(t, "time passes") {
				b.AdvanceToNextExpiry()
			}
		}
	}
}

// TestPropertySharedTiersRead: tiers and attachments are read back as they were
// made, from a virtual host that holds both.
func TestPropertySharedTiersRead(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := genSharing(t)
		if len(s.tiers.Delays) == 0 { // nothing on the broker tells their strategy
			s.tiers.DeadLetterStrategy = retry.DefaultDeadLetterStrategy(s.tiers.QueueType)
		}
		existing := retry.Attachment{
			Tiers: s.tiers.Name, Work: retry.WorkQueue{Name: "app", Existing: true, Arguments: topology.Arguments{}},
			Policy: retry.PolicySettings{Priority: rapid.Int64Range(0, 5000).Draw(t, "priority")},
		}
		kind, strategy := genQueueType(t, "existing")
		existing.DeadLetterStrategy = strategy
		in := s.topology()
		in.SetQueue(topology.Queue{Name: "app", Type: kind, Durable: true})
		existing = existing.Within(in)
		in.Add(existing.Topology(s.features()))
		live := abilities.MustParse(s.version)
		tiers, f, err := retry.ReadShared(s.tiers.Name, in, live)
		if err != nil || !reflect.DeepEqual(tiers, s.tiers) {
			t.Fatalf("tiers %+v were read as %+v, %v", s.tiers, tiers, err)
		}
		if d := topology.Diff(tiers.Actual(in, f), tiers.Topology(f)); !d.Empty() {
			t.Fatalf("the plan after an import is not empty: %+v", d)
		}
		for _, a := range append(s.attachments, existing) {
			got, f, err := retry.ReadAttachment(a.Tiers, a.Work.Name, in, live)
			if err != nil || !topology.Diff(got.Topology(f), a.Topology(f)).Empty() {
				t.Fatalf("attachment %+v was read as %+v, %v", a, got, err)
			}
			if d := topology.Diff(got.Actual(in), got.Topology(f)); !d.Empty() {
				t.Fatalf("the plan after an import is not empty: %+v", d)
			}
		}
		if got, want := len(tiers.Attached(in)), len(s.attachments)+2; got != want {
			t.Fatalf("%d attached, want %d: %v", got, want, tiers.Attached(in))
		}
	})
}

// TestSharedTiersNeedLastDeath: older brokers are refused with their version.
func TestSharedTiersNeedLastDeath(t *testing.T) {
	for _, version := range []string{"3.10.8", "3.12.14", "3.13.2"} {
		problems := retry.SharedBrokerProblems("tiers", version, featuresOf(version))
		if len(problems) != 1 || problems[0].Warning {
			t.Errorf("%s: %v", version, problems)
		}
	}
	for _, version := range sharedVersions {
		if problems := retry.SharedBrokerProblems("tiers", version, featuresOf(version)); len(problems) != 0 {
			t.Errorf("%s: %v", version, problems)
		}
	}
}

// TestReadSharedIsNoChain: a retry chain is not read as tiers, nor the other way
// round, nor are tiers that do not exist.
func TestReadSharedIsNoChain(t *testing.T) {
	f := featuresOf("4.0.5")
	live := abilities.MustParse("4.0.5")
	chain := retry.Chain{
		Name: "retries", Delays: []time.Duration{time.Second}, Strategy: retry.Headers, QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce,
		Work: retry.WorkQueue{Name: "retries"}, Parking: retry.ParkingQueue{Name: "retries.parking"},
	}
	if tiers, _, err := retry.ReadShared("retries", chain.Topology(f), live); err == nil {
		t.Errorf("a chain was read as tiers: %+v", tiers)
	}
	shared := retry.NewShared("retries")
	shared.Delays, shared.QueueType, shared.DeadLetterStrategy = chain.Delays, chain.QueueType, chain.DeadLetterStrategy
	if chain, _, err := retry.Read("retries", shared.Topology(f), live); err == nil {
		t.Errorf("tiers were read as a chain: %+v", chain)
	}
	if _, _, err := retry.ReadShared("retries", topology.New(), live); err == nil {
		t.Error("nothing was read as tiers")
	}
	if _, _, err := retry.ReadAttachment("retries", "orders", shared.Topology(f), live); err == nil {
		t.Error("nothing was read as an attachment")
	}
}

// TestAttachmentProblems: what an attachment may not do is named.
func TestAttachmentProblems(t *testing.T) {
	for name, a := range map[string]retry.Attachment{
		"tiers":          {Work: retry.WorkQueue{Name: "orders"}},
		"queue":          {Tiers: "retries", Work: retry.WorkQueue{Name: "retries.parking"}},
		"queue_type":     {Tiers: "retries", Work: retry.WorkQueue{Name: "orders", Existing: true}, QueueType: topology.Classic},
		"delivery_limit": {Tiers: "retries", Work: retry.WorkQueue{Name: "orders", DeliveryLimit: new(int64(3))}, QueueType: topology.Classic},
		"arguments":      {Tiers: "retries", Work: retry.WorkQueue{Name: "orders", Arguments: topology.Arguments{topology.MaxLength: int64(1)}}},
	} {
		problems := a.Problems()
		if len(problems) != 1 || problems[0].Attribute != name {
			t.Errorf("%s: %s", name, fmt.Sprint(problems))
		}
	}
}

// TestAttachmentToAChain: a retry chain is not a set of tiers, whatever its strategy.
func TestAttachmentToAChain(t *testing.T) {
	for _, strategy := range []retry.Strategy{retry.Headers, retry.RoutingKey, retry.Republish, retry.DelayedExchange} {
		c := orders(func(c *retry.Chain) { c.Strategy = strategy })
		a := retry.Attachment{Tiers: c.Name, Work: retry.WorkQueue{Name: "invoices"}, QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce}
		f := featuresOf("4.0.5")
		problems := a.ExistingProblems(c.Topology(f), f)
		if len(problems) != 1 || problems[0].Warning || problems[0].Attribute != "tiers" {
			t.Errorf("%s: %+v", strategy, problems)
		}
		a.Tiers = "retries"
		if problems := a.ExistingProblems(c.Topology(f), f); len(problems) > 0 {
			t.Errorf("no tiers: %+v", problems)
		}
	}
}

// TestAttachmentToTwoTiers: a queue of an application can be in one set of tiers.
func TestAttachmentToTwoTiers(t *testing.T) {
	f := featuresOf("4.0.5")
	in := topology.New()
	in.SetQueue(topology.Queue{Name: "app", Type: topology.Quorum, Durable: true})
	attached := func(tiers string) retry.Attachment {
		in.Add(retry.NewShared(tiers).Topology(f))
		a := retry.Attachment{
			Tiers: tiers, Work: retry.WorkQueue{Name: "app", Existing: true}, DeadLetterStrategy: retry.AtMostOnce,
			Policy: retry.PolicySettings{Priority: retry.DefaultPriority},
		}
		return a.Within(in)
	}
	first := attached("first")
	if problems := first.PolicyProblems(in, f); len(problems) > 0 {
		t.Errorf("the first: %+v", problems)
	}
	in.Add(first.Topology(f))
	problems := attached("second").PolicyProblems(in, f)
	const want = `The queue "app" is attached to the shared tiers "first", whose policy "first.attach.app" this attachment would displace.`
	if len(problems) == 0 || problems[0].Warning || !strings.Contains(problems[0].Detail, want) {
		t.Errorf("the second: %+v", problems)
	}
}
