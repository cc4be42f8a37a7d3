package retrychain

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
)

// notYet refuses true for "existing": attaching to queues of others needs
// policies, which this version does not manage.
func notYet() validator.Bool { return notYetValidator{} }

type notYetValidator struct{}

func (notYetValidator) Description(context.Context) string         { return "value must be false" }
func (notYetValidator) MarkdownDescription(context.Context) string { return "value must be `false`" }

func (notYetValidator) ValidateBool(_ context.Context, req validator.BoolRequest, resp *validator.BoolResponse) {
	if req.ConfigValue.ValueBool() {
		resp.Diagnostics.AddAttributeError(req.Path, "Existing Queues Not Supported",
			"This version of the provider declares every queue of a chain itself and cannot attach to one that belongs to somebody else. "+
				"Leave \"existing\" out, and choose a queue name that is not taken.\n\nAttribute: "+req.Path.String())
	}
}
