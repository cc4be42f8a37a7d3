//go:build linux

package redrive_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// maxMemory is what a process that redrives may have in memory, in bytes.
const maxMemory = 128 << 20

// TestAccMemory: neither the number nor the size of the messages decides how much
// memory a redrive takes, also where many small ones are followed by large ones.
func TestAccMemory(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		kind := rabbit.Spread(t.Name(), []string{"classic", "quorum"})[0]
		p := newPlace(t, b, kind)
		small, large := rabbit.Size(50_000, 15_000), rabbit.Size(400, 150)
		p.park("work", small)
		p.enlarge(large)
		command := p.child(amqpHost(t, b), "")
		command.Env = append(command.Env, "GOGC=400") // as the provider sets it
		var errors bytes.Buffer
		command.Stderr = &errors
		status, err := command.Output()
		if err != nil {
			t.Fatal(err, errors.String())
		}
		// The resource usage of a process starts with that of its parent.
		peak := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
		if peak == nil {
			t.Fatalf("no peak in %s", status)
		}
		used, err := strconv.Atoi(string(peak[1]))
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB at most", kind, used)
		if used<<10 > maxMemory {
			t.Errorf("it took %d MiB, expected %d at most", used>>10, maxMemory>>20)
		}
		if moved, left := p.ready("work"), p.ready("parking"); moved != small-small/5+large/2 || left != small/5+large/2 {
			t.Errorf("%d moved, %d left", moved, left)
		}
	})
}

// enlarge publishes n messages of 1 MiB to the queue "parking", which failed in
// "work". Every other one is red.
func (p *place) enlarge(n int) {
	p.t.Helper()
	body := []byte(strings.Repeat("x", 1<<20))
	for i := range n {
		tenant := "red"
		if i%2 == 0 {
			tenant = "blue"
		}
		err := p.w.Publish(p.t.Context(), "", "parking", amqp.Publishing{
			MessageId: fmt.Sprint("large", i), Body: body,
			Headers: amqp.Table{"tenant": tenant, "x-death": []any{amqp.Table{"queue": "work", "reason": "rejected", "count": int64(1)}}},
		})
		if err != nil {
			p.t.Fatal(err)
		}
	}
}
