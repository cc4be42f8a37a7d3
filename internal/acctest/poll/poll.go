// Package poll waits for what a broker does. Its pauses grow with the time that has
// passed: tests on two cores mostly wait, and a hundred that ask fifty times a second
// take most of the processor's time.
package poll

import (
	"context"
	"time"
)

// The shortest and the longest pause.
const (
	shortest = 20 * time.Millisecond
	longest  = 250 * time.Millisecond
)

// Pause is how long to wait before the next look: a tenth of the time that has passed.
func Pause(passed time.Duration) time.Duration {
	return min(max(passed/10, shortest), longest)
}

// Until asks until the condition holds, or returns false when patience is over.
func Until(patience time.Duration, holds func() bool) bool {
	for began := time.Now(); !holds(); time.Sleep(Pause(time.Since(began))) {
		if time.Since(began) > patience {
			return false
		}
	}
	return true
}

// UntilDone asks until the condition holds or fails, or returns the error of ctx.
func UntilDone(ctx context.Context, holds func() (bool, error)) error {
	for began := time.Now(); ; {
		if held, err := holds(); held || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(Pause(time.Since(began))):
		}
	}
}
