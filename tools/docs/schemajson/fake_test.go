package schemajson_test

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action"
	actionschema "github.com/hashicorp/terraform-plugin-framework/action/schema"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	datasourceschema "github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/ephemeral"
	ephemeralschema "github.com/hashicorp/terraform-plugin-framework/ephemeral/schema"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	listschema "github.com/hashicorp/terraform-plugin-framework/list/schema"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	providerschema "github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// fake is a provider with one object of each kind. Only its schemas are ever
// asked for.
type fake struct {
	// functionless has the provider return a function that the framework
	// refuses, because it returns nothing.
	functionless bool
}

var (
	_ provider.ProviderWithFunctions          = fake{}
	_ provider.ProviderWithEphemeralResources = fake{}
	_ provider.ProviderWithListResources      = fake{}
	_ provider.ProviderWithActions            = fake{}
)

func (fake) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "fake"
}

func (fake) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = providerschema.Schema{
		MarkdownDescription: "A *fake*.",
		Attributes: map[string]providerschema.Attribute{
			"endpoint": providerschema.StringAttribute{Optional: true, Description: "Where it is."},
			"password": providerschema.StringAttribute{Optional: true, Sensitive: true},
		},
	}
}

func (fake) Configure(context.Context, provider.ConfigureRequest, *provider.ConfigureResponse) {}

func (fake) Resources(context.Context) []func() resource.Resource {
	return []func() resource.Resource{func() resource.Resource { return fakeResource{} }}
}

func (fake) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{func() datasource.DataSource { return fakeDataSource{} }}
}

func (fake) EphemeralResources(context.Context) []func() ephemeral.EphemeralResource {
	return []func() ephemeral.EphemeralResource{func() ephemeral.EphemeralResource { return fakeEphemeral{} }}
}

func (fake) ListResources(context.Context) []func() list.ListResource {
	return []func() list.ListResource{func() list.ListResource { return fakeList{} }}
}

func (fake) Actions(context.Context) []func() action.Action {
	return []func() action.Action{func() action.Action { return fakeAction{} }}
}

func (f fake) Functions(context.Context) []func() function.Function {
	return []func() function.Function{func() function.Function { return fakeFunction{empty: f.functionless} }}
}

type fakeResource struct{}

var _ resource.ResourceWithIdentity = fakeResource{}

func (fakeResource) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "fake_thing"
}

func (fakeResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Version:             3,
		MarkdownDescription: "A thing.",
		Attributes: map[string]schema.Attribute{
			"name":   schema.StringAttribute{Required: true, MarkdownDescription: "Its `name`."},
			"id":     schema.StringAttribute{Computed: true, DeprecationMessage: "Use name."},
			"delays": schema.ListAttribute{Required: true, ElementType: types.StringType},
			"labels": schema.MapAttribute{Optional: true, Computed: true, ElementType: types.Int64Type},
			"tags":   schema.SetAttribute{Optional: true, ElementType: types.BoolType},
			"any":    schema.DynamicAttribute{Optional: true},
			"point": schema.ObjectAttribute{Optional: true, AttributeTypes: map[string]attr.Type{
				"x": types.Float64Type, "y": types.ListType{ElemType: types.NumberType},
			}},
			"secret": schema.StringAttribute{Optional: true, Sensitive: true, WriteOnly: true},
			"queue": schema.SingleNestedAttribute{
				Optional: true,
				Attributes: map[string]schema.Attribute{
					"bindings": schema.ListNestedAttribute{
						Optional: true,
						NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
							"exchange": schema.StringAttribute{Required: true},
						}},
					},
				},
			},
			"by_name": schema.MapNestedAttribute{
				Computed: true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"count": schema.Int64Attribute{Computed: true},
				}},
			},
			"unordered": schema.SetNestedAttribute{
				Optional: true,
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"on": schema.BoolAttribute{Optional: true},
				}},
			},
		},
		Blocks: map[string]schema.Block{
			"timeouts": schema.SingleNestedBlock{
				Attributes: map[string]schema.Attribute{"create": schema.StringAttribute{Optional: true}},
			},
			"rule": schema.ListNestedBlock{
				Description: "A rule.",
				NestedObject: schema.NestedBlockObject{
					Attributes: map[string]schema.Attribute{"when": schema.StringAttribute{Optional: true}},
					Blocks: map[string]schema.Block{"deep": schema.SetNestedBlock{
						NestedObject: schema.NestedBlockObject{
							Attributes: map[string]schema.Attribute{"end": schema.StringAttribute{Optional: true}},
						},
					}},
				},
			},
		},
	}
}

func (fakeResource) IdentitySchema(
	_ context.Context, _ resource.IdentitySchemaRequest, resp *resource.IdentitySchemaResponse,
) {
	resp.IdentitySchema = identityschema.Schema{
		Version: 1,
		Attributes: map[string]identityschema.Attribute{
			"name":  identityschema.StringAttribute{RequiredForImport: true, Description: "Its name."},
			"vhost": identityschema.StringAttribute{OptionalForImport: true},
		},
	}
}

func (fakeResource) Create(context.Context, resource.CreateRequest, *resource.CreateResponse) {}
func (fakeResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse)       {}
func (fakeResource) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {}
func (fakeResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {}

type fakeDataSource struct{}

func (fakeDataSource) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "fake_things"
}

func (fakeDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = datasourceschema.Schema{Attributes: map[string]datasourceschema.Attribute{
		"names": datasourceschema.ListAttribute{Computed: true, ElementType: types.StringType},
	}}
}

func (fakeDataSource) Read(context.Context, datasource.ReadRequest, *datasource.ReadResponse) {}

type fakeEphemeral struct{}

func (fakeEphemeral) Metadata(_ context.Context, _ ephemeral.MetadataRequest, resp *ephemeral.MetadataResponse) {
	resp.TypeName = "fake_token"
}

func (fakeEphemeral) Schema(_ context.Context, _ ephemeral.SchemaRequest, resp *ephemeral.SchemaResponse) {
	resp.Schema = ephemeralschema.Schema{Attributes: map[string]ephemeralschema.Attribute{
		"token": ephemeralschema.StringAttribute{Computed: true, Sensitive: true},
	}}
}

func (fakeEphemeral) Open(context.Context, ephemeral.OpenRequest, *ephemeral.OpenResponse) {}

type fakeList struct{}

// Metadata names the resource that is listed: the framework wants both under
// one type name.
func (fakeList) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "fake_thing"
}

func (fakeList) ListResourceConfigSchema(
	_ context.Context, _ list.ListResourceSchemaRequest, resp *list.ListResourceSchemaResponse,
) {
	resp.Schema = listschema.Schema{Attributes: map[string]listschema.Attribute{
		"prefix": listschema.StringAttribute{Optional: true},
	}}
}

func (fakeList) List(context.Context, list.ListRequest, *list.ListResultsStream) {}

type fakeAction struct{}

func (fakeAction) Metadata(_ context.Context, _ action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = "fake_do"
}

func (fakeAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = actionschema.Schema{
		Description: "Does it.",
		Attributes: map[string]actionschema.Attribute{
			"limit": actionschema.Int64Attribute{Required: true},
		},
	}
}

func (fakeAction) Invoke(context.Context, action.InvokeRequest, *action.InvokeResponse) {}

type fakeFunction struct{ empty bool }

func (fakeFunction) Metadata(_ context.Context, _ function.MetadataRequest, resp *function.MetadataResponse) {
	resp.Name = "backoff"
}

func (f fakeFunction) Definition(
	_ context.Context, _ function.DefinitionRequest, resp *function.DefinitionResponse,
) {
	if f.empty {
		return
	}
	resp.Definition = function.Definition{
		Summary:             "Waits.",
		MarkdownDescription: "Longer *waits*.",
		Parameters: []function.Parameter{
			function.StringParameter{Name: "initial", Description: "The first.", AllowNullValue: true},
			function.NumberParameter{Name: "factor"},
		},
		VariadicParameter: function.DynamicParameter{Name: "more"},
		Return:            function.ListReturn{ElementType: types.StringType},
	}
}

func (fakeFunction) Run(context.Context, function.RunRequest, *function.RunResponse) {}
