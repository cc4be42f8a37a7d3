package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

const (
	// prefetch is how many deliveries a consumer holds.
	prefetch = 10
	// discardsInFlight is how many dead letters an at-least-once queue has under way
	// at once (rabbit_fifo_dlx_worker, dead_letter_worker_consumer_prefetch).
	discardsInFlight = 32
)

// traffic publishes to work queues and consumes them, through whatever node answers.
// A message carries the number of its rejections; more than the chain has delays
// park it.
type traffic struct {
	t       *testing.T
	c       *rabbit.Cluster
	vhost   string
	works   []string
	parking string
	// delays is the number of retries before a message is parked.
	delays int

	stopPublishing, stopConsuming context.CancelFunc
	publishers, consumers         sync.WaitGroup

	mu        sync.Mutex
	published int
	// confirmed messages must be somewhere; of unsure ones the publisher lost the
	// confirm, and did not publish them again.
	confirmed, unsure map[int]bool
	seen              map[int][]sighting
	kills             []time.Time
}

// clock is how times are written.
const clock = "04:05.000"

// sighting is a delivery of a message, or its end in the parking queue.
type sighting struct {
	at          time.Time
	deaths      int64
	redelivered bool
	outcome     worker.Outcome
	parked      bool
}

func (s sighting) String() string {
	what := map[worker.Outcome]string{worker.Ack: "acked", worker.Reject: "rejected"}[s.outcome]
	if s.parked {
		what = "parked"
	}
	if s.redelivered {
		what += ", redelivered"
	}
	return fmt.Sprintf("%s %s after %d rejections", s.at.Format(clock), what, s.deaths)
}

// final says whether the consumer, or parking, is done with the message.
func (s sighting) final() bool { return s.parked || s.outcome == worker.Ack }

// startTraffic starts a publisher and two consumers for each work queue.
func startTraffic(t *testing.T, c *rabbit.Cluster, vhost, parking string, delays int, works ...string) *traffic {
	t.Helper()
	f := &traffic{
		t: t, c: c, vhost: vhost, works: works, parking: parking, delays: delays,
		confirmed: map[int]bool{}, unsure: map[int]bool{}, seen: map[int][]sighting{},
	}
	publishing, stopPublishing := context.WithCancel(t.Context())
	consuming, stopConsuming := context.WithCancel(t.Context())
	f.stopPublishing, f.stopConsuming = stopPublishing, stopConsuming
	for i, work := range works {
		f.publishers.Go(func() { f.publish(publishing, i, work) })
		for n := range 2 {
			f.consumers.Go(func() { f.consume(consuming, i+n, work) })
		}
	}
	t.Cleanup(func() {
		stopPublishing()
		stopConsuming()
		f.publishers.Wait()
		f.consumers.Wait()
	})
	return f
}

// connected calls use with a connection to one node after the other until ctx ends.
func (f *traffic) connected(ctx context.Context, node int, use func(*worker.Worker)) {
	for ; ctx.Err() == nil; node++ {
		w, err := worker.Dial(f.c.Nodes[node%len(f.c.Nodes)].AMQP, f.vhost)
		if err == nil {
			use(w)
			_ = w.Close()
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// confirmLimit is how long a publisher waits for a confirm.
const confirmLimit = 10 * time.Second

func (f *traffic) publish(ctx context.Context, node int, work string) {
	f.connected(ctx, node, func(w *worker.Worker) {
		for ctx.Err() == nil {
			id := f.next()
			message := amqp.Publishing{MessageId: strconv.Itoa(id)}
			publishing, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmLimit)
			err := w.Publish(publishing, "", work, message)
			cancel()
			f.note(id, err == nil)
			if err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

func (f *traffic) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.published++
	return f.published
}

func (f *traffic) note(id int, confirmed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if confirmed {
		f.confirmed[id] = true
	} else {
		f.unsure[id] = true
	}
}

func (f *traffic) saw(id string, s sighting) {
	number, err := strconv.Atoi(id)
	if err != nil {
		f.t.Errorf("a message with the id %q", id)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[number] = append(f.seen[number], s)
}

// rejections is how often the consumer rejects the message: most often not at all.
func (f *traffic) rejections(id string) int64 {
	number, _ := strconv.Atoi(id)
	return int64(max(0, number%(f.delays+6)-4))
}

func (f *traffic) consume(ctx context.Context, node int, work string) {
	f.connected(ctx, node, func(w *worker.Worker) {
		// The error is that of the connection.
		_ = w.Consume(ctx, work, prefetch, func(d worker.Delivery) worker.Outcome {
			s := sighting{at: d.At, deaths: d.Deaths(work, "rejected"), redelivered: d.Redelivered}
			if s.deaths < f.rejections(d.MessageId) {
				s.outcome = worker.Reject
			}
			f.saw(d.MessageId, s)
			return s.outcome
		})
	})
}

// killed notes that a node is killed now.
func (f *traffic) killed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kills = append(f.kills, time.Now())
}

// nearKill says whether a node was killed while a message was under way: from 10 s
// before it was seen for the first time to its end.
func (f *traffic) nearKill(all []sighting) bool {
	return slices.ContainsFunc(f.kills, func(at time.Time) bool {
		return at.After(all[0].at.Add(-10*time.Second)) && at.Before(all[len(all)-1].at)
	})
}

// kill kills nodes and counts them for the bound on doubled messages.
func (f *traffic) kill(nodes ...int) {
	f.t.Helper()
	for range nodes {
		f.killed()
	}
	kill(f.t, f.c, nodes...)
}

// flow waits until so many more messages were published and confirmed.
func (f *traffic) flow(more int) {
	f.t.Helper()
	count := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.confirmed)
	}
	want := count() + more
	if !poll.Until(2*time.Minute, func() bool { return count() >= want }) {
		f.t.Errorf("%d of %d messages were confirmed within 2 minutes", count()+more-want, more)
	}
}

// account ends the traffic and accounts for every message.
func (f *traffic) account() {
	f.t.Helper()
	f.stopPublishing()
	f.publishers.Wait()
	poll.Until(3*time.Minute, func() bool { return f.collect() && len(f.missing()) == 0 && f.empty() })
	f.stopConsuming()
	f.consumers.Wait()

	missing := f.missing()
	doubled := f.doubled()
	f.t.Logf("%d confirmed, %d unsure, %d missing, %d doubled; nodes killed at %s",
		len(f.confirmed), len(f.unsure), len(missing), len(doubled), clocks(f.kills))
	for i, id := range doubled {
		if i < 5 {
			f.t.Logf("  doubled %d: %v", id, f.seen[id])
		}
		if !f.nearKill(f.seen[id]) {
			f.t.Errorf("message %d was doubled, and no node was killed while it was under way: %v", id, f.seen[id])
		}
	}
	if len(missing) > 0 {
		f.t.Errorf("%d confirmed messages are gone: %v", len(missing), missing[:min(len(missing), 10)])
		for _, id := range missing[:min(len(missing), 5)] {
			f.t.Logf("  missing %d: %v", id, f.seen[id])
		}
	}
	if bound := len(f.kills) * (2*prefetch + discardsInFlight*(1+f.delays)) * len(f.works); len(doubled) > bound {
		f.t.Errorf("%d messages were doubled, more than %d that can have been in flight", len(doubled), bound)
	}
	if len(f.confirmed) == 0 {
		f.t.Error("no message was confirmed")
	}
}

// missing are the confirmed messages that are neither acknowledged nor parked.
func (f *traffic) missing() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int
	for id := range f.confirmed {
		if !slices.ContainsFunc(f.seen[id], sighting.final) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// doubled are the messages that ended more than once.
func (f *traffic) doubled() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	var ids []int
	for id, all := range f.seen {
		ends := 0
		for _, s := range all {
			if s.final() {
				ends++
			}
		}
		if ends > 1 {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// clocks writes times as the sightings have them.
func clocks(times []time.Time) string {
	var all []string
	for _, at := range times {
		all = append(all, at.Format(clock))
	}
	return strings.Join(all, ", ")
}

// collect empties the parking queue. It is false if that could not be done now.
func (f *traffic) collect() bool {
	for _, b := range f.c.Nodes {
		w, err := worker.Dial(b.AMQP, f.vhost)
		if err != nil {
			continue
		}
		parked, err := w.Drain(f.parking)
		for _, d := range parked {
			f.saw(d.MessageId, sighting{at: d.At, redelivered: d.Redelivered, parked: true})
		}
		_ = w.Close()
		return err == nil
	}
	return false
}

// empty says whether no queue of the virtual host holds messages.
func (f *traffic) empty() bool {
	queues, err := api(f.t, f.c).ListQueuesIn(f.vhost)
	if err != nil {
		return false
	}
	for _, q := range queues {
		if q.Messages > 0 {
			return false
		}
	}
	return true
}

// leader waits until the queue has a leader, and returns its node.
func leader(t *testing.T, c *rabbit.Cluster, vhost, queue string) int {
	t.Helper()
	found := -1
	var err error
	if !poll.Until(time.Minute, func() bool {
		found, err = c.Leader(t.Context(), vhost, queue)
		return err == nil && found >= 0
	}) {
		t.Fatalf("queue %q has no leader: %v", queue, err)
	}
	return found
}

func kill(t *testing.T, c *rabbit.Cluster, nodes ...int) {
	t.Helper()
	if err := c.Kill(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
}

// start starts nodes again and waits until every replica of the virtual host's queues
// is online.
func start(t *testing.T, c *rabbit.Cluster, vhost string, nodes ...int) {
	t.Helper()
	if err := c.Start(t.Context(), nodes...); err != nil {
		t.Fatal(err)
	}
	var waiting []string
	if !poll.Until(2*time.Minute, func() bool {
		queues, err := api(t, c).ListQueuesIn(vhost)
		waiting = nil
		for _, q := range queues {
			if q.Leader == "" && q.Type == "quorum" || len(q.Online) < len(q.Members) {
				waiting = append(waiting, q.Name)
			}
		}
		return err == nil && len(waiting) == 0
	}) {
		t.Fatalf("queues without all replicas: %s", strings.Join(waiting, ", "))
	}
}
