package redrive

import (
	"context"
	"maps"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

var (
	_ resource.ResourceWithConfigure      = (*messagesResource)(nil)
	_ resource.ResourceWithModifyPlan     = (*messagesResource)(nil)
	_ resource.ResourceWithUpgradeState   = (*messagesResource)(nil)
	_ resource.ResourceWithValidateConfig = (*messagesResource)(nil)
)

type messagesResource struct {
	kind kind
	data *run.Data
}

// NewRedriveResource returns the resource rabbitmq_redrive.
func NewRedriveResource() resource.Resource { return &messagesResource{kind: redriving} }

// NewDiscardResource returns the resource rabbitmq_discard.
func NewDiscardResource() resource.Resource { return &messagesResource{kind: discarding} }

func (r *messagesResource) Metadata(_ context.Context, req resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + r.kind.name
}

func (r *messagesResource) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Version: 1,
		MarkdownDescription: r.kind.description() + "\n\nIt runs when the resource is created, and again whenever an argument or one of " +
			"`triggers` changes, by a replacement. " +
			"A destroy does nothing to messages. With Terraform 1.14 or later the action of the same name does the same without a place " +
			"in the state.",
		Attributes: map[string]schema.Attribute{},
	}
	for name, attribute := range r.configurable() {
		resp.Schema.Attributes[name] = attribute
	}
	for name, attribute := range r.kind.outputs() {
		resp.Schema.Attributes[name] = attribute
	}
}

// configurable are the arguments.
func (r *messagesResource) configurable() map[string]schema.Attribute {
	arguments := map[string]schema.Attribute{}
	for name, attribute := range r.kind.inputs() {
		arguments[name] = attribute
	}
	for name, attribute := range resourceInputs() {
		arguments[name] = attribute
	}
	return arguments
}

func (r *messagesResource) Configure(_ context.Context, req resource.ConfigureRequest, resp *resource.ConfigureResponse) {
	r.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// ValidateConfig reports what is wrong whatever the broker.
func (r *messagesResource) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	config := r.kind.read(ctx, req.Config, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		r.kind.check(config, &resp.Diagnostics)
	}
}

// ModifyPlan makes a replacement of every change.
func (r *messagesResource) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if req.Plan.Raw.IsNull() {
		return // a destroy
	}
	own, before := r.vhost(ctx, req.Config, &resp.Diagnostics), types.StringNull()
	if !req.State.Raw.IsNull() {
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, path.Root("vhost"), &before)...)
	}
	resp.Diagnostics.Append(resp.Plan.SetAttribute(ctx, path.Root("vhost"), r.data.PlannedVHost(own, before))...)
	if req.State.Raw.IsNull() {
		return // a first run
	}
	for _, name := range slices.Sorted(maps.Keys(r.configurable())) {
		var before, after attr.Value
		at := path.Root(name)
		resp.Diagnostics.Append(req.State.GetAttribute(ctx, at, &before)...)
		resp.Diagnostics.Append(resp.Plan.GetAttribute(ctx, at, &after)...)
		if !resp.Diagnostics.HasError() && !before.Equal(after) {
			resp.RequiresReplace = append(resp.RequiresReplace, at)
		}
	}
}

// vhost is the virtual host that a configuration names.
func (r *messagesResource) vhost(ctx context.Context, config tfsdk.Config, diags *diag.Diagnostics) types.String {
	var own types.String
	diags.Append(config.GetAttribute(ctx, path.Root("vhost"), &own)...)
	return own
}

// Create runs it. When that fails, the resource does not exist, and the next
// apply goes on.
func (r *messagesResource) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	plan := r.kind.read(ctx, req.Plan, &resp.Diagnostics)
	plan.vhost = r.data.VHost(r.vhost(ctx, req.Config, &resp.Diagnostics)) // the plan may not have known it
	if resp.Diagnostics.HasError() {
		return
	}
	outcome, ok := r.kind.run(ctx, r.data, plan, nil, &resp.Diagnostics)
	if !ok {
		return
	}
	resp.State.Raw = req.Plan.Raw
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vhost"), plan.vhost)...)
	for name, value := range r.kind.results(outcome) {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
}

// Read keeps what the run reported.
func (r *messagesResource) Read(context.Context, resource.ReadRequest, *resource.ReadResponse) {}

// Update is never called: every change is a replacement.
func (r *messagesResource) Update(context.Context, resource.UpdateRequest, *resource.UpdateResponse) {
}

// Delete leaves the messages where they are.
func (r *messagesResource) Delete(context.Context, resource.DeleteRequest, *resource.DeleteResponse) {
}
