package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// Actual returns what pick takes from the virtual host: nothing, when that is
// certain not to exist. One that this user merely cannot see is an error, because
// everything may still be there.
func Actual(
	ctx context.Context, client *broker.Client, vhost string, pick func(in *topology.Topology) *topology.Topology,
) (*topology.Topology, error) {
	var actual *topology.Topology
	err := client.View(ctx, vhost, func(in *topology.Topology) { actual = pick(in) })
	if diagnostics.IsGone(err) {
		return topology.New(), nil
	}
	return actual, err
}

// CheckPermissions adds an error when the user may not make all of the wanted
// objects. needer is what they are for, such as "this chain".
func CheckPermissions(
	ctx context.Context, client *broker.Client, vhost string, wanted *topology.Topology, needer string, diags *diag.Diagnostics,
) {
	missing, err := client.MissingPermissions(ctx, vhost, wanted)
	if err != nil {
		diagnostics.AddError(diags, "Permissions Not Read", err)
		return
	}
	if len(missing) > 0 {
		advice := "Grant them with rabbitmqctl set_permissions, or configure the provider with another user. " +
			"set_permissions replaces the user's patterns: include the existing ones."
		if client.UsesToken() {
			advice = "Add them to the scopes of the token: a tag is <resource_server_id>.tag:policymaker."
		}
		diags.AddError("Permission Missing", fmt.Sprintf("User %q lacks permissions in virtual host %q that %s needs:\n\n  %s\n\n%s",
			client.Username(), vhost, needer, strings.Join(missing, "\n  "), advice))
	}
}

// CheckFlags adds an error for each disabled feature flag that the strategy
// needs. attribute is where it shows.
func CheckFlags(ctx context.Context, client *broker.Client, strategy retry.Strategy, attribute string, diags *diag.Diagnostics) {
	info, err := client.Info(ctx)
	if err == nil && !retry.NeedsFlags(strategy, info.Version) {
		return
	}
	var disabled []string
	known := false
	if err == nil {
		disabled, known, err = client.DisabledFlags(ctx)
	}
	if err != nil {
		diagnostics.AddError(diags, "Feature Flags Not Read", err)
		return
	}
	diagnostics.AddProblems(diags, retry.FlagProblems(attribute, disabled, known), true)
}

// WarnDown warns of queues of a resource that do not work because nodes are down: they
// exist, and so a plan shows nothing. lines is the resource's topology.
func WarnDown(ctx context.Context, client *broker.Client, vhost string, lines types.Object, diags *diag.Diagnostics) {
	down, err := client.DownQueues(ctx, vhost)
	if err != nil {
		return // which the refresh has reported
	}
	var list []string
	for queue := range values.LinesOf(lines).Queues {
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

// WithoutEffect shows in a topology which policies RabbitMQ lists and does not obey.
func WithoutEffect(value types.Object, ineffective []topology.Target) types.Object {
	if len(ineffective) == 0 {
		return value
	}
	lines, queues := values.LinesOf(value), map[string][]string{}
	for _, target := range ineffective {
		name := target.Policy.Name
		queues[name] = append(queues[name], strconv.Quote(target.Queue.Name))
		lines.Policies[name] = target.Policy.Line() + ", without effect on " + strings.Join(queues[name], ", ")
	}
	return values.LinesValue(lines)
}
