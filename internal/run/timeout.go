package run

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/diagnostics"
)

// TimeoutError is why the context of [WithTimeout] ended. It is a
// [context.DeadlineExceeded].
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("the time limit of %s is over", e.Limit) }

// Is says that the error is the end of a deadline.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// runKey is the key of the context that an operation got from Terraform.
type runKey struct{}

// run returns that context, which ends only when the run is interrupted.
func run(ctx context.Context) context.Context {
	if outer, ok := ctx.Value(runKey{}).(context.Context); ok {
		return outer
	}
	return ctx
}

// WithTimeout limits an operation of a resource or data source to what its attribute
// timeouts allows.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithValue(ctx, runKey{}, ctx), limit, &TimeoutError{limit})
}

// Interrupted says whether the run was interrupted.
func Interrupted(ctx context.Context) bool { return run(ctx).Err() != nil }

// interruptGrace is how long an interrupted run may take to leave things in order.
const interruptGrace = 4 * time.Second

// Afterwards returns a context for what must be done even if the time of the operation is
// over. It ends after the limit, and soon after an interrupt.
func Afterwards(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	stop := context.AfterFunc(run(ctx), func() { time.AfterFunc(interruptGrace, cancel) })
	return limited, func() {
		stop()
		cancel()
	}
}

// AddInterrupted adds the error of a create that was interrupted. The state must get what
// it was to make: Terraform then marks the resource as tainted.
func AddInterrupted(diags *diag.Diagnostics, title string, err error) {
	diagnostics.AddError(diags, title, fmt.Errorf("%w; no message is lost; the next apply removes what was made and creates it again, "+
		"or, after terraform untaint, makes what is missing", err))
}
