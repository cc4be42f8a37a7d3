package redrive

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/action/schema"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

var (
	_ action.ActionWithConfigure      = (*messagesAction)(nil)
	_ action.ActionWithValidateConfig = (*messagesAction)(nil)
)

type messagesAction struct {
	kind kind
	data *run.Data
}

// NewRedriveAction returns the action rabbitmq_redrive.
func NewRedriveAction() action.Action { return &messagesAction{kind: redriving} }

// NewDiscardAction returns the action rabbitmq_discard.
func NewDiscardAction() action.Action { return &messagesAction{kind: discarding} }

func (a *messagesAction) Metadata(_ context.Context, req action.MetadataRequest, resp *action.MetadataResponse) {
	resp.TypeName = req.ProviderTypeName + "_" + a.kind.name
}

func (a *messagesAction) Schema(_ context.Context, _ action.SchemaRequest, resp *action.SchemaResponse) {
	resp.Schema = schema.Schema{MarkdownDescription: a.kind.description() + "\n\nIt needs Terraform 1.14 or later; the resource of the " +
		"same name does the same with every CLI.", Attributes: map[string]schema.Attribute{}}
	for name, attribute := range a.kind.inputs() {
		resp.Schema.Attributes[name] = attribute
	}
}

func (a *messagesAction) Configure(_ context.Context, req action.ConfigureRequest, resp *action.ConfigureResponse) {
	a.data = run.FromProvider(req.ProviderData, &resp.Diagnostics)
}

// ValidateConfig reports what is wrong whatever the broker.
func (a *messagesAction) ValidateConfig(ctx context.Context, req action.ValidateConfigRequest, resp *action.ValidateConfigResponse) {
	config := a.kind.read(ctx, req.Config, &resp.Diagnostics)
	if !resp.Diagnostics.HasError() {
		a.kind.check(config, &resp.Diagnostics)
	}
}

// Invoke runs it and sends progress about once per second.
func (a *messagesAction) Invoke(ctx context.Context, req action.InvokeRequest, resp *action.InvokeResponse) {
	config := a.kind.read(ctx, req.Config, &resp.Diagnostics)
	if resp.Diagnostics.HasError() {
		return
	}
	config.vhost = a.data.VHost(config.vhost)
	progress := func(text string) { resp.SendProgress(action.InvokeProgressEvent{Message: text}) }
	a.kind.run(ctx, a.data, config, progress, &resp.Diagnostics)
}
