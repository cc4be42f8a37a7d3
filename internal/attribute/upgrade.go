package attribute

import (
	"encoding/json"
	"strconv"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"
)

// UpgradeOwnership writes ownership for the boolean existing of earlier schemas. A null
// object stays null.
func UpgradeOwnership(queue upgrade.State, owner string) {
	existing, known := queue["existing"].(bool)
	queue.Rename("existing", "ownership")
	if known {
		queue["ownership"] = OwnershipValue(owner, existing).ValueString()
	}
}

// UpgradePolicy writes the object policy for the flat attributes of earlier schemas. One
// that has only defaults is null, as for a configuration without it.
func UpgradePolicy(state upgrade.State) {
	priority, inherit := state["policy_priority"], state["policy_inherit"]
	state.Remove("policy_priority", "policy_inherit")
	state["policy"] = nil
	byDefault := priority == json.Number(strconv.Itoa(retry.DefaultPriority)) && inherit == false
	if priority != nil && inherit != nil && !byDefault {
		state["policy"] = map[string]any{"priority": priority, "inherit": inherit}
	}
}
