package lifecycle

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/identityschema"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

// Identity says which attributes identify a resource, besides vhost. The identifier is
// their values, separated by "/", then "@" and the virtual host: tiers/queue@vhost.
type Identity struct {
	Parts []Part
	// VHost describes the virtual host, such as "Virtual host of the tiers".
	VHost string
	// Example is an identifier.
	Example string
}

// Part is a part of an identity.
type Part struct {
	Name, Description string
	// Optional: the resource has a default for it.
	Optional bool
}

// Schema describes the identity.
func (i Identity) Schema() identityschema.Schema {
	attributes := map[string]identityschema.Attribute{
		"vhost": identityschema.StringAttribute{OptionalForImport: true, Description: i.VHost + ". Default: the provider's vhost, / " +
			"without one."},
	}
	for _, p := range i.Parts {
		attributes[p.Name] = identityschema.StringAttribute{
			OptionalForImport: p.Optional, RequiredForImport: !p.Optional,
			Description: p.Description,
		}
	}
	return identityschema.Schema{Attributes: attributes}
}

// ID writes the identifier; it is unknown while a part is. "%" and "@" are
// percent-encoded, and "/" if it separates parts.
func (i Identity) ID(vhost types.String, parts []types.String) types.String {
	if vhost.IsUnknown() || slices.ContainsFunc(parts, func(p types.String) bool { return p.IsUnknown() }) {
		return types.StringUnknown()
	}
	whole := strings.NewReplacer("%", "%25", "@", "%40")
	encode := whole
	if len(parts) > 1 {
		encode = strings.NewReplacer("%", "%25", "/", "%2F", "@", "%40")
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		texts = append(texts, encode.Replace(p.ValueString()))
	}
	return types.StringValue(strings.Join(texts, "/") + "@" + whole.Replace(vhost.ValueString()))
}

// Parse reads an identifier, split at the last "@". A part that is not valid
// percent-encoding is taken as it is.
func (i Identity) Parse(id string) (parts map[string]types.String, ok bool) {
	at := strings.LastIndex(id, "@")
	if at <= 0 || at == len(id)-1 {
		return nil, false
	}
	texts := []string{id[:at]}
	if len(i.Parts) > 1 {
		texts = strings.Split(id[:at], "/")
	}
	if len(texts) != len(i.Parts) || slices.Contains(texts, "") {
		return nil, false
	}
	parts = map[string]types.String{"vhost": decoded(id[at+1:])}
	for n, text := range texts {
		parts[i.Parts[n].Name] = decoded(text)
	}
	return parts, true
}

func decoded(part string) types.String {
	text, err := url.PathUnescape(part)
	if err != nil {
		text = part
	}
	return types.StringValue(text)
}

// ReadImport takes the identifier or the identity of an import. An identity without a
// virtual host means the one that a resource without vhost has.
func (i Identity) ReadImport(
	ctx context.Context, data *run.Data, req resource.ImportStateRequest, diags *diag.Diagnostics,
) (parts map[string]types.String, ok bool) {
	if req.ID != "" {
		if parts, ok = i.Parse(req.ID); !ok {
			diags.AddError("Invalid Import Identifier", fmt.Sprintf("%q is not of the form %s@vhost, such as %s. Inside the parts write "+
				"%%40 for @%s.",
				req.ID, strings.Join(i.names(), "/"), i.Example, map[bool]string{true: " and %2F for /"}[len(i.Parts) > 1]))
		}
		return parts, ok
	}
	parts = map[string]types.String{}
	for _, name := range append(i.names(), "vhost") {
		var value types.String
		diags.Append(req.Identity.GetAttribute(ctx, path.Root(name), &value)...)
		parts[name] = value
	}
	parts["vhost"] = data.VHost(parts["vhost"])
	return parts, run.KnowsVHost(parts["vhost"], diags) && !diags.HasError()
}

// WriteImport writes the parts into the state; the read that follows fills in the rest.
func (i Identity) WriteImport(ctx context.Context, parts map[string]types.String, resp *resource.ImportStateResponse) {
	for name, value := range parts {
		resp.Diagnostics.Append(resp.State.SetAttribute(ctx, path.Root(name), value)...)
	}
	i.write(ctx, resp.Identity, parts, &resp.Diagnostics)
}

func (i Identity) names() []string {
	names := make([]string, 0, len(i.Parts)+1)
	for _, p := range i.Parts {
		names = append(names, p.Name)
	}
	return names
}

func (i Identity) values(vhost types.String, parts []types.String) map[string]types.String {
	values := map[string]types.String{"vhost": vhost}
	for n, value := range parts {
		values[i.Parts[n].Name] = value
	}
	return values
}

// Write sets the identity of a resource.
func (i Identity) Write(
	ctx context.Context, identity *tfsdk.ResourceIdentity, vhost types.String, parts []types.String, diags *diag.Diagnostics,
) {
	i.write(ctx, identity, i.values(vhost, parts), diags)
}

func (i Identity) write(ctx context.Context, identity *tfsdk.ResourceIdentity, parts map[string]types.String, diags *diag.Diagnostics) {
	kinds, elements := map[string]attr.Type{}, map[string]attr.Value{}
	for name, value := range parts {
		kinds[name], elements[name] = types.StringType, value
	}
	object, d := types.ObjectValue(kinds, elements)
	diags.Append(d...)
	diags.Append(identity.Set(ctx, object)...)
}
