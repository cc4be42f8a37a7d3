package delaynetwork

import (
	"context"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// factsKey is where the private state keeps the facts.
const factsKey = "broker"

// facts are what a plan has to know of the broker. A refresh writes them into
// the private state, where every later plan finds the same.
type facts struct {
	// Features that the network is made for.
	Features retry.Features `json:"features"`
	// Imported: no apply has looked at the network since it was imported. If
	// something is missing, a create was broken off.
	Imported bool `json:"imported,omitempty"`
}

func (r *networkResource) liveFacts(ctx context.Context) (*facts, error) {
	info, err := r.data.Client.Info(ctx)
	if err != nil {
		return nil, err
	}
	return &facts{Features: retry.FeaturesOf(info.Version.AtLeast)}, nil
}
