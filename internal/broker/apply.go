package broker

import (
	"context"
	"errors"
	"sync"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// Apply carries out the stages one after the other, and the steps of a stage
// in parallel. It stops after the first stage in which a step failed and
// returns the errors of that stage joined; the other steps of the stage are
// carried out, so that nothing is left in an unknown state.
//
// After each step that succeeded it calls done, if that is not nil, from
// several goroutines at once. made says whether the step declared an object,
// or set a policy, that did not exist before. An error of done counts as a failure of the step.
func (c *Client) Apply(ctx context.Context, vhost string, stages []topology.Stage, mode DeleteMode,
	done func(step topology.Step, made Made) error,
) error {
	for _, stage := range stages {
		if err := c.applyStage(ctx, vhost, stage, mode, done); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) applyStage(ctx context.Context, vhost string, stage topology.Stage, mode DeleteMode,
	done func(step topology.Step, made Made) error,
) error {
	errs := make([]error, len(stage))
	var group sync.WaitGroup
	for i, step := range stage {
		group.Go(func() {
			made, err := c.applyStep(ctx, vhost, step, mode)
			if err == nil && done != nil {
				err = done(step, made)
			}
			errs[i] = err
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (c *Client) applyStep(ctx context.Context, vhost string, step topology.Step, mode DeleteMode) (Made, error) {
	switch {
	case step.DeclareExchange != nil:
		return c.declareSureExchange(ctx, vhost, *step.DeclareExchange)
	case step.DeclareQueue != nil:
		return c.declareWholeQueue(ctx, vhost, *step.DeclareQueue)
	case step.Bind != nil:
		return Existed, c.Bind(ctx, vhost, *step.Bind)
	case step.Unbind != nil:
		return Existed, c.Unbind(ctx, vhost, *step.Unbind)
	case step.DeleteQueue != nil:
		return Existed, c.DeleteQueue(ctx, vhost, *step.DeleteQueue, mode)
	case step.DeleteExchange != nil:
		return Existed, c.DeleteExchange(ctx, vhost, step.DeleteExchange.Name)
	case step.DeleteUnfed != nil:
		return Existed, c.deleteUnfed(ctx, vhost, *step.DeleteUnfed)
	case step.SetPolicy != nil:
		return c.setPolicy(ctx, vhost, *step.SetPolicy)
	case step.DeletePolicy != nil:
		return Existed, c.DeletePolicy(ctx, vhost, *step.DeletePolicy)
	default:
		return Existed, nil
	}
}
