package broker

import (
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestLiveDeletionBrokenOff declares an exchange whose deletion was broken off.
// RabbitMQ answers 201 then and declares nothing.
func TestLiveDeletionBrokenOff(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, c, weak := t.Context(), b.client(t), b.user(t, "management")
		b.permit(t, weak.Username(), ".*", ".*", ".*")
		for _, name := range []string{"orders", oddNames[0]} {
			e := topology.Exchange{Name: name, Type: topology.Fanout, Durable: true}
			if _, err := b.admin.PutRuntimeParameter(exchangeDeletion, b.vhost, name, true); err != nil {
				t.Fatal(err)
			}
			_, err := weak.DeclareExchange(ctx, b.vhost, e)
			wantError[*HalfDeletedError](t, err, "rabbitmqctl clear_parameter", name)
			must(t, created(c.DeclareExchange(ctx, b.vhost, e)))
			compareWithBroker(t, b, c)
			if exists, err := c.ExchangeExists(ctx, b.vhost, name); !exists || err != nil {
				t.Errorf("%q: exists = %t, %v", name, exists, err)
			}
		}
	})
}

// TestMarkOfDeletion removes the mark after a deletion of which a try was broken
// off, and leaves it where the user may not.
func TestMarkOfDeletion(t *testing.T) {
	const mark = "DELETE /api/parameters/exchange-delete-in-progress/%2F/orders"
	for name, test := range map[string]struct {
		first, answer answer
		removals      int
	}{
		"certain":            {hadIt, hadIt, 0},
		"broken off":         {cut(false), hadIt, 1},
		"no mark":            {cut(true), refusal(404, "Not Found"), 1},
		"without permission": {cut(false), refusal(401, "Not policymaker"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.on("DELETE /api/exchanges/%2F/orders", test.first, refusal(404, "Not Found"))
			f.on(mark, test.answer)
			must(t, f.client(t).DeleteExchange(t.Context(), "/", "orders"))
			if n := f.count(mark); n != test.removals {
				t.Errorf("%d removals of the mark, want %d", n, test.removals)
			}
		})
	}
}

// TestMarkThatStays tells what RabbitMQ does not declare for another reason.
func TestMarkThatStays(t *testing.T) {
	f := newFake(t)
	f.on("PUT /api/exchanges/%2F/orders", madeIt)
	f.on("DELETE /api/parameters/exchange-delete-in-progress/%2F/orders", refusal(404, "Not Found"))
	_, err := f.client(t).DeclareExchange(t.Context(), "/", topology.Exchange{Name: "orders", Type: topology.Fanout})
	wantError[*HalfDeletedError](t, err, "clear_parameter", "log of RabbitMQ")
}
