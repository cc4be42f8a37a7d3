package retry_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

func TestParseDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"1d": "24h", "7d": "168h", "1d12h": "36h", "12h1d": "36h", "1.5d": "36h", "1.1d": "26h24m", ".5d": "12h", "2.d": "48h", "0d": "0s",
		"1d1h1m1s1ms": "25h1m1s1ms", "3650d": "87600h", "+1d": "24h", "0.00001d": "864ms",
	} {
		d, err := retry.ParseDuration(text)
		if err != nil || retry.FormatDuration(d) != want {
			t.Errorf("%q is read as %v (%v), expected %s", text, d, err, want)
		}
	}
	for text, want := range map[string]string{
		"d": "is not a duration", "1 d": "is not a duration", "1D": "is not a duration",
		"1.2.3d": "is not a duration", "1e2d": "is not a duration",
		"-1d": "is negative", "3651d": "longer than ten years",
		"99999999999999999999999d": "longer than ten years", "0.000000001d": "whole number of milliseconds",
	} {
		if d, err := retry.ParseDuration(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is read as %v with the error %v, expected %q", text, d, err, want)
		}
	}
}

// TestPropertyDaysAreHours: days are 24 hours, whatever stands beside them.
func TestPropertyDaysAreHours(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, 3649).Draw(t, "days")
		rest := time.Duration(rapid.Int64Range(0, (24*time.Hour).Milliseconds()).Draw(t, "rest")) * time.Millisecond
		text := retry.FormatDuration(time.Duration(n) * time.Hour)
		days := strings.Replace(text, "h", "d", 1) + retry.FormatDuration(rest)
		d, err := retry.ParseDuration(days)
		if want := time.Duration(n)*24*time.Hour + rest; err != nil || d != want {
			t.Fatalf("%q is read as %v (%v), expected %v", days, d, err, want)
		}
	})
}
