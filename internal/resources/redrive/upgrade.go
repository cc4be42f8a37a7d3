package redrive

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// UpgradeState brings states of earlier versions of the schema up to date.
//
// Version 0 kept null as the virtual host of a configuration without one, which was "/".
func (r *messagesResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {StateUpgrader: upgradeFrom0}}
}

func upgradeFrom0(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
	var state map[string]json.RawMessage
	if err := json.Unmarshal(req.RawState.JSON, &state); err != nil {
		resp.Diagnostics.AddError("State Not Readable", "The state of the run is no JSON object: "+err.Error()+".")
		return
	}
	if vhost := state["vhost"]; len(vhost) == 0 || string(vhost) == "null" {
		state["vhost"] = json.RawMessage(`"/"`)
	}
	text, err := json.Marshal(state)
	if err != nil {
		resp.Diagnostics.AddError("State Not Upgraded", err.Error())
		return
	}
	resp.DynamicValue = &tfprotov6.DynamicValue{JSON: text}
}
