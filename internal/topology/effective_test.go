package topology_test

import (
	"slices"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestEffective(t *testing.T) {
	for name, test := range map[string]struct {
		kind             topology.QueueType
		unlimited        bool
		argument         any
		policy, operator any
		key              string
		want             any
	}{
		"argument alone":                  {argument: int64(5), key: topology.KeyMessageTTL, want: int64(5)},
		"policy alone":                    {policy: int64(5), key: topology.KeyMessageTTL, want: int64(5)},
		"operator alone":                  {operator: int64(5), key: topology.KeyMessageTTL, want: int64(5)},
		"the smallest time-to-live":       {argument: int64(9), policy: int64(5), operator: int64(7), key: topology.KeyMessageTTL, want: int64(5)},
		"the smallest of the operator":    {argument: int64(9), policy: int64(5), operator: int64(3), key: topology.KeyMaxLength, want: int64(3)},
		"argument before policy: DLX":     {argument: "a", policy: "p", key: topology.KeyDeadLetterExchange, want: "a"},
		"argument before policy: classic": {kind: topology.Classic, argument: "drop-head", policy: "reject-publish", key: topology.KeyOverflow, want: "drop-head"},
		"policy before argument: quorum":  {kind: topology.Quorum, argument: "reject-publish", policy: "drop-head", key: topology.KeyOverflow, want: "drop-head"},
		"operator before policy":          {kind: topology.Quorum, policy: "reject-publish", operator: "drop-head", key: topology.KeyOverflow, want: "drop-head"},
		"limit on 3.x":                    {kind: topology.Quorum, argument: int64(-1), policy: int64(5), key: topology.KeyDeliveryLimit, want: int64(-1)},
		"limit on 4.x":                    {kind: topology.Quorum, unlimited: true, argument: int64(-1), policy: int64(5), key: topology.KeyDeliveryLimit, want: int64(5)},
		"smallest limit on 4.x":           {kind: topology.Quorum, unlimited: true, argument: int64(8), policy: int64(5), operator: int64(6), key: topology.KeyDeliveryLimit, want: int64(5)},
		"operator before type":            {kind: topology.Quorum, policy: "all", operator: "disabled", key: topology.KeyDelayedRetryType, want: "disabled"},
		"policy before type":              {kind: topology.Quorum, argument: "failed", policy: "all", key: topology.KeyDelayedRetryType, want: "all"},
		"longest minimum of policies":     {kind: topology.Quorum, policy: int64(5), operator: int64(7), key: topology.KeyDelayedRetryMin, want: int64(7)},
		"smallest minimum":                {kind: topology.Quorum, argument: int64(4), policy: int64(5), operator: int64(7), key: topology.KeyDelayedRetryMin, want: int64(4)},
		"smallest maximum":                {kind: topology.Quorum, argument: int64(9), policy: int64(5), operator: int64(7), key: topology.KeyDelayedRetryMax, want: int64(5)},
	} {
		t.Run(name, func(t *testing.T) {
			in := topology.New()
			q := topology.Queue{Name: "q", Type: test.kind, Arguments: topology.Arguments{}}
			if q.Type == "" {
				q.Type = topology.Classic
			}
			if test.argument != nil {
				q.Arguments["x-"+test.key] = test.argument
			}
			for operator, value := range map[bool]any{false: test.policy, true: test.operator} {
				if value != nil {
					in.SetPolicy(topology.Policy{Name: "p", Operator: operator, Pattern: "^q$", ApplyTo: topology.ApplyToQueues, Definition: topology.Arguments{test.key: value}})
				}
			}
			if got := in.Effective(q, test.unlimited)["x-"+test.key]; got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// TestCandidates: of two policies of one priority RabbitMQ applies either, and one whose
// pattern cannot be read here may not apply at all.
func TestCandidates(t *testing.T) {
	q := topology.Queue{Name: "q", Type: topology.Quorum, Arguments: topology.Arguments{topology.DeliveryLimit: int64(9)}}
	policy := func(name, pattern string, priority, limit int64, operator bool) topology.Policy {
		return topology.Policy{
			Name: name, Operator: operator, Pattern: pattern, ApplyTo: topology.ApplyToQueues, Priority: priority,
			Definition: topology.Arguments{topology.KeyDeliveryLimit: limit},
		}
	}
	for name, test := range map[string]struct {
		policies []topology.Policy
		want     []int64
	}{
		"none":               {nil, []int64{9}},
		"one":                {[]topology.Policy{policy("a", "^q", 0, 5, false)}, []int64{5}},
		"the higher one":     {[]topology.Policy{policy("a", "^q", 0, 5, false), policy("b", "^q", 1, 7, false)}, []int64{7}},
		"either":             {[]topology.Policy{policy("a", "^q", 0, 5, false), policy("b", "q$", 0, 2, false)}, []int64{2, 5}},
		"either operator's":  {[]topology.Policy{policy("a", "^q", 0, 5, true), policy("b", "q$", 0, 2, true)}, []int64{2, 5}},
		"both kinds":         {[]topology.Policy{policy("a", "^q", 0, 8, false), policy("b", "q$", 0, 4, false), policy("c", "q", 0, 6, true)}, []int64{4, 6}},
		"an unknown pattern": {[]topology.Policy{policy("a", `^q\C*$`, 0, 5, false)}, []int64{5, 9}},
	} {
		t.Run(name, func(t *testing.T) {
			in := topology.New()
			for _, p := range test.policies {
				in.SetPolicy(p)
			}
			var got []int64
			for _, effective := range in.Candidates(q, true) {
				limit, _ := effective.Int(topology.DeliveryLimit)
				got = append(got, limit)
			}
			slices.Sort(got)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
