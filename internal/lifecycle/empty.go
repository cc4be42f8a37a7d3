package lifecycle

import (
	"context"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// NotEmptyError says which queues kept a removal from starting.
type NotEmptyError []broker.Counts

func (e NotEmptyError) Error() string { return "queues hold messages: " + diagnostics.CountsText(e) }

// ProveEmpty returns a [NotEmptyError] when queues hold messages, or may hold
// some, and the errors of [broker.Client.ProveEmpty].
func ProveEmpty(ctx context.Context, client *broker.Client, vhost string, queues []topology.Queue) error {
	full, err := client.ProveEmpty(ctx, vhost, queues)
	if err == nil && len(full) > 0 {
		return NotEmptyError(full)
	}
	return err
}
