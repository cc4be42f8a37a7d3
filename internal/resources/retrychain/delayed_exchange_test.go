package retrychain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// delayedExchangeVariants are the kinds of queue with which strategy
// "delayed_exchange" is tried.
var delayedExchangeVariants = []variant{
	{"delayed_exchange", "quorum", "at-least-once"},
	{"delayed_exchange", "quorum", "at-most-once"},
	{"delayed_exchange", "classic", "at-most-once"},
}

// TestAccDelayedExchangeRefused: the plan says what is missing, and on 4.3 that
// nothing can be done about it.
func TestAccDelayedExchangeRefused(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := acctest.Terraform(t, delayedExchangeVariants[0].chainConfig(b, acctest.VHost(t, b), `["1s"]`, ""))
		want := []string{`needs the exchange type "x-delayed-message"`, "This broker has the types direct, fanout, headers,"}
		if acctest.AtLeast(b, 4, 3) {
			want = []string{"is archived and cannot run on RabbitMQ 4.3 and later", "This broker runs " + b.Version}
		}
		expectText(t, acctest.RunError(t, w, "plan"), want...)
	})
}

// withDelayedType is the broker as if it had the plugin: its management API
// lists the exchange type x-delayed-message, and an exchange of this type is a
// fanout that holds nothing back.
func withDelayedType(t *testing.T, b *rabbit.Broker) *rabbit.Broker {
	t.Helper()
	p := proxy.New(t, b.Endpoint)
	p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
		exchanges := strings.Contains(r.URL.EscapedPath(), "/api/exchanges/")
		switch {
		case r.Method == http.MethodGet && (exchanges || strings.HasSuffix(r.URL.Path, "/api/overview")):
			fakeDelayed(t, w, r, b)
			return true
		case r.Method == http.MethodPut && exchanges:
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			body = bytes.ReplaceAll(body, []byte(`"x-delayed-message"`), []byte(`"fanout"`))
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		}
		return false
	})
	return behind(b, p)
}

// fakeDelayed answers as a broker with the plugin would.
func fakeDelayed(t *testing.T, w http.ResponseWriter, r *http.Request, b *rabbit.Broker) {
	t.Helper()
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, b.Endpoint+r.URL.RequestURI(), http.NoBody)
	if err != nil {
		t.Error(err)
		return
	}
	request.SetBasicAuth(b.Username, b.Password)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return
	}
	defer answer.Body.Close()
	var body any
	if err := json.NewDecoder(answer.Body).Decode(&body); err != nil {
		t.Error(err)
		return
	}
	list, is := body.([]any)
	if !is {
		list = []any{body}
	}
	for _, element := range list {
		addDelayed(element)
	}
	recorder := httptest.NewRecorder()
	if err := json.NewEncoder(recorder).Encode(body); err != nil {
		t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(answer.StatusCode)
	_, _ = w.Write(recorder.Body.Bytes())
}

func addDelayed(element any) {
	object, _ := element.(map[string]any)
	if types, is := object["exchange_types"].([]any); is {
		object["exchange_types"] = append(types, map[string]any{"name": "x-delayed-message", "enabled": true})
	}
	if arguments, _ := object["arguments"].(map[string]any); arguments["x-delayed-type"] != nil || object["name"] == "orders.wait" {
		object["type"], object["messages_delayed"] = "x-delayed-message", 0
	}
}

// TestAccDelayedExchangeLifecycle applies, plans again, changes, imports and
// destroys, where nothing is held back: as if the broker had the plugin.
func TestAccDelayedExchangeLifecycle(t *testing.T) {
	before43 := func(b *rabbit.Broker) bool { return !acctest.AtLeast(b, 4, 3) }
	acctest.EachWith(t, "strategy delayed_exchange cannot run on RabbitMQ 4.3 and later", before43, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range rabbit.Half(t.Name(), delayedExchangeVariants) {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				delayedExchangeLifecycle(t, withDelayedType(t, b), v)
			})
		}
	})
}

// TestAccDelayedExchangePlugin does the same on real brokers with the plugin.
func TestAccDelayedExchangePlugin(t *testing.T) {
	acctest.EachDelayed(t, func(t *testing.T, b *rabbit.Broker) {
		for _, v := range rabbit.Half(t.Name(), delayedExchangeVariants) {
			t.Run(v.String(), func(t *testing.T) {
				t.Parallel()
				delayedExchangeLifecycle(t, b, v)
			})
		}
	})
}

func delayedExchangeLifecycle(t *testing.T, b *rabbit.Broker, v variant) {
	t.Helper()
	vhost := acctest.VHost(t, b)
	config := func(delays string) string {
		return strings.Replace(v.chainConfig(b, vhost, delays, ""), `"delete"`, `"if_empty"`, 1)
	}
	w := acctest.Terraform(t, config(`["1s"]`))
	expectText(t, acctest.Run(t, w, "plan"), `= "x-delayed-message, x-delayed-type=fanout"`, "Waiting Messages Are on One Node")
	apply(t, w)
	expectEmptyPlan(t, w)
	acctest.Reconfigure(t, w, config(`["1s", "5s"]`))
	expectText(t, apply(t, w), "0 added, 1 changed, 0 destroyed") // outputs only: the broker knows no delays
	expectEmptyPlan(t, w)
	acctest.Reconfigure(t, w, variant{"republish", v.queueType, v.deadLetterStrategy}.chainConfig(b, vhost, `["1s"]`, ""))
	expectText(t, acctest.RunError(t, w, "plan"), "Change Not Possible in Place", "moved by the processes of before")

	again := acctest.Terraform(t, config(`["1s", "5s"]`))
	acctest.Run(t, again, "import", "rabbitmq_retry_chain.orders", "orders@"+vhost)
	apply(t, again) // the delays are not on the broker
	expectEmptyPlan(t, again)
	acctest.Run(t, again, "destroy", "-auto-approve")
	expectQueueCount(t, b, vhost, 0)
	if n := exchanges(t, b, vhost); n != 0 {
		t.Errorf("%d exchanges are left", n)
	}
}

// TestAccDelayedExchangeHolds: a destroy is refused while messages are held back,
// and what is held back is neither routed nor counted in any queue.
func TestAccDelayedExchangeHolds(t *testing.T) {
	acctest.EachDelayed(t, func(t *testing.T, b *rabbit.Broker) {
		const delay = 25 * time.Second
		vhost := acctest.VHost(t, b)
		config := strings.Replace(delayedExchangeVariants[0].chainConfig(b, vhost, `["25s"]`, ""), `"delete"`, `"if_empty"`, 1)
		w := acctest.Terraform(t, config)
		apply(t, w)
		worker := acctest.Worker(t, b, vhost)
		message := amqp.Publishing{MessageId: "one", Headers: amqp.Table{"x-delay": delay.Milliseconds()}}
		began := time.Now()
		if err := worker.Publish(t.Context(), "orders.wait", "k", message); err == nil || !strings.Contains(err.Error(), "NO_ROUTE") {
			t.Errorf("a mandatory message was published: %v", err)
		}
		expectText(t, acctest.RunError(t, w, "destroy", "-auto-approve"), `"orders.wait" holds back 1 messages`)
		expectEmptyPlan(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), 2*delay)
		defer cancel()
		if d, err := worker.Get(ctx, "orders.requeue"); err != nil || d.MessageId != "one" || d.At.Sub(began) < delay {
			t.Errorf("got %q after %s: %v", d.MessageId, d.At.Sub(began), err)
		}
		acctest.Run(t, w, "destroy", "-auto-approve")
		expectQueueCount(t, b, vhost, 0)
	})
}
