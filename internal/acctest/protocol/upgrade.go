package protocol

import (
	"encoding/json"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Upgrade upgrades a state of an earlier version of the schema, as Terraform does when it
// reads it, and reads the result with the schema of today.
func (s *Server) Upgrade(t testing.TB, name string, version int64, attributes json.RawMessage) (tftypes.Value, Diagnostics) {
	t.Helper()
	resp, err := s.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
		TypeName: name, Version: version, RawState: &tfprotov6.RawState{JSON: attributes},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(resp.Diagnostics) > 0 || resp.UpgradedState == nil {
		return tftypes.Value{}, resp.Diagnostics
	}
	value, err := resp.UpgradedState.Unmarshal(s.schemas.ResourceSchemas[name].ValueType())
	if err != nil {
		return tftypes.Value{}, Diagnostics{{Severity: tfprotov6.DiagnosticSeverityError, Summary: err.Error()}}
	}
	return value, nil
}
