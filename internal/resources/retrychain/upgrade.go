package retrychain

import (
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// from0 adds what version 0 did not have: policy, draining, count_header and
// topology.policies.
func from0(state upgrade.State) {
	state.Add(map[string]any{"policy": nil, "draining": []any{}, "count_header": nil})
	state.Object("topology").Add(map[string]any{"policies": map[string]any{}})
}

// from1 removes what follows from other attributes, writes ownership for existing and
// arguments for the headers of a binding, and leaves to the next refresh what version 1
// did not have.
func from1(state upgrade.State) {
	state.Remove("diagram", "attempts", "total_delay")
	state.Add(map[string]any{"work_queue_arguments": nil})
	work, parking := state.Object("work_queue"), state.Object("parking_queue")
	attribute.UpgradeOwnership(work, ownedByChain)
	attribute.UpgradeOwnership(parking, ownedByChain)
	work.Add(map[string]any{"effective_delivery_limit": nil})
	for _, binding := range work.Objects("bindings") {
		binding.Rename("headers", "arguments")
	}
}

// from2 leaves of each tier its queue.
func from2(state upgrade.State) {
	queues := []any{}
	for _, tier := range state.Objects("tiers") {
		queues = append(queues, tier["queue"])
	}
	if state["tiers"] != nil {
		state["tiers"] = queues
	}
}
