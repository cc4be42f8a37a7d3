// Package retrytiers is the resource rabbitmq_retry_tiers: its schema, its values and its
// objects. The operations are those of package lifecycle.
package retrytiers

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

var limits = lifecycle.Timeouts{Create: 5 * time.Minute, Read: 2 * time.Minute, Update: 5 * time.Minute, Delete: 5 * time.Minute}

// NewResource returns the resource rabbitmq_retry_tiers.
func NewResource() resource.Resource {
	return lifecycle.New(lifecycle.Kind{
		Type:      "retry_tiers",
		Schema:    tiersSchema,
		Timeouts:  limits,
		New:       func() lifecycle.Model { return &model{} },
		Upgraders: upgrade.Upgraders(from0),
		Identity: lifecycle.Identity{
			Parts: []lifecycle.Part{{Name: "name", Description: "Name of the tiers."}},
			VHost: "Virtual host of the tiers", Example: "retries@/",
		},
		Words: lifecycle.Words{
			Title: "Retry Tiers", Noun: "set of retry tiers", Living: "retry tiers", This: "this set of retry tiers",
			NotCreated: "Retry Tiers Not Created", NotUpdated: "Retry Tiers Not Updated", NotDeleted: "Retry Tiers Not Deleted",
			InUse: "Retry Tiers in Use", Full: "Retry Tiers Hold Messages", Exists: "Retry Tiers Already Exist",
			Empty: "Wait until the delays are over, take what is in the parking queue",
		},
	})
}
