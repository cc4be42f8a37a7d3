package differential

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology/simulator"
)

const (
	envSeed  = "RETRYCHAIN_DIFFERENTIAL_SEED"
	envCases = "RETRYCHAIN_DIFFERENTIAL_CASES"
	// atOnce is how many cases run on one broker at the same time.
	atOnce = 24
)

// TestMain lets all brokers run at the same time, on however few processors: a
// comparison is mostly waiting.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	m.Run()
}

// fewer is an eighth of the cases, or with [rabbit.EnvFull] all.
func fewer(cases int64) int64 {
	if rabbit.Full() {
		return cases
	}
	return cases / 8
}

func number(t *testing.T, name string, byDefault int64) int64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestDifferential compares the simulator with every broker that the
// environment names, each in a virtual host of its own.
func TestDifferential(t *testing.T) {
	if !rabbit.Given() {
		t.Skipf("no broker to compare with: set %s", rabbit.EnvEndpoints)
	}
	seed, cases := number(t, envSeed, 1), number(t, envCases, fewer(64))
	brokers, err := rabbit.All(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, b)
			t.Run("journeys", func(t *testing.T) { compareJourneys(t, h, seed, cases) })
			t.Run("order", func(t *testing.T) { compareOrders(t, h) })
			t.Run("waits", func(t *testing.T) { compareWaits(t, h) })
			t.Run("routing", func(t *testing.T) { compareRoutings(t, h, seed) })
		})
	}
}

// host is a virtual host of its own on a real broker.
type host struct {
	broker     *rabbit.Broker
	version    abilities.Version
	name       string
	connection *amqp.Connection
}

func newHost(t *testing.T, b *rabbit.Broker) *host {
	t.Helper()
	version, err := abilities.Parse(b.Version)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{broker: b, version: version, name: "differential " + rand.Text()}
	h.manage(t, http.MethodPut, "/api/vhosts/"+url.PathEscape(h.name), map[string]any{})
	t.Cleanup(func() { h.manage(t, http.MethodDelete, "/api/vhosts/"+url.PathEscape(h.name), nil) })
	h.manage(t, http.MethodPut, "/api/permissions/"+url.PathEscape(h.name)+"/"+url.PathEscape(b.Username),
		map[string]any{"configure": ".*", "write": ".*", "read": ".*"})
	h.connection, err = amqp.DialConfig(b.AMQP, amqp.Config{Vhost: h.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.connection.Close() })
	return h
}

// manage calls the management API and returns what it answers.
func (h *host) manage(t *testing.T, method, path string, body any) []byte {
	t.Helper()
	answer, err := h.call(method, path, body)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func (h *host) setPolicy(p topology.Policy) error {
	_, err := h.call(http.MethodPut, "/api/policies/"+url.PathEscape(h.name)+"/"+url.PathEscape(p.Name), map[string]any{
		"pattern": p.Pattern, "apply-to": p.ApplyTo, "priority": p.Priority, "definition": p.Definition,
	})
	return err
}

func (h *host) call(method, path string, body any) ([]byte, error) {
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(context.Background(), method, h.broker.Endpoint+path, bytes.NewReader(encoded))
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth(h.broker.Username, h.broker.Password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s %s: %s %s", method, path, response.Status, answer)
	}
	return answer, err
}

// heldDeadLetters are the dead letters that at-least-once queues could not
// deliver, by queue.
func (h *host) heldDeadLetters(t *testing.T) map[string]int {
	t.Helper()
	var queues []struct {
		Name        string `json:"name"`
		MessagesDLX int    `json:"messages_dlx"`
	}
	answer := h.manage(t, http.MethodGet, "/api/queues/"+url.PathEscape(h.name)+"?columns=name,messages_dlx", nil)
	if err := json.Unmarshal(answer, &queues); err != nil {
		t.Fatal(err)
	}
	held := map[string]int{}
	for _, q := range queues {
		if q.MessagesDLX > 0 {
			held[q.Name] = q.MessagesDLX
		}
	}
	return held
}

// compareJourneys wants the same deliveries, with the same headers, and the same
// messages left in the end.
func compareJourneys(t *testing.T, h *host, seed, count int64) {
	t.Helper()
	h.compareAll(t, append(journeys(t, h.version, seed, count), knownCases()...))
}

// journeys are cases of every kind that the broker supports without a plugin.
func journeys(t *testing.T, version abilities.Version, seed, count int64) []testCase {
	t.Helper()
	cases := append(draws(t, seed, count, "c", version, anyCase), draws(t, seed, count/2+1, "e", version, existingCase)...)
	if retry.FeaturesOf(version).LastDeathHeaders {
		cases = append(cases, draws(t, seed, count/4+1, "s", version, sharedCase)...)
	}
	return cases
}

// draws draws so many cases of one kind.
func draws(
	t *testing.T, seed, count int64, letter string, version abilities.Version, draw func(random, string, abilities.Version) testCase,
) []testCase {
	t.Helper()
	var cases []testCase
	for n := range count {
		c, err := drawn(seed+n, letter, version, draw)
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, c)
	}
	return cases
}

// TestDelayedExchange compares chains of strategy "delayed_exchange", with their
// processes, on brokers that have the plugin. No version of RabbitMQ brings it.
func TestDelayedExchange(t *testing.T) {
	brokers, err := rabbit.Delayed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(brokers) == 0 {
		t.Skipf("no broker with the plugin rabbitmq_delayed_message_exchange to compare with: name one in %s", rabbit.EnvDelayedEndpoints)
	}
	seed, cases := number(t, envSeed, 1), number(t, envCases, fewer(64))
	for _, b := range brokers {
		t.Run(b.Name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, b)
			h.compareAll(t, draws(t, seed, cases, "d", h.version, heldBackCase))
		})
	}
}

// compareAll runs the cases side by side.
func (h *host) compareAll(t *testing.T, cases []testCase) {
	t.Helper()
	held := map[string]int{}
	var mutex sync.Mutex
	var group sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for _, c := range cases {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			simulatedHeld := h.compare(t, c)
			mutex.Lock()
			defer mutex.Unlock()
			maps.Copy(held, simulatedHeld)
		})
	}
	group.Wait()
	h.compareHeld(t, held)
}

// compare runs the case in both worlds and returns what the simulator holds.
func (h *host) compare(t *testing.T, c testCase) map[string]int {
	t.Helper()
	b, err := simulator.New(c.topology, simulator.Options{Version: h.version.String()})
	if err != nil {
		t.Error(err)
		return nil
	}
	s := &simulated{broker: b}
	want, err := c.run(s)
	if err != nil {
		t.Errorf("%s: simulator: %v", c.name, err)
		return nil
	}
	held := s.held(c.topology)
	got, err := h.play(c, held)
	if err != nil {
		t.Errorf("%s: %v", c.name, err)
		return held
	}
	if got.String() != want.String() {
		t.Errorf("%s (a random case repeats with %s=%d %s=1)\nmessage: %+v\ntopology:\n%s\nbroker:\n%ssimulator:\n%s%s",
			c.name, envSeed, c.seed, envCases, c.messages, describe(c.topology), got, want, trace(b))
	}
	return held
}

// play runs the case on the broker and removes its queues, but for those that
// are expected to hold something.
func (h *host) play(c testCase, held map[string]int) (record, error) {
	r, err := newReal(h.connection)
	if err != nil {
		return record{}, err
	}
	defer func() { r.close() }()
	// A queue takes its policy when it is declared, and so at once.
	for _, p := range c.topology.Policies() {
		if err := h.setPolicy(p); err != nil {
			return record{}, err
		}
	}
	if err := r.declare(c.topology); err != nil {
		return record{}, err
	}
	result, err := c.run(r)
	for _, q := range c.topology.Queues() {
		if held[q.Name] == 0 && err == nil {
			_, err = r.channel.QueueDelete(q.Name, false, false, false)
		}
	}
	return result, err
}

// compareHeld compares what at-least-once queues hold. A broker tells that every
// five seconds only.
func (h *host) compareHeld(t *testing.T, want map[string]int) {
	t.Helper()
	var got map[string]int
	time.Sleep(6 * time.Second)
	for range 20 {
		if got = h.heldDeadLetters(t); maps.Equal(got, want) {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("held dead letters: broker %v, simulator %v", got, want)
}
