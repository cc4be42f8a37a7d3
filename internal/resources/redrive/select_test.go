package redrive_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// filter is one that selects the blue messages.
var filter = object{"headers": `{"tenant":"blue"}`}

// TestAccSelected: a redrive moves what the filter selects, in order, and the
// rest stays in order.
func TestAccSelected(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 1200)
		config := object{"queue": "parking", "vhost": p.vhost, "filter": filter, "dry_run": true}
		run(p.t, p.Server, redriveType, config, object{"total": 1200, "selected": 240, "moved": 240, "without_origin": 0})
		if n := p.ready("work"); n != 0 {
			p.t.Errorf("a dry run moved %d messages", n)
		}
		config["dry_run"] = false
		run(p.t, p.Server, redriveType, config, object{"total": 1200, "selected": 240, "moved": 240})
		if got := ids(p.drain("work", 240)); !slices.Equal(got, numbers(1200, blue)) {
			p.t.Errorf("moved %v", got)
		}
		if got := ids(p.drain("parking", 960)); !slices.Equal(got, numbers(1200, red)) {
			p.t.Errorf("left %v", got)
		}
	})
}

// TestAccOneAtATime takes single messages from the head, by the action.
func TestAccOneAtATime(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 10)
		for i := range 3 {
			progress, found := invoke(p.t, p.Server, redriveType, object{"queue": "parking", "vhost": p.vhost, "max_messages": 1})
			if len(found) > 0 || len(progress) == 0 || !strings.HasPrefix(progress[len(progress)-1], "1 message moved") {
				p.t.Fatal(progress, found)
			}
			if got := ids(p.drain("work", 1)); got[0] != fmt.Sprint(i) {
				p.t.Errorf("moved %v as number %d", got, i)
			}
		}
		if got := ids(p.drain("parking", 7)); !slices.Equal(got, numbers(10, func(i int) bool { return i >= 3 })) {
			p.t.Errorf("left %v", got)
		}
	})
}

// TestAccWithoutOrigin: what does not tell where it failed stays, and so does
// what failed in a queue that is gone. A destination moves both.
func TestAccWithoutOrigin(t *testing.T) {
	eachPlace(t, func(p *place) {
		if err := p.w.Publish(p.t.Context(), "", "parking", amqp.Publishing{MessageId: "stray"}); err != nil {
			p.t.Fatal(err)
		}
		p.park("other", 2)
		p.park("work", 2)
		resp, err := acctest.API(p.t, p.b).DeleteQueue(p.vhost, "other")
		acctest.Do(p.t, resp, err)
		config := object{"queue": "parking", "vhost": p.vhost}
		state, found := create(p.t, p.Server, redriveType, config)
		if len(found.Errors()) > 0 || !strings.Contains(found.String(), "3 messages of queue \"parking\" stay there") {
			p.t.Error(found)
		}
		if got := protocol.Go(protocol.At(state, "without_origin")); got != int64(3) {
			p.t.Errorf("%v without origin", got)
		}
		p.drain("work", 2)
		config["destination"] = object{"queue": "elsewhere"}
		run(p.t, p.Server, redriveType, config, object{"total": 3, "moved": 3, "without_origin": 0})
		if got := ids(p.drain("elsewhere", 3)); !slices.Equal(got, []string{"stray", "0", "1"}) {
			p.t.Errorf("moved %v", got)
		}
	})
}

// TestAccNamedExchange publishes with the routing key that the message had
// where it failed.
func TestAccNamedExchange(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 3)
		ch, err := p.w.Connection().Channel()
		if err == nil {
			err = ch.ExchangeDeclare("somewhere", "direct", true, false, false, false, nil)
		}
		if err == nil {
			err = ch.QueueBind("elsewhere", "work", "somewhere", false, nil)
		}
		if err != nil {
			p.t.Fatal(err)
		}
		run(p.t, p.Server, redriveType, object{"queue": "parking", "vhost": p.vhost, "destination": object{"exchange": "somewhere"}}, object{"moved": 3})
		for _, d := range p.drain("elsewhere", 3) {
			if d.RoutingKey != "work" || d.Exchange != "somewhere" {
				p.t.Errorf("through %q with key %q", d.Exchange, d.RoutingKey)
			}
		}
	})
}

// TestAccDiscard deletes what is selected and nothing else, by resource and
// action.
func TestAccDiscard(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 600)
		config := object{"queue": "parking", "vhost": p.vhost}
		_, found := create(p.t, p.Server, discardType, config)
		expectError(p.t, found, "No Filter", "all = true")
		if _, found := invoke(p.t, p.Server, discardType, object{"queue": "parking", "vhost": p.vhost, "filter": object{}}); len(found.Errors()) == 0 {
			p.t.Error("an empty filter is no filter")
		}
		config["filter"], config["dry_run"] = filter, true
		run(p.t, p.Server, discardType, config, object{"total": 600, "discarded": 120})
		config["dry_run"], config["max_messages"] = false, 20
		run(p.t, p.Server, discardType, config, object{"total": 600, "discarded": 20})
		if _, found := invoke(p.t, p.Server, discardType, object{"queue": "parking", "vhost": p.vhost, "filter": filter}); len(found) > 0 {
			p.t.Error(found)
		}
		p.wait(func() bool { return p.ready("parking") == 480 })
		run(p.t, p.Server, discardType, object{"queue": "parking", "vhost": p.vhost, "all": true, "max_messages": 1}, object{"discarded": 1})
		if got := ids(p.drain("parking", 479)); !slices.Equal(got, numbers(600, red)[1:]) {
			p.t.Errorf("left %v", got)
		}
		p.park("work", 7)
		run(p.t, p.Server, discardType, object{"queue": "parking", "vhost": p.vhost, "all": true}, object{"discarded": 7})
		p.drain("parking", 0)
	})
}

// TestAccRate: a consumer gets none of 90 messages before it is due at 30 per
// second. That none is late [messages] tests, by a clock of its own: here a broker
// and a busy machine take part.
func TestAccRate(t *testing.T) {
	const n, perSecond = 90, 30
	eachPlace(t, func(p *place) {
		p.park("work", n)
		var count atomic.Int64
		stop := p.consume("work", n, func(worker.Delivery) worker.Outcome {
			count.Add(1)
			return worker.Ack
		})
		began := time.Now()
		run(p.t, p.Server, redriveType, object{"queue": "parking", "vhost": p.vhost, "max_messages_per_second": perSecond}, object{"moved": n})
		p.wait(func() bool { return count.Load() == n })
		arrived := stop()
		for i, d := range arrived {
			if due := time.Duration(i) * time.Second / perSecond; d.At.Sub(began) < due {
				p.t.Errorf("message %d came after %s, due after %s", i, d.At.Sub(began), due)
			}
		}
	})
}

// consume consumes a queue until the test calls stop, which returns what came.
func (p *place) consume(queue string, prefetch int, decide func(worker.Delivery) worker.Outcome) (stop func() []worker.Delivery) {
	ctx, cancel := context.WithCancel(p.t.Context())
	var all []worker.Delivery
	done := make(chan error, 1)
	go func() {
		done <- p.w.Consume(ctx, queue, prefetch, func(d worker.Delivery) worker.Outcome {
			all = append(all, d)
			return decide(d)
		})
	}()
	return func() []worker.Delivery {
		p.t.Helper()
		cancel()
		if err := <-done; err != nil {
			p.t.Fatal(err)
		}
		return all
	}
}

// TestAccBesideAConsumer redrives under a consumer of the work queue, which
// rejects every tenth message again. Those wait for the next run, and each
// message ends exactly once.
func TestAccBesideAConsumer(t *testing.T) {
	eachPlace(t, func(p *place) {
		const n = 3000
		p.park("work", n)
		var acked atomic.Int64
		ended := map[string]int{}
		stop := p.consume("work", 50, func(d worker.Delivery) worker.Outcome {
			if number, _ := strconv.Atoi(d.MessageId); number%10 == 0 && d.Headers["redrive-count"] == int64(1) {
				return worker.Reject
			}
			ended[d.MessageId]++
			acked.Add(1)
			return worker.Ack
		})
		config := object{"queue": "parking", "vhost": p.vhost}
		run(p.t, p.Server, redriveType, config, object{"total": n, "moved": n})
		p.wait(func() bool { return acked.Load() == n-n/10 && p.ready("parking") == n/10 })
		run(p.t, p.Server, redriveType, config, object{"total": n / 10, "moved": n / 10})
		p.wait(func() bool { return acked.Load() == n })
		p.drain("parking", 0)
		p.drain("work", 0)
		if got := len(stop()); got != n+n/10 || len(ended) != n {
			p.t.Errorf("%d messages in %d deliveries, expected %d in %d", len(ended), got, n, n+n/10)
		}
	})
}

// TestAccBesideAnotherReader redrives while another client takes messages out of
// the parking queue. Each message goes to one of the two.
func TestAccBesideAnotherReader(t *testing.T) {
	eachPlace(t, func(p *place) {
		const n = 1000
		p.park("work", n)
		var others atomic.Int64
		stop := p.consume("parking", 10, func(worker.Delivery) worker.Outcome {
			others.Add(1)
			return worker.Ack
		})
		_, found := create(p.t, p.Server, redriveType, object{"queue": "parking", "vhost": p.vhost, "destination": object{"queue": "elsewhere"}})
		if len(found.Errors()) > 0 {
			p.t.Fatal(found)
		}
		p.wait(func() bool { return p.ready("elsewhere")+int(others.Load()) >= n })
		moved := p.drain("elsewhere", p.ready("elsewhere"))
		taken := stop()
		p.t.Logf("%d moved, %d taken by the other", len(moved), len(taken))
		if len(moved)+len(taken) != n {
			p.t.Errorf("%d messages moved and %d taken by the other, expected %d", len(moved), len(taken), n)
		}
		p.expectOnce(slices.Concat(moved, taken), numbers(n, every))
	})
}

// TestAccMany moves up to 100,000 messages in one run.
func TestAccMany(t *testing.T) {
	n := rabbit.Size(100_000, 10_000)
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		queueType := "classic"
		if acctest.AtLeast(b, 4, 0) {
			queueType = "quorum"
		}
		p := newPlace(t, b, queueType)
		p.publish("parking", n)
		began := time.Now()
		run(t, p.Server, redriveType, object{"queue": "parking", "vhost": p.vhost, "destination": object{"queue": "elsewhere"}}, object{"total": n, "moved": n})
		t.Logf("%d messages in %s", n, time.Since(began))
		if got := ids(p.drain("elsewhere", n)); !slices.Equal(got, numbers(n, every)) {
			t.Error("not every message arrived once and in order")
		}
		p.drain("parking", 0)
	})
}
