package retryattachment

import (
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// from0 writes ownership for existing, and policy for policy_priority and
// policy_inherit. The next refresh fills in what version 0 did not have.
func from0(state upgrade.State) {
	attribute.UpgradeOwnership(state, ownedByAttachment)
	attribute.UpgradePolicy(state)
	state.Add(map[string]any{"effective_delivery_limit": nil, "work_queue_arguments": nil})
}
