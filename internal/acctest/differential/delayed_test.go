package differential

import (
	"fmt"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

// compareWaits wants a message that comes back to its queue to be held back by
// the broker for as long as by the simulator. The journeys compare what a
// consumer sees and not when.
func compareWaits(t *testing.T, h *host) {
	t.Helper()
	if !h.version.AtLeast("4.3.0") {
		t.Skipf("queues hold back messages from RabbitMQ 4.3 on, this broker is %s", h.version)
	}
	ways := []outcome{rejectRequeue, nackRequeue, crash, rejectRequeue}
	for _, kind := range []string{"all", "failed", "returned", "disabled"} {
		for _, longest := range []int64{0, 2500} {
			a := arguments{topology.DelayedRetryType: kind, topology.DelayedRetryMin: int64(1000)}
			if longest > 0 {
				a[topology.DelayedRetryMax] = longest
			}
			q := queue(fmt.Sprintf("waits %s %d", kind, longest), topology.Quorum, a)
			t.Run(q.Name, func(t *testing.T) {
				t.Parallel()
				b, err := simulator.New(of(q), simulator.Options{Version: h.version.String()})
				if err != nil {
					t.Fatal(err)
				}
				r, err := newReal(h.connection)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { r.close() }()
				if err := r.declare(of(q)); err != nil {
					t.Fatal(err)
				}
				want := waits(t, &simulated{broker: b}, q.Name, ways, b.Now)
				// A busy machine is late at times, but not every time.
				for left := 2; !sameWaits(t, r, q.Name, ways, want, left == 0); left-- {
					if err := r.settle(ack); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// sameWaits compares what the broker does with what the simulator did. It returns
// false when the broker was late, which is an error only the last time.
func sameWaits(t *testing.T, r world, queue string, ways []outcome, want []time.Duration, last bool) bool {
	t.Helper()
	began := time.Now()
	got := waits(t, r, queue, ways, func() time.Duration { return time.Since(began) })
	for i, how := range ways {
		early := want[i] - got[i]
		if -early > slack && !last {
			return false
		}
		if early > 5*time.Millisecond || -early > slack {
			t.Errorf("after %d. %s the message came back in %s, simulator %s", i+1, how, got[i], want[i])
		}
	}
	return true
}

// waits sends a message back in each of these ways and measures how long it
// takes to come again.
func waits(t *testing.T, w world, queue string, ways []outcome, now func() time.Duration) []time.Duration {
	t.Helper()
	if _, err := w.publish(simulator.Publishing{RoutingKey: queue}); err != nil {
		t.Fatal(err)
	}
	var measured []time.Duration
	took(t, w, queue)
	for _, how := range ways {
		at := now() // before: the broker has it before settle returns
		if err := w.settle(how); err != nil {
			t.Fatal(err)
		}
		took(t, w, queue)
		measured = append(measured, now()-at)
	}
	return measured
}

// took waits for the next message of the queue and takes it.
func took(t *testing.T, w world, queue string) {
	t.Helper()
	const most = 1000
	for range most {
		_, ok, err := w.get(queue)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		w.wait(5 * time.Millisecond)
	}
	t.Fatalf("%q stays empty", queue)
}
