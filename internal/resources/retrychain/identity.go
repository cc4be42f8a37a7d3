package retrychain

import (
	"net/url"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

type identityModel struct {
	VHost types.String `tfsdk:"vhost"`
	Name  types.String `tfsdk:"name"`
}

func (m model) identity() identityModel {
	return identityModel{VHost: m.VHost, Name: m.Name}
}

// formatID writes name@vhost; "%" and "@" inside a part are percent-encoded.
func formatID(name, vhost string) string {
	encode := strings.NewReplacer("%", "%25", "@", "%40")
	return encode.Replace(name) + "@" + encode.Replace(vhost)
}

// parseID reads name@vhost, split at the last "@". A part that is no valid
// percent-encoding is taken as it is.
func parseID(id string) (name, vhost string, ok bool) {
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
