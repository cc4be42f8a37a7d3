package tfkit

import (
	"context"
	"fmt"
	"time"
)

// TimeoutError is why the context of [WithTimeout] ended. It is a
// [context.DeadlineExceeded].
type TimeoutError struct{ Limit time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("the time limit of %s is over", e.Limit) }

// Is says that the error is the end of a deadline.
func (e *TimeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// WithTimeout limits an operation of a resource or data source to what its attribute
// timeouts allows.
func WithTimeout(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, &TimeoutError{limit})
}
