package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/provider"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
)

// failure is what Terraform shows of a call that failed.
type failure struct {
	// argument is the position of the argument that is wrong, -1 for none.
	argument int64
	text     string
}

// tb is a test or a case of a property.
type tb interface {
	rapid.TB
	Context() context.Context
}

// call calls a function of a provider that was not configured. Arguments are
// strings, numbers (int, float64, *big.Float), lists of strings, and networks.
func call(t tb, name string, arguments ...any) (tftypes.Value, *failure) {
	t.Helper()
	server := providerserver.NewProtocol6(provider.New("test")())()
	definitions, err := server.GetFunctions(t.Context(), &tfprotov6.GetFunctionsRequest{})
	if err != nil || definitions.Functions[name] == nil {
		t.Fatalf("no function %s: %v", name, err)
	}
	definition := definitions.Functions[name]
	req := &tfprotov6.CallFunctionRequest{Name: name}
	for i, argument := range arguments {
		ty := definition.Parameters[i].Type
		packed, err := tfprotov6.NewDynamicValue(ty, value(ty, argument))
		if err != nil {
			t.Fatal(err)
		}
		req.Arguments = append(req.Arguments, &packed)
	}
	resp, err := server.CallFunction(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Error != nil {
		failed := &failure{argument: -1, text: resp.Error.Text}
		if resp.Error.FunctionArgument != nil {
			failed.argument = *resp.Error.FunctionArgument
		}
		return tftypes.Value{}, failed
	}
	result, err := resp.Result.Unmarshal(definition.Return.Type)
	if err != nil {
		t.Fatal(err)
	}
	return result, nil
}

func value(ty tftypes.Type, from any) tftypes.Value {
	if n, ok := from.(network); ok {
		return tftypes.NewValue(ty, map[string]tftypes.Value{"unit": tftypes.NewValue(tftypes.String, n.unit), "levels": tftypes.NewValue(tftypes.Number, n.levels)})
	}
	switch from := from.(type) {
	case lines:
		return from.value(ty)
	case tftypes.Value:
		return from
	}
	list, ok := from.([]any)
	if !ok {
		return tftypes.NewValue(ty, from)
	}
	elements := make([]tftypes.Value, len(list))
	for i, element := range list {
		elements[i] = tftypes.NewValue(tftypes.String, element)
	}
	return tftypes.NewValue(ty, elements)
}

// delays calls a function that returns a list of strings and must succeed.
func delays(t tb, name string, arguments ...any) []string {
	t.Helper()
	result, failed := call(t, name, arguments...)
	if failed != nil {
		t.Fatalf("%s%v: %s", name, arguments, failed.text)
	}
	var elements []tftypes.Value
	if err := result.As(&elements); err != nil {
		t.Fatal(err)
	}
	texts := make([]string, len(elements))
	for i, element := range elements {
		if err := element.As(&texts[i]); err != nil {
			t.Fatal(err)
		}
	}
	return texts
}

// number is a number as Terraform reads it from a configuration.
func number(t testing.TB, text string) *big.Float {
	t.Helper()
	n, _, err := big.ParseFloat(text, 10, 512, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// quotient is a number as Terraform computes it.
func quotient(a, b int64) *big.Float {
	return new(big.Float).SetPrec(512).Quo(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
}

func TestExponentialBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		initial string
		factor  any
		maximum string
		retries any
		want    string
	}{
		"whole factor":            {"5s", 3, "10m", 5, "5s 15s 45s 2m15s 6m45s"},
		"days":                    {"1d", 2, "1.5d", 3, "24h 36h 36h"},
		"canonical":               {"90s", 1, "3600s", 2, "1m30s 1m30s"},
		"fraction in binary":      {"1s", 1.5, "1h", 3, "1s 1s500ms 2s250ms"},
		"fraction not in binary":  {"10ms", number(t, "1.1"), "1h", 3, "10ms 11ms 12ms"},
		"another one":             {"1s", number(t, "1.001"), "1h", 3, "1s 1s1ms 1s2ms"},
		"fraction a bit too low":  {"100ms", number(t, "1.15"), "1h", 3, "100ms 115ms 132ms"},
		"quotient a bit too high": {"3s", quotient(4, 3), "1h", 3, "3s 4s 5s333ms"},
		"quotient a bit too low":  {"3s", quotient(5, 3), "1h", 3, "3s 5s 8s333ms"},
		"many digits":             {"1s", number(t, "1."+strings.Repeat("9", 120)), "1h", 2, "1s 2s"},
		"just over one":           {"1s", number(t, "1."+strings.Repeat("0", 90)+"1"), "1h", 2, "1s 1s"},
		"huge factor":             {"1ms", number(t, "1e100000"), "87600h", 3, "1ms 87600h 87600h"},
		"factor of a double":      {"1ms", 1e308, "87600h", 3, "1ms 87600h 87600h"},
		"largest useful factor":   {"1ms", number(t, "315360000000"), "87600h", 2, "1ms 87600h"},
		"nothing times a lot":     {"0s", 1e308, "1h", 3, "0s 0s 0s"},
		"no retries":              {"5s", 3, "10m", 0, ""},
		"most retries":            {"10m", 1, "10m", 50, strings.TrimSpace(strings.Repeat(" 10m", 50))},
		"equal limits":            {"10m", 2, "10m", 2, "10m 10m"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(delays(t, "exponential_backoff", test.initial, test.factor, test.maximum, test.retries), " "); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

func TestLinearBackoff(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		initial, step, maximum string
		retries                int
		want                   string
	}{
		"steps":      {"10s", "20s", "1m", 5, "10s 30s 50s 1m 1m"},
		"no step":    {"60s", "0s", "1h", 2, "1m 1m"},
		"no retries": {"1s", "1s", "1m", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := strings.Join(delays(t, "linear_backoff", test.initial, test.step, test.maximum, test.retries), " "); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

// TestArgumentErrors: each error is that of one argument, and says the value
// and the limits.
func TestArgumentErrors(t *testing.T) {
	t.Parallel()
	const exponential, linear, schedule = "exponential_backoff", "linear_backoff", "retry_schedule"
	repeated := func(n int, delay any) []any { return slices.Repeat([]any{delay}, n) }
	for name, test := range map[string]struct {
		function  string
		arguments []any
		argument  int64
		text      string
	}{
		"initial unreadable":  {exponential, []any{"soon", 2, "10m", 5}, 0, `"soon" is not a duration: write a number and a unit`},
		"initial negative":    {exponential, []any{"-5s", 2, "10m", 5}, 0, `"-5s" is negative: the shortest duration is "0s"`},
		"initial too fine":    {exponential, []any{"1us", 2, "10m", 5}, 0, `"1us" is not a whole number of milliseconds`},
		"initial too long":    {exponential, []any{"87601h", 2, "10m", 5}, 0, `"87601h" is longer than ten years (87600h)`},
		"factor below one":    {exponential, []any{"5s", 0.5, "10m", 5}, 1, `0.5 is less than 1, the smallest factor`},
		"factor nearly one":   {exponential, []any{"5s", quotient(999, 1000), "10m", 5}, 1, `0.999 is less than 1`},
		"factor negative":     {exponential, []any{"5s", -2, "10m", 5}, 1, `-2 is less than 1`},
		"factor infinite":     {exponential, []any{"5s", math.Inf(1), "10m", 5}, 1, `the factor has to be finite`},
		"factor minus inf":    {exponential, []any{"5s", math.Inf(-1), "10m", 5}, 1, `the factor has to be finite`},
		"maximum unreadable":  {exponential, []any{"5s", 2, "10", 5}, 2, `"10" is not a duration`},
		"maximum too short":   {exponential, []any{"90s", 2, "60s", 5}, 2, `"60s" is shorter than the initial wait, "1m30s"`},
		"retries negative":    {exponential, []any{"5s", 2, "10m", -1}, 3, `-1 is not a whole number from 0 to 50`},
		"retries too many":    {exponential, []any{"5s", 2, "10m", 51}, 3, `51 is not a whole number from 0 to 50`},
		"retries fractional":  {exponential, []any{"5s", 2, "10m", 1.5}, 3, `1.5 is not a whole number from 0 to 50`},
		"retries quotient":    {exponential, []any{"5s", 2, "10m", quotient(10, 3)}, 3, `3.33333333333333 is not a whole number from 0 to 50`},
		"retries huge":        {exponential, []any{"5s", 2, "10m", number(t, "1e5000")}, 3, `1e+5000 is not a whole number from 0 to 50`},
		"retries negative 2":  {linear, []any{"5s", "5s", "10m", -1e308}, 3, `-1e+308 is not a whole number from 0 to 50`},
		"delay empty":         {schedule, []any{[]any{""}}, 0, `delays[0]: "" is not a duration`},
		"the first of many":   {exponential, []any{"5s", 0, "1s", 51}, 1, `0 is less than 1`},
		"linear initial":      {linear, []any{"soon", "5s", "10m", 5}, 0, `"soon" is not a duration`},
		"linear step":         {linear, []any{"5s", "-5s", "10m", 5}, 1, `"-5s" is negative`},
		"linear maximum":      {linear, []any{"5s", "5s", "1s", 5}, 2, `"1s" is shorter than the initial wait, "5s"`},
		"linear retries":      {linear, []any{"5s", "5s", "10m", 51}, 3, `51 is not a whole number from 0 to 50`},
		"schedule unreadable": {schedule, []any{[]any{"5s", "soon"}}, 0, `delays[1]: "soon" is not a duration`},
		"schedule null":       {schedule, []any{[]any{"5s", nil}}, 0, `delays[1] is null`},
		"schedule too many":   {schedule, []any{repeated(51, "5s")}, 0, `there are 51 delays, and a chain has at most 50`},
		"schedule too long":   {schedule, []any{repeated(50, "87600h")}, 0, `the first 30 delays add up to more than 292 years`},
		"null beside unknown": {schedule, []any{[]any{tftypes.UnknownValue, nil}}, 0, `delays[1] is null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, failed := call(t, test.function, test.arguments...)
			if failed == nil {
				t.Fatalf("succeeded: %s", result)
			}
			if failed.argument != test.argument || !strings.HasPrefix(failed.text, test.text) || strings.Contains(failed.text, "\n") {
				t.Errorf("argument %d: %s\nexpected argument %d: %s", failed.argument, failed.text, test.argument, test.text)
			}
		})
	}
}

// TestBackoffProperties: any valid arguments give as many delays as asked for,
// ascending, within the limits and in canonical form.
func TestBackoffProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		maximum := rapid.Int64Range(0, retry.MaxDelay.Milliseconds()).Draw(t, "maximum")
		initial := rapid.Int64Range(0, maximum).Draw(t, "initial")
		step := rapid.Int64Range(0, retry.MaxDelay.Milliseconds()).Draw(t, "step")
		factor := rapid.Float64Range(1, math.MaxFloat64).Draw(t, "factor")
		retries := rapid.IntRange(0, retry.MaxTiers).Draw(t, "retries")
		text := func(ms int64) string { return fmt.Sprintf("%dms", ms) }
		for _, got := range [][]string{
			delays(t, "exponential_backoff", text(initial), factor, text(maximum), retries),
			delays(t, "linear_backoff", text(initial), text(step), text(maximum), retries),
		} {
			checkDelays(t, got, initial, maximum, retries)
		}
	})
}

func checkDelays(t *rapid.T, got []string, initial, maximum int64, retries int) {
	if len(got) != retries {
		t.Fatalf("%d delays, expected %d", len(got), retries)
	}
	last := initial
	for i, text := range got {
		wait, err := retry.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		if ms := wait.Milliseconds(); (i == 0 && ms != initial) || ms < last || ms > maximum {
			t.Fatalf("%q: from %d ms, ascending and at most %d ms was expected", got, initial, maximum)
		}
		if canonical := retry.FormatDuration(wait); canonical != text {
			t.Fatalf("%s is written as %s", canonical, text)
		}
		last = wait.Milliseconds()
	}
}

// TestDecimalFactor: a factor that a person writes in decimal digits counts as
// just that number.
func TestDecimalFactor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		thousandths := rapid.Int64Range(1000, 20_000).Draw(t, "thousandths")
		// The product is whole: a factor too low by however little shows.
		initial := 1000 * rapid.Int64Range(1, 1_000_000).Draw(t, "seconds")
		factor, _, err := big.ParseFloat(fmt.Sprintf("%d.%03d", thousandths/1000, thousandths%1000), 10, 512, big.ToNearestEven)
		if err != nil {
			t.Fatal(err)
		}
		got := delays(t, "exponential_backoff", fmt.Sprintf("%dms", initial), factor, "87600h", 2)
		wait, err := retry.ParseDuration(got[1])
		if want := initial / 1000 * thousandths; err != nil || wait.Milliseconds() != want {
			t.Fatalf("%s, expected %d ms (%v)", got[1], want, err)
		}
	})
}

func TestRetrySchedule(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		delays []any
		want   string
	}{
		"no delays": {[]any{}, `[{"attempt":1,"elapsed":"0s","wait":"0s"}]`},
		"delays": {[]any{"5s", "30s", "300s"}, `[{"attempt":1,"elapsed":"0s","wait":"0s"},{"attempt":2,"elapsed":"5s","wait":"5s"},` +
			`{"attempt":3,"elapsed":"35s","wait":"30s"},{"attempt":4,"elapsed":"5m35s","wait":"5m"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, failed := call(t, "retry_schedule", test.delays)
			if failed != nil {
				t.Fatal(failed.text)
			}
			if got := rowsAsJSON(t, result); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

func rowsAsJSON(t *testing.T, list tftypes.Value) string {
	t.Helper()
	var elements []tftypes.Value
	if err := list.As(&elements); err != nil {
		t.Fatal(err)
	}
	rows := make([]map[string]any, len(elements))
	for i, element := range elements {
		var (
			object        map[string]tftypes.Value
			attempt       big.Float
			wait, elapsed string
		)
		for _, err := range []error{element.As(&object), object["attempt"].As(&attempt), object["wait"].As(&wait), object["elapsed"].As(&elapsed)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		whole, _ := attempt.Int64()
		rows[i] = map[string]any{"attempt": whole, "wait": wait, "elapsed": elapsed}
	}
	encoded, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// TestUnknownDelay: OpenTofu calls a function with a list that is known except
// for an element.
func TestUnknownDelay(t *testing.T) {
	t.Parallel()
	result, failed := call(t, "retry_schedule", []any{"5s", tftypes.UnknownValue})
	if failed != nil || result.IsKnown() {
		t.Errorf("%s, %v; expected an unknown list", result, failed)
	}
}
