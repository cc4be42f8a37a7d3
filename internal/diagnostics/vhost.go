package diagnostics

import (
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// IsGone says whether the error tells that the virtual host is certain not to
// exist.
func IsGone(err error) bool {
	var missing *broker.VhostError
	return errors.As(err, &missing) && missing.All && !missing.Exists
}

// AddVHostError adds an error of reading a virtual host, at the attribute vhost
// if that is what is missing. It adds nothing for nil.
func AddVHostError(diags *diag.Diagnostics, err error) {
	switch {
	case err == nil:
		return
	case !isMissing(err):
		AddError(diags, "Virtual Host Not Read", err)
		return
	}
	diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
		Sentence(err.Error())+"\n\nIf the same run creates the virtual host, set vhost to a reference to its resource, so that Terraform "+
			"creates it first.")
}

// AddPlanError is [AddVHostError] for the plan of a resource. It only warns if the
// virtual host is certain not to exist: the same run may create it, and the apply
// checks all of it again before its first write. One that this user may only be unable to
// see is an error.
func AddPlanError(diags *diag.Diagnostics, err error) {
	switch {
	case IsGone(err):
		diags.AddAttributeWarning(path.Root("vhost"), "Virtual Host Not Found",
			Sentence(err.Error())+"\n\nThe apply fails unless the same run creates the virtual host first: set vhost to a reference to "+
				"its resource. "+
				"Until then conflicts, permissions and policies cannot be checked; the apply checks them.")
	case isMissing(err):
		diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
			Sentence(err.Error())+"\n\nOnly users with the tag administrator or monitoring can tell the two apart. If the same run "+
				"creates the virtual host, "+
				"refer to it by a value that is known only after apply, such as the id of its resource.")
	default:
		AddVHostError(diags, err)
	}
}

// AddDataError is [AddVHostError] for a data source, which the plan must read.
func AddDataError(diags *diag.Diagnostics, err error) {
	if !isMissing(err) {
		AddVHostError(diags, err)
		return
	}
	diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
		Sentence(err.Error())+"\n\nA data source is read during the plan. If the same run creates the virtual host, add its resource to "+
			"depends_on: Terraform then reads the data source after it was created.")
}

// isMissing says whether the error tells that the virtual host does not exist, or
// that this user cannot know.
func isMissing(err error) bool {
	var missing *broker.VhostError
	return errors.As(err, &missing) && !missing.Exists
}
