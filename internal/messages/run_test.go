package messages

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// to is the way to a queue, for the messages that want selects.
func to(queue string, want func(deadletter.Message) bool) func(deadletter.Message) (Route, bool) {
	return func(m deadletter.Message) (Route, bool) { return Route{RoutingKey: queue}, want(m) }
}

func everyone(deadletter.Message) bool { return true }

// thirds leaves out every third message.
func thirds(m deadletter.Message) bool {
	n, _ := strconv.Atoi(m.ID())
	return n%3 != 0
}

// destination declares the queue "work" and returns its name.
func (b bench) destination(t *testing.T, s *Session) string {
	t.Helper()
	channel, err := s.connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	if _, err := channel.QueueDeclare("work", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	return "work"
}

// content waits until the queue has n messages, and returns their ids.
func (b bench) content(t *testing.T, queue string, n int) []string {
	t.Helper()
	s := b.open(t)
	there := func() bool {
		depths, err := s.Depths(t.Context(), []string{queue})
		return err == nil && depths[queue].Ready == n
	}
	if !poll.Until(20*time.Second, there) {
		t.Errorf("queue %s does not come to have %d messages", queue, n)
	}
	return look(t, s, queue, 0, nil)
}

// numbered are the numbers below n that want selects.
func numbered(n int, want func(n int) bool) []string {
	var list []string
	for i := range n {
		if want(i) {
			list = append(list, strconv.Itoa(i))
		}
	}
	return list
}

// A run that takes longer than the consumer timeout renews what it holds: it
// moves every message once, and what stays stays in order.
func TestLiveRenewed(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue, work := b.queue(t, s, kind), b.destination(t, s)
		s.Know(Traits{ConsumerTimeout: 2 * time.Second, KeepsPlaces: kind == "classic"})
		fill(t, s, queue, 0, 300)
		look(t, s, queue, 0, nil) // a quorum queue serves what came back first
		fill(t, s, queue, 300, 60)
		outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, thirds), PerSecond: 60})
		if err != nil || outcome.Done != 240 || outcome.WithoutOrigin != 120 || outcome.Twice != 0 {
			t.Errorf("%+v %v", outcome, err)
		}
		if got := b.content(t, work, 240); !slices.Equal(got, numbered(360, func(n int) bool { return n%3 != 0 })) {
			t.Errorf("moved %v", got)
		}
		if got := b.content(t, queue, 120); !slices.Equal(got, numbered(360, func(n int) bool { return n%3 == 0 })) {
			t.Errorf("left %v", got)
		}
	})
}

// A pass that is renewed after any number of messages and closed at once leaves the
// queue in its order.
func TestLiveRenewedAndClosed(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		s.Know(Traits{KeepsPlaces: kind == "classic"})
		fill(t, s, queue, 0, 60)
		look(t, s, queue, 0, nil) // a quorum queue serves what came back first
		fill(t, s, queue, 60, 40)
		taken := 0
		for _, seen := range []int{1, 50, 75, 97} {
			p, err := s.Pass(t.Context(), queue, PassOptions{First: leastWindow, Most: leastWindow})
			if err != nil {
				t.Fatal(err)
			}
			if seen == 97 {
				seen = p.Total()
			}
			for i := range seen {
				m, more, err := p.Next(t.Context())
				if err != nil || !more {
					t.Fatal(i, more, err)
				}
				if seen == 1 { // nothing is kept
					taken++
					if err := p.Take(t.Context(), m); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, step := range []func(context.Context) error{p.Renew, p.Finish, p.Close} {
				if err := step(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := b.content(t, queue, 100-taken); !slices.Equal(got, numbered(100, func(n int) bool { return n >= taken })) {
				t.Errorf("renewed after %d messages, left %v", seen, got)
			}
		}
	})
}

// When the broker takes messages back, the run ends and says what it did.
// RabbitMQ 4.3 does that with a quorum queue, and leaves the channel open.
func TestLiveRevoked(t *testing.T) {
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	brokers, err := rabbit.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(brokers, func(b *rabbit.Broker) bool { return b.Release() == "4.3" })
	if i < 0 {
		t.Skip("it needs RabbitMQ 4.3")
	}
	b := newBench(t, brokers[i])
	s := b.open(t)
	work := b.destination(t, s)
	for name, run := range map[string]func(RedriveOptions) (Outcome, error){
		"redrive": func(o RedriveOptions) (Outcome, error) { return s.Redrive(t.Context(), "redrive", o) },
		"discard": func(o RedriveOptions) (Outcome, error) { return s.Discard(t.Context(), "discard", o) },
	} {
		channel, err := s.connection.Channel()
		if err == nil {
			_, err = channel.QueueDeclare(name, true, false, false, false, amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": int32(-1), "x-consumer-timeout": int32(3000)})
		}
		if err != nil {
			t.Fatal(err)
		}
		fill(t, s, name, 0, 300)
		// The first message is held, as one that is not selected.
		first := numbered(300, func(n int) bool { return n > 0 })
		outcome, err := run(RedriveOptions{Route: to(work, everyone), PerSecond: 25, Filter: deadletter.Filter{MessageIDs: first}})
		if !errors.Is(err, ErrRevoked) || outcome.Done == 0 || outcome.Done >= 299 {
			t.Errorf("%s: %+v %v", name, outcome, err)
		}
		// What the broker did not say of counts as not done.
		least := 300 - outcome.Done - outcome.Twice
		left := b.settled(t, name, least)
		if left < least || left > 300-outcome.Done {
			t.Errorf("%s: %d are left: %+v", name, left, outcome)
		}
		if name != "redrive" {
			continue
		}
		if moved := b.settled(t, work, outcome.Done); moved+left < 300 || moved+left > 300+outcome.Twice {
			t.Errorf("%d were moved and %d are left: %+v", moved, left, outcome)
		}
	}
}

// settled waits until the queue has at least n messages and no consumer, and
// returns how many it has.
func (b bench) settled(t *testing.T, queue string, n int) int {
	t.Helper()
	s := b.open(t)
	var found Depth
	poll.Until(20*time.Second, func() bool {
		depths, err := s.Depths(t.Context(), []string{queue})
		found = depths[queue]
		return err == nil && found.Ready >= n && found.Consumers == 0
	})
	return found.Ready
}

// Over a slow link a run goes on as long as there is headway.
func TestLiveSlowLink(t *testing.T) {
	eachOf(t, bothTypes[:1], func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue, work := b.queue(t, s, kind), b.destination(t, s)
		channel, err := s.connection.Channel()
		if err != nil {
			t.Fatal(err)
		}
		const n, size = 60, 64 << 10
		for i := range n {
			if err := channel.Publish("", queue, false, false, amqp.Publishing{MessageId: strconv.Itoa(i), Body: make([]byte, size)}); err != nil {
				t.Fatal(err)
			}
		}
		tcp := proxy.NewTCP(t, strings.TrimPrefix(b.dialer.Address, "amqp://"))
		tcp.Slow(n * size / 8) // eight seconds for all
		slow := b
		slow.dialer.Address = "amqp://" + tcp.Address
		through := slow.open(t)
		another := through.another
		through.another = func(ctx context.Context) (*Session, error) {
			opened, err := another(ctx)
			if err == nil {
				opened.patience = 3 * time.Second
			}
			return opened, err
		}
		poll.Until(10*time.Second, func() bool { d, err := s.Glance(t.Context(), queue); return err == nil && d.Ready == n })
		outcome, err := through.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
		if err != nil || outcome.Done != n {
			t.Errorf("%+v %v", outcome, err)
		}
	})
}

// With message interceptors, what the broker returns is not what was published.
// Nothing of it is acknowledged. A message that is too large stays alone.
func TestLiveRules(t *testing.T) {
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	own := rabbit.Own(t, rabbit.Options{Version: "4.0", ExtraConfig: "message_interceptors.incoming.set_header_timestamp.overwrite = true\n" +
		"message_interceptors.incoming.set_header_routing_node.overwrite = true\n"})
	b := newBench(t, own)
	s := b.open(t)
	queue, work := b.queue(t, s, "quorum"), b.destination(t, s)
	fill(t, s, queue, 0, 10)
	var unroutable *UnroutableError
	outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to("missing", everyone)})
	if !errors.As(err, &unroutable) || outcome.Done != 0 {
		t.Errorf("%+v %v", outcome, err)
	}
	// The first one alone would be known by that; these are not.
	half := func(m deadletter.Message) (Route, bool) {
		if n, _ := strconv.Atoi(m.ID()); n < 5 {
			return Route{RoutingKey: work}, true
		}
		return Route{RoutingKey: "missing"}, true
	}
	outcome, err = s.Redrive(t.Context(), queue, RedriveOptions{Route: half})
	if !errors.As(err, &unroutable) || unroutable.Count != 5 || outcome.Done != 5 {
		t.Errorf("%+v %v", outcome, err)
	}
	if got := b.content(t, queue, 5); fmt.Sprint(got) != "[5 6 7 8 9]" {
		t.Errorf("left %v", got)
	}
	publishTo(t, s, queue, amqp.Publishing{MessageId: "large", Body: make([]byte, 5000)})
	fill(t, s, queue, 10, 300)
	if out, err := own.Ctl(t.Context(), "eval", "persistent_term:put(max_message_size, 3000)."); err != nil {
		t.Fatal(out, err)
	}
	outcome, err = s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
	if err != nil || outcome.Done != 305 || outcome.RefusedCount != 1 || len(outcome.Refused) != 1 || outcome.Refused[0].ID != "large" || outcome.Refused[0].Position != 6 {
		t.Errorf("%+v %v", outcome, err)
	}
	if got := b.content(t, work, 310); !slices.Equal(got, numbered(310, func(int) bool { return true })) {
		t.Errorf("moved %v", got)
	}
	if got := b.content(t, queue, 1); got[0] != "large" {
		t.Errorf("left %v", got)
	}
}

// One message is taken from the head without a look at all others, where the
// order allows it, and the order stays.
func TestLiveOneFromTheHead(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue, work := b.queue(t, s, kind), b.destination(t, s)
		s.Know(Traits{KeepsPlaces: kind == "classic"})
		fill(t, s, queue, 0, 500)
		for i := range 3 {
			outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone), Max: 1})
			if err != nil || outcome.Done != 1 || outcome.Seen != 1 {
				t.Fatalf("run %d: %+v %v", i, outcome, err)
			}
			p, err := s.Pass(t.Context(), queue, PassOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for range 20 {
				if _, _, err := p.Next(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if err := p.Finish(t.Context()); err != nil {
				t.Fatal(err)
			}
			if i == 0 && p.seen == p.total {
				t.Errorf("all %d messages were read", p.seen)
			}
			if err := p.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := b.content(t, queue, 497); misplaced(got, 3, 1) != 0 {
			t.Errorf("left %v", got)
		}
	})
}

// With strict, what would change stays.
func TestLiveStrict(t *testing.T) {
	eachOf(t, rabbit.Spread(t.Name(), bothTypes), func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue, work := b.queue(t, s, kind), b.destination(t, s)
		fill(t, s, queue, 0, 2)
		publishTo(t, s, queue, amqp.Publishing{MessageId: "typed", Type: "amqp-1.0"})
		fill(t, s, queue, 2, 2)
		outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone), Strict: true})
		if err != nil || outcome.Done != 4 || outcome.Changed != 1 {
			t.Errorf("%+v %v", outcome, err)
		}
		if got := b.content(t, queue, 1); got[0] != "typed" {
			t.Errorf("left %v", got)
		}
		outcome, err = s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
		if err != nil || outcome.Done != 1 || outcome.Changed != 1 {
			t.Errorf("%+v %v", outcome, err)
		}
	})
}
