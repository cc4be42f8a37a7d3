package lifecycle

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

// NamedIdentity is the identity of a resource that has a name in a virtual host.
type NamedIdentity struct {
	VHost types.String `tfsdk:"vhost"`
	Name  types.String `tfsdk:"name"`
}

// ImportByName takes name@vhost or a [NamedIdentity], and leaves the rest to the
// read that follows. example is such an identifier, for the error. An identity without
// a virtual host means the one that a resource without vhost has.
func ImportByName(ctx context.Context, data *run.Data, req resource.ImportStateRequest, resp *resource.ImportStateResponse, example string) {
	var id NamedIdentity
	if req.ID != "" {
		name, vhost, ok := ParseID(req.ID)
		if !ok {
			resp.Diagnostics.AddError("Invalid Import Identifier",
				fmt.Sprintf("%q is not of the form name@vhost, such as %s. Write %%40 for an @ inside the virtual host's name.", req.ID, example))
			return
		}
		id = NamedIdentity{VHost: types.StringValue(vhost), Name: types.StringValue(name)}
	} else {
		resp.Diagnostics.Append(req.Identity.Get(ctx, &id)...)
		id.VHost = data.VHost(id.VHost)
	}
	if !run.KnowsVHost(id.VHost, &resp.Diagnostics) || resp.Diagnostics.HasError() {
		return
	}
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("name"), id.Name)...)
	resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root("vhost"), id.VHost)...)
	resp.Diagnostics.Append(resp.Identity.Set(ctx, id)...)
}

// FormatID writes name@vhost; "%" and "@" inside a part are percent-encoded.
func FormatID(name, vhost string) string {
	encode := strings.NewReplacer("%", "%25", "@", "%40")
	return encode.Replace(name) + "@" + encode.Replace(vhost)
}

// ParseID reads name@vhost, split at the last "@". A part that is no valid
// percent-encoding is taken as it is.
func ParseID(id string) (name, vhost string, ok bool) {
	at := strings.LastIndex(id, "@")
	if at <= 0 || at == len(id)-1 {
		return "", "", false
	}
	return decodePart(id[:at]), decodePart(id[at+1:]), true
}

func decodePart(part string) string {
	decoded, err := url.PathUnescape(part)
	if err != nil {
		return part
	}
	return decoded
}
