package main

import (
	"os"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	t.Parallel()
	for want, times := range map[string][]time.Duration{
		"1.50 s":                {1500 * time.Millisecond},
		"2.00 s (1.00 to 9.00)": {9 * time.Second, time.Second, 2 * time.Second},
		"1.00 s (1.00 to 2.00)": {2 * time.Second, time.Second},
	} {
		if got := spread(times); got != want {
			t.Errorf("spread(%v) is %q, expected %q", times, got, want)
		}
	}
}

func TestMultiple(t *testing.T) {
	t.Parallel()
	if got := multiple([]time.Duration{3 * time.Second}, []time.Duration{2 * time.Second}); got != "1.5" {
		t.Errorf("3 s are %s times 2 s", got)
	}
}

func TestMemorySampler(t *testing.T) {
	t.Parallel()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		t.Skip("no /proc on this system")
	}
	s := memorySampler{program: program}
	s.sample()
	if s.peak < 1_000_000 {
		t.Errorf("this process has a peak of %d bytes", s.peak)
	}
	other := memorySampler{program: program + ".other"}
	other.sample()
	if other.peak != 0 {
		t.Errorf("a program that does not run has a peak of %d bytes", other.peak)
	}
}
