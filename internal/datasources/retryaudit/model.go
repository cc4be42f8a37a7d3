package retryaudit

import (
	"cmp"
	"regexp"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
)

type model struct {
	VHost           types.String `tfsdk:"vhost"`
	NamePattern     types.String `tfsdk:"name_pattern"`
	IgnoreRules     types.Set    `tfsdk:"ignore_rules"`
	MinimumSeverity types.String `tfsdk:"minimum_severity"`

	BrokerVersion types.String `tfsdk:"broker_version"`
	Findings      types.List   `tfsdk:"findings"`
	Counts        types.Object `tfsdk:"counts"`
}

var (
	objectTypes  = map[string]attr.Type{"kind": types.StringType, "name": types.StringType}
	findingTypes = map[string]attr.Type{
		"severity": types.StringType, "rule": types.StringType, "object": types.ObjectType{AttrTypes: objectTypes},
		"message": types.StringType, "fix": types.StringType, "source": types.StringType,
	}
	countTypes = map[string]attr.Type{"error": types.Int64Type, "warning": types.Int64Type, "info": types.Int64Type}
)

// wanted says of a finding whether the configuration asks for it. The pattern is one
// that the validator has accepted.
func (m model) wanted() func(f audit.Finding) bool {
	minimum := audit.Severity(cmp.Or(m.MinimumSeverity.ValueString(), string(audit.Info)))
	pattern := regexp.MustCompile(m.NamePattern.ValueString())
	ignored := m.IgnoreRules.Elements()
	return func(f audit.Finding) bool {
		named := pattern.MatchString(f.Object.Name) || slices.ContainsFunc(f.Queues, pattern.MatchString)
		return f.Severity.AtLeast(minimum) && named && !slices.Contains(ignored, attr.Value(types.StringValue(f.Rule)))
	}
}

// show fills in what was found.
func (m *model) show(version string, findings []audit.Finding) {
	counts := map[audit.Severity]int64{}
	values := []attr.Value{}
	wanted := m.wanted()
	for _, f := range findings {
		if !wanted(f) {
			continue
		}
		counts[f.Severity]++
		values = append(values, types.ObjectValueMust(findingTypes, map[string]attr.Value{
			"severity": types.StringValue(string(f.Severity)),
			"rule":     types.StringValue(f.Rule),
			"object": types.ObjectValueMust(objectTypes, map[string]attr.Value{
				"kind": types.StringValue(f.Object.Kind), "name": types.StringValue(f.Object.Name),
			}),
			"message": types.StringValue(f.Message),
			"fix":     types.StringValue(f.Fix),
			"source":  types.StringValue(f.Source),
		}))
	}
	m.BrokerVersion = types.StringValue(version)
	m.Findings = types.ListValueMust(types.ObjectType{AttrTypes: findingTypes}, values)
	m.Counts = types.ObjectValueMust(countTypes, map[string]attr.Value{
		"error":   types.Int64Value(counts[audit.Error]),
		"warning": types.Int64Value(counts[audit.Warning]),
		"info":    types.Int64Value(counts[audit.Info]),
	})
}
