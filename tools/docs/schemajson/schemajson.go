// Package schemajson writes the schema of a provider in the format of
// "terraform providers schema -json", without a Terraform CLI.
//
// A CLI leaves out what it does not know: Terraform has resource identity
// from 1.12, list resources and actions from 1.14, and OpenTofu 1.12 has no
// list resources and no actions. What is written here is complete whatever
// is installed.
package schemajson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"github.com/zclconf/go-cty/cty"
)

// formatVersion is the version of the format that current CLIs write.
const formatVersion = "1.0"

// Export asks the server for all of its schemas and returns them under the
// given provider address, such as "registry.terraform.io/hashicorp/random".
// An error diagnostic of the server is an error.
func Export(ctx context.Context, address string, server tfprotov6.ProviderServer) (*tfjson.ProviderSchemas, error) {
	schemas, err := server.GetProviderSchema(ctx, &tfprotov6.GetProviderSchemaRequest{})
	if err != nil {
		return nil, fmt.Errorf("get provider schema: %w", err)
	}
	if err := failure(schemas.Diagnostics); err != nil {
		return nil, fmt.Errorf("get provider schema: %w", err)
	}
	identities, err := server.GetResourceIdentitySchemas(ctx, &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		return nil, fmt.Errorf("get resource identity schemas: %w", err)
	}
	if err := failure(identities.Diagnostics); err != nil {
		return nil, fmt.Errorf("get resource identity schemas: %w", err)
	}
	out, err := providerSchema(schemas, identities)
	if err != nil {
		return nil, err
	}
	return &tfjson.ProviderSchemas{
		FormatVersion: formatVersion,
		Schemas:       map[string]*tfjson.ProviderSchema{address: out},
	}, nil
}

// failure joins the error diagnostics into one error, nil if there are none.
func failure(diagnostics []*tfprotov6.Diagnostic) error {
	var errs []error
	for _, d := range diagnostics {
		if d.Severity != tfprotov6.DiagnosticSeverityError {
			continue
		}
		if d.Attribute != nil {
			errs = append(errs, fmt.Errorf("%s: %s: %s", d.Attribute, d.Summary, d.Detail))
			continue
		}
		errs = append(errs, fmt.Errorf("%s: %s", d.Summary, d.Detail))
	}
	return errors.Join(errs...)
}

func providerSchema(
	in *tfprotov6.GetProviderSchemaResponse, identities *tfprotov6.GetResourceIdentitySchemasResponse,
) (*tfjson.ProviderSchema, error) {
	out := &tfjson.ProviderSchema{}
	var errs [8]error
	out.ConfigSchema, errs[0] = schema(in.Provider)
	out.ResourceSchemas, errs[1] = each("resource", in.ResourceSchemas, schema)
	out.DataSourceSchemas, errs[2] = each("data source", in.DataSourceSchemas, schema)
	out.EphemeralResourceSchemas, errs[3] = each("ephemeral resource", in.EphemeralResourceSchemas, schema)
	out.ListResourceSchemas, errs[4] = each("list resource", in.ListResourceSchemas, schema)
	out.ActionSchemas, errs[5] = each("action", in.ActionSchemas, action)
	out.Functions, errs[6] = each("function", in.Functions, function)
	out.ResourceIdentitySchemas, errs[7] = each("identity of resource", identities.IdentitySchemas, identity)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return out, nil
}

// each converts the values of a map and names kind and key in an error.
func each[In, Out any](kind string, in map[string]In, convert func(In) (Out, error)) (map[string]Out, error) {
	out := make(map[string]Out, len(in))
	for name, value := range in {
		converted, err := convert(value)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", kind, name, err)
		}
		out[name] = converted
	}
	return out, nil
}

func schema(in *tfprotov6.Schema) (*tfjson.Schema, error) {
	if in == nil {
		// A provider without configuration has no schema of its own.
		return &tfjson.Schema{Block: &tfjson.SchemaBlock{}}, nil
	}
	version, err := unsigned("version", in.Version)
	if err != nil {
		return nil, err
	}
	content, err := block(in.Block)
	if err != nil {
		return nil, err
	}
	return &tfjson.Schema{Version: version, Block: content}, nil
}

func action(in *tfprotov6.ActionSchema) (*tfjson.ActionSchema, error) {
	converted, err := schema(in.Schema)
	if err != nil {
		return nil, err
	}
	return &tfjson.ActionSchema{Block: converted.Block}, nil
}

func block(in *tfprotov6.SchemaBlock) (*tfjson.SchemaBlock, error) {
	if in == nil {
		return &tfjson.SchemaBlock{}, nil
	}
	own, err := attributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	out := &tfjson.SchemaBlock{
		Attributes:      own,
		Description:     in.Description,
		DescriptionKind: descriptionKind(in.DescriptionKind),
		Deprecated:      in.Deprecated,
	}
	for _, nested := range in.BlockTypes {
		converted, err := nestedBlock(nested)
		if err != nil {
			return nil, fmt.Errorf("block %s: %w", nested.TypeName, err)
		}
		if out.NestedBlocks == nil {
			out.NestedBlocks = map[string]*tfjson.SchemaBlockType{}
		}
		out.NestedBlocks[nested.TypeName] = converted
	}
	return out, nil
}

func nestedBlock(in *tfprotov6.SchemaNestedBlock) (*tfjson.SchemaBlockType, error) {
	modes := map[tfprotov6.SchemaNestedBlockNestingMode]tfjson.SchemaNestingMode{
		tfprotov6.SchemaNestedBlockNestingModeSingle: tfjson.SchemaNestingModeSingle,
		tfprotov6.SchemaNestedBlockNestingModeList:   tfjson.SchemaNestingModeList,
		tfprotov6.SchemaNestedBlockNestingModeSet:    tfjson.SchemaNestingModeSet,
		tfprotov6.SchemaNestedBlockNestingModeMap:    tfjson.SchemaNestingModeMap,
		tfprotov6.SchemaNestedBlockNestingModeGroup:  tfjson.SchemaNestingModeGroup,
	}
	mode, ok := modes[in.Nesting]
	if !ok {
		return nil, fmt.Errorf("unknown nesting mode %s", in.Nesting)
	}
	least, err := unsigned("minimum number of items", in.MinItems)
	if err != nil {
		return nil, err
	}
	most, err := unsigned("maximum number of items", in.MaxItems)
	if err != nil {
		return nil, err
	}
	content, err := block(in.Block)
	if err != nil {
		return nil, err
	}
	return &tfjson.SchemaBlockType{NestingMode: mode, Block: content, MinItems: least, MaxItems: most}, nil
}

func attributes(in []*tfprotov6.SchemaAttribute) (map[string]*tfjson.SchemaAttribute, error) {
	out := make(map[string]*tfjson.SchemaAttribute, len(in))
	for _, a := range in {
		converted, err := attribute(a)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", a.Name, err)
		}
		out[a.Name] = converted
	}
	return out, nil
}

func attribute(in *tfprotov6.SchemaAttribute) (*tfjson.SchemaAttribute, error) {
	out := &tfjson.SchemaAttribute{
		Description:     in.Description,
		DescriptionKind: descriptionKind(in.DescriptionKind),
		Deprecated:      in.Deprecated,
		Required:        in.Required,
		Optional:        in.Optional,
		Computed:        in.Computed,
		Sensitive:       in.Sensitive,
		WriteOnly:       in.WriteOnly,
	}
	var err error
	// The format has either a type or a nested type, never both.
	if in.NestedType != nil {
		out.AttributeNestedType, err = nestedType(in.NestedType)
	} else {
		out.AttributeType, err = valueType(in.Type)
	}
	if err != nil {
		return nil, err
	}
	return out, nil
}

func nestedType(in *tfprotov6.SchemaObject) (*tfjson.SchemaNestedAttributeType, error) {
	modes := map[tfprotov6.SchemaObjectNestingMode]tfjson.SchemaNestingMode{
		tfprotov6.SchemaObjectNestingModeSingle: tfjson.SchemaNestingModeSingle,
		tfprotov6.SchemaObjectNestingModeList:   tfjson.SchemaNestingModeList,
		tfprotov6.SchemaObjectNestingModeSet:    tfjson.SchemaNestingModeSet,
		tfprotov6.SchemaObjectNestingModeMap:    tfjson.SchemaNestingModeMap,
	}
	mode, ok := modes[in.Nesting]
	if !ok {
		return nil, fmt.Errorf("unknown nesting mode %s", in.Nesting)
	}
	nested, err := attributes(in.Attributes)
	if err != nil {
		return nil, err
	}
	return &tfjson.SchemaNestedAttributeType{Attributes: nested, NestingMode: mode}, nil
}

func identity(in *tfprotov6.ResourceIdentitySchema) (*tfjson.IdentitySchema, error) {
	version, err := unsigned("version", in.Version)
	if err != nil {
		return nil, err
	}
	out := &tfjson.IdentitySchema{
		Version:    version,
		Attributes: make(map[string]*tfjson.IdentityAttribute, len(in.IdentityAttributes)),
	}
	for _, a := range in.IdentityAttributes {
		converted, err := valueType(a.Type)
		if err != nil {
			return nil, fmt.Errorf("attribute %s: %w", a.Name, err)
		}
		out.Attributes[a.Name] = &tfjson.IdentityAttribute{
			IdentityType:      converted,
			Description:       a.Description,
			RequiredForImport: a.RequiredForImport,
			OptionalForImport: a.OptionalForImport,
		}
	}
	return out, nil
}

func function(in *tfprotov6.Function) (*tfjson.FunctionSignature, error) {
	if in.Return == nil {
		return nil, errors.New("it returns nothing")
	}
	result, err := valueType(in.Return.Type)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	out := &tfjson.FunctionSignature{
		Description:        in.Description,
		Summary:            in.Summary,
		DeprecationMessage: in.DeprecationMessage,
		ReturnType:         result,
	}
	for _, p := range in.Parameters {
		converted, err := parameter(p)
		if err != nil {
			return nil, err
		}
		out.Parameters = append(out.Parameters, converted)
	}
	if in.VariadicParameter != nil {
		out.VariadicParameter, err = parameter(in.VariadicParameter)
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func parameter(in *tfprotov6.FunctionParameter) (*tfjson.FunctionParameter, error) {
	converted, err := valueType(in.Type)
	if err != nil {
		return nil, fmt.Errorf("parameter %s: %w", in.Name, err)
	}
	return &tfjson.FunctionParameter{
		Name:        in.Name,
		Description: in.Description,
		IsNullable:  in.AllowNullValue,
		Type:        converted,
	}, nil
}

// valueType converts through JSON, which is how a type travels from a
// provider to a CLI as well: what reads there reads here.
func valueType(in tftypes.Type) (cty.Type, error) {
	if in == nil {
		return cty.NilType, errors.New("it has no type")
	}
	encoded, err := json.Marshal(in)
	if err != nil {
		return cty.NilType, fmt.Errorf("encode type: %w", err)
	}
	var out cty.Type
	if err := json.Unmarshal(encoded, &out); err != nil {
		return cty.NilType, fmt.Errorf("decode type %s: %w", encoded, err)
	}
	return out, nil
}

func descriptionKind(in tfprotov6.StringKind) tfjson.SchemaDescriptionKind {
	if in == tfprotov6.StringKindMarkdown {
		return tfjson.SchemaDescriptionKindMarkdown
	}
	return tfjson.SchemaDescriptionKindPlain
}

func unsigned(what string, in int64) (uint64, error) {
	if in < 0 {
		return 0, fmt.Errorf("negative %s: %d", what, in)
	}
	return uint64(in), nil
}
