package protocol

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// Diagnostics are a provider's errors and warnings.
type Diagnostics []*tfprotov6.Diagnostic

// Errors returns the errors among them.
func (d Diagnostics) Errors() Diagnostics {
	var errors Diagnostics
	for _, diagnostic := range d {
		if diagnostic.Severity == tfprotov6.DiagnosticSeverityError {
			errors = append(errors, diagnostic)
		}
	}
	return errors
}

// String writes one block per diagnostic: path, summary, text.
func (d Diagnostics) String() string {
	var text strings.Builder
	for _, diagnostic := range d {
		fmt.Fprintf(&text, "%s [%s] %s\n  %s\n", diagnostic.Severity, PathOf(diagnostic), diagnostic.Summary, diagnostic.Detail)
	}
	return text.String()
}

// PathOf writes the path of a diagnostic as HCL does, such as "delays[2]"; it
// is empty for one without.
func PathOf(d *tfprotov6.Diagnostic) string { return pathText(d.Attribute) }

func pathText(path *tftypes.AttributePath) string {
	if path == nil {
		return ""
	}
	var text strings.Builder
	for _, step := range path.Steps() {
		switch step := step.(type) {
		case tftypes.AttributeName:
			text.WriteString("." + string(step))
		case tftypes.ElementKeyInt:
			fmt.Fprintf(&text, "[%d]", int64(step))
		case tftypes.ElementKeyString:
			fmt.Fprintf(&text, "[%q]", string(step))
		default:
			fmt.Fprintf(&text, "[%v]", step)
		}
	}
	return strings.TrimPrefix(text.String(), ".")
}

// proposed merges configuration and prior state as Terraform does: what the
// configuration leaves out of a computed attribute is offered as it was
// (terraform/internal/plans/objchange, ProposedNew).
func proposed(attributes []*tfprotov6.SchemaAttribute, prior, config tftypes.Value) tftypes.Value {
	if config.IsNull() || !config.IsKnown() {
		return config
	}
	before, wanted := parts(prior), parts(config)
	merged := make(map[string]tftypes.Value, len(attributes))
	for _, a := range attributes {
		was, exists := before[a.Name]
		if !exists {
			was = tftypes.NewValue(a.ValueType(), nil)
		}
		merged[a.Name] = proposedAttribute(a, was, wanted[a.Name])
	}
	return tftypes.NewValue(config.Type(), merged)
}

func proposedAttribute(a *tfprotov6.SchemaAttribute, prior, config tftypes.Value) tftypes.Value {
	switch {
	case a.Computed && config.IsNull():
		if a.Optional && holdsConfigured(a, prior) {
			return config
		}
		return prior
	case a.NestedType == nil || config.IsNull() || !config.IsKnown():
		return config
	case a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle:
		return proposed(a.NestedType.Attributes, prior, config)
	}
	before, elements := list(prior), list(config)
	for i, element := range elements {
		var was tftypes.Value
		if i < len(before) {
			was = before[i]
		}
		elements[i] = proposed(a.NestedType.Attributes, was, element)
	}
	return tftypes.NewValue(config.Type(), elements)
}

// holdsConfigured says whether a value has a part that only a configuration can
// have set.
func holdsConfigured(a *tfprotov6.SchemaAttribute, v tftypes.Value) bool {
	if v.IsNull() || !v.IsKnown() {
		return false
	}
	if a.NestedType == nil {
		return !a.Computed
	}
	objects := list(v)
	if a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle {
		objects = []tftypes.Value{v}
	}
	for _, o := range objects {
		values := parts(o)
		for _, nested := range a.NestedType.Attributes {
			if holdsConfigured(nested, values[nested.Name]) {
				return true
			}
		}
	}
	return false
}

// invalid lists what Terraform would refuse in a plan: each value must be the
// configured one or the prior one, unless the configuration leaves it to the
// provider (terraform/internal/plans/objchange, AssertPlanValid).
func invalid(attributes []*tfprotov6.SchemaAttribute, prior, config, planned tftypes.Value, at string) []string {
	if config.IsNull() != planned.IsNull() {
		return []string{fmt.Sprintf("%s: planned %v for %v", at, Go(planned), Go(config))}
	}
	before, wanted, got := parts(prior), parts(config), parts(planned)
	var problems []string
	for _, a := range attributes {
		problems = append(problems, invalidAttribute(a, before[a.Name], wanted[a.Name], got[a.Name], at+"."+a.Name)...)
	}
	return problems
}

func invalidAttribute(a *tfprotov6.SchemaAttribute, prior, config, planned tftypes.Value, at string) []string {
	switch {
	case planned.Equal(config), a.Computed && config.IsNull():
		return nil
	case prior.Type() != nil && planned.Equal(prior) && !config.IsNull() && config.IsKnown():
		return nil
	case a.NestedType == nil || config.IsNull() || !config.IsKnown() || planned.IsNull() || !planned.IsKnown():
		return []string{fmt.Sprintf("%s: planned %v, configured %v", at, Go(planned), Go(config))}
	case a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle:
		return invalid(a.NestedType.Attributes, prior, config, planned, at)
	default:
		return invalidElements(a, prior, config, planned, at)
	}
}

func invalidElements(a *tfprotov6.SchemaAttribute, prior, config, planned tftypes.Value, at string) []string {
	before, wanted, got := list(prior), list(config), list(planned)
	if len(wanted) != len(got) {
		return []string{fmt.Sprintf("%s: planned %d elements, configured %d", at, len(got), len(wanted))}
	}
	var problems []string
	for i := range wanted {
		var was tftypes.Value
		if i < len(before) {
			was = before[i]
		}
		problems = append(problems, invalid(a.NestedType.Attributes, was, wanted[i], got[i], fmt.Sprintf("%s[%d]", at, i))...)
	}
	return problems
}

// inconsistent lists the known parts of a plan that a result does not have
// (terraform/internal/plans/objchange, AssertObjectCompatible).
func inconsistent(planned, result tftypes.Value, at string) []string {
	if !planned.IsKnown() {
		return nil
	}
	if planned.IsFullyKnown() {
		if !planned.Equal(result) {
			return []string{fmt.Sprintf("%s: planned %v, got %v", at, Go(planned), Go(result))}
		}
		return nil
	}
	var problems []string
	got := parts(result)
	for name, part := range parts(planned) {
		problems = append(problems, inconsistent(part, got[name], at+"."+name)...)
	}
	before, after := list(planned), list(result)
	if len(before) != len(after) {
		return []string{fmt.Sprintf("%s: planned %d elements, got %d", at, len(before), len(after))}
	}
	for i := range before {
		problems = append(problems, inconsistent(before[i], after[i], fmt.Sprintf("%s[%d]", at, i))...)
	}
	return problems
}
