package attribute

import (
	"github.com/hashicorp/terraform-plugin-framework-jsontypes/jsontypes"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// WorkQueueArguments is the attribute "work_queue_arguments". address is a resource, for
// an example.
func WorkQueueArguments(address string) schema.StringAttribute {
	return schema.StringAttribute{
		Computed: true, CustomType: jsontypes.NormalizedType{},
		MarkdownDescription: "Arguments with which the work queue is declared, as a JSON object with `x-queue-type`. An application " +
			"that declares the same queue must use exactly these: `jsondecode(" + address +
			".work_queue_arguments)`. Null for an application's queue.",
	}
}

// EffectiveLimit is the attribute "effective_delivery_limit".
func EffectiveLimit() schema.Int64Attribute {
	return schema.Int64Attribute{
		Computed: true,
		MarkdownDescription: "Delivery limit with which the queue is declared; `-1` for no limit. Null for a queue that is declared " +
			"without one, and for an application's queue.",
	}
}

// Declared returns the values of both for a queue of the wanted topology, which is nil
// while nobody knows it.
func Declared(wanted *topology.Topology, queue string) (arguments jsontypes.Normalized, limit types.Int64) {
	if wanted == nil {
		return jsontypes.NewNormalizedUnknown(), types.Int64Unknown()
	}
	q, declared := wanted.Queue(queue)
	if !declared {
		return jsontypes.NewNormalizedNull(), types.Int64Null()
	}
	all := q.Arguments.Clone()
	all[topology.QueueTypeArgument] = string(q.Type)
	limit = types.Int64Null()
	if n, limited := q.Arguments.Int(topology.DeliveryLimit); limited {
		limit = types.Int64Value(n)
	}
	return values.ArgumentsValue(all), limit
}
