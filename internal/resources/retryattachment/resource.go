// Package retryattachment is the resource rabbitmq_retry_attachment: its schema, its
// values, its objects, and how a queue is detached. The other operations are those of
// package lifecycle.
package retryattachment

import (
	"time"

	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

var limits = lifecycle.Timeouts{Create: 5 * time.Minute, Read: 2 * time.Minute, Update: 5 * time.Minute, Delete: 10 * time.Minute}

// NewResource returns the resource rabbitmq_retry_attachment.
func NewResource() resource.Resource {
	return lifecycle.New(lifecycle.Kind{
		Type:      "retry_attachment",
		Schema:    attachmentSchema,
		Timeouts:  limits,
		New:       func() lifecycle.Model { return &model{} },
		Upgraders: upgrade.Upgraders(from0),
		Identity: lifecycle.Identity{
			Parts: []lifecycle.Part{{Name: "tiers", Description: "Name of the retry tiers."}, {Name: "queue", Description: "Name of the " +
				"queue."}},
			VHost: "Virtual host of the tiers and the queue", Example: "retries/orders@/",
		},
		Words: lifecycle.Words{
			Title: "Attachment", Noun: "attachment of the queue", This: "this attachment",
			NotCreated: "Queue Not Attached", NotUpdated: "Attachment Not Updated", NotDeleted: "Queue Not Detached",
			InUse: "Queue in Use", Full: "Queue Holds Messages", Exists: "Attachment Already Exists",
			Conflict: "If the queue belongs to an application, set ownership = \"application\".",
			Empty:    "Stop publishers, let the consumers finish and stop them",
		},
	})
}
