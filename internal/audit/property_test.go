package audit_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// rulesOf are the rules of which one must have a finding when a message is lost
// for the cause.
var rulesOf = map[string][]string{
	simulator.NoDeadLetterExchange: {"no_dead_letter_exchange", "expiry_without_dlx"},
	simulator.MissingExchange:      {"missing_dead_letter_exchange"},
	simulator.NoRoute:              {"dead_letter_no_route"},
	simulator.Cycle:                {"dead_letter_cycle"},
}

// TestEveryLossIsFound makes any topology of four queues, publishes a message to
// each, rejects it once where it does not expire, and waits. What the simulator
// loses, the audit must have found, and it names the queue that loses it or,
// for a cycle, one that it goes through.
func TestEveryLossIsFound(t *testing.T) {
	t.Parallel()
	losses := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		version := rapid.SampledFrom(versions).Draw(rt, "version")
		in := anyTopology(rt)
		findings := run(t, in, on(t, version))
		for _, q := range in.Queues() {
			for _, loss := range lose(rt, in, version, q.Name) {
				losses[loss.Cause]++
				if !explained(findings, loss) {
					rt.Fatalf("%s: a message published for %s was lost (%+v), and the audit says only %v", version, q.Name, loss, findings)
				}
			}
		}
	})
	t.Log(losses)
	for cause := range rulesOf {
		if losses[cause] == 0 {
			t.Errorf("no message was lost because of %q", cause)
		}
	}
}

func explained(findings []audit.Finding, loss simulator.Loss) bool {
	return slices.ContainsFunc(findings, func(f audit.Finding) bool {
		return slices.Contains(rulesOf[loss.Cause], f.Rule) && (f.Object.Name == loss.Queue || loss.Cause == simulator.Cycle)
	}) || loss.Cause == simulator.NoDeadLetterExchange && loss.Reason == simulator.Rejected
}

// anyTopology has queues that are bound to the direct exchange "in" by their
// names, and dead-letter exchanges that lead to some of them.
func anyTopology(rt *rapid.T) *topology.Topology {
	in := topology.New()
	names := []string{"a", "b", "c", "d"}
	in.SetExchange(topology.Exchange{Name: "in", Type: topology.Direct})
	in.SetExchange(topology.Exchange{Name: "direct", Type: topology.Direct})
	in.SetExchange(topology.Exchange{Name: "fanout", Type: topology.Fanout})
	if rapid.Bool().Draw(rt, "alternate") {
		in.SetExchange(topology.Exchange{Name: "direct", Type: topology.Direct, Arguments: args{topology.AlternateExchange: "fanout"}})
	}
	for _, name := range names {
		arguments := args{}
		if exchange := rapid.SampledFrom([]string{"none", "", "direct", "fanout", "missing"}).Draw(rt, "exchange of "+name); exchange != "none" {
			arguments[topology.DeadLetterExchange] = exchange
			if key := rapid.SampledFrom(append([]string{"none", "other"}, names...)).Draw(rt, "key of "+name); key != "none" {
				arguments[topology.DeadLetterRoutingKey] = key
			}
		}
		if rapid.Bool().Draw(rt, "expiry of "+name) {
			arguments[topology.MessageTTL] = int64(1000)
		}
		kind := rapid.SampledFrom([]topology.QueueType{topology.Classic, topology.Quorum}).Draw(rt, "type of "+name)
		in.SetQueue(queue(name, kind, arguments))
		in.Bind(topology.Binding{Source: "in", Destination: name, DestinationKind: topology.KindQueue, RoutingKey: name})
	}
	for _, source := range []string{"direct", "fanout"} {
		for _, target := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(rt, "from "+source) {
			key := rapid.SampledFrom(names).Draw(rt, "binding key")
			in.Bind(topology.Binding{Source: source, Destination: target, DestinationKind: topology.KindQueue, RoutingKey: key})
		}
	}
	return in
}

// lose sends one message on its way and returns where it was lost.
func lose(rt *rapid.T, in *topology.Topology, version, name string) []simulator.Loss {
	b, err := simulator.New(in, simulator.Options{Version: version})
	if err != nil {
		rt.Fatal(err)
	}
	receipt, err := b.Publish(simulator.Publishing{Exchange: "in", RoutingKey: name})
	if err != nil {
		rt.Fatal(err)
	}
	if q, _ := in.Queue(name); q.Arguments[topology.MessageTTL] == nil {
		d, ok := b.Get(name)
		if !ok {
			rt.Fatalf("nothing in %s", name)
		}
		if err := b.Reject(d, false); err != nil {
			rt.Fatal(err)
		}
	}
	b.Advance(time.Minute)
	return b.Losses(receipt.ID)
}
