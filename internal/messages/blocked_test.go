package messages

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// alarming is a node of the test's own, with functions that raise and clear a
// memory alarm.
func alarming(t *testing.T) (b bench, alarm, calm func()) {
	t.Helper()
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	own := rabbit.Own(t, rabbit.Options{Version: rabbit.Spread(t.Name(), rabbit.Versions())[0]})
	b = newBench(t, own)
	watermark := func(fraction string, alarm bool) {
		t.Helper()
		if out, err := own.Ctl(t.Context(), "set_vm_memory_high_watermark", fraction); err != nil {
			t.Fatal(out, err)
		}
		there := func() bool {
			nodes, err := b.admin.ListNodes()
			return err == nil && len(nodes) == 1 && nodes[0].MemAlarm == alarm
		}
		if !poll.Until(time.Minute, there) {
			t.Fatalf("the alarm does not become %v", alarm)
		}
	}
	return b, func() { watermark("0.000001", true) }, func() { watermark("0.6", false) }
}

// While memory is short, what publishes says so within ten seconds, and works
// again afterwards.
func TestLiveBlocked(t *testing.T) {
	b, alarm, calm := alarming(t)
	s := b.open(t)
	queue, work := b.queue(t, s, "classic"), b.destination(t, s)
	fill(t, s, queue, 0, 5)
	alarm()
	s = b.open(t)
	began := time.Now()
	err := s.MayPutBack(t.Context(), queue)
	var blocked *BlockedError
	if !errors.As(err, &blocked) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v", err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	began = time.Now()
	s = b.open(t)
	outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
	if !errors.As(err, &blocked) || outcome.Done+outcome.Twice != 0 {
		t.Errorf("%+v %v", outcome, err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %s", took)
	}
	calm()
	outcome, err = s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
	if err != nil || outcome.Done != 5 {
		t.Errorf("%+v %v", outcome, err)
	}
	b.content(t, work, 5)
	if err := b.open(t).MayPutBack(t.Context(), queue); err != nil {
		t.Error(err)
	}
}
