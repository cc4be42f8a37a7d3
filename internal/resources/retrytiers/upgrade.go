package retrytiers

import "github.com/retrychain/terraform-provider-rabbitmq/internal/upgrade"

// from0 removes what follows from the delays, and writes the parking queue as an object.
func from0(state upgrade.State) {
	state.Remove("attempts", "total_delay")
	if name, known := state["parking_queue"].(string); known {
		state["parking_queue"] = map[string]any{"name": name}
	}
}
