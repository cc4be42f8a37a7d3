package lifecycle

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// AwaitPolicy waits until a policy that was just set is in effect on an existing
// queue. Before 4.3 RabbitMQ says so up to 10 s later, see
// [broker.Client.EffectivePolicy]; while it says nothing, the name of the policy
// decides. Half of the time later it sets the policy again: another client that changed a policy
// at the same moment can have undone its effect.
func AwaitPolicy(ctx context.Context, client *broker.Client, vhost, policy, queue string, inEffect func(topology.Arguments) bool) error {
	const patience, poll = 30 * time.Second, 200 * time.Millisecond
	var definition topology.Arguments
	again := false
	for began := time.Now(); time.Since(began) < patience; {
		name, effective, exists, err := client.EffectivePolicy(ctx, vhost, queue)
		switch {
		case err != nil:
			return err
		case !exists:
			return fmt.Errorf("queue %q was deleted meanwhile", queue)
		case inEffect(effective), effective == nil && name == policy:
			return nil
		case !again && time.Since(began) > patience/2:
			again = true
			if err := setAgain(ctx, client, vhost, policy); err != nil {
				return err
			}
		}
		definition = effective
		if err := Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return fmt.Errorf("the policy %q does not take effect on the queue %q: after %s RabbitMQ says that the policies in effect are "+
		"{%s}. Look for a policy of higher priority, or for a key that the queue's type does not support. If there is neither, other "+
		"policies were set at the same moment, and RabbitMQ lost the effect of this one: apply again",
		policy, queue, patience, definition.Text())
}

// setAgain sets the policy as it is.
func setAgain(ctx context.Context, client *broker.Client, vhost, policy string) error {
	var p topology.Policy
	exists := false
	err := client.View(ctx, vhost, func(in *topology.Topology) { p, exists = in.Policy(policy) })
	if err != nil || !exists {
		return err
	}
	return client.SetPolicy(ctx, vhost, p)
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

// DropIneffective removes from actual the policies that are listed and not in effect, so
// that they are set again.
func DropIneffective(
	ctx context.Context, client *broker.Client, vhost string, targets func(in *topology.Topology) []topology.Target,
	actual *topology.Topology,
) error {
	var all []topology.Target
	if err := client.View(ctx, vhost, func(in *topology.Topology) { all = targets(in) }); err != nil {
		return err
	}
	ineffective, err := client.Ineffective(ctx, vhost, all, false)
	for _, target := range ineffective {
		actual.RemovePolicy(target.Policy)
	}
	return err
}
