package redrive_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/parked"
)

// The environment of [child].
const (
	childEndpoint = "REDRIVE_CHILD_ENDPOINT"
	childAMQP     = "REDRIVE_CHILD_AMQP"
	childUser     = "REDRIVE_CHILD_USER"
	childPassword = "REDRIVE_CHILD_PASSWORD"
	childVHost    = "REDRIVE_CHILD_VHOST"
	childDiscards = "REDRIVE_CHILD_DISCARDS"
)

// child redrives or discards the red messages in a process of its own.
func child() {
	ctx, vhost := context.Background(), os.Getenv(childVHost)
	options := messages.RedriveOptions{Filter: deadletter.Filter{Headers: map[string]any{"tenant": "red"}}}
	c, err := broker.New(broker.Config{
		Endpoint: os.Getenv(childEndpoint), AMQPEndpoint: os.Getenv(childAMQP), Username: os.Getenv(childUser), Password: os.Getenv(childPassword),
	})
	switch {
	case err != nil:
	case os.Getenv(childDiscards) != "":
		_, err = c.Discard(ctx, vhost, "parking", parked.WorkQueues, options)
	default:
		_, err = c.Redrive(ctx, vhost, "parking", parked.WorkQueues, parked.Destination{}.From("parking"), options)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the process is a helper of the test
	}
	if status, err := os.ReadFile("/proc/self/status"); err == nil {
		_, _ = os.Stdout.Write(status)
	}
}

const (
	killParked = 5_000
	killRed    = killParked - killParked/5
)

// TestAccKilled kills redrives in the middle. Nothing is lost, each kill leaves
// at most as many messages twice as the documentation says, what was not
// selected stays once and in order, and the next run moves the rest.
func TestAccKilled(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", killParked)
		moved := 0
		for kill := range 3 {
			// A message takes about 150 bytes: one batch at least is confirmed.
			p.killChild("", 50_000+rand.IntN(100_000))
			// What was published last may not be counted yet.
			now := p.ready("work")
			left := p.ready("parking") - killParked/5
			if now == moved || left <= 0 {
				p.t.Fatalf("kill %d was not in the middle: %d messages moved before and %d then, %d are left", kill, moved, now, left)
			}
			p.t.Logf("kill %d: %d messages moved, %d left, %d twice", kill, now, left, now+left-killRed)
			if now+left < killRed {
				p.t.Errorf("kill %d: %d messages lost", kill, killRed-now-left)
			}
			if part := left % messages.RedriveBatch; part != 0 {
				p.t.Errorf("kill %d: of a batch %d messages were not acknowledged", kill, part)
			}
			p.expectTwice(now+left-killRed, kill+1)
			moved = now
		}
		p.endChild("")
		all := p.drain("work", p.ready("work"))
		p.expectTwice(len(all)-killRed, 3)
		p.expectOnce(all, numbers(killParked, red))
		if got := ids(p.drain("parking", killParked/5)); !slices.Equal(got, numbers(killParked, blue)) {
			p.t.Errorf("what was not selected is not in order: %v", got)
		}
	})
}

// TestAccKilledDiscard kills discards in the middle. What was not selected is
// there, once and in order.
func TestAccKilledDiscard(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", killParked)
		left := killRed
		for kill := range 3 {
			// An acknowledgement takes 21 bytes.
			p.killChild("yes", 10_000+rand.IntN(10_000))
			now := p.ready("parking") - killParked/5
			if now <= 0 || now >= left {
				p.t.Fatalf("kill %d was not in the middle: %d selected messages before and %d then", kill, left, now)
			}
			left = now
		}
		p.endChild("yes")
		if got := ids(p.drain("parking", killParked/5)); !slices.Equal(got, numbers(killParked, blue)) {
			p.t.Errorf("what was not selected is not in order: %v", got)
		}
		p.drain("work", 0)
	})
}

// expectTwice fails the test if more messages are there twice than so many
// kills may leave.
func (p *place) expectTwice(twice, kills int) {
	p.t.Helper()
	if twice > kills*messages.RedriveBatch {
		p.t.Errorf("%d messages are there twice after %d kills", twice, kills)
	}
}

// expectOnce fails the test unless each of the messages is there.
func (p *place) expectOnce(all []worker.Delivery, want []string) {
	p.t.Helper()
	got := ids(all)
	slices.Sort(got)
	want = slices.Clone(want)
	slices.Sort(want)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		p.t.Errorf("%d of %d messages are there", len(got), len(want))
	}
}

// child is a redrive or a discard, which is not started yet.
func (p *place) child(address, discards string) *exec.Cmd {
	p.t.Helper()
	command := exec.CommandContext(p.t.Context(), os.Args[0])
	command.Env = append(os.Environ(),
		childEndpoint+"="+p.b.Endpoint, childAMQP+"=amqp://"+address, childUser+"="+p.b.Username, childPassword+"="+p.b.Password,
		childVHost+"="+p.vhost, childDiscards+"="+discards)
	return command
}

// killChild kills a child as kill -9 does when it has sent so many bytes to the
// broker, and waits until the broker has taken back what it held.
func (p *place) killChild(discards string, after int) {
	p.t.Helper()
	tcp := proxy.NewTCP(p.t, amqpHost(p.t, p.b))
	command := p.child(tcp.Address, discards)
	var output bytes.Buffer
	command.Stderr = &output
	tcp.CutAfter(after, func() { _ = command.Process.Kill() })
	err := command.Run()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.Exited() {
		p.t.Fatalf("the child was not killed: %v: %s", err, &output)
	}
	p.released("parking")
}

// endChild runs a child to its end.
func (p *place) endChild(discards string) {
	p.t.Helper()
	if output, err := p.child(amqpHost(p.t, p.b), discards).CombinedOutput(); err != nil {
		p.t.Fatalf("%s: %s", err, output)
	}
}

// released waits until nobody consumes the queue any more: then the broker has
// taken back what was not acknowledged.
func (p *place) released(queue string) {
	p.t.Helper()
	ch, err := p.w.Connection().Channel()
	if err != nil {
		p.t.Fatal(err)
	}
	defer func() { _ = ch.Close() }()
	p.wait(func() bool {
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			p.t.Fatal(err)
		}
		return q.Messages > 0 && q.Consumers == 0
	})
}
