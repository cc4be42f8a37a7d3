package delaydestination

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"
)

func TestID(t *testing.T) {
	for id, parts := range map[string][4]string{
		"delays/eu.orders/orders@/":           {"delays", "eu.orders", "orders", "/"},
		"de%2Flays/a%40b/100%25@shop":         {"de/lays", "a@b", "100%", "shop"},
		"delays/orders/orders@team%40shop/eu": {"delays", "orders", "orders", "team@shop/eu"},
	} {
		want := identityModel{Network: types.StringValue(parts[0]), Name: types.StringValue(parts[1]), Queue: types.StringValue(parts[2]), VHost: types.StringValue(parts[3])}
		got, ok := parseID(id)
		if !ok || got != want {
			t.Errorf("%q is read as %v, %t", id, got, ok)
		}
		m := model{Network: want.Network, Name: want.Name, Queue: want.Queue, VHost: want.VHost}
		if text := m.formatID(); text != id {
			t.Errorf("%v is written as %q, expected %q", parts, text, id)
		}
	}
	for _, id := range []string{"", "delays", "delays/orders@/", "delays/orders/orders", "delays/orders/orders@", "delays//orders@/", "a/b/c/d@/"} {
		if got, ok := parseID(id); ok {
			t.Errorf("%q is read as %v", id, got)
		}
	}
}
