package topology_test

import (
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
