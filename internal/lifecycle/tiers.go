package lifecycle

import (
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// TierNames returns the names of the tiers' queues, as the attributes tiers and
// draining have them.
func TierNames(tiers []retry.Tier) types.List {
	names := make([]string, 0, len(tiers))
	for _, tier := range tiers {
		names = append(names, tier.Queue)
	}
	return values.TextList(names)
}

// PlanDraining plans what stays of the tiers that drain. before and planned are
// the topologies of the state and of the plan. When a tier retires now, or the
// last refresh found one empty, only the update can tell, because messages may
// arrive until then. A draining tier that is wanted again drains no more.
func PlanDraining(draining types.List, before, planned types.Object, drained bool) types.List {
	wanted := values.LinesOf(planned).Queues
	isWanted := func(name string) bool { _, is := wanted[name]; return is }
	switch {
	case draining.IsNull():
		return values.TextList(nil)
	case planned.IsUnknown(), drained, !containsAll(wanted, values.LinesOf(before).Queues):
		return types.ListUnknown(types.StringType)
	default:
		return values.TextList(slices.DeleteFunc(values.Texts(draining), isWanted))
	}
}

func containsAll(wanted, have map[string]string) bool {
	for name := range have {
		if _, stays := wanted[name]; !stays {
			return false
		}
	}
	return true
}
