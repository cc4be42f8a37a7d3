package tfkit

import (
	"context"
	"fmt"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// AwaitPolicy waits until a policy that was just set is in effect on an existing
// queue. Before 4.3 RabbitMQ says so up to 10 s later, see
// [broker.Client.EffectivePolicy].
func AwaitPolicy(ctx context.Context, client *broker.Client, vhost, policy, queue string, inEffect func(topology.Arguments) bool) error {
	const patience, poll = 30 * time.Second, 200 * time.Millisecond
	var definition topology.Arguments
	for began := time.Now(); time.Since(began) < patience; {
		effective, exists, err := client.EffectivePolicy(ctx, vhost, queue)
		switch {
		case err != nil:
			return err
		case !exists:
			return fmt.Errorf("queue %q was deleted meanwhile", queue)
		case inEffect(effective):
			return nil
		}
		definition = effective
		if err := Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return fmt.Errorf("the policy %q does not take effect on the queue %q: after %s RabbitMQ says that the policies in effect are {%s}. "+
		"Look for a policy of higher priority, or for a key that the queue's type does not support. If there is neither, another policy was set at the same moment, and RabbitMQ lost "+
		"the effect of this one: delete it if it is still there, and apply again", policy, queue, patience, definition.Text())
}
