package delay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func standard() delay.Network {
	return delay.Network{Name: "delays", Unit: delay.DefaultUnit, Levels: delay.DefaultLevels, QueueType: topology.Quorum, DeadLetterStrategy: retry.AtLeastOnce}
}

func TestKey(t *testing.T) {
	n := delay.Network{Unit: time.Second, Levels: 4}
	for _, test := range []struct {
		delay       time.Duration
		destination string
		want, fails string
	}{
		{0, "orders", "0.0.0.0.orders", ""},
		{1, "orders", "0.0.0.1.orders", ""},
		{5 * time.Second, "orders", "0.1.0.1.orders", ""},
		{5*time.Second + time.Millisecond, "eu.orders", "0.1.1.0.eu.orders", ""},
		{15 * time.Second, "1.0", "1.1.1.1.1.0", ""},
		{15*time.Second + 1, "orders", "", "over 15s, the maximum of 4 levels"},
		{-1, "orders", "", "is negative"},
		{0, "", "", "must not be empty"},
		{0, "eu.*", "", `the word "*"`},
		{0, "#.orders", "", `the word "#"`},
		{0, "orders#1.*a", "0.0.0.0.orders#1.*a", ""},
		{0, strings.Repeat("x", 247), "0.0.0.0." + strings.Repeat("x", 247), ""},
		{0, strings.Repeat("x", 248), "", "has 248 bytes; a routing key has at most 255, of which 4 levels leave 247"},
		{0, strings.Repeat("é", 124), "", "has 248 bytes"},
	} {
		key, err := n.Key(test.delay, test.destination)
		switch {
		case test.fails == "" && (err != nil || key != test.want):
			t.Errorf("%s to %q: %q, %v, expected %q", test.delay, test.destination, key, err, test.want)
		case test.fails != "" && (err == nil || !strings.Contains(err.Error(), test.fails)):
			t.Errorf("%s to %q: %q, %v, expected an error with %q", test.delay, test.destination, key, err, test.fails)
		}
	}
}

func TestMaximum(t *testing.T) {
	if got := standard().Maximum(); got != 268_435_455*time.Second {
		t.Errorf("the maximum is %s", got)
	}
}

func TestProblems(t *testing.T) {
	change := func(f func(*delay.Network)) delay.Network {
		n := standard()
		f(&n)
		return n
	}
	for name, test := range map[string]struct {
		network delay.Network
		want    string
	}{
		"standard":        {standard(), ""},
		"smallest":        {change(func(n *delay.Network) { n.Unit, n.Levels = time.Millisecond, 1 }), ""},
		"most levels":     {change(func(n *delay.Network) { n.Unit, n.Levels = time.Millisecond, delay.MaxLevels }), ""},
		"ten years":       {change(func(n *delay.Network) { n.Unit, n.Levels = retry.MaxDelay, 1 }), ""},
		"twice ten years": {change(func(n *delay.Network) { n.Unit, n.Levels = retry.MaxDelay, 2 }), "at most 1 levels"},
		"30 levels":       {change(func(n *delay.Network) { n.Levels = 30 }), "at most 29 levels"},
		"too many levels": {change(func(n *delay.Network) { n.Unit, n.Levels = time.Millisecond, delay.MaxLevels+1 }), "1 to 39 levels"},
		"no level":        {change(func(n *delay.Network) { n.Levels = 0 }), "1 to 39 levels"},
		"no unit":         {change(func(n *delay.Network) { n.Unit = 0 }), "shortest unit is"},
		"no name":         {change(func(n *delay.Network) { n.Name = "" }), "must not be empty"},
		"reserved name":   {change(func(n *delay.Network) { n.Name = "amq.delays" }), "keeps names"},
		"longest name":    {change(func(n *delay.Network) { n.Name = strings.Repeat("x", 246) }), ""},
		"too long a name": {change(func(n *delay.Network) { n.Name = strings.Repeat("x", 247) }), "Choose a shorter name"},
		"classic":         {change(func(n *delay.Network) { n.QueueType = topology.Classic }), "only quorum queues"},
		"classic at most": {change(func(n *delay.Network) { n.QueueType, n.DeadLetterStrategy = topology.Classic, retry.AtMostOnce }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems := test.network.Problems()
			switch {
			case test.want == "" && len(problems) > 0:
				t.Errorf("unexpected: %v", problems)
			case test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Detail, test.want)):
				t.Errorf("%v, expected one problem with %q", problems, test.want)
			}
		})
	}
}

func TestDestinationProblems(t *testing.T) {
	in := standard().Topology(retry.Features{})
	in.SetQueue(topology.Queue{Name: "full", Type: topology.Quorum, Arguments: topology.Arguments{topology.MaxLength: int64(10), topology.Overflow: topology.RejectPublish}})
	in.SetQueue(topology.Queue{Name: "dropping", Type: topology.Quorum, Arguments: topology.Arguments{topology.MaxLength: int64(10)}})
	for name, test := range map[string]struct {
		destination delay.Destination
		want        string
	}{
		"fine":          {delay.Destination{Network: "delays", Levels: 28, Name: "orders", Queue: "orders"}, ""},
		"other levels":  {delay.Destination{Network: "delays", Levels: 20, Name: "orders", Queue: "orders"}, "has 28 levels"},
		"not yet there": {delay.Destination{Network: "others", Levels: 20, Name: "orders", Queue: "orders"}, ""},
		"long name":     {delay.Destination{Network: "delays", Levels: 28, Name: strings.Repeat("x", 200), Queue: "orders"}, "levels leave 199"},
		"wildcard":      {delay.Destination{Network: "delays", Levels: 28, Name: "#", Queue: "orders"}, "stands for other words"},
		"full queue":    {delay.Destination{Network: "delays", Levels: 28, Name: "orders", Queue: "full"}, "refuses messages when it is full"},
		"drop-head":     {delay.Destination{Network: "delays", Levels: 28, Name: "orders", Queue: "dropping"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			problems := append(test.destination.Problems(), test.destination.ExistingProblems(in)...)
			if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Detail, test.want)) {
				t.Errorf("%v, expected %q", problems, test.want)
			}
		})
	}
}

func TestPolicyProblems(t *testing.T) {
	n := standard()
	for name, test := range map[string]struct {
		pattern string
		value   topology.Arguments
		want    string
	}{
		"early":             {"level", topology.Arguments{topology.KeyMessageTTL: int64(1000)}, "delivered too early"},
		"late":              {"level", topology.Arguments{topology.KeyMessageTTL: retry.MaxDelay.Milliseconds()}, ""},
		"unrouted expires":  {"unrouted", topology.Arguments{topology.KeyMessageTTL: int64(1000)}, "deleted after 1s"},
		"queue expires":     {".*", topology.Arguments{topology.KeyExpires: int64(1000)}, "with all its messages"},
		"length":            {"level.3$", topology.Arguments{topology.KeyMaxLength: int64(1000)}, "hold up the whole network"},
		"a chain's shield":  {".*", topology.Arguments{topology.KeyMaxLengthBytes: topology.UnreachableLimit}, ""},
		"key":               {"level", topology.Arguments{topology.KeyDeadLetterRoutingKey: "x"}, "not delivered"},
		"overflow":          {"level", topology.Arguments{topology.KeyOverflow: topology.DropHead}, "falls back"},
		"harmless overflow": {"level", topology.Arguments{topology.KeyOverflow: topology.RejectPublish}, ""},
		"delivery limit":    {"unrouted", topology.Arguments{topology.KeyDeliveryLimit: int64(5)}, "put back"},
		"elsewhere":         {"^orders", topology.Arguments{topology.KeyExpires: int64(1000)}, ""},
	} {
		for _, operator := range []bool{false, true} {
			in := n.Topology(retry.Features{UnlimitedDelivery: true})
			in.SetPolicy(topology.Policy{Name: "p", Operator: operator, Pattern: test.pattern, ApplyTo: topology.ApplyToAll, Definition: test.value})
			problems := n.PolicyProblems(in)
			if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0].Detail, test.want)) {
				t.Errorf("%s: %v, expected one with %q", name, problems, test.want)
			}
		}
	}
}
