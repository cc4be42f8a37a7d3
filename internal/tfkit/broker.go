package tfkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
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

// KnowsVHost says whether the virtual host is known, and adds an error if not: it is
// the provider's default then.
func KnowsVHost(vhost types.String, diags *diag.Diagnostics) bool {
	if !vhost.IsUnknown() {
		return true
	}
	diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Known",
		"The provider's vhost is known only after apply. Set vhost here, apply what the provider's vhost comes from first with -target, "+
			"or write the value into the provider block.")
	return false
}

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
		Sentence(err.Error())+"\n\nIf the same run creates the virtual host, set vhost to a reference to its resource, so that Terraform creates it first.")
}

// AddPlanError is [AddVHostError] for the plan of a resource. It only warns if the
// virtual host is certain not to exist: the same run may create it, and the apply
// checks all of it again before its first write. One that this user may only be unable to
// see is an error.
func AddPlanError(diags *diag.Diagnostics, err error) {
	switch {
	case IsGone(err):
		diags.AddAttributeWarning(path.Root("vhost"), "Virtual Host Not Found",
			Sentence(err.Error())+"\n\nThe apply fails unless the same run creates the virtual host first: set vhost to a reference to its resource. "+
				"Until then conflicts, permissions and policies cannot be checked; the apply checks them.")
	case isMissing(err):
		diags.AddAttributeError(path.Root("vhost"), "Virtual Host Not Found",
			Sentence(err.Error())+"\n\nOnly users with the tag administrator or monitoring can tell the two apart. If the same run creates the virtual host, "+
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
		Sentence(err.Error())+"\n\nA data source is read during the plan. If the same run creates the virtual host, add its resource to depends_on: Terraform then reads the data source after it was created.")
}

// isMissing says whether the error tells that the virtual host does not exist, or
// that this user cannot know.
func isMissing(err error) bool {
	var missing *broker.VhostError
	return errors.As(err, &missing) && !missing.Exists
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
			fmt.Sprintf("User %q lacks permissions in virtual host %q that %s needs:\n\n  %s\n\nGrant them with rabbitmqctl set_permissions, or configure the provider with another user. "+
				"set_permissions replaces the user's patterns: include the existing ones.", client.Username(), vhost, needer, strings.Join(missing, "\n  ")))
	}
}

// CheckFlags adds an error for each disabled feature flag that the strategy
// needs. attribute is where it shows.
func CheckFlags(ctx context.Context, client *broker.Client, strategy retry.Strategy, attribute string, diags *diag.Diagnostics) {
	info, err := client.Info(ctx)
	if err == nil && !retry.NeedsFlags(strategy, info.Version.AtLeast) {
		return
	}
	var disabled []string
	known := false
	if err == nil {
		disabled, known, err = client.DisabledFlags(ctx)
	}
	if err != nil {
		AddError(diags, "Feature Flags Not Read", err)
		return
	}
	AddProblems(diags, retry.FlagProblems(attribute, disabled, known), true)
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

// WarnDown warns of queues of a resource that do not work because nodes are down: they
// exist, and so a plan shows nothing. lines is the resource's topology.
func WarnDown(ctx context.Context, client *broker.Client, vhost string, lines types.Object, diags *diag.Diagnostics) {
	down, err := client.DownQueues(ctx, vhost)
	if err != nil {
		return // which the refresh has reported
	}
	var list []string
	for queue := range LinesOf(lines).Queues {
		if node, is := down[queue]; is {
			list = append(list, fmt.Sprintf("queue %q on node %s", queue, node))
		}
	}
	if len(list) == 0 {
		return
	}
	slices.Sort(list)
	diags.AddWarning("Queues Down", fmt.Sprintf("Virtual host %q: these queues are down, with their messages:\n  %s\n"+
		"What is routed to them may be lost until their nodes run again. Start the nodes.", vhost, strings.Join(list, "\n  ")))
}
