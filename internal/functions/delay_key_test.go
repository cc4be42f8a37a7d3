package functions_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// network is the first argument of delay_key.
type network struct {
	unit   any // a string, nil or unknown
	levels any // a number, nil or unknown
}

func TestDelayKey(t *testing.T) {
	seconds := network{"1s", 4}
	for _, test := range []struct {
		network            network
		delay, destination string
		want               string
	}{
		{seconds, "0s", "orders", "0.0.0.0.orders"},
		{seconds, "1ms", "orders", "0.0.0.1.orders"},
		{seconds, "5s", "eu.orders", "0.1.0.1.eu.orders"},
		{seconds, "15s", "orders", "1.1.1.1.orders"},
		{network{"100ms", 2}, "250ms", "orders", "1.1.orders"},
		{network{"1s", 28}, "74565h24m15s", "orders", strings.Repeat("1.", 28) + "orders"},
	} {
		result, failed := call(t, "delay_key", test.network, test.delay, test.destination)
		if failed != nil {
			t.Errorf("%v: %s", test, failed.text)
			continue
		}
		var got string
		if err := result.As(&got); err != nil || got != test.want {
			t.Errorf("%v: %q, %v", test, got, err)
		}
	}
}

func TestDelayKeyErrors(t *testing.T) {
	seconds := network{"1s", 4}
	for _, test := range []struct {
		network            network
		delay, destination string
		argument           int64
		text               string
	}{
		{seconds, "15001ms", "orders", 1, "over 15s, the maximum of 4 levels"},
		{seconds, "-1s", "orders", 1, "is negative"},
		{seconds, "soon", "orders", 1, "is not a duration"},
		{seconds, "1s", "", 2, "must not be empty"},
		{seconds, "1s", "eu.#", 2, "stands for other words"},
		{network{"1s", 28}, "1s", strings.Repeat("x", 200), 2, "leave 199"},
		{network{"0s", 4}, "1s", "orders", 0, "shortest unit"},
		{network{"second", 4}, "1s", "orders", 0, "unit: "},
		{network{"1s", 0}, "1s", "orders", 0, "1 to 39 levels"},
		{network{"1s", -1}, "1s", "orders", 0, "levels is -1. A network has 1 to 39 levels"},
		{network{"1s", 1.5}, "1s", "orders", 0, "levels is 1.5. A network has 1 to 39 levels"},
		{network{"1s", 1e308}, "1s", "orders", 0, "levels is 1e+308. A network has 1 to 39 levels"},
		{network{"1s", nil}, "1s", "orders", 0, "levels is null"},
		{network{nil, 4}, "1s", "orders", 0, "unit is null"},
		{network{"0.5ms", 4}, "1s", "orders", 0, "not a whole number of milliseconds"},
		{seconds, "", "orders", 1, "is not a duration"},
		{seconds, "1e3s", "orders", 1, "is not a duration"},
		{seconds, "87601h", "orders", 1, "longer than ten years"},
		{seconds, "9000000h", "orders", 1, "longer than ten years"},
		{seconds, "1h99999999999999999999s", "orders", 1, "longer than ten years"},
		{seconds, "-9000000h", "orders", 1, "is negative"},
		{network{"1s", 30}, "1s", "orders", 0, "at most 29 levels"},
	} {
		_, failed := call(t, "delay_key", test.network, test.delay, test.destination)
		if failed == nil || failed.argument != test.argument || !strings.Contains(failed.text, test.text) {
			t.Errorf("%v: %+v, expected %q at argument %d", test, failed, test.text, test.argument)
		}
		if failed != nil && strings.HasSuffix(failed.text, ".") {
			t.Errorf("%v: Terraform ends %q with a second full stop", test, failed.text)
		}
	}
}

// TestUnknownNetwork: OpenTofu calls a function with an object that is known
// except for an attribute.
func TestUnknownNetwork(t *testing.T) {
	for _, n := range []network{{tftypes.UnknownValue, 4}, {"1s", tftypes.UnknownValue}} {
		if result, failed := call(t, "delay_key", n, "1s", "orders"); failed != nil || result.IsKnown() {
			t.Errorf("%v: %s, %+v; expected an unknown key", n, result, failed)
		}
	}
}
