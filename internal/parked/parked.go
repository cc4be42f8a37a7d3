// Package parked reads the messages of a parking queue for data sources, ephemeral
// resources and actions, and selects them by a filter.
package parked

import (
	"context"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/run"
)

// Look shows every message of the queue to see, from the head to the tail as it
// is at the start, until see returns false. The queue stays as it is. It returns
// the number of messages at the start.
func Look(ctx context.Context, data *run.Data, vhost, queue string, diags *diag.Diagnostics, see func(deadletter.Message) (more bool)) int {
	// Two looks at a time would hide messages from each other.
	unlock, ok := data.Names.Lock(ctx, LockName(vhost, queue), diags)
	if !ok {
		return 0
	}
	defer unlock()
	session, err := data.Client.Parked(ctx, vhost, queue, WorkQueues)
	if err != nil {
		AddError(diags, err)
		return 0
	}
	defer session.Close() //nolint:errcheck // the pass is closed
	total, shared, err := pass(ctx, session, queue, see)
	if err != nil {
		AddError(diags, data.Client.PassError(ctx, vhost, queue, err))
	} else if shared {
		diags.AddAttributeWarning(path.Root("queue"), "Queue Has Consumers",
			fmt.Sprintf("Something consumes queue %q. Messages that it gets at the same time are not shown.", queue))
	}
	return total
}

// LockName is the name under which whoever reads the messages of a queue locks
// it, see [Names.Lock].
func LockName(vhost, queue string) string {
	return fmt.Sprintf("messages of queue %q in vhost %q", queue, vhost)
}

func pass(
	ctx context.Context, session *messages.Session, queue string, see func(deadletter.Message) bool,
) (total int, shared bool, err error) {
	p, err := session.Pass(ctx, queue, messages.PassOptions{})
	if err != nil {
		return 0, false, err
	}
	err = showAll(ctx, p, see)
	return p.Total(), p.Shared(), errors.Join(err, p.Close(ctx))
}

func showAll(ctx context.Context, p *messages.Pass, see func(deadletter.Message) bool) error {
	for {
		if p.Due() {
			if err := p.Renew(ctx); err != nil {
				return err
			}
		}
		switch m, more, err := p.Next(ctx); {
		case err != nil || !more:
			return err
		case !see(m.Message):
			return p.Finish(ctx)
		}
	}
}

// AddError adds an error of reading the messages of the queue that the
// attribute queue names.
func AddError(diags *diag.Diagnostics, err error) {
	at := path.Root("queue")
	detail := diagnostics.Sentence(err.Error())
	switch {
	case errors.As(err, new(*broker.VhostError)):
		diagnostics.AddDataError(diags, err)
	case errors.As(err, new(*messages.UnsafeError)):
		diags.AddAttributeError(at, "Looking Would Change the Queue", detail)
	case errors.Is(err, messages.ErrNotFound):
		diags.AddAttributeError(at, "Queue Not Found", detail+"\n\nIf the same run makes the queue, add its resource to depends_on.")
	case errors.Is(err, messages.ErrCut):
		diags.AddError("Connection Cut", detail+"\n\nNo message is lost: what was not acknowledged is in the queue again.")
	case errors.Is(err, messages.ErrNotDelivered), errors.Is(err, messages.ErrRevoked), errors.Is(err, messages.ErrHeldTooLong):
		diags.AddAttributeError(at, "Queue Not Read", detail)
	default:
		diagnostics.AddError(diags, "Queue Not Read", err)
	}
}
