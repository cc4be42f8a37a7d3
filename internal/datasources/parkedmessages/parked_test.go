package parkedmessages_test

import (
	"archive/zip"
	"crypto/rand"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const typeName = "rabbitmq_parked_messages"

// serve configures the provider; settings override the broker's.
func serve(t *testing.T, b *rabbit.Broker, settings map[string]any) *protocol.Server {
	t.Helper()
	server := protocol.New(t, acctest.NewProvider(b))
	config := map[string]any{"endpoint": b.Endpoint, "username": b.Username, "password": b.Password}
	for name, value := range settings {
		config[name] = value
	}
	if found := server.Configure(t, config); len(found.Errors()) > 0 {
		t.Fatal(found)
	}
	return server
}

// park makes a chain of two attempts, and parks messages in it that were
// rejected twice. The keys are order.1, order.2 and so on.
func park(t *testing.T, b *rabbit.Broker, server *protocol.Server, vhost, queueType string, published ...amqp.Publishing) *worker.Worker {
	t.Helper()
	strategy := "headers"
	if !acctest.Modern(b) {
		strategy = "routing_key"
	}
	plan := server.Plan(t, "rabbitmq_retry_chain", map[string]any{
		"name": "orders", "vhost": vhost, "delays": []any{"100ms"}, "queue_type": queueType, "strategy": strategy,
		"work_queue": map[string]any{"bindings": []any{map[string]any{"exchange": "amq.topic", "routing_key": "order.#"}}},
	}, protocol.State{})
	if len(plan.Diagnostics.Errors()) > 0 {
		t.Fatal(plan.Diagnostics)
	}
	if _, found := server.Apply(t, "rabbitmq_retry_chain", plan); len(found.Errors()) > 0 {
		t.Fatal(found)
	}
	w := acctest.Worker(t, b, vhost)
	for i, p := range published {
		if err := w.Publish(t.Context(), "amq.topic", fmt.Sprintf("order.%d", i+1), p); err != nil {
			t.Fatal(err)
		}
	}
	reject(t, w, 2*len(published))
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		n, err := w.Ready("orders.parking")
		if err != nil {
			t.Fatal(err)
		}
		if n == len(published) {
			return w
		}
		if time.Now().After(end) {
			t.Fatalf("%d messages are parked, expected %d", n, len(published))
		}
	}
}

func reject(t *testing.T, w *worker.Worker, n int) {
	t.Helper()
	ch, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	defer ch.Close()
	deliveries, err := ch.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		select {
		case d := <-deliveries:
			if err := d.Reject(false); err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("no message came to reject")
		}
	}
}

func queueTypes(t *testing.T, test func(t *testing.T, b *rabbit.Broker, queueType string)) {
	t.Helper()
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for _, queueType := range []string{"classic", "quorum"} {
			t.Run(queueType, func(t *testing.T) {
				t.Parallel()
				test(t, b, queueType)
			})
		}
	})
}

// TestAccParkedMessages looks at messages that went through a whole chain, and
// at those that a filter selects.
func TestAccParkedMessages(t *testing.T) {
	queueTypes(t, func(t *testing.T, b *rabbit.Broker, queueType string) {
		vhost := acctest.VHost(t, b)
		server := serve(t, b, nil)
		park(t, b, server, vhost, queueType,
			amqp.Publishing{MessageId: "a", ContentType: "text/plain", Body: []byte("first"), Headers: amqp.Table{
				"tenant": "blue", "n": int32(2), "list": []any{true, nil}, "at": time.Unix(86400, 0), "raw": []byte{255}, "in": amqp.Table{"x": "y"},
			}},
			amqp.Publishing{MessageId: "b", Body: []byte{0xff, 0xfe}, Headers: amqp.Table{"n": "2"}},
			amqp.Publishing{Body: []byte("third")},
		)
		began := time.Now()
		v, found := server.ReadData(t, typeName, map[string]any{"queue": "orders.parking", "vhost": vhost})
		if len(found) > 0 {
			t.Fatal(found)
		}
		is := func(path string, want any) {
			t.Helper()
			if got := protocol.Go(protocol.At(v, path)); !reflect.DeepEqual(got, want) {
				t.Errorf("%s = %#v, expected %#v", path, got, want)
			}
		}
		is("total", int64(3))
		is("selected", int64(3))
		is("messages[0].id", "a")
		is("messages[0].position", int64(1))
		is("messages[0].origin_queue", "orders")
		is("messages[0].reason", "rejected")
		is("messages[0].attempts", int64(2))
		is("messages[0].exchange", "amq.topic")
		is("messages[0].routing_key", "order.1")
		is("messages[0].content_type", "text/plain")
		is("messages[0].size", int64(5))
		is("messages[0].headers", `{"at":"1970-01-02T00:00:00Z","in":{"x":"y"},"list":[true,null],"n":2,"raw":"/w==","tenant":"blue"}`)
		is("messages[1].headers", `{"n":"2"}`)
		is("messages[1].content_type", nil)
		is("messages[2].id", nil)
		is("messages[2].routing_key", "order.3")
		is("groups.by_origin_queue[0].name", "orders")
		is("groups.by_origin_queue[0].count", int64(3))
		is("groups.by_reason[0].name", "rejected")
		is("groups.by_routing_key[2].name", "order.3")
		is("groups.by_routing_key[2].count", int64(1))
		for _, path := range []string{"messages[0].first_death", "messages[0].last_death", "groups.by_period[0].first", "groups.by_reason[0].last"} {
			text, _ := protocol.Go(protocol.At(v, path)).(string)
			if at, err := time.Parse(time.RFC3339, text); err != nil || began.Sub(at) < -time.Minute || began.Sub(at) > time.Minute {
				t.Errorf("%s = %q at %s", path, text, began)
			}
		}
		checkFilters(t, server, vhost)
		checkPayloads(t, server, vhost)
	})
}

// checkFilters counts what each filter selects of the three messages.
func checkFilters(t *testing.T, server *protocol.Server, vhost string) {
	t.Helper()
	for _, c := range []struct {
		filter map[string]any
		want   []any
	}{
		{map[string]any{"origin_queue": "orders", "reason": "rejected", "exchange": "amq.topic"}, []any{"a", "b", nil}},
		{map[string]any{"origin_queue": "other"}, nil},
		{map[string]any{"reason": "expired"}, nil},
		{map[string]any{"routing_key": "*.2"}, []any{"b"}},
		{map[string]any{"headers": `{"n":2}`}, []any{"a"}},
		{map[string]any{"headers": `{"n":"2"}`}, []any{"b"}},
		{map[string]any{"headers": `{"in":{"x":"y"},"tenant":"blue"}`}, []any{"a"}},
		{map[string]any{"message_ids": []any{"b", "c"}}, []any{"b"}},
		{map[string]any{"min_attempts": 2}, []any{"a", "b", nil}},
		{map[string]any{"min_attempts": 3}, nil},
		{map[string]any{"older_than": "1h"}, nil},
		{map[string]any{"newer_than": "1h"}, []any{"a", "b", nil}},
	} {
		v, found := server.ReadData(t, typeName, map[string]any{"queue": "orders.parking", "vhost": vhost, "filter": c.filter})
		if len(found) > 0 {
			t.Fatal(found)
		}
		var ids []any
		for i := range protocol.Go(protocol.At(v, "messages")).([]any) {
			ids = append(ids, protocol.Go(protocol.At(v, fmt.Sprintf("messages[%d].id", i))))
		}
		if !reflect.DeepEqual(ids, c.want) {
			t.Errorf("%v selects %v, expected %v", c.filter, ids, c.want)
		}
	}
}

// checkPayloads reads them through the ephemeral resource.
func checkPayloads(t *testing.T, server *protocol.Server, vhost string) {
	t.Helper()
	v, found := server.OpenEphemeral(t, typeName, map[string]any{"queue": "orders.parking", "vhost": vhost, "limit": 2})
	if len(found) > 0 {
		t.Fatal(found)
	}
	for path, want := range map[string]any{
		"total": int64(3), "messages[0].payload": "first", "messages[0].payload_base64": "Zmlyc3Q=", "messages[0].routing_key": "order.1",
		"messages[1].payload": nil, "messages[1].payload_base64": "//4=", "messages[1].id": "b", "messages[2].id": nil,
	} {
		if got := protocol.Go(protocol.At(v, path)); got != want {
			t.Errorf("%s = %#v, expected %#v", path, got, want)
		}
	}
}

// TestAccRefused is what must not be looked at, is not there, or cannot be read.
func TestAccRefused(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		api := acctest.API(t, b)
		declare := func(name string, settings rabbithole.QueueSettings) {
			t.Helper()
			resp, err := api.DeclareQueue(vhost, name, settings)
			acctest.Do(t, resp, err)
		}
		declare("plain", rabbithole.QueueSettings{Type: "classic", Durable: true})
		declare("limited", rabbithole.QueueSettings{Type: "quorum", Durable: true, Arguments: map[string]any{"x-delivery-limit": 3}})
		declare("policy", rabbithole.QueueSettings{Type: "quorum", Durable: true})
		declare("single", rabbithole.QueueSettings{Type: "classic", Durable: true, Arguments: map[string]any{"x-single-active-consumer": true}})
		declare("stream", rabbithole.QueueSettings{Type: "stream", Durable: true})
		declare("fleeting", rabbithole.QueueSettings{Type: "classic", Durable: true, AutoDelete: true})
		resp, err := api.PutPolicy(vhost, "limit", rabbithole.Policy{Pattern: "^policy$", ApplyTo: "queues", Definition: rabbithole.PolicyDefinition{"delivery-limit": 5}})
		acctest.Do(t, resp, err)
		user := "test-" + rand.Text()
		resp, err = api.PutUser(user, rabbithole.UserSettings{Password: "secret-1", Tags: rabbithole.UserTags{"monitoring"}})
		acctest.Do(t, resp, err)
		t.Cleanup(func() { _, _ = api.DeleteUser(user) })
		resp, err = api.UpdatePermissionsIn(vhost, user, rabbithole.Permissions{Configure: ".*", Write: ".*", Read: "^other$"})
		acctest.Do(t, resp, err)

		server := serve(t, b, nil)
		stranger := serve(t, b, map[string]any{"username": user, "password": "secret-1"})
		closed := serve(t, b, map[string]any{"amqp_endpoint": "amqp://127.0.0.1:1"})
		management := serve(t, b, map[string]any{"amqp_endpoint": strings.Replace(b.Endpoint, "http://", "amqp://", 1)})
		for _, c := range []struct {
			server      *protocol.Server
			vhost       string
			queue, path string
			want        []string
		}{
			{server, vhost, "missing", "queue", []string{"Queue Not Found", "missing"}},
			{server, vhost + "x", "plain", "vhost", []string{"Virtual Host Not Found"}},
			{server, vhost, "limited", "queue", []string{"Looking Would Change the Queue", "delivery limit of 3"}},
			{server, vhost, "policy", "queue", []string{"Looking Would Change the Queue", "delivery limit of 5"}},
			{server, vhost, "single", "queue", []string{"Looking Would Change the Queue", "single active consumer"}},
			{server, vhost, "stream", "queue", []string{"Looking Would Change the Queue", "type stream"}},
			{server, vhost, "fleeting", "queue", []string{"Looking Would Change the Queue", "auto-delete"}},
			{stranger, vhost, "plain", "", []string{"Permission Missing", "read permission"}},
			{closed, vhost, "plain", "", []string{"Broker Not Reached Over AMQP", "127.0.0.1:1"}},
			{management, vhost, "plain", "", []string{"Broker Not Reached Over AMQP", "amqp_endpoint"}},
		} {
			config := map[string]any{"queue": c.queue, "vhost": c.vhost}
			_, data := c.server.ReadData(t, typeName, config)
			_, opened := c.server.OpenEphemeral(t, typeName, config)
			for _, found := range []protocol.Diagnostics{data, opened} {
				text := found.String()
				if len(found) != 1 || protocol.PathOf(found[0]) != c.path || strings.Contains(text, "secret-1") {
					t.Errorf("queue %s: %s", c.queue, text)
				}
				for _, want := range c.want {
					if !strings.Contains(text, want) {
						t.Errorf("queue %s: no %q in %s", c.queue, want, text)
					}
				}
			}
		}
	})
}

func TestInvalid(t *testing.T) {
	server := protocol.New(t, acctest.NewProvider(&rabbit.Broker{}))
	for path, config := range map[string]map[string]any{
		"queue":               {"queue": ""},
		"limit":               {"queue": "q", "limit": -1},
		"period":              {"queue": "q", "period": "500ms"},
		"filter.reason":       {"queue": "q", "filter": map[string]any{"reason": "boredom"}},
		"filter.headers":      {"queue": "q", "filter": map[string]any{"headers": "[1]"}},
		"filter.older_than":   {"queue": "q", "filter": map[string]any{"older_than": "yesterday"}},
		"filter.newer_than":   {"queue": "q", "filter": map[string]any{"older_than": "2h", "newer_than": "1h"}},
		"filter.routing_key":  {"queue": "q", "filter": map[string]any{"routing_key": strings.Repeat("x", 256)}},
		"filter.min_attempts": {"queue": "q", "filter": map[string]any{"min_attempts": 0}},
	} {
		found := server.ValidateData(t, typeName, config)
		if len(found) != 1 || protocol.PathOf(found[0]) != path {
			t.Errorf("%v: %s", config, found)
		}
	}
	if found := server.ValidateData(t, typeName, map[string]any{"queue": protocol.Unknown, "filter": protocol.Unknown, "period": protocol.Unknown}); len(found) > 0 {
		t.Error(found)
	}
}

const ephemeralConfig = `
ephemeral "rabbitmq_parked_messages" "all" {
  queue = "parking"
  vhost = %q
  lifecycle {
    postcondition {
      condition     = self.total == 1 && self.messages[0].payload == %q
      error_message = "another payload"
    }
  }
}

data "rabbitmq_parked_messages" "all" {
  queue = "parking"
  vhost = %q
}

resource "terraform_data" "count" {
  input = data.rabbitmq_parked_messages.all.total
}
`

// TestAccNothingIsKept looks through the CLI, and for the payload in whatever it
// writes.
func TestAccNothingIsKept(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		const payload = "personal-data-4711"
		vhost := acctest.VHost(t, b)
		resp, err := acctest.API(t, b).DeclareQueue(vhost, "parking", rabbithole.QueueSettings{Type: "classic", Durable: true})
		acctest.Do(t, resp, err)
		if err := acctest.Worker(t, b, vhost).Publish(t.Context(), "", "parking", amqp.Publishing{MessageId: "id-0815", Body: []byte(payload)}); err != nil {
			t.Fatal(err)
		}
		// The configuration, which a saved plan holds, must not have the text.
		config := strings.Replace(ephemeralConfig, "payload == %q", "payload == join(\"-\", [\"personal\", \"data\", %q])", 1)
		w := acctest.Terraform(t, acctest.Config(b, config, vhost, "4711", vhost))
		printed := acctest.Run(t, w, "plan", "-out=plan.bin")
		printed += acctest.Run(t, w, "apply", "plan.bin")
		printed += acctest.Run(t, w, "show") // Terraform 1.11 panics at -json
		state, err := os.ReadFile(filepath.Join(w.Dir, "terraform.tfstate"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(state), "id-0815") {
			t.Errorf("the message is not in the state: %s", state)
		}
		for name, content := range map[string]string{"output": printed, "state": string(state), "plan": unzip(t, filepath.Join(w.Dir, "plan.bin"))} {
			if strings.Contains(content, payload) || strings.Contains(content, "cGVyc29uYWwtZGF0YS00NzEx") {
				t.Errorf("the payload is in the %s: %s", name, content)
			}
		}
		acctest.Reconfigure(t, w, acctest.Config(b, ephemeralConfig, vhost, "something else", vhost))
		if output := acctest.RunError(t, w, "plan"); !strings.Contains(output, "another payload") {
			t.Errorf("the postcondition was not looked at: %s", output)
		}
	})
}

// unzip returns everything that is in a saved plan.
func unzip(t *testing.T, file string) string {
	t.Helper()
	r, err := zip.OpenReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var all strings.Builder
	for _, f := range r.File {
		part, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(&all, part); err != nil {
			t.Fatal(err)
		}
		_ = part.Close()
	}
	return all.String()
}
