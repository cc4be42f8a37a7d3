// Package protocol calls a provider as Terraform does, inside the process of
// the test: it proposes new states, and it refuses plans and results that
// Terraform would refuse. A thousand plans take about a tenth of a second.
package protocol

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Unknown stands for a value that is known only after apply.
const Unknown = unknown("known after apply")

type unknown string

// Server is a provider.
type Server struct {
	tfprotov6.ProviderServer
	schemas *tfprotov6.GetProviderSchemaResponse
}

// State is a resource in Terraform's state. The zero value stands for one that
// does not exist.
type State struct {
	Value   tftypes.Value
	Private []byte
}

// Plan is a planned change of a resource.
type Plan struct {
	Config, Prior, Planned tftypes.Value
	Private                []byte
	// Replace lists the attributes whose change needs a new resource.
	Replace     []string
	Diagnostics Diagnostics
}

// New wraps a provider.
func New(t testing.TB, provider tfprotov6.ProviderServer) *Server {
	t.Helper()
	schemas, err := provider.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	if err != nil || len(schemas.Diagnostics) > 0 {
		t.Fatal(err, Diagnostics(schemas.Diagnostics))
	}
	return &Server{ProviderServer: provider, schemas: schemas}
}

// Schemas returns what the provider offers.
func (s *Server) Schemas() *tfprotov6.GetProviderSchemaResponse { return s.schemas }

// Configure validates and configures the provider.
func (s *Server) Configure(t testing.TB, config map[string]any) Diagnostics {
	t.Helper()
	packed := dynamic(t, s.schemas.Provider, config)
	validated, err := s.ValidateProviderConfig(t.Context(), &tfprotov6.ValidateProviderConfigRequest{Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	if found := Diagnostics(validated.Diagnostics); len(found.Errors()) > 0 {
		return found
	}
	configured, err := s.ConfigureProvider(t.Context(), &tfprotov6.ConfigureProviderRequest{TerraformVersion: "1.11.4", Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	return configured.Diagnostics
}

// Validate validates the configuration of a resource.
func (s *Server) Validate(t testing.TB, resource string, config map[string]any) Diagnostics {
	t.Helper()
	schema := s.schemas.ResourceSchemas[resource]
	resp, err := s.ValidateResourceConfig(t.Context(), &tfprotov6.ValidateResourceConfigRequest{
		TypeName: resource, Config: dynamic(t, schema, config),
	})
	if err != nil {
		t.Fatal(err)
	}
	return resp.Diagnostics
}

// Plan plans a change of a resource from its state to a configuration; a nil
// configuration destroys it. The test fails when Terraform would call the plan
// invalid.
func (s *Server) Plan(t testing.TB, resource string, config map[string]any, prior State) Plan {
	t.Helper()
	schema := s.schemas.ResourceSchemas[resource]
	ty := schema.ValueType()
	plan := Plan{Config: value(t, ty, config), Prior: prior.Value}
	if config == nil {
		plan.Config = tftypes.NewValue(ty, nil)
	}
	if prior.Value.Type() == nil {
		plan.Prior = tftypes.NewValue(ty, nil)
	}
	resp, err := s.PlanResourceChange(t.Context(), &tfprotov6.PlanResourceChangeRequest{
		TypeName: resource, PriorState: pack(t, ty, plan.Prior), Config: pack(t, ty, plan.Config), PriorPrivate: prior.Private,
		ProposedNewState: pack(t, ty, proposed(schema.Block.Attributes, plan.Prior, plan.Config)),
	})
	if err != nil {
		t.Fatal(err)
	}
	plan.Diagnostics, plan.Private = resp.Diagnostics, resp.PlannedPrivate
	for _, path := range resp.RequiresReplace {
		plan.Replace = append(plan.Replace, pathText(path))
	}
	if len(plan.Diagnostics.Errors()) > 0 {
		return plan
	}
	plan.Planned = unpack(t, ty, resp.PlannedState)
	for _, problem := range invalid(schema.Block.Attributes, plan.Prior, plan.Config, plan.Planned, "") {
		t.Errorf("Terraform would call this plan a bug of the provider: %s", problem)
	}
	return plan
}

// Apply carries out a plan. The test fails when Terraform would call the result
// inconsistent with the plan.
func (s *Server) Apply(t testing.TB, resource string, plan Plan) (State, Diagnostics) {
	t.Helper()
	schema := s.schemas.ResourceSchemas[resource]
	ty := schema.ValueType()
	resp, err := s.ApplyResourceChange(t.Context(), &tfprotov6.ApplyResourceChangeRequest{
		TypeName: resource, PriorState: pack(t, ty, plan.Prior), PlannedState: pack(t, ty, plan.Planned),
		Config: pack(t, ty, plan.Config), PlannedPrivate: plan.Private,
	})
	if err != nil {
		t.Fatal(err)
	}
	result := State{Value: unpack(t, ty, resp.NewState), Private: resp.Private}
	diagnostics := Diagnostics(resp.Diagnostics)
	if len(diagnostics.Errors()) == 0 {
		for _, problem := range inconsistent(plan.Planned, result.Value, "") {
			t.Errorf("Terraform would call this result a bug of the provider: %s", problem)
		}
	}
	return result, diagnostics
}

// Read refreshes a resource.
func (s *Server) Read(t testing.TB, resource string, state State) (State, Diagnostics) {
	t.Helper()
	ty := s.schemas.ResourceSchemas[resource].ValueType()
	resp, err := s.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: resource, CurrentState: pack(t, ty, state.Value), Private: state.Private,
	})
	if err != nil {
		t.Fatal(err)
	}
	return State{Value: unpack(t, ty, resp.NewState), Private: resp.Private}, resp.Diagnostics
}

// ReadData validates the configuration of a data source and reads it.
func (s *Server) ReadData(t testing.TB, source string, config map[string]any) (tftypes.Value, Diagnostics) {
	t.Helper()
	schema := s.schemas.DataSourceSchemas[source]
	packed := dynamic(t, schema, config)
	validated, err := s.ValidateDataResourceConfig(t.Context(), &tfprotov6.ValidateDataResourceConfigRequest{
		TypeName: source, Config: packed,
	})
	if err != nil {
		t.Fatal(err)
	}
	if found := Diagnostics(validated.Diagnostics); len(found.Errors()) > 0 {
		return tftypes.Value{}, found
	}
	resp, err := s.ReadDataSource(t.Context(), &tfprotov6.ReadDataSourceRequest{TypeName: source, Config: packed})
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, schema.ValueType(), resp.State), resp.Diagnostics
}

// Import imports a resource by its identifier or, when that is empty, by its
// identity, and reads it.
func (s *Server) Import(t testing.TB, resource, id string, identity map[string]any) (State, Diagnostics) {
	t.Helper()
	req := &tfprotov6.ImportResourceStateRequest{TypeName: resource, ID: id}
	if id == "" {
		ty := s.identityType(t, resource)
		req.Identity = &tfprotov6.ResourceIdentityData{IdentityData: pack(t, ty, value(t, ty, identity))}
	}
	resp, err := s.ImportResourceState(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	diagnostics := Diagnostics(resp.Diagnostics)
	if len(diagnostics.Errors()) > 0 || len(resp.ImportedResources) != 1 {
		return State{}, diagnostics
	}
	imported := resp.ImportedResources[0]
	ty := s.schemas.ResourceSchemas[resource].ValueType()
	read, err := s.ReadResource(t.Context(), &tfprotov6.ReadResourceRequest{
		TypeName: resource, CurrentState: imported.State, Private: imported.Private, CurrentIdentity: imported.Identity,
	})
	if err != nil {
		t.Fatal(err)
	}
	diagnostics = append(diagnostics, read.Diagnostics...)
	return State{Value: unpack(t, ty, read.NewState), Private: read.Private}, diagnostics
}

func (s *Server) identityType(t testing.TB, resource string) tftypes.Type {
	t.Helper()
	resp, err := s.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		t.Fatal(err)
	}
	return resp.IdentitySchemas[resource].ValueType()
}

func dynamic(t testing.TB, schema *tfprotov6.Schema, config map[string]any) *tfprotov6.DynamicValue {
	t.Helper()
	ty := schema.ValueType()
	return pack(t, ty, value(t, ty, config))
}

func pack(t testing.TB, ty tftypes.Type, v tftypes.Value) *tfprotov6.DynamicValue {
	t.Helper()
	packed, err := tfprotov6.NewDynamicValue(ty, v)
	if err != nil {
		t.Fatal(err)
	}
	return &packed
}

func unpack(t testing.TB, ty tftypes.Type, packed *tfprotov6.DynamicValue) tftypes.Value {
	t.Helper()
	if packed == nil {
		return tftypes.NewValue(ty, nil)
	}
	v, err := packed.Unmarshal(ty)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Known is the plan as Terraform applies it once values that were unknown have
// become known: the planned state takes them over.
func (s *Server) Known(t testing.TB, resource string, plan Plan, config map[string]any) Plan {
	t.Helper()
	schema := s.schemas.ResourceSchemas[resource]
	plan.Config = value(t, schema.ValueType(), config)
	plan.Planned = fill(plan.Planned, plan.Config)
	return plan
}
