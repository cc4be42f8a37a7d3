package functions

import (
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// arguments converts the arguments of one call, which are given by their
// positions from 0. It keeps the first problem; what is converted after that
// is of no use.
type arguments struct {
	err *function.FuncError
}

func (a *arguments) refuse(position int64, format string, values ...any) {
	if a.err == nil {
		// Terraform ends the text with a full stop.
		a.err = function.NewArgumentFuncError(position, strings.TrimSuffix(fmt.Sprintf(format, values...), "."))
	}
}

// duration converts a duration as [retry.ParseDuration] does.
func (a *arguments) duration(position int64, text string) time.Duration {
	d, err := retry.ParseDuration(text)
	if err != nil {
		a.refuse(position, "%s", err)
	}
	return d
}

// delays converts a list of at most [retry.MaxTiers] durations. It is not known
// if an element is not: OpenTofu calls a function with such a list, Terraform
// does not.
func (a *arguments) delays(position int64, list types.List) (delays []time.Duration, known bool) {
	elements := list.Elements()
	if len(elements) > retry.MaxTiers {
		a.refuse(position, "there are %d delays, and a chain has at most %d", len(elements), retry.MaxTiers)
		return nil, false
	}
	known = true
	for i, element := range elements {
		text, ok := element.(types.String)
		switch {
		case !ok || text.IsNull():
			a.refuse(position, "delays[%d] is null", i)
		case text.IsUnknown():
			known = false
		default:
			d, err := retry.ParseDuration(text.ValueString())
			if err != nil {
				a.refuse(position, "delays[%d]: %s", i, err)
			}
			delays = append(delays, d)
		}
	}
	return delays, known
}

// maximum converts the longest wait, which the first one must not exceed.
func (a *arguments) maximum(position int64, text string, initial time.Duration) time.Duration {
	d := a.duration(position, text)
	if d < initial {
		a.refuse(position, "%q is shorter than the initial wait, %q", text, retry.FormatDuration(initial))
	}
	return d
}

// retries converts a number of retries, 0 to [retry.MaxTiers].
func (a *arguments) retries(position int64, number *big.Float) int {
	n, accuracy := number.Int64()
	if accuracy != big.Exact || n < 0 || n > retry.MaxTiers {
		a.refuse(position, "%s is not a whole number from 0 to %d, the largest number of retries in a chain", short(number), retry.MaxTiers)
		return 0
	}
	return int(n)
}

// factor converts a finite number of at least 1.
func (a *arguments) factor(position int64, number *big.Float) *big.Rat {
	switch {
	case number.IsInf():
		a.refuse(position, "the factor has to be finite")
		return nil
	case number.Cmp(big.NewFloat(1)) < 0:
		a.refuse(position, "%s is less than 1, the smallest factor", short(number))
		return nil
	}
	return fraction(number)
}

// decimals is more than a person writes, and less than Terraform keeps of a
// factor that does not lead to the maximum at once (about 140).
const decimals = 100

// fraction returns a factor, rounded up after [decimals]. Terraform keeps
// numbers in binary, with 512 bits, in which 1.1 and 5/3 are a little more or
// less than that. Less would show, because products are rounded down: 3 s times
// 5/3 would be 4.999 s. A little more does not.
func fraction(factor *big.Float) *big.Rat {
	exact, _ := factor.Rat(nil)
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(decimals), nil)
	up := new(big.Int).Mul(exact.Num(), scale)
	up.Add(up, exact.Denom()).Sub(up, big.NewInt(1)).Quo(up, exact.Denom())
	return new(big.Rat).SetFrac(up, scale)
}

// short writes a number for an error, without the more than 100 digits that a
// quotient can have.
func short(number *big.Float) string { return number.Text('g', 15) }

// canonical writes durations as [retry.FormatDuration] does.
func canonical(durations []time.Duration) []string {
	texts := make([]string, len(durations))
	for i, d := range durations {
		texts[i] = retry.FormatDuration(d)
	}
	return texts
}
