package protocol

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// ValidateData validates the configuration of a data source.
func (s *Server) ValidateData(t testing.TB, name string, config map[string]any) Diagnostics {
	t.Helper()
	resp, err := s.ValidateDataResourceConfig(t.Context(), &tfprotov6.ValidateDataResourceConfigRequest{
		TypeName: name, Config: dynamic(t, s.schemas.DataSourceSchemas[name], config),
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Diagnostics
}

// OpenEphemeral validates and opens an ephemeral resource.
func (s *Server) OpenEphemeral(t testing.TB, name string, config map[string]any) (tftypes.Value, Diagnostics) {
	t.Helper()
	schema := s.schemas.EphemeralResourceSchemas[name]
	packed := dynamic(t, schema, config)
	validated, err := s.ValidateEphemeralResourceConfig(t.Context(), &tfprotov6.ValidateEphemeralResourceConfigRequest{
		TypeName: name, Config: packed,
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := Diagnostics(validated.Diagnostics); len(found.Errors()) > 0 {
		return tftypes.Value{}, found
	}
	resp, err := s.OpenEphemeralResource(t.Context(), &tfprotov6.OpenEphemeralResourceRequest{TypeName: name, Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, schema.ValueType(), resp.Result), resp.Diagnostics
}
