package tfkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// KnowsBroker says whether there is a client, and adds an error if not: the
// provider's configuration is not known then.
func KnowsBroker(data *ProviderData, diags *diag.Diagnostics) bool {
	if data != nil && data.Client != nil {
		return true
	}
	diags.AddError("Broker Not Known",
		"A part of the provider's configuration is known only after apply, and so no broker can be asked or changed. Apply what it comes from "+
			"first, with -target, or write the value into the provider block.")
	return false
}

// IsGone says whether the error tells that the virtual host is certain not to
// exist.
func IsGone(err error) bool {
	var missing *broker.VhostError
	return errors.As(err, &missing) && missing.All && !missing.Exists
}

// AddVHostError adds an error of reading a virtual host, at the attribute vhost
// if that is what is missing.
func AddVHostError(diags *diag.Diagnostics, err error) {
	var missing *broker.VhostError
	if errors.As(err, &missing) && !missing.Exists {
		diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
			Sentence(err.Error())+"\n\nIf the same run creates the virtual host, refer to it by a value that is known only after apply, such as the id of its resource.")
		return
	}
	AddError(diags, "Virtual Host Not Read", err)
}

// Actual returns what pick takes from the virtual host: nothing, when that is
// certain not to exist. One that this user merely cannot see is an error, because
// everything may still be there.
func Actual(ctx context.Context, client *broker.Client, vhost string, pick func(in *topology.Topology) *topology.Topology) (*topology.Topology, error) {
	var actual *topology.Topology
	err := client.View(ctx, vhost, func(in *topology.Topology) { actual = pick(in) })
	if IsGone(err) {
		return topology.New(), nil
	}
	return actual, err
}

// CheckPermissions adds an error when the user may not make all of the wanted
// objects. needer is what they are for, such as "this chain".
func CheckPermissions(ctx context.Context, client *broker.Client, vhost string, wanted *topology.Topology, needer string, diags *diag.Diagnostics) {
	missing, err := client.MissingPermissions(ctx, vhost, wanted)
	if err != nil {
		AddError(diags, "Permissions Not Read", err)
		return
	}
	if len(missing) > 0 {
		diags.AddError("Permission Missing",
			fmt.Sprintf("User %q lacks permissions in virtual host %q that %s needs:\n\n  %s\n\nGrant them with rabbitmqctl set_permissions, "+
				"or configure the provider with another user.", client.Username(), vhost, needer, strings.Join(missing, "\n  ")))
	}
}

// CountsText lists queues and what they hold, one per line.
func CountsText(counts []broker.Counts) string {
	lines := make([]string, 0, len(counts))
	for _, c := range counts {
		lines = append(lines, fmt.Sprintf("%s: %s", c.Queue, c))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n  ")
}
