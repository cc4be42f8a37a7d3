package attribute

import (
	"fmt"
	"maps"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Policy is the attribute "policy" of a resource that sets policies. withShield: the
// resource can set a shield.
type Policy struct{ withShield bool }

// The forms of the attribute.
var (
	ChainPolicy      = Policy{withShield: true}
	AttachmentPolicy = Policy{}
)

// Types are the types of the parts.
func (p Policy) Types() map[string]attr.Type {
	parts := map[string]attr.Type{"priority": types.Int64Type, "inherit": types.BoolType}
	if p.withShield {
		parts["shield"] = types.BoolType
	}
	return parts
}

// Schema is the definition.
func (p Policy) Schema(description string) schema.Attribute {
	parts := map[string]schema.Attribute{
		"priority": schema.Int64Attribute{
			Optional: true, Computed: true,
			MarkdownDescription: fmt.Sprintf("Priority of the policies that the resource sets. It must be above that of every other "+
				"policy that matches the queues. Default: `%d`.",
				retry.DefaultPriority),
		},
		"inherit": schema.BoolAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "If `true`, the policy of an application's queue copies the keys of the policy that it replaces, " +
				"except those of dead-lettering, and follows their changes with every apply. Default: `false`.",
		},
	}
	if p.withShield {
		parts["shield"] = schema.BoolAttribute{
			Optional: true, Computed: true,
			MarkdownDescription: "If `true`, adds a policy that changes nothing and overrides other user policies on the queues that " +
				"the resource declares. It does not help against operator policies. Needs a user with the tag `policymaker`. Default: " +
				"`false`.",
		}
	}
	return schema.SingleNestedAttribute{Optional: true, Computed: true, MarkdownDescription: description, Attributes: parts}
}

// Complete fills in the defaults of a policy that is configured, and leaves out one that
// is not.
func (p Policy) Complete(configured types.Object) types.Object {
	if configured.IsUnknown() || configured.IsNull() {
		return configured
	}
	parts := maps.Clone(configured.Attributes())
	for name, value := range p.defaults() {
		if parts[name].IsNull() {
			parts[name] = value
		}
	}
	return types.ObjectValueMust(p.Types(), parts)
}

func (p Policy) defaults() map[string]attr.Value {
	return p.parts(retry.PolicySettings{Priority: retry.DefaultPriority})
}

func (p Policy) parts(settings retry.PolicySettings) map[string]attr.Value {
	parts := map[string]attr.Value{"priority": types.Int64Value(settings.Priority), "inherit": types.BoolValue(settings.Inherit)}
	if p.withShield {
		parts["shield"] = types.BoolValue(settings.Shield)
	}
	return parts
}

// Settings converts a policy to the domain. A null one has the defaults.
func (p Policy) Settings(value types.Object) retry.PolicySettings {
	parts := value.Attributes()
	settings := retry.PolicySettings{
		Priority: retry.DefaultPriority,
		Inherit:  values.Part[types.Bool](parts, "inherit").ValueBool(),
		Shield:   values.Part[types.Bool](parts, "shield").ValueBool(),
	}
	if priority := values.Part[types.Int64](parts, "priority"); !priority.IsNull() {
		settings.Priority = priority.ValueInt64()
	}
	return settings
}

// Value writes settings. It is null for those that are all as they are by default.
func (p Policy) Value(settings retry.PolicySettings) types.Object {
	if settings.Priority == retry.DefaultPriority && !settings.Inherit && !settings.Shield {
		return types.ObjectNull(p.Types())
	}
	return types.ObjectValueMust(p.Types(), p.parts(settings))
}
