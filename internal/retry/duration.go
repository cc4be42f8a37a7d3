package retry

import (
	"fmt"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxDelay is the longest time-to-live that RabbitMQ accepts as a queue
// argument: 315,360,000,000 ms, ten years of 365 days (rabbit_misc:check_expiry,
// all versions).
const MaxDelay = 315_360_000_000 * time.Millisecond

// ParseDuration reads a duration such as "500ms", "90s", "1m30s", "2h" or "7d". A day is
// 24 hours. RabbitMQ counts in whole milliseconds, so a smaller part is an error, as are
// negative durations and those over [MaxDelay].
func ParseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(withoutDays(text))
	switch {
	case err != nil && isDuration(text) && strings.HasPrefix(text, "-"), d < 0:
		return 0, fmt.Errorf("%q is negative: the shortest duration is \"0s\"", text)
	case err != nil && isDuration(text), d > MaxDelay:
		return 0, fmt.Errorf("%q is longer than ten years (%s), the longest time-to-live that RabbitMQ accepts",
			text, FormatDuration(MaxDelay))
	case err != nil:
		return 0, fmt.Errorf("%q is not a duration: write a number and a unit (ms, s, m, h, d), such as \"500ms\", \"90s\", \"1m30s\", "+
			"\"2h\" or \"7d\"", text)
	case d%time.Millisecond != 0:
		return 0, fmt.Errorf("%q is not a whole number of milliseconds, the unit in which RabbitMQ counts", text)
	}
	return d, nil
}

// days are a number of days anywhere in a duration.
var days = regexp.MustCompile(`([0-9]+\.?[0-9]*|\.[0-9]+)d`)

// withoutDays writes hours for days, which [time.ParseDuration] does not know.
func withoutDays(text string) string {
	return days.ReplaceAllStringFunc(text, func(match string) string {
		number, ok := new(big.Rat).SetString(strings.TrimSuffix(match, "d"))
		if !ok {
			return match
		}
		const decimals = 12 // more than time.ParseDuration reads
		hours := number.Mul(number, big.NewRat(24, 1)).FloatString(decimals)
		return strings.TrimRight(strings.TrimRight(hours, "0"), ".") + "h"
	})
}

var digits = regexp.MustCompile("[0-9]+")

// isDuration says whether a text has the form of a duration, of any length:
// [time.ParseDuration] refuses numbers over 292 years as it refuses other text.
func isDuration(text string) bool {
	_, err := time.ParseDuration(digits.ReplaceAllString(withoutDays(text), "1"))
	return err == nil
}

// FormatDuration writes a duration in its canonical form: the largest units
// first and none that is zero, such as "1m30s", "5m" or "1h". Zero is "0s". There
// are no days in it: tiers are named by this form, and "24h" keeps its name.
func FormatDuration(d time.Duration) string {
	if d == 0 {
		return "0s"
	}
	var text strings.Builder
	rest := d.Milliseconds()
	for _, unit := range []struct {
		name string
		size time.Duration
	}{{"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}} {
		if n := rest / unit.size.Milliseconds(); n > 0 {
			text.WriteString(strconv.FormatInt(n, 10) + unit.name)
			rest %= unit.size.Milliseconds()
		}
	}
	return text.String()
}
