package messages

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestPace: the n-th message goes when it is due. What is late by less than a
// batch is made good, and what is later is not: no burst follows a long pause.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for perSecond, interval := range map[int]time.Duration{1: time.Second, 30: 33_333_334, 1000: time.Millisecond, 1_000_000: time.Microsecond} {
			p, began := pace{perSecond: perSecond}, time.Now()
			for i := range 2500 {
				if err := p.wait(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got, due := time.Since(began), time.Duration(i)*interval; got != due {
					t.Fatalf("%d per second: message %d went after %s, due after %s", perSecond, i, got, due)
				}
				if i%10 == 0 {
					time.Sleep(time.Microsecond / 2) // confirms take time
				}
			}
			time.Sleep(time.Hour)
			again := time.Now()
			for range perSecond + 1 {
				if err := p.wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got, least := time.Since(again), time.Second-pacedBatch; got < least {
				t.Errorf("%d per second: after a pause, one more than these went within %s, expected %s", perSecond, got, least)
			}
		}
	})
}

func TestPaceEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reason := errors.New("enough")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, reason)
		defer cancel()
		p := pace{perSecond: 1}
		for range 3 {
			if err := p.wait(ctx); err != nil {
				if !errors.Is(err, reason) {
					t.Error(err)
				}
				return
			}
		}
		t.Error("it went on")
	})
}
