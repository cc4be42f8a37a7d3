package retryaudit

import (
	"context"
	"fmt"
	"regexp"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/attribute"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
)

func (d *auditDataSource) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Reads every way in which a virtual host can lose messages, hold them up or send them round indefinitely, " +
			"from its exchanges, queues, bindings, policies and shovels. No message is looked at and nothing is changed.",
		Attributes: map[string]schema.Attribute{
			"vhost": schema.StringAttribute{
				Optional: true, Computed: true, MarkdownDescription: "Virtual host." + attribute.DefaultVHost,
				Validators: []validator.String{stringvalidator.LengthAtLeast(1)},
			},
			"name_pattern": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Regular expression (RE2, anywhere in the name) for the names of objects. A finding about several " +
					"queues is kept for each of them. Findings on other objects are left out; the rules look at the whole virtual host " +
					"all the same. Default: every name.",
				Validators: []validator.String{regularExpression{}},
			},
			"ignore_rules": schema.SetAttribute{
				Optional: true, ElementType: types.StringType, MarkdownDescription: "Rules whose findings are left out, by the names in " +
					"the table below. Default: none.",
				Validators: []validator.Set{setvalidator.ValueStringsAre(stringvalidator.OneOf(ruleNames()...))},
			},
			"minimum_severity": schema.StringAttribute{
				Optional: true, MarkdownDescription: "`error`, `warning` or `info`: findings that are less severe are left out. Default: " +
					"`info`.",
				Validators: []validator.String{stringvalidator.OneOf(severityNames()...)},
			},
			"broker_version": schema.StringAttribute{
				Computed: true, MarkdownDescription: "Version of RabbitMQ that the rules were applied for.",
			},
			"counts": schema.SingleNestedAttribute{
				Computed: true, MarkdownDescription: "Number of findings by severity.",
				Attributes: map[string]schema.Attribute{
					"error":   schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of errors."},
					"warning": schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of warnings."},
					"info":    schema.Int64Attribute{Computed: true, MarkdownDescription: "Number of remarks."},
				},
			},
			"findings": schema.ListNestedAttribute{
				Computed: true, MarkdownDescription: "What was found, the most severe first, then by rule and object.",
				NestedObject: schema.NestedAttributeObject{Attributes: findingAttributes()},
			},
		},
	}
}

func findingAttributes() map[string]schema.Attribute {
	return map[string]schema.Attribute{
		"severity": schema.StringAttribute{
			Computed: true,
			MarkdownDescription: "`error`: messages are lost, or stop for good, whenever the case occurs. `warning`: messages may be " +
				"lost, or a setting does not do what it seems to. `info`: worth knowing, often so on purpose.",
		},
		"rule": schema.StringAttribute{Computed: true, MarkdownDescription: "Name of the rule."},
		"object": schema.SingleNestedAttribute{
			Computed: true, MarkdownDescription: "What the finding is about.",
			Attributes: map[string]schema.Attribute{
				"kind": schema.StringAttribute{Computed: true, MarkdownDescription: "`queue`, `exchange`, `binding`, `policy`, `operator " +
					"policy`, `shovel` or `broker`."},
				"name": schema.StringAttribute{
					Computed: true,
					MarkdownDescription: "Name of the object. That of a binding is `source -> destination` with its routing key and " +
						"headers; that of a broker is a deprecated feature, or `shovels`.",
				},
			},
		},
		"message": schema.StringAttribute{Computed: true, MarkdownDescription: "What happens to a message."},
		"fix":     schema.StringAttribute{Computed: true, MarkdownDescription: "How to mend it."},
		"source": schema.StringAttribute{
			Computed:            true,
			MarkdownDescription: "Part of RabbitMQ, or of its documentation, that the fact comes from, and the versions.",
		},
	}
}

func ruleNames() []string {
	var names []string
	for _, rule := range audit.Rules() {
		names = append(names, rule.ID)
	}
	return names
}

func severityNames() []string {
	var names []string
	for _, severity := range audit.Severities() {
		names = append(names, string(severity))
	}
	return names
}

// regularExpression checks that a string is a regular expression.
type regularExpression struct{}

func (regularExpression) Description(context.Context) string {
	return "value must be a regular expression"
}

func (r regularExpression) MarkdownDescription(ctx context.Context) string { return r.Description(ctx) }

func (regularExpression) ValidateString(_ context.Context, req validator.StringRequest, resp *validator.StringResponse) {
	if req.ConfigValue.IsNull() || req.ConfigValue.IsUnknown() {
		return
	}
	if _, err := regexp.Compile(req.ConfigValue.ValueString()); err != nil {
		resp.Diagnostics.AddAttributeError(req.Path, "Invalid Regular Expression",
			fmt.Sprintf("%s. The syntax is that of RE2, as in Terraform's function regex.", err))
	}
}
