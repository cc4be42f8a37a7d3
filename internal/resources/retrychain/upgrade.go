package retrychain

import (
	"context"
	"encoding/json"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// UpgradeState brings states of earlier versions of the schema up to date.
//
// Version 0 had neither policy nor draining nor count_header nor
// topology.policies.
func (r *chainResource) UpgradeState(context.Context) map[int64]resource.StateUpgrader {
	return map[int64]resource.StateUpgrader{0: {StateUpgrader: upgradeFrom0}}
}

func upgradeFrom0(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
	var state map[string]json.RawMessage
	if err := json.Unmarshal(req.RawState.JSON, &state); err != nil {
		resp.Diagnostics.AddError("State Not Readable", "The state of a retry chain is no JSON object: "+err.Error()+".")
		return
	}
	state["policy"], state["draining"], state["count_header"] = json.RawMessage("null"), json.RawMessage("[]"), json.RawMessage("null")
	var objects map[string]json.RawMessage
	if err := json.Unmarshal(state["topology"], &objects); err == nil && objects != nil {
		objects["policies"] = json.RawMessage("{}")
		if text, err := json.Marshal(objects); err == nil {
			state["topology"] = text
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		resp.Diagnostics.AddError("State Not Upgraded", err.Error())
		return
	}
	resp.DynamicValue = &tfprotov6.DynamicValue{JSON: text}
}
