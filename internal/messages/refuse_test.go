package messages

import (
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestUnsafe(t *testing.T) {
	type arguments = topology.Arguments
	for _, c := range []struct {
		queue  topology.Queue
		modern bool
		reason string
	}{
		{topology.Queue{Type: topology.Classic}, true, ""},
		{topology.Queue{Type: topology.Classic, Arguments: arguments{"x-delivery-limit": int64(3)}}, true, ""},
		{topology.Queue{Type: topology.Quorum}, false, ""},
		{topology.Queue{Type: topology.Quorum}, true, "limit of 20"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1)}}, true, ""},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1)}}, false, "limit of -1"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(1000)}}, false, "limit of 1000"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-delayed-retry-type": "all"}}, true, "delayed retries (all)"},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-delayed-retry-type": "disabled"}}, true, ""},
		{topology.Queue{Type: topology.Quorum, Arguments: arguments{"x-delivery-limit": int64(-1), "x-single-active-consumer": true}}, true, "single active consumer"},
		{topology.Queue{Type: topology.Stream}, true, "type stream"},
		{topology.Queue{Type: topology.Classic, Exclusive: true}, true, "exclusive"},
		{topology.Queue{Type: topology.Classic, AutoDelete: true}, true, "auto-delete"},
	} {
		unsafe := Unsafe(c.queue, c.queue.Arguments, c.modern)
		if (unsafe == nil) != (c.reason == "") || unsafe != nil && !strings.Contains(unsafe.Error(), c.reason) {
			t.Errorf("%+v: %v, expected %q", c.queue, unsafe, c.reason)
		}
	}
}
