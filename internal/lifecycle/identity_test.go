package lifecycle_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/lifecycle"
)

// TestID writes and reads identifiers of one part and of several.
func TestID(t *testing.T) {
	one := lifecycle.Identity{Parts: []lifecycle.Part{{Name: "name"}}}
	three := lifecycle.Identity{Parts: []lifecycle.Part{{Name: "network"}, {Name: "name"}, {Name: "queue"}}}
	for _, test := range []struct {
		identity lifecycle.Identity
		id       string
		parts    []string
		vhost    string
	}{
		{one, "orders@/", []string{"orders"}, "/"},
		{one, "eu/orders%40a@team%40shop/eu", []string{"eu/orders@a"}, "team@shop/eu"},
		{three, "delays/eu.orders/orders@/", []string{"delays", "eu.orders", "orders"}, "/"},
		{three, "de%2Flays/a%40b/100%25@shop", []string{"de/lays", "a@b", "100%"}, "shop"},
		{three, "delays/orders/orders@team%40shop/eu", []string{"delays", "orders", "orders"}, "team@shop/eu"},
	} {
		got, ok := test.identity.Parse(test.id)
		if !ok || got["vhost"].ValueString() != test.vhost {
			t.Errorf("%q is read as %v, %t", test.id, got, ok)
		}
		var parts []types.String
		for n, part := range test.parts {
			parts = append(parts, types.StringValue(part))
			if name := test.identity.Parts[n].Name; got[name].ValueString() != part {
				t.Errorf("%s of %q is read as %v", name, test.id, got[name])
			}
		}
		if text := test.identity.ID(types.StringValue(test.vhost), parts).ValueString(); text != test.id {
			t.Errorf("%v is written as %q, expected %q", test.parts, text, test.id)
		}
	}
	for _, id := range []string{"", "delays", "delays/orders@/", "delays/orders/orders", "delays/orders/orders@", "delays//orders@/", "a/b/c/d@/"} {
		if got, ok := three.Parse(id); ok {
			t.Errorf("%q is read as %v", id, got)
		}
	}
}
