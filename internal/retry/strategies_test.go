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
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// genRepublished is a chain of strategy "republish", whose dead letters of every
// kind go through a process.
func genRepublished() *rapid.Generator[target] {
	return genTarget(withoutLimits, func(t *rapid.T, c *retry.Chain) {
		c.Strategy, c.CountHeader = retry.Republish, rapid.SampledFrom([]string{"count", "attempts so far"}).Draw(t, "header")
	})
}

// republish does what the process of strategy "republish" does with one failed
// message, and returns false when there is none. published, if given, learns as
// which message it goes on.
func republish(t reporter, b *simulator.Broker, c retry.Chain, published ...func(before, after simulator.ID)) bool {
	t.Helper()
	d, ok := b.Get(c.FailedQueue())
	if !ok {
		return false
	}
	headers := topology.Arguments{}
	for key, value := range d.Headers {
		if !strings.HasPrefix(key, "x-") {
			headers[key] = value
		}
	}
	count, _ := headers[c.CountHeader].(int64)
	headers[c.CountHeader] = count + 1
	id := publish(t, b, simulator.Publishing{Exchange: c.RetryExchange(), RoutingKey: d.RoutingKey, Headers: headers, Body: d.Body})
	for _, f := range published {
		f(d.ID, id)
	}
	settle(t, b.Ack(d))
	return true
}

// Each failure moves the message one tier on; after the last it is parked, with
// its own key and headers.
func TestPropertyRepublishedMessageVisitsEveryTierThenParks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genRepublished().Draw(t, "target")
		c := x.chain
		b := newBroker(t, x.version, x.withSources())
		publish(t, b, simulator.Publishing{RoutingKey: c.Work.Name, Headers: topology.Arguments{"tenant": "t1"}})
		deliveries := 0
		for range 200 {
			if d, ok := b.Get(c.Work.Name); ok {
				deliveries++
				settle(t, b.Reject(d, false))
			} else if !republish(t, b, c) && !b.AdvanceToNextExpiry() {
				break
			}
		}
		if deliveries != c.Attempts() {
			t.Fatalf("%d deliveries, want %d", deliveries, c.Attempts())
		}
		parked, ok := b.Get(c.Parking.Name)
		if !ok || parked.RoutingKey != c.Work.Name || parked.Headers["tenant"] != "t1" || parked.Headers[c.CountHeader] != int64(c.Attempts()) {
			t.Fatalf("parked: %v %+v", ok, parked)
		}
		if lost := lossesOf(b); len(lost) > 0 {
			t.Fatalf("lost %v\n%s", lost, journey(b, lost[0]))
		}
	})
}

// Minus one, a string and no count at all are parked.
func TestRepublishParksWhatItDoesNotKnow(t *testing.T) {
	for name, headers := range map[string]topology.Arguments{
		"minus one": {"count": int64(-1)}, "text": {"count": "1"}, "too high": {"count": int64(3)}, "none": {},
	} {
		t.Run(name, func(t *testing.T) {
			x := target{version: "4.0.5", chain: republished()}
			b := newBroker(t, x.version, x.topology())
			id := publish(t, b, simulator.Publishing{Exchange: x.chain.RetryExchange(), Headers: headers})
			isOnlyIn(t, b, id, x.chain.Parking.Name)
		})
	}
}

func republished() retry.Chain {
	c := orders()
	c.Strategy, c.CountHeader, c.Delays = retry.Republish, "count", []time.Duration{time.Second, time.Minute}
	return c
}

// Changes of the delays lose nothing, however often the process takes part.
func TestPropertyRepublishedChangesLoseNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genRepublished().Draw(t, "target")
		after := x
		after.chain.Delays = genOtherDelays(t, x.chain.Delays)
		if len(errorsOf(after.chain, after.version)) > 0 {
			t.Skip("the new delays collide with a name")
		}
		b := newBroker(t, x.version, x.withSources())
		work := genTraffic()
		work.Draw(t, "before").run(t, b, x.chain)
		makeChange(t, b, x, after, -1, func() {
			work.Draw(t, "between").run(t, b, x.chain)
			republish(t, b, x.chain)
		})
		for republish(t, b, after.chain) || b.AdvanceToNextExpiry() {
		}
		removeEmpty(t, b, after)
		wantComplete(t, b, after)
		if lost := lossesOf(b); len(lost) > 0 {
			t.Fatalf("lost %v\n%s", lost, journey(b, lost[0]))
		}
	})
}

func genRamped() *rapid.Generator[target] {
	return rapid.Custom(func(t *rapid.T) target {
		x := target{version: "4.3.6", chain: orders()}
		c := &x.chain
		c.Strategy, c.QueueType, c.DeadLetterStrategy = retry.DelayedRetry, topology.Quorum, retry.AtLeastOnce
		c.Work.Overflow, c.Work.DeliveryLimit = topology.RejectPublish, nil
		step := time.Duration(rapid.Int64Range(1, 100_000).Draw(t, "ms")) * time.Millisecond
		most := step + time.Duration(rapid.Int64Range(0, 1_000_000).Draw(t, "more"))*time.Millisecond
		n := rapid.IntRange(0, retry.MaxTiers).Draw(t, "delays")
		c.Delays = []time.Duration{}
		for i := range n {
			c.Delays = append(c.Delays, min(time.Duration(i+1)*step, most))
		}
		if n == 0 {
			c.Work.DeliveryLimit = new(int64(20))
		}
		return x
	})
}

func TestPropertyRampsAreAccepted(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genRamped().Draw(t, "target")
		if found := errorsOf(x.chain, x.version); len(found) > 0 {
			t.Fatalf("%v", found)
		}
		if len(x.chain.Delays) < 2 {
			return
		}
		i := rapid.IntRange(1, len(x.chain.Delays)-1).Draw(t, "at")
		x.chain.Delays = slices.Clone(x.chain.Delays)
		x.chain.Delays[i] += 100_000_000 * time.Millisecond // no ramp grows like that
		if len(errorsOf(x.chain, x.version)) == 0 && i < len(x.chain.Delays)-1 {
			t.Fatalf("%v was accepted", x.chain.Delays)
		}
	})
}

// What the error shows in place of delays that are no ramp is one, of as many
// delays, and starts and ends as they do where a ramp can.
func TestPropertyNearestRampIsOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genRamped().Draw(t, "target")
		x.chain.Work.DeliveryLimit = nil
		x.chain.Delays = genDelays().Filter(func(d []time.Duration) bool { return len(d) > 0 }).Draw(t, "delays")
		found := errorsOf(x.chain, x.version)
		if len(found) == 0 {
			return
		}
		_, after, _ := strings.Cut(found[0].Detail, "can do are [")
		list, _, shown := strings.Cut(after, "]")
		if found[0].Attribute != "delays" || !shown {
			t.Fatalf("%v", found)
		}
		delays := x.chain.Delays
		x.chain.Delays = nil
		for text := range strings.SplitSeq(list, ", ") {
			d, err := retry.ParseDuration(strings.Trim(text, `"`))
			if err != nil {
				t.Fatalf("%v", err)
			}
			x.chain.Delays = append(x.chain.Delays, d)
		}
		if again := errorsOf(x.chain, x.version); len(again) > 0 {
			t.Fatalf("%v is refused, and its nearest ramp %v as well: %v", delays, x.chain.Delays, again)
		}
		first, last := delays[0], delays[len(delays)-1]
		most := time.Duration(len(delays)) * x.chain.Delays[0]
		if n := len(delays); len(x.chain.Delays) != n || x.chain.Delays[0] != max(first, time.Millisecond) ||
			x.chain.Delays[n-1] != max(x.chain.Delays[0], min(last, most)) {
			t.Fatalf("%v is not near %v", x.chain.Delays, delays)
		}
	})
}

// Brokers before 4.3.1 take the arguments and ignore them, or refuse the keys in
// a policy (4.3.0).
func TestDelayedRetryByVersion(t *testing.T) {
	c := orders()
	c.Strategy, c.Work.DeliveryLimit, c.Delays = retry.DelayedRetry, nil, []time.Duration{time.Second, 2 * time.Second}
	for version, supported := range map[string]bool{
		"3.10.8": false, "3.13.7": false, "4.0.5": false, "4.2.9": false, "4.3.0": false, "4.3.1": true, "4.3.6": true, "4.4.0": true,
	} {
		found := errorsOf(c, version)
		if supported != (len(found) == 0) {
			t.Errorf("%s: %v", version, found)
		}
		if !supported && !strings.Contains(found[0].Detail, "needs RabbitMQ 4.3.1 or later: earlier versions take the arguments and ignore them, so that messages would come back at once. This broker runs "+version) {
			t.Errorf("%s: %v", version, found)
		}
	}
}

// The chain is read back from the arguments of its work queue.
func TestPropertyRampIsReadBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := genRamped().Draw(t, "target")
		if rapid.Bool().Draw(t, "existing") {
			x.chain.Work = retry.WorkQueue{Name: "orders", Existing: true, Type: topology.Quorum, Arguments: topology.Arguments{}}
		}
		got, f, err := retry.Read("orders", x.withSources(), abilities.MustParse("4.3.6"))
		if err != nil {
			t.Fatalf("%v", err)
		}
		if got.Strategy != retry.DelayedRetry || !reflect.DeepEqual(got.Delays, x.chain.Delays) {
			t.Fatalf("got %s %v, want %v", got.Strategy, got.Delays, x.chain.Delays)
		}
		if d := topology.Diff(got.Topology(f), x.topology()); !d.Empty() {
			t.Fatalf("the chain that was read has another topology: missing\n%s\nextra\n%s", text(d.Missing), text(d.Extra))
		}
	})
}

func TestRepublishedChainIsReadBack(t *testing.T) {
	c := republished()
	in := c.Topology(retry.FeaturesOf(abilities.MustParse("4.3.6")))
	got, _, err := retry.Read("orders", in, abilities.MustParse("4.3.6"))
	if err != nil {
		t.Fatal(err)
	}
	if got.Strategy != retry.Republish || got.CountHeader != "count" || !reflect.DeepEqual(got.Delays, c.Delays) {
		t.Errorf("got %+v", got)
	}
}

func TestStrategyProblems(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*retry.Chain)
		want   string
	}{
		"no ramp":          {func(c *retry.Chain) { c.Strategy, c.Work.DeliveryLimit = retry.DelayedRetry, nil }, `"5s", "10s", "15s"`},
		"delivery limit":   {func(c *retry.Chain) { c.Strategy = retry.DelayedRetry }, "follows"},
		"header of the x-": {func(c *retry.Chain) { c.Strategy, c.CountHeader = retry.Republish, "x-count" }, "x-"},
		"no header":        {func(c *retry.Chain) { c.Strategy = retry.Republish }, "must not be empty"},
		"header without":   {func(c *retry.Chain) { c.CountHeader = "count" }, "Only strategy"},
		"work queue failed": {func(c *retry.Chain) {
			c.Strategy, c.CountHeader, c.Work.Name = retry.Republish, "count", "orders.failed"
		}, "that the chain declares for its strategy"},
	} {
		t.Run(name, func(t *testing.T) {
			c := orders()
			c.Delays = []time.Duration{5 * time.Second, 30 * time.Second, 5 * time.Minute}
			c.Work.DeliveryLimit = new(int64(20))
			test.change(&c)
			var texts []string
			for _, p := range c.Problems() {
				texts = append(texts, strings.ToLower(p.Summary+" "+p.Detail))
			}
			if all := strings.Join(texts, "\n"); !strings.Contains(all, strings.ToLower(test.want)) {
				t.Errorf("the problems lack %q:\n%s", test.want, all)
			}
		})
	}
}
