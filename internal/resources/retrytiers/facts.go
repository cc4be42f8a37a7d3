package retrytiers

import (
	"context"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// factsKey is where the private state keeps the facts.
const factsKey = "broker"

// facts are what a plan has to know of the broker. A refresh writes them into
// the private state, where every later plan finds the same.
type facts struct {
	// Version of the broker at the last refresh.
	Version string `json:"version"`
	// Features that the tiers are made for.
	Features retry.Features `json:"features"`
	// Drained: the refresh found a draining tier empty.
	Drained bool `json:"drained,omitempty"`
}

func (r *tiersResource) liveFacts(ctx context.Context) (*facts, error) {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &facts{Version: info.Version.String(), Features: retry.FeaturesOf(info.Version.AtLeast)}, nil
}

// problems are those that need no look into the virtual host.
func (f *facts) problems(c retry.Chain) []retry.Problem {
	problems := c.SharedProblems()
	if f != nil {
		problems = append(problems, retry.SharedBrokerProblems("name", f.Version, f.Features)...)
	}
	return problems
}
