package retryattachment

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// UpgradeState brings states of earlier versions of the schema up to date.
func (r *attachmentResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return upgrade.Upgraders(from0)
}

// from0 writes ownership for existing, and policy for policy_priority and
// policy_inherit.
func from0(state upgrade.State) {
	attribute.UpgradeOwnership(state, ownedByAttachment)
	attribute.UpgradePolicy(state)
}
