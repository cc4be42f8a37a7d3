package retryattachment

import (
	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// from0 writes ownership for existing, and policy for policy_priority and
// policy_inherit.
func from0(state upgrade.State) {
	attribute.UpgradeOwnership(state, ownedByAttachment)
	attribute.UpgradePolicy(state)
}
