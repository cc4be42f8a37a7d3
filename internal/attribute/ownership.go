// Package attribute is what several resources have in common of their schemas: the
// definition of an attribute, its Go type, and its defaults.
package attribute

import (
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// Application says in an attribute "ownership" that an application declares the queue.
// The other value is the kind of resource that declares it.
const Application = "application"

// Ownership is the attribute "ownership" of a queue that the resource declares, or that
// it finds. owner is the value by which the resource declares it.
func Ownership(owner, description string) schema.StringAttribute {
	return schema.StringAttribute{
		Optional: true, Computed: true,
		MarkdownDescription: description + " Default: `" + owner + "`.",
		Validators:          []validator.String{stringvalidator.OneOf(owner, Application)},
	}
}

// OwnershipValue writes who declares a queue.
func OwnershipValue(owner string, application bool) types.String {
	if application {
		return types.StringValue(Application)
	}
	return types.StringValue(owner)
}

// IsApplication says whether an application is known to declare the queue.
func IsApplication(ownership types.String) bool { return ownership.ValueString() == Application }
