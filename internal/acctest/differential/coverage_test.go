package differential

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// compositions are what the simulator is compared with brokers in, and whether a
// broker supports it.
func compositions(f retry.Features) map[string]bool {
	supported := map[string]bool{
		"graph": true, "network quorum": true, "network classic": true,
		"shared tiers quorum": f.LastDeathHeaders, "shared tiers classic": f.LastDeathHeaders,
		"shared, existing=true": f.LastDeathHeaders, "shared, existing=false": f.LastDeathHeaders,
		"delayed_exchange quorum": !f.NoMnesia, "delayed_exchange classic": !f.NoMnesia,
	}
	for strategy, possible := range map[retry.Strategy]bool{
		retry.Headers: f.LastDeathHeaders, retry.RoutingKey: true, retry.Republish: true, retry.DelayedRetry: f.DelayedRetry,
	} {
		for _, kind := range []topology.QueueType{topology.Quorum, topology.Classic} {
			for _, existing := range []bool{false, true} {
				classic := kind == topology.Classic
				name := fmt.Sprintf("%s %s existing=%t", strategy, kind, existing)
				supported[name] = possible && (!classic || strategy != retry.DelayedRetry)
			}
		}
	}
	return supported
}

// compositionsOf are those of a case.
func compositionsOf(c testCase) []string {
	words := strings.Fields(c.name)
	switch words[0] {
	case "graph":
		return words[:1]
	case "network", "delayed_exchange":
		return []string{words[0] + " " + words[1]}
	case "shared":
		of := []string{strings.Join(words[:3], " ")}
		for _, existing := range []string{"existing=true", "existing=false"} {
			if strings.Contains(c.name, existing) {
				of = append(of, "shared, "+existing)
			}
		}
		return of
	}
	existing := words[len(words)-4] // before "with seed 1"
	return []string{strings.Join([]string{words[0], words[1], existing}, " ")}
}

// TestEveryCompositionIsDrawn: with the default number of cases every composition
// that a broker supports is compared with it.
func TestEveryCompositionIsDrawn(t *testing.T) {
	const cases = 64
	for _, text := range []string{"3.10.8", "4.0.5", "4.3.6"} {
		version, err := abilities.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all, f := journeys(t, version, 1, cases), retry.FeaturesOf(version)
		if !f.NoMnesia {
			all = append(all, draws(t, 1, cases, "d", version, heldBackCase)...)
		}
		drawn := map[string]bool{}
		for _, c := range all {
			for _, name := range compositionsOf(c) {
				drawn[name] = true
			}
		}
		for name, supported := range compositions(f) {
			if drawn[name] != supported {
				t.Errorf("%s, %s: drawn %t, supported %t", text, name, drawn[name], supported)
			}
		}
	}
}

// TestHeldBackCasesEnd plays the cases of strategy "delayed_exchange" in the
// simulator alone: every message is acknowledged or parked in the end.
func TestHeldBackCasesEnd(t *testing.T) {
	version, err := abilities.Parse("4.2.9")
	if err != nil {
		t.Fatal(err)
	}
	waited := false
	for _, c := range draws(t, 1, 64, "d", version, heldBackCase) {
		b, err := simulator.New(c.topology, simulator.Options{Version: version.String()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.run(&simulated{broker: b}); err != nil {
			t.Fatal(err)
		}
		for id, fates := range b.Account() {
			for _, fate := range fates {
				if fate.State != simulator.IsAcked {
					t.Errorf("%s: message %d is %s\n%s", c.name, id, fate, trace(b))
				}
			}
		}
		waited = waited || strings.Contains(trace(b), string(simulator.HeldBack))
	}
	if !waited {
		t.Error("no message was held back")
	}
}
