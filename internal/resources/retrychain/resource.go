// Package retrychain is the resource rabbitmq_retry_chain: its schema, its values and its
// objects. The operations are those of package lifecycle.
package retrychain

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

var limits = lifecycle.Timeouts{Create: 5 * time.Minute, Read: 2 * time.Minute, Update: 10 * time.Minute, Delete: 5 * time.Minute}

// NewResource returns the resource rabbitmq_retry_chain.
func NewResource() resource.Resource {
	return lifecycle.New(lifecycle.Kind{
		Type:      "retry_chain",
		Schema:    chainSchema,
		Timeouts:  limits,
		New:       func() lifecycle.Model { return &model{} },
		Upgraders: upgrade.Upgraders(from0, from1, from2),
		Identity: lifecycle.Identity{
			Parts: []lifecycle.Part{{Name: "name", Description: "Name of the chain."}},
			VHost: "Virtual host of the chain", Example: "orders@/",
		},
		Words: lifecycle.Words{
			Title: "Chain", Noun: "chain", This: "this chain",
			NotCreated: "Chain Not Created", NotUpdated: "Chain Not Updated", NotDeleted: "Chain Not Deleted",
			InUse: "Chain in Use", Full: "Chain Holds Messages", Exists: "Chain Already Exists",
			Conflict: "If a queue belongs to an application, set work_queue.ownership or parking_queue.ownership = \"application\": the " +
				"chain then uses it as it is.",
			Empty: "Consume or move the messages, stop the consumers",
		},
	})
}
