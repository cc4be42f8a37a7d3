package redrive_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// expectAll fails the test unless parking and the destination hold each of the
// n messages, and parking holds its part in order.
func (p *place) expectAll(destination string, n int) {
	p.t.Helper()
	p.wait(func() bool { return p.ready("parking")+p.ready(destination) >= n })
	moved, err := p.w.Drain(destination)
	if err != nil {
		p.t.Fatal(err)
	}
	left, err := p.w.Drain("parking")
	if err != nil {
		p.t.Fatal(err)
	}
	if first := len(moved) + len(left) - n; first > 0 {
		p.t.Logf("%d messages twice", first)
	}
	got := ids(moved)
	for _, id := range ids(left) {
		if !slices.Contains(got, id) {
			got = append(got, id)
		}
	}
	if !slices.Equal(got, numbers(n, every)) {
		p.t.Errorf("of %d messages there are %v", n, got)
	}
}

// paced is a redrive that leaves time to interfere.
func (p *place) paced(perSecond int) object {
	return object{"queue": "parking", "vhost": p.vhost, "max_messages_per_second": perSecond, "destination": object{"queue": "elsewhere"}}
}

// TestAccCut cuts the connection in the middle; the next run moves the rest.
func TestAccCut(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 300)
		tcp := proxy.NewTCP(p.t, amqpHost(p.t, p.b))
		through := server(p.t, p.b, object{"amqp_endpoint": "amqp://" + tcp.Address})
		go func() {
			for ready := 0; ready < 50; time.Sleep(10 * time.Millisecond) {
				if ready, _ = p.w.Ready("elsewhere"); p.t.Context().Err() != nil {
					return
				}
			}
			tcp.Cut()
		}()
		_, found := create(p.t, through, redriveType, p.paced(40))
		expectError(p.t, found, "Run Broken Off", "cut", "messages moved")
		p.expectAll("elsewhere", 300)
	})
}

// TestAccCutDiscard cuts the connection in the middle of a discard, in the
// middle of a frame. What is not selected stays, once and in order.
func TestAccCutDiscard(t *testing.T) {
	eachPlace(t, func(p *place) {
		const n = 2000
		p.park("work", n)
		config := object{"queue": "parking", "vhost": p.vhost, "filter": object{"headers": `{"tenant":"red"}`}}
		tcp := proxy.NewTCP(p.t, amqpHost(p.t, p.b))
		// An acknowledgement takes 21 bytes: two batches are gone at least.
		tcp.CutAfter(13_000+rand.IntN(10_000), nil)
		_, found := create(p.t, server(p.t, p.b, object{"amqp_endpoint": "amqp://" + tcp.Address}), discardType, config)
		expectError(p.t, found, "Run Broken Off", `Queue "parking"`, "cut", "messages discarded", "Run it again for the rest")
		p.released("parking")
		left := p.ready("parking") - n/5
		if left <= 0 || left >= n-n/5 || left%messages.RedriveBatch != (n-n/5)%messages.RedriveBatch {
			p.t.Errorf("%d of %d selected messages are left, expected whole batches to be gone", left, n-n/5)
		}
		if got := ids(p.drain("parking", left+n/5)); !slices.Equal(got, numbers(n, func(i int) bool { return blue(i) || slices.Contains(got, fmt.Sprint(i)) })) {
			p.t.Errorf("what is left is not in order: %v", got)
		}
	})
}

// TestAccQueueDeleted deletes the queue underneath when the run holds all of its
// messages, and so they arrive.
func TestAccQueueDeleted(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 300)
		p.deleteOnce("parking", func(arrived, left int) bool { return arrived >= 50 && left == 0 })
		run(p.t, p.Server, redriveType, p.paced(100), object{"moved": 300})
		if got := ids(p.drain("elsewhere", 300)); !slices.Equal(got, numbers(300, every)) {
			p.t.Errorf("moved %v", got)
		}
	})
}

// TestAccDestinationDeleted deletes the destination underneath: what is
// returned stays.
func TestAccDestinationDeleted(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 300)
		p.deleteOnce("elsewhere", func(arrived, _ int) bool { return arrived >= 20 })
		_, found := create(p.t, p.Server, redriveType, p.paced(20))
		// While a quorum queue goes, the broker has other words for it.
		expectError(p.t, found, "messages moved", `ueue "elsewhere"`, "The others are where they were")
		var moved int
		_, text, _ := strings.Cut(found.String(), "\n\n")
		if _, err := fmt.Sscan(strings.TrimSpace(text), &moved); err != nil {
			p.t.Fatal(err, found)
		}
		left := ids(p.drain("parking", 300-moved))
		if !slices.Equal(left, numbers(300, func(i int) bool { return slices.Contains(left, fmt.Sprint(i)) })) {
			p.t.Errorf("left %v after %d were moved", left, moved)
		}
	})
}

// deleteOnce deletes a queue when so many messages have arrived and are left.
func (p *place) deleteOnce(queue string, due func(arrived, left int) bool) {
	api, ctx := acctest.API(p.t, p.b), p.t.Context()
	go func() {
		for arrived, left := 0, 300; !due(arrived, left); time.Sleep(10 * time.Millisecond) {
			arrived, _ = p.w.Ready("elsewhere")
			if left, _ = p.w.Ready("parking"); ctx.Err() != nil {
				return
			}
		}
		resp, err := api.DeleteQueue(p.vhost, queue)
		if err == nil {
			_ = resp.Body.Close()
		}
	}()
}

// TestAccRefusals: what cannot work says why, and moves nothing.
func TestAccRefusals(t *testing.T) {
	eachPlace(t, func(p *place) {
		p.park("work", 5)
		config := object{"queue": "parking", "vhost": p.vhost}
		refused := func(s *protocol.Server, change object, texts ...string) {
			p.t.Helper()
			changed := object{}
			for name, value := range config {
				changed[name] = value
			}
			for name, value := range change {
				changed[name] = value
			}
			_, found := create(p.t, s, redriveType, changed)
			expectError(p.t, found, texts...)
		}
		refused(server(p.t, p.b, object{"amqp_endpoint": "amqp://127.0.0.1:1"}), nil, "127.0.0.1:1", "refused", "amqp_endpoint")
		refused(p.Server, object{"destination": object{"exchange": "missing"}}, "missing", "does not exist", "0 messages moved")
		refused(p.Server, object{"destination": object{"queue": "missing"}}, "missing", "does not exist", "0 messages moved")
		refused(p.Server, object{"destination": object{"queue": "parking"}}, "already")
		refused(p.Server, object{"destination": object{}}, "exactly one")
		refused(p.Server, object{"queue": "missing"}, "missing")
		refused(p.Server, object{"filter": object{"older_than": "soon"}}, "filter")
		for permission, text := range map[rabbithole.Permissions]string{
			{Configure: ".*", Write: ".*"}: "read permission",
			{Configure: ".*", Read: ".*"}:  "write permission",
		} {
			refused(p.user(permission), nil, text)
		}
		p.wait(func() bool { return p.ready("parking") == 5 })
		if got := ids(p.drain("parking", 5)); !slices.Equal(got, numbers(5, every)) {
			p.t.Errorf("left %v", got)
		}
	})
}

// user is a provider with a user of these permissions.
func (p *place) user(permissions rabbithole.Permissions) *protocol.Server {
	p.t.Helper()
	api := acctest.API(p.t, p.b)
	name := p.vhost + "-" + map[bool]string{true: "writer", false: "reader"}[permissions.Read == ""]
	do := func(resp *http.Response, err error) {
		p.t.Helper()
		acctest.Do(p.t, resp, err)
	}
	do(api.PutUser(name, rabbithole.UserSettings{Password: name, Tags: rabbithole.UserTags{"monitoring"}}))
	p.t.Cleanup(func() { do(api.DeleteUser(name)) })
	do(api.UpdatePermissionsIn(p.vhost, name, permissions))
	return server(p.t, p.b, object{"username": name, "password": name})
}
