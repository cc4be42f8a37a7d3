package retry

import (
	"fmt"
	"math/big"
	"time"
)

// ExponentialBackoff returns the waits before the retries: initial, initial *
// factor, initial * factor² and so on, none longer than maximum. Each product
// is computed exactly and then rounded down to whole milliseconds, so rounding
// does not add up. There is no jitter.
//
// initial and maximum are whole milliseconds from 0 to [MaxDelay], initial is
// at most maximum, and factor is at least 1.
func ExponentialBackoff(initial time.Duration, factor *big.Rat, maximum time.Duration, retries int) []time.Duration {
	waits := make([]time.Duration, retries)
	limit := new(big.Rat).SetInt64(maximum.Milliseconds())
	exact := new(big.Rat).SetInt64(initial.Milliseconds())
	for i := range waits {
		if exact.Cmp(limit) > 0 {
			exact.Set(limit)
		}
		waits[i] = roundDown(exact)
		exact.Mul(exact, factor)
	}
	return waits
}

// roundDown returns a number of milliseconds that is not negative without its
// fraction.
func roundDown(milliseconds *big.Rat) time.Duration {
	whole := new(big.Int).Quo(milliseconds.Num(), milliseconds.Denom())
	return time.Duration(whole.Int64()) * time.Millisecond
}

// LinearBackoff returns the waits before the retries: initial, initial + step,
// initial + 2 * step and so on, none longer than maximum. There is no jitter.
//
// All durations are whole milliseconds from 0 to [MaxDelay], and initial is at
// most maximum.
func LinearBackoff(initial, step, maximum time.Duration, retries int) []time.Duration {
	waits := make([]time.Duration, retries)
	wait := initial
	for i := range waits {
		waits[i] = wait
		wait = min(wait+step, maximum)
	}
	return waits
}

// Attempt is one delivery of a message that fails every time.
type Attempt struct {
	// Number counts from 1, the first delivery.
	Number int
	// Wait is the delay right before this attempt.
	Wait time.Duration
	// Elapsed is the sum of the delays since the first attempt. The time that
	// the consumer takes is not in it.
	Elapsed time.Duration
}

// Schedule returns the attempts that a chain with these delays makes: one more
// than there are delays. The error says that the delays add up to more than a
// [time.Duration] can hold, 292 years.
func Schedule(delays []time.Duration) ([]Attempt, error) {
	attempts := make([]Attempt, 0, len(delays)+1)
	last := Attempt{Number: 1}
	attempts = append(attempts, last)
	for _, delay := range delays {
		last = Attempt{Number: last.Number + 1, Wait: delay, Elapsed: last.Elapsed + delay}
		if last.Elapsed < 0 {
			return nil, fmt.Errorf("the first %d delays add up to more than 292 years, the longest time that can be written", len(attempts))
		}
		attempts = append(attempts, last)
	}
	return attempts, nil
}
