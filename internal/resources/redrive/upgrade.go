package redrive

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// UpgradeState brings states of earlier versions of the schema up to date.
func (r *messagesResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return upgrade.Upgraders(from0)
}

// from0 writes the virtual host, which was null for "/".
func from0(state upgrade.State) {
	if state != nil && state["vhost"] == nil {
		state["vhost"] = "/"
	}
}
