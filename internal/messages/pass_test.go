package messages

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// bench is a broker with a virtual host of its own.
type bench struct {
	*rabbit.Broker

	dialer Dialer
	vhost  string
	admin  *rabbithole.Client
}

// eachQueueType runs the test for each type of queue, on a broker as
// [rabbit.Spread] says.
func eachQueueType(t *testing.T, test func(t *testing.T, b bench, kind string)) {
	t.Helper()
	eachOf(t, bothTypes, test)
}

var bothTypes = []string{"classic", "quorum"}

func eachOf(t *testing.T, types []string, test func(t *testing.T, b bench, kind string)) {
	t.Helper()
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	brokers, err := rabbit.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range rabbit.Spread(t.Name(), brokers) {
		for _, kind := range types {
			t.Run(b.Name+"/"+kind, func(t *testing.T) {
				t.Parallel()
				test(t, newBench(t, b), kind)
			})
		}
	}
}

func newBench(t *testing.T, b *rabbit.Broker) bench {
	t.Helper()
	admin, err := b.API()
	if err != nil {
		t.Fatal(err)
	}
	vhost := "messages test/" + rand.Text()
	if _, err := admin.PutVhost(vhost, rabbithole.VhostSettings{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = admin.DeleteVhost(vhost) })
	everything := rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	if _, err := admin.UpdatePermissionsIn(vhost, b.Username, everything); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(b.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	return bench{b, Dialer{Address: "amqp://" + u.Host, Username: b.Username, Password: b.Password}, vhost, admin}
}

func (b bench) open(t *testing.T) *Session {
	t.Helper()
	s, err := b.dialer.Open(t.Context(), b.vhost)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// queue declares a queue that may be looked at.
func (b bench) queue(t *testing.T, s *Session, kind string) string {
	t.Helper()
	arguments := amqp.Table{"x-queue-type": kind}
	if kind == "quorum" && b.Version[0] != '3' {
		arguments["x-delivery-limit"] = int32(-1)
	}
	channel, err := s.connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := channel.QueueDeclare("parking", true, false, false, false, arguments); err != nil {
		t.Fatal(err)
	}
	return "parking"
}

// fill publishes messages whose ids are the numbers from first on.
func fill(t *testing.T, s *Session, queue string, first, n int) {
	t.Helper()
	messages := make([]amqp.Publishing, n)
	for i := range messages {
		messages[i] = amqp.Publishing{MessageId: strconv.Itoa(first + i), DeliveryMode: amqp.Persistent, Body: []byte("payload")}
	}
	publishTo(t, s, queue, messages...)
}

// publishTo publishes to the queue, and waits for the confirms: messages of several
// channels are in order only if the earlier ones were confirmed.
func publishTo(t *testing.T, s *Session, queue string, messages ...amqp.Publishing) {
	t.Helper()
	channel, err := s.connection.Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer channel.Close()
	if err := channel.Confirm(false); err != nil {
		t.Fatal(err)
	}
	confirmations := make([]*amqp.DeferredConfirmation, len(messages))
	for i, m := range messages {
		if confirmations[i], err = channel.PublishWithDeferredConfirm("", queue, true, false, m); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range confirmations {
		if ok, err := c.WaitContext(t.Context()); !ok || err != nil {
			t.Fatal("not confirmed", err)
		}
	}
}

// look passes over the queue, takes the messages that take names, and returns
// the ids in order.
func look(t *testing.T, s *Session, queue string, window int, take func(deadletter.Message) bool) []string {
	t.Helper()
	p, err := s.Pass(t.Context(), queue, PassOptions{Window: window})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for {
		m, more, err := p.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
		ids = append(ids, m.ID())
		if take != nil && take(m.Message) {
			if err := p.Take(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// misplaced counts the ids that are not the numbers from first on in steps.
func misplaced(ids []string, first, step int) int {
	n := 0
	for i, id := range ids {
		if id != strconv.Itoa(first+i*step) {
			n++
		}
	}
	return n
}

// A hundred looks lose nothing, reorder nothing and bring no message over a
// limit, while new messages arrive.
func TestLiveHundredLooks(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		n := rabbit.Size(1000, 200)
		fill(t, s, queue, 0, n)
		for i := range 100 {
			if ids := look(t, s, queue, 0, nil); len(ids) != n || misplaced(ids, 0, 1) != 0 {
				t.Fatalf("look %d: %d messages, %d of them misplaced", i, len(ids), misplaced(ids, 0, 1))
			}
			if i%25 == 0 {
				fill(t, s, queue, n, 2)
				n += 2
			}
		}
	})
}

// Messages that arrive during a pass are not shown and come behind those that
// were there, whatever is taken.
func TestLiveArrivalsDuringAPass(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		for _, window := range []int{0, 7} {
			s := b.open(t)
			queue := b.queue(t, s, kind)
			fill(t, s, queue, 0, 50)
			shown := look(t, s, queue, window, func(m deadletter.Message) bool {
				if m.Position == 10 || m.Position == 50 {
					fill(t, s, queue, 100+2*m.Position, 1)
				}
				return m.Position%2 == 0
			})
			if len(shown) != 50 || misplaced(shown, 0, 1) != 0 {
				t.Errorf("window %d: the pass showed %v", window, shown)
			}
			left := look(t, s, queue, 0, func(deadletter.Message) bool { return true })
			if len(left) != 27 || misplaced(left[:25], 0, 2) != 0 || left[25] != "120" || left[26] != "200" {
				t.Errorf("window %d: %v is left", window, left)
			}
		}
	})
}

// A pass over many windows keeps the order, also when messages are taken long
// after they came.
func TestLiveWindows(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		fill(t, s, queue, 0, 300)
		p, err := s.Pass(t.Context(), queue, PassOptions{Window: 20})
		if err != nil {
			t.Fatal(err)
		}
		var all []Parked
		for {
			m, more, err := p.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if !more {
				break
			}
			all = append(all, m)
			if late := len(all) - 50; late >= 0 && late%3 == 0 {
				if err := p.Take(t.Context(), all[late]); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, m := range all {
			if m.ID() != strconv.Itoa(i) {
				t.Fatalf("position %d has message %s", i, m.ID())
			}
		}
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		var want []string
		for i := range 300 {
			if i%3 != 0 || i > 300-50 {
				want = append(want, strconv.Itoa(i))
			}
		}
		if left := look(t, s, queue, 0, nil); fmt.Sprint(left) != fmt.Sprint(want) {
			t.Errorf("left %v", left)
		}
	})
}

// More messages than the largest window holds keep their order, look after look.
func TestLiveLargeLook(t *testing.T) {
	eachOf(t, rabbit.Spread(t.Name(), bothTypes), func(t *testing.T, b bench, kind string) {
		const n = watchPrefetch + 5000
		s := b.open(t)
		queue := b.queue(t, s, kind)
		fill(t, s, queue, 0, n)
		for range 2 {
			if ids := look(t, s, queue, 0, nil); len(ids) != n || misplaced(ids, 0, 1) != 0 {
				t.Fatalf("%d messages of %d, %d misplaced", len(ids), n, misplaced(ids, 0, 1))
			}
		}
	})
}

// A connection that is cut in a pass loses nothing and says so, at the latest
// when the window is full.
func TestLiveCut(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		fill(t, s, queue, 0, 200)
		p, err := s.Pass(t.Context(), queue, PassOptions{Window: 150})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; err == nil; i++ {
			if i == 100 {
				_ = s.socket.Close()
			}
			_, _, err = p.Next(t.Context())
			if i > 300 {
				t.Fatal("the pass did not notice")
			}
		}
		if !errors.Is(err, ErrCut) {
			t.Errorf("%v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		checkWhole(t, b, queue, 200)
	})
}

// checkWhole waits until the queue has all messages again, and then looks whether they
// are in order. A look before that holds some of them while the others come back, and
// so changes the order.
func checkWhole(t *testing.T, b bench, queue string, n int) {
	t.Helper()
	s := b.open(t)
	var found Depth
	back := func() bool {
		depths, err := s.Depths(t.Context(), []string{queue})
		if err != nil {
			t.Fatal(err)
		}
		found = depths[queue]
		return found == Depth{Ready: n}
	}
	if !poll.Until(20*time.Second, back) {
		t.Errorf("the queue has %d messages ready and %d consumers, expected %d and none", found.Ready, found.Consumers, n)
	}
	if ids := look(t, s, queue, 0, nil); len(ids) != n || misplaced(ids, 0, 1) != 0 {
		t.Errorf("%d messages, %d misplaced", len(ids), misplaced(ids, 0, 1))
	}
}

func TestLiveDeletedUnderneath(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		fill(t, s, queue, 0, 10)
		p, err := s.Pass(t.Context(), queue, PassOptions{Window: 5})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; err == nil && i < 12; i++ {
			if i == 3 {
				if _, err := b.admin.DeleteQueue(b.vhost, queue); err != nil {
					t.Fatal(err)
				}
			}
			_, _, err = p.Next(t.Context())
		}
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// The queue is deleted while the pass asks whether it has more. The answer ends the
// channel, and the next request on it must tell why.
func TestLiveDeletedWhileAsked(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue := b.queue(t, s, kind)
		fill(t, s, queue, 0, 10)
		p, err := s.Pass(t.Context(), queue, PassOptions{Window: 5})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			if _, more, err := p.Next(t.Context()); err != nil || !more {
				t.Fatal(more, err)
			}
		}
		if _, err := b.admin.DeleteQueue(b.vhost, queue); err != nil {
			t.Fatal(err)
		}
		p.ask(p.last(), &quiet{})
		if _, _, err := p.Next(t.Context()); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestLivePassRefused(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		if _, err := s.Pass(t.Context(), "missing", PassOptions{}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v", err)
		}
		queue := b.queue(t, s, kind)
		if ids := look(t, s, queue, 0, nil); len(ids) != 0 {
			t.Errorf("%v", ids)
		}
		fill(t, s, queue, 0, 3)
		name := rand.Text()
		if _, err := b.admin.PutUser(name, rabbithole.UserSettings{Password: secret}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = b.admin.DeleteUser(name) })
		if _, err := b.admin.UpdatePermissionsIn(b.vhost, name, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: "^$"}); err != nil {
			t.Fatal(err)
		}
		d := b.dialer
		d.Username, d.Password = name, secret
		reader, err := d.Open(t.Context(), b.vhost)
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		var refused *RefusedError
		if _, err := reader.Pass(t.Context(), queue, PassOptions{}); !errors.As(err, &refused) {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p, err := s.Pass(ctx, queue, PassOptions{})
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		for range 4 {
			_, _, err = p.Next(ctx)
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := p.Close(t.Context()); err != nil {
			t.Error(err)
		}
		checkWhole(t, b, queue, 3)
	})
}
