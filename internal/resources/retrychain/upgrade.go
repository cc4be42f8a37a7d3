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

// from1 removes diagram, which is a function since version 2, writes ownership for
// existing, and arguments for the headers of a binding.
func from1(state upgrade.State) {
	state.Remove("diagram")
	work, parking := state.Object("work_queue"), state.Object("parking_queue")
	attribute.UpgradeOwnership(work, ownedByChain)
	attribute.UpgradeOwnership(parking, ownedByChain)
	for _, binding := range work.Objects("bindings") {
		binding.Rename("headers", "arguments")
	}
}
