// Package delaynetwork is the resource rabbitmq_delay_network: its schema, its values and
// its objects. The operations are those of package lifecycle.
package delaynetwork

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
)

var limits = lifecycle.Timeouts{Create: 5 * time.Minute, Read: 2 * time.Minute, Update: 5 * time.Minute, Delete: 5 * time.Minute}

// NewResource returns the resource rabbitmq_delay_network.
func NewResource() resource.Resource {
	return lifecycle.New(lifecycle.Kind{
		Type:     "delay_network",
		Schema:   networkSchema,
		Timeouts: limits,
		New:      func() lifecycle.Model { return &model{} },
		Identity: lifecycle.Identity{
			Parts: []lifecycle.Part{{Name: "name", Description: "Name of the network."}},
			VHost: "Virtual host of the network", Example: "delays@/",
		},
		Words: lifecycle.Words{
			Title: "Delay Network", Noun: "delay network", This: "this delay network",
			NotCreated: "Delay Network Not Created", NotUpdated: "Delay Network Not Updated", NotDeleted: "Delay Network Not Deleted",
			InUse: "Delay Network in Use", Full: "Delay Network Holds Messages", Exists: "Delay Network Already Exists",
			Empty: "Wait until the delays are over, take what is in the queue for unrouted messages",
		},
	})
}
