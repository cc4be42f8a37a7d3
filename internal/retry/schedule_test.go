package retry_test

import (
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

func TestExponentialBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		initial, maximum time.Duration
		factor           *big.Rat
		retries          int
		want             string
	}{
		"whole factor":            {5 * time.Second, 10 * time.Minute, big.NewRat(3, 1), 5, "5s 15s 45s 2m15s 6m45s"},
		"capped":                  {5 * time.Second, time.Minute, big.NewRat(3, 1), 5, "5s 15s 45s 1m 1m"},
		"fraction":                {time.Second, time.Hour, big.NewRat(3, 2), 4, "1s 1s500ms 2s250ms 3s375ms"},
		"rounded only at the end": {time.Millisecond, time.Hour, big.NewRat(3, 2), 6, "1ms 1ms 2ms 3ms 5ms 7ms"},
		"third":                   {3 * time.Second, time.Hour, big.NewRat(4, 3), 3, "3s 4s 5s333ms"},
		"factor one":              {time.Second, time.Hour, big.NewRat(1, 1), 3, "1s 1s 1s"},
		"zero stays zero":         {0, time.Hour, big.NewRat(2, 1), 3, "0s 0s 0s"},
		"nothing":                 {time.Second, time.Hour, big.NewRat(2, 1), 0, ""},
		"starts at the cap":       {time.Hour, time.Hour, big.NewRat(2, 1), 2, "1h 1h"},
		"far beyond the cap":      {time.Millisecond, retry.MaxDelay, big.NewRat(1<<62, 1), 50, "1ms" + strings.Repeat(" 87600h", 49)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := words(retry.ExponentialBackoff(test.initial, test.factor, test.maximum, test.retries)); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

func TestLinearBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		initial, step, maximum time.Duration
		retries                int
		want                   string
	}{
		"steps":     {10 * time.Second, 20 * time.Second, time.Minute, 5, "10s 30s 50s 1m 1m"},
		"from zero": {0, time.Millisecond, time.Minute, 3, "0s 1ms 2ms"},
		"no step":   {time.Second, 0, time.Minute, 3, "1s 1s 1s"},
		"nothing":   {time.Second, time.Second, time.Minute, 0, ""},
		"largest":   {retry.MaxDelay, retry.MaxDelay, retry.MaxDelay, 50, strings.TrimSpace(strings.Repeat(" 87600h", 50))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := words(retry.LinearBackoff(test.initial, test.step, test.maximum, test.retries)); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

func words(waits []time.Duration) string {
	var list []string
	for _, wait := range waits {
		list = append(list, retry.FormatDuration(wait))
	}
	return strings.Join(list, " ")
}

// TestBackoffProperties compares both sequences, term by term, with the
// formulas in whole numbers.
func TestBackoffProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maximum := milliseconds(0, retry.MaxDelay).Draw(t, "maximum")
		initial := milliseconds(0, maximum).Draw(t, "initial")
		step := milliseconds(0, retry.MaxDelay).Draw(t, "step")
		denominator := rapid.Int64Range(1, 1_000_000).Draw(t, "denominator")
		numerator := rapid.Int64Range(denominator, 1_000*denominator).Draw(t, "numerator")
		retries := rapid.IntRange(0, retry.MaxTiers).Draw(t, "retries")

		exponential := retry.ExponentialBackoff(initial, big.NewRat(numerator, denominator), maximum, retries)
		checkWaits(t, exponential, maximum, retries)
		up, down := big.NewInt(initial.Milliseconds()), big.NewInt(1)
		for i, wait := range exponential {
			checkWait(t, i, wait, maximum, new(big.Int).Quo(up, down))
			up.Mul(up, big.NewInt(numerator))
			down.Mul(down, big.NewInt(denominator))
		}

		linear := retry.LinearBackoff(initial, step, maximum, retries)
		checkWaits(t, linear, maximum, retries)
		for i, wait := range linear {
			checkWait(t, i, wait, maximum, big.NewInt(initial.Milliseconds()+int64(i)*step.Milliseconds()))
		}
	})
}

// milliseconds draws whole milliseconds, small ones as often as large ones.
func milliseconds(least, most time.Duration) *rapid.Generator[time.Duration] {
	return rapid.Map(rapid.Int64Range(least.Milliseconds(), most.Milliseconds()), func(n int64) time.Duration {
		return time.Duration(n) * time.Millisecond
	})
}

func checkWaits(t *rapid.T, waits []time.Duration, maximum time.Duration, retries int) {
	if len(waits) != retries {
		t.Fatalf("%d waits, expected %d", len(waits), retries)
	}
	if !slices.IsSorted(waits) {
		t.Fatalf("not ascending: %v", waits)
	}
	for _, wait := range waits {
		if wait > maximum {
			t.Fatalf("%v is over the maximum, %v", wait, maximum)
		}
		if parsed, err := retry.ParseDuration(retry.FormatDuration(wait)); err != nil || parsed != wait {
			t.Fatalf("%v is written as %s and read as %v (%v)", wait, retry.FormatDuration(wait), parsed, err)
		}
	}
}

func checkWait(t *rapid.T, i int, got, maximum time.Duration, uncapped *big.Int) {
	want := big.NewInt(maximum.Milliseconds())
	if uncapped.Cmp(want) < 0 {
		want = uncapped
	}
	if big.NewInt(got.Milliseconds()).Cmp(want) != 0 {
		t.Fatalf("wait %d is %v, expected %v ms", i, got, want)
	}
}

func TestSchedule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		delays []time.Duration
		want   []retry.Attempt
	}{
		"no delays": {nil, []retry.Attempt{{Number: 1}}},
		"delays": {[]time.Duration{5 * time.Second, 0, time.Minute}, []retry.Attempt{
			{Number: 1},
			{Number: 2, Wait: 5 * time.Second, Elapsed: 5 * time.Second},
			{Number: 3, Wait: 0, Elapsed: 5 * time.Second},
			{Number: 4, Wait: time.Minute, Elapsed: 65 * time.Second},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := retry.Schedule(test.delays)
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%v, %v; expected %v", got, err, test.want)
			}
		})
	}
}

// TestScheduleIsTooLong: 29 times ten years fit into 292, 30 times do not.
func TestScheduleIsTooLong(t *testing.T) {
	t.Parallel()
	long := slices.Repeat([]time.Duration{retry.MaxDelay}, retry.MaxTiers)
	if attempts, err := retry.Schedule(long[:29]); err != nil || attempts[29].Elapsed != 29*retry.MaxDelay {
		t.Errorf("290 years: %v", err)
	}
	for n := 30; n <= retry.MaxTiers; n++ {
		_, err := retry.Schedule(long[:n])
		if err == nil || !strings.Contains(err.Error(), "the first 30 delays add up to more than 292 years") {
			t.Errorf("%d delays of ten years: %v", n, err)
		}
	}
}
