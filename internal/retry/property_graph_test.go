package retry_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// genNeighbours adds what else can be in a virtual host: chains whose names are
// made from this one's, and objects of nobody.
func genNeighbours(t *rapid.T, x target) *topology.Topology {
	in := topology.New()
	for _, suffix := range []string{".retry", ".return", ".x", ".retry.first"} {
		if !rapid.Bool().Draw(t, "neighbour "+suffix) {
			continue
		}
		other := x.chain
		other.Name += suffix
		other.Work.Name, other.Work.Bindings = other.Name+" work", nil
		other.Parking.Name = other.Name + ".parking"
		other.Delays = genDelays().Draw(t, "neighbour's delays")
		in.Add(other.Topology(x.features()))
	}
	in.SetQueue(topology.Queue{Name: x.chain.Name + ".retry.report", Type: topology.Classic, Durable: true})
	in.SetExchange(topology.Exchange{Name: x.chain.Name + ".return.desk", Type: topology.Fanout, Durable: true})
	return in
}

func TestPropertyExpansionIsDeterministic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		first := text(x.topology())
		for range 5 {
			if again := text(x.topology()); again != first {
				t.Fatalf("first:\n%s\nthen:\n%s", first, again)
			}
		}
	})
}

func TestPropertyActualOfTheExpansionIsTheExpansion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		in := x.withSources()
		in.Add(genNeighbours(t, x))
		if d := topology.Diff(x.chain.Actual(in, x.features()), x.topology()); !d.Empty() {
			t.Fatalf("missing:\n%s\nextra:\n%s\nchanged: %v %v", text(d.Missing), text(d.Extra), d.Exchanges, d.Queues)
		}
	})
}

func TestPropertyReadGivesTheChainBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		x.exact = true
		in := x.withSources()
		in.Add(genNeighbours(t, x))
		live := abilities.MustParse(x.version)
		got, f, err := retry.Read(x.chain.Name, in, live)
		if err != nil {
			t.Fatalf("%v", err)
		}
		want := canonical(x)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
		if d := topology.Diff(got.Topology(f), x.topology()); !d.Empty() {
			t.Fatalf("the chain that was read has another topology: missing\n%s\nextra\n%s", text(d.Missing), text(d.Extra))
		}
	})
}

// canonical is the chain with what a broker cannot tell apart written in one
// way: without a delivery limit a queue of 3.x looks like one without limit on
// purpose.
func canonical(x target) retry.Chain {
	c := x.chain
	if limit := c.Work.DeliveryLimit; limit != nil && *limit == retry.Unlimited && !x.features().UnlimitedDelivery {
		c.Work.DeliveryLimit = nil
	}
	return c
}

// Changing the delays touches tiers, return exchanges and bindings only.
func TestPropertyDelaysChangeTiersOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		before := genTarget().Draw(t, "target")
		after := before
		after.chain.Delays = genOtherDelays(t, before.chain.Delays)
		if len(errorsOf(after.chain, after.version)) > 0 {
			t.Skip("the new delays collide with a name")
		}
		checkOnlyTiersChange(t, before, after)
	})
}

func genOtherDelays(t *rapid.T, delays []time.Duration) []time.Duration {
	other := slices.Clone(delays)
	for range rapid.IntRange(1, 3).Draw(t, "changes") {
		at := rapid.IntRange(0, len(other)).Draw(t, "at")
		switch rapid.SampledFrom([]string{"add", "remove", "reorder"}).Draw(t, "change") {
		case "add":
			other = slices.Insert(other, at, rapid.SampledFrom(commonDelays).Draw(t, "delay"))
		case "remove":
			if at < len(other) {
				other = slices.Delete(other, at, at+1)
			}
		default:
			other = rapid.Permutation(other).Draw(t, "order")
		}
	}
	return other
}

func checkOnlyTiersChange(t *rapid.T, before, after target) {
	tiers := map[string]bool{}
	returns := map[string]bool{}
	for _, tier := range append(before.chain.Tiers(), after.chain.Tiers()...) {
		tiers[tier.Queue], returns[tier.Return] = true, true
	}
	d := topology.Diff(before.topology(), after.topology())
	if len(d.Queues) > 0 || len(d.Exchanges) > 0 {
		t.Fatalf("changed in place: %v %v", d.Queues, d.Exchanges)
	}
	for _, side := range []*topology.Topology{d.Missing, d.Extra} {
		for _, q := range side.Queues() {
			if !tiers[q.Name] {
				t.Fatalf("queue %q is no tier", q.Name)
			}
		}
		for _, e := range side.Exchanges() {
			if !returns[e.Name] {
				t.Fatalf("exchange %q is no return exchange", e.Name)
			}
		}
	}
	// A delay that stays keeps its tier: the same delays need the same tiers.
	for _, tier := range after.chain.Tiers() {
		if _, isNew := d.Missing.Queue(tier.Queue); isNew && slices.ContainsFunc(before.chain.Tiers(), func(other retry.Tier) bool { return other.Queue == tier.Queue }) {
			t.Fatalf("tier %q is declared again", tier.Queue)
		}
	}
}

// Every name of a chain starts with the chain's name, but for the queues that
// were named on purpose.
func TestPropertyNamesStartWithTheChains(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genTarget().Draw(t, "target")
		for _, name := range slices.Concat(sortedKeys(x.topology().Lines(nil).Exchanges), sortedKeys(x.topology().Lines(nil).Queues)) {
			if name != x.chain.Work.Name && name != x.chain.Parking.Name && !strings.HasPrefix(name, x.chain.Name+".") {
				t.Fatalf("%q", name)
			}
		}
	})
}
