package broker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// dial opens a channel with confirms in the test's virtual host.
func (b liveBroker) dial() (*amqp.Channel, error) {
	u, err := url.Parse(b.AMQP)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = "", ""
	connection, err := amqp.DialConfig(u.String(), amqp.Config{Vhost: b.vhost})
	if err != nil {
		return nil, err
	}
	channel, err := connection.Channel()
	if err == nil {
		err = channel.Confirm(false)
	}
	return channel, err
}

// publishTo publishes a message with confirm and mandatory.
func publishTo(t *testing.T, channel *amqp.Channel, exchange, key string, message amqp.Publishing) {
	t.Helper()
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	message.DeliveryMode = amqp.Persistent
	confirmation, err := channel.PublishWithDeferredConfirm(exchange, key, true, false, message)
	must(t, err)
	acked, err := confirmation.WaitContext(t.Context())
	must(t, err)
	select {
	case returned := <-returns:
		t.Fatalf("%q %q: returned: %s", exchange, key, returned.ReplyText)
	default:
	}
	if !acked {
		t.Fatalf("%q %q: not confirmed", exchange, key)
	}
}

// whenWatched makes the client call act when the watch of its next deletion has
// begun.
func whenWatched(c *Client, act func()) {
	open := c.openSession
	c.openSession = func(ctx context.Context, vhost string) (session, error) {
		c.openSession = open
		s, err := open(ctx, vhost)
		return intruder{s, act}, err
	}
}

type intruder struct {
	session
	act func()
}

func (i intruder) Watch(ctx context.Context, queue string) (watch, error) {
	w, err := i.session.Watch(ctx, queue)
	i.act()
	return w, err
}

// beforeDelete returns a context for the deletion of a quorum queue that calls
// act right before the DELETE, its third request when the client has the
// broker's facts.
func beforeDelete(ctx context.Context, act func()) context.Context {
	var requests atomic.Int32
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		if requests.Add(1) == 3 {
			act()
		}
	}})
}

// haveFacts makes the client ask for the broker's facts, which it keeps.
func haveFacts(t *testing.T, c *Client) {
	t.Helper()
	_, err := c.AMQP(t.Context())
	must(t, err)
	_, err = c.Info(t.Context())
	must(t, err)
}

// take consumes n messages, also of queues that allow no basic.get.
func take(t *testing.T, channel *amqp.Channel, queue string, n int) []amqp.Delivery {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	deliveries, err := channel.Consume(queue, "taker", false, false, false, false, nil)
	must(t, err)
	var taken []amqp.Delivery
	for len(taken) < n {
		select {
		case d := <-deliveries:
			taken = append(taken, d)
			must(t, d.Ack(false))
		case <-ctx.Done():
			t.Fatalf("%d messages instead of %d", len(taken), n)
		}
	}
	must(t, channel.Cancel("taker", false))
	return taken
}

// A message that comes between the last look and the DELETE is not lost: the
// queue is put back with it, with its properties and with all bindings.
func TestLiveDeletePutsBack(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		for name, args := range map[string]topology.Arguments{
			"plain":  {topology.MaxLength: int64(100)},
			"single": {topology.SingleActiveConsumer: true, topology.DeliveryLimit: int64(0)},
		} {
			t.Run(name, func(t *testing.T) {
				q := topology.Queue{Name: "put back/" + name, Type: topology.Quorum, Durable: true, Arguments: args}
				putsBack(t, b, q, "put back alone "+name)
			})
		}
	})
}

func putsBack(t *testing.T, b liveBroker, q topology.Queue, alone string) {
	t.Helper()
	ctx, c, channel := t.Context(), b.client(t), b.channel(t)
	must(t, channel.Confirm(false))
	must(t, created(c.DeclareQueue(ctx, b.vhost, q)))
	must(t, created(c.DeclareExchange(ctx, b.vhost, topology.Exchange{Name: alone, Type: topology.Fanout, Durable: true})))
	must(t, c.Bind(ctx, b.vhost, topology.Binding{Source: alone, Destination: q.Name, DestinationKind: topology.KindQueue}))
	view(t, c, b.vhost)
	haveFacts(t, c)
	// Other bindings, which the snapshot does not know.
	must(t, channel.QueueBind(q.Name, "a.*", "amq.topic", false, nil))
	must(t, channel.QueueBind(q.Name, "", "amq.headers", false, amqp.Table{"x-match": "all", "n": int64(1)}))
	before := view(t, b.client(t), b.vhost)

	message := amqp.Publishing{
		Headers:     amqp.Table{"n": int64(1), "x-death": []any{amqp.Table{"queue": "elsewhere", "reason": "rejected", "count": int64(2)}}, "f": 1.5, "nothing": nil},
		ContentType: "application/json", ContentEncoding: "identity", Priority: 3, CorrelationId: "c", ReplyTo: "r",
		MessageId: "m", Type: "t", UserId: b.Username, AppId: "a", Timestamp: time.Unix(1700000000, 0), Body: []byte(`{"n":1}`),
	}
	err := c.DeleteQueue(beforeDelete(ctx, func() {
		publishTo(t, channel, "", q.Name, message)
		publishTo(t, channel, "amq.topic", "a.b", message)
		publishTo(t, channel, alone, "original", message)
	}), b.vhost, q, OnlyIfEmpty)
	wantError[*InUseError](t, err, "3 messages arrived", "put back")
	if d := topology.Diff(before, view(t, b.client(t), b.vhost)); !d.Empty() {
		t.Errorf("the virtual host is not as it was: missing %v %v, extra %v %v", d.Missing.Queues(), d.Missing.Bindings(), d.Extra.Exchanges(), d.Extra.Bindings())
	}
	compareWithBroker(t, b, c)
	var keys []string
	for _, d := range take(t, b.channel(t), q.Name, 3) {
		keys = append(keys, d.RoutingKey)
		if d.RoutingKey == "original" && d.Exchange != alone {
			t.Errorf("came through %q", d.Exchange)
		}
		checkSame(t, d, message)
	}
	if want := []string{q.Name, "a.b", "original"}; !slices.Equal(keys, want) {
		t.Errorf("routing keys %q, want %q", keys, want)
	}
}

func checkSame(t *testing.T, d amqp.Delivery, message amqp.Publishing) {
	t.Helper()
	got := fmt.Sprint(d.ContentType, d.ContentEncoding, d.Priority, d.DeliveryMode, d.CorrelationId, d.ReplyTo, d.MessageId, d.Type, d.UserId, d.AppId, d.Timestamp.Unix(), string(d.Body), d.Headers)
	want := fmt.Sprint(message.ContentType, message.ContentEncoding, message.Priority, amqp.Persistent, message.CorrelationId, message.ReplyTo, message.MessageId,
		message.Type, message.UserId, message.AppId, message.Timestamp.Unix(), string(message.Body), message.Headers)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// A message that comes before the last look is given back, also where a return
// would be its end.
func TestLiveDeleteGivesBack(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		for name, args := range map[string]topology.Arguments{
			"plain":      nil,
			"no returns": {topology.DeliveryLimit: int64(0)},
			"single":     {topology.SingleActiveConsumer: true},
			"delayed":    {"x-delayed-retry-type": "all", "x-delayed-retry-min": int64(500)},
		} {
			t.Run(name, func(t *testing.T) {
				ctx, c, channel := t.Context(), b.client(t), b.channel(t)
				must(t, channel.Confirm(false))
				q := topology.Queue{Name: "given back " + name, Type: topology.Quorum, Durable: true, Arguments: args}
				must(t, created(c.DeclareQueue(ctx, b.vhost, q)))
				whenWatched(c, func() { publishTo(t, channel, "", q.Name, amqp.Publishing{MessageId: "m"}) })
				err := c.DeleteQueue(ctx, b.vhost, q, OnlyIfEmpty)
				wantError[*InUseError](t, err)
				d := take(t, b.channel(t), q.Name, 1)[0]
				t.Logf("deliveries counted: %v %v", d.Headers["x-delivery-count"], d.Headers["x-acquired-count"])
				compareWithBroker(t, b, c)
			})
		}
	})
}

// weakClient returns a client of a user that may change only the queue q, and
// that knows where AMQP is: it may not see the listeners.
func (b liveBroker) weakClient(t *testing.T, write, read string) *Client {
	t.Helper()
	c := b.user(t, "management")
	b.permit(t, c.Username(), "^q$", write, read)
	u, err := url.Parse(b.AMQP)
	must(t, err)
	c.amqp.given = []*url.URL{{Scheme: "amqp", Host: u.Host}}
	_, err = c.AMQP(t.Context())
	must(t, err)
	return c
}

// A user that may not make exchanges puts back through the default exchange; one
// that may not publish at all is told what is lost.
func TestLivePutBackOfWeakUsers(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, channel := t.Context(), b.channel(t)
		must(t, channel.Confirm(false))
		q := topology.Queue{Name: "q", Type: topology.Quorum, Durable: true}
		message := amqp.Publishing{MessageId: "m 1", UserId: b.Username, Headers: amqp.Table{"CC": []any{"elsewhere"}, "n": int64(1)}}
		publish := func() { publishTo(t, channel, "amq.topic", "a.b", message) }

		c := b.weakClient(t, ".*", ".*")
		haveFacts(t, c)
		must(t, created(c.DeclareQueue(ctx, b.vhost, q)))
		must(t, c.Bind(ctx, b.vhost, topology.Binding{Source: "amq.topic", Destination: "q", DestinationKind: topology.KindQueue, RoutingKey: "#"}))
		wantError[*InUseError](t, c.DeleteQueue(beforeDelete(ctx, publish), b.vhost, q, OnlyIfEmpty), "1 message arrived")
		d := take(t, b.channel(t), "q", 1)[0]
		if d.MessageId != "m 1" || d.RoutingKey != "q" || d.UserId != "" || len(d.Headers) != 1 {
			t.Errorf("%+v", d)
		}
		compareWithBroker(t, b, c)

		// Nothing is tried that could not be put right.
		mute := b.weakClient(t, "^$", ".*")
		haveFacts(t, mute)
		err := mute.DeleteQueue(beforeDelete(ctx, publish), b.vhost, q, OnlyIfEmpty)
		for err != nil && strings.Contains(err.Error(), "consumers (") { // the test's own, which has just ended
			err = mute.DeleteQueue(beforeDelete(ctx, publish), b.vhost, q, OnlyIfEmpty)
		}
		wantError[*PermissionError](t, err, `write on "amq.default"`)
		if _, exists, err := c.Queue(ctx, b.vhost, "q"); !exists || err != nil {
			t.Error(exists, err)
		}
	})
}

// An administrator reads every virtual host over HTTP, and may have no access to
// it over AMQP.
func TestLiveAMQPRefusals(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		admin := b.user(t, "administrator")
		_, err := admin.openSession(t.Context(), b.vhost)
		wantVhost(t, err, true, true)
		_, err = admin.openSession(t.Context(), b.vhost+"x")
		wantVhost(t, err, false, true)
		admin.password = "wrong"
		_, err = admin.openSession(t.Context(), b.vhost)
		wantError[*CredentialsError](t, err, "amqp://", "not allowed")
	})
}

// A user that may configure and not read cannot delete a quorum queue safely.
func TestLiveDeleteNeedsRead(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		weak := b.weakClient(t, ".*", "")
		q := topology.Queue{Name: "q", Type: topology.Quorum, Durable: true}
		must(t, created(weak.DeclareQueue(t.Context(), b.vhost, q)))
		wantError[*PermissionError](t, weak.DeleteQueue(t.Context(), b.vhost, q, OnlyIfEmpty), `read on "q"`)
		must(t, weak.DeleteQueue(t.Context(), b.vhost, q, Always))
	})
}

// traffic is what publishers know of their messages.
type traffic struct {
	mu sync.Mutex
	// accepted were confirmed and not returned: each from when it was sent to
	// when we had the confirm.
	accepted map[string]span
	returned int
	// pause is the longest time between two messages of a publisher.
	pause time.Duration
	// broken counts connections that the broker ended.
	broken int
}

// publish publishes to the queue through the default exchange until ctx ends,
// one message after the other, with confirms and mandatory.
func (tr *traffic) publish(ctx context.Context, t *testing.T, b liveBroker, queue, name string) {
	t.Helper()
	for try := 0; ctx.Err() == nil; try++ {
		channel, err := b.dial()
		if err != nil {
			t.Error(err)
			return
		}
		if err := tr.publishOver(ctx, channel, queue, name+"-"+strconv.Itoa(try)); err != nil {
			// RabbitMQ ends the connection with 541 INTERNAL_ERROR now and then.
			tr.mu.Lock()
			tr.broken++
			tr.mu.Unlock()
		}
		_ = channel.Close()
	}
}

func (tr *traffic) publishOver(ctx context.Context, channel *amqp.Channel, queue, name string) error {
	returns := channel.NotifyReturn(make(chan amqp.Return, 1))
	for n := 0; ctx.Err() == nil; n++ {
		id := name + "-" + strconv.Itoa(n)
		sent := time.Now()
		confirmation, err := channel.PublishWithDeferredConfirm("", queue, true, false,
			amqp.Publishing{DeliveryMode: amqp.Persistent, MessageId: id, Body: []byte(id)})
		if err != nil {
			return err
		}
		<-confirmation.Done()
		if channel.IsClosed() {
			return amqp.ErrClosed
		}
		tr.note(id, sent, confirmation.Acked(), returns)
		pause := time.NewTimer(tr.nextPause())
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
	}
	return nil
}

func (tr *traffic) nextPause() time.Duration {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return rand.N(tr.pause)
}

// slower leaves a busy machine more time between two messages for a deletion.
func (tr *traffic) slower() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.pause += tr.pause / 4
}

func (tr *traffic) note(id string, sent time.Time, acked bool, returns <-chan amqp.Return) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	select {
	case <-returns:
		tr.returned++
	default:
		if acked {
			tr.accepted[id] = span{sent, time.Now()}
		}
	}
}

// drainer takes messages out of a queue and counts how often each came.
type drainer struct {
	broker  liveBroker
	channel *amqp.Channel
	came    map[string]int
}

// drain takes every ready message.
func (d *drainer) drain(t *testing.T, queue string) {
	t.Helper()
	for {
		if d.channel == nil || d.channel.IsClosed() {
			var err error
			d.channel, err = d.broker.dial()
			must(t, err)
		}
		message, ok, err := d.channel.Get(queue, false)
		if err != nil {
			continue
		}
		if !ok {
			return
		}
		d.came[message.MessageId]++
		_ = message.Ack(false)
	}
}

// Publishers and deletions race for three seconds or more. No message that was
// confirmed before the DELETE went out is lost.
//
// Of those that are confirmed later some are, and no client can help it:
// RabbitMQ confirms what is on its way to a queue that is being deleted
// (rabbit_channel:handle_cast/2, eol, 3.10 to 4.3). The test counts them.
func TestLiveDeleteUnderTraffic(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		for _, kind := range []topology.QueueType{topology.Quorum, topology.Classic} {
			t.Run(string(kind), func(t *testing.T) {
				t.Parallel()
				deleteUnderTraffic(t, b, topology.Queue{Name: "busy " + string(kind), Type: kind, Durable: true})
			})
		}
	})
}

// span is the time from a DELETE to the end of the deletion, or from a message
// to its confirm.
type span struct{ from, to time.Time }

func (s span) overlaps(other span) bool { return s.from.Before(other.to) && other.from.Before(s.to) }

func deleteUnderTraffic(t *testing.T, b liveBroker, q topology.Queue) {
	t.Helper()
	c, d := b.client(t), drainer{broker: b, came: map[string]int{}}
	must(t, created(c.DeclareQueue(t.Context(), b.vhost, q)))
	_, err := c.AMQP(t.Context())
	must(t, err)
	busy, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	tr := traffic{accepted: map[string]span{}, pause: 40 * time.Millisecond}
	var publishers sync.WaitGroup
	for i := range 2 {
		publishers.Go(func() { tr.publish(busy, t, b, q.Name, strconv.Itoa(i)) })
	}
	var spans []span
	var kept, putBack int
	for began := time.Now(); busy.Err() == nil && (time.Since(began) < 3*time.Second || len(spans) < 3); {
		d.drain(t, q.Name)
		s, err := timedDelete(t.Context(), c, b.vhost, q)
		var used *InUseError
		switch {
		case err == nil:
			spans = append(spans, s)
			must(t, created(c.DeclareQueue(t.Context(), b.vhost, q)))
		case !errors.As(err, &used):
			t.Fatal(err)
		case strings.Contains(err.Error(), "put back"):
			spans = append(spans, s)
			putBack++
		default:
			if kept++; kept > 10 && len(spans) < 3 {
				tr.slower()
			}
		}
	}
	stop()
	publishers.Wait()
	d.drain(t, q.Name)
	onTheWay := 0
	for id, message := range tr.accepted {
		switch {
		case d.came[id] > 0:
		case slices.ContainsFunc(spans, message.overlaps):
			onTheWay++
		default:
			t.Errorf("message %s is lost, sent at %s and confirmed at %s while no DELETE was under way", id, message.from, message.to)
		}
	}
	if len(tr.accepted) == 0 || len(spans) < 3 {
		t.Error("nothing was tested")
	}
	t.Logf("%d accepted, %d returned, %d connections broken; deleted %d times, refused %d times, put back %d times; %d lost on the way",
		len(tr.accepted), tr.returned, tr.broken, len(spans)-putBack, kept, putBack, onTheWay)
}

// timedDelete notes when the DELETE went out: that of a quorum queue is the
// third request.
func timedDelete(ctx context.Context, c *Client, vhost string, q topology.Queue) (span, error) {
	var mu sync.Mutex
	var sent []time.Time
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GetConn: func(string) {
		mu.Lock()
		defer mu.Unlock()
		sent = append(sent, time.Now())
	}})
	err := c.DeleteQueue(ctx, vhost, q, OnlyIfEmpty)
	s := span{to: time.Now()}
	mu.Lock()
	defer mu.Unlock()
	if q.Type == topology.Classic {
		s.from = sent[0]
	} else if len(sent) > 2 {
		s.from = sent[2]
	}
	return s, err
}
