package functions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/debian"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// alertsConfig declares three chains: "bad" gets into every kind of trouble,
// "old" has classic queues, and "good" works. The times of the alerts suit a
// broker that refreshes its metrics every five seconds.
const alertsConfig = `
resource "rabbitmq_retry_chain" "bad" {
  name       = "bad"
  vhost      = %[1]q
  strategy   = %[2]q
  delays     = ["500ms"]
  work_queue = { max_length = 1 } # leads to a warning
}

resource "rabbitmq_retry_chain" "old" {
  name       = "old"
  vhost      = %[1]q
  strategy   = %[2]q
  queue_type = "classic"
  delays     = []
}

resource "rabbitmq_retry_chain" "good" {
  name     = "good"
  vhost    = %[1]q
  strategy = %[2]q
  delays   = ["500ms"]
}

output "rules" {
  value = provider::rabbitmq::prometheus_alerts(
    [rabbitmq_retry_chain.bad, rabbitmq_retry_chain.old, rabbitmq_retry_chain.good],
    { endpoint = %[3]q, matchers = "job=\"broker\"", slack = "11s", blocked = "12s", growing = "2s", age = "8s", window = "11s" },
  )
}
`

// wantAlerts are the alerts that the trouble of the test leads to, with the
// queue that each names.
var wantAlerts = []string{
	"RabbitMQDeadLettersBlocked bad.TIER",
	"RabbitMQParkingGrowing bad.parking",
	"RabbitMQParkingMessageOld old.parking",
	"RabbitMQParkingNotEmptied bad.parking",
	"RabbitMQParkingNotEmptied old.parking",
	"RabbitMQParkingNotEmpty bad.parking",
	"RabbitMQParkingNotEmpty old.parking",
	"RabbitMQRetryTierStuck bad.TIER",
}

// TestAccAlertsFire lets a real Prometheus scrape a real broker on which
// everything goes wrong that the rules look for, and beside it a chain that
// works. Exactly the alerts for the first fire.
func TestAccAlertsFire(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		server, err := debian.Find(t.Context(), debian.Prometheus)
		if err != nil {
			t.Skipf("no Prometheus to try the rules with: %s", err)
		}
		b := rabbit.Own(t, rabbit.Options{Version: given.Release(), Plugins: []string{"rabbitmq_prometheus"}})

		strategy, tier := "headers", "retry.500ms"
		if !acctest.Modern(b) {
			strategy, tier = "routing_key", "attempt.500ms"
		}
		// The newest broker is scraped at the other path.
		endpoint, path, query := "detailed", "/metrics/detailed", "\n    params: { family: [queue_coarse_metrics, queue_metrics] }"
		if acctest.AtLeast(b, 4, 1) {
			endpoint, path, query = "per-object", "/metrics/per-object", ""
		}
		vhost := acctest.VHost(t, b)
		w := acctest.Terraform(t, acctest.Config(b, alertsConfig, vhost, strategy, endpoint))
		acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
		rules, err := w.Command(t.Context(), "output", "-raw", "rules").Output()
		if err != nil {
			t.Fatal(err)
		}
		address := startPrometheus(t, server, string(rules), fmt.Sprintf("metrics_path: %s%s", path, query), strings.TrimSuffix(strings.TrimPrefix(b.Metrics, "http://"), "/metrics"))
		makeTrouble(t, b, vhost, "bad."+tier)

		want := slices.Clone(wantAlerts)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "TIER", tier)
		}
		awaitAlerts(t, address, want)
	})
}

// makeTrouble fills the queues of the chains bad and old, and keeps messages
// going through the chain good until the test ends.
func makeTrouble(t *testing.T, b *rabbit.Broker, vhost, tier string) {
	t.Helper()
	w := acctest.Worker(t, b, vhost)
	publish := func(exchange, key string, message amqp.Publishing) {
		if err := w.Publish(t.Context(), exchange, key, message); err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
	}
	// The work queue is full and refuses most of what comes back from the tier.
	// Some are taken: a quorum queue tells senders of its limit after the fact.
	for range 100 {
		publish("", tier, amqp.Publishing{})
	}
	publish("", "old.parking", amqp.Publishing{Timestamp: time.Now().Add(-time.Hour)})
	failOnce := func(d worker.Delivery) worker.Outcome {
		if d.Headers["x-death"] == nil {
			return worker.Reject
		}
		return worker.Ack
	}
	consumer := acctest.Worker(t, b, vhost)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		if err := consumer.Consume(ctx, "good", 10, failOnce); err != nil {
			t.Error(err)
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		for begin := time.Now(); ctx.Err() == nil; {
			// With pauses in which the broker renews its metrics: a steady flow
			// looks as if the tier were stuck, as the function's description says.
			if time.Since(begin)%(11*time.Second) < 4*time.Second {
				publish("", "good", amqp.Publishing{})
			}
			publish("", "bad.parking", amqp.Publishing{})
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done; <-done })
}

const prometheusConfig = `
global: { scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms }
rule_files: [rules.yml]
scrape_configs:
  - job_name: broker
    %s
    static_configs: [{ targets: [%q] }]
`

// startPrometheus starts a server with the rules and returns its address.
func startPrometheus(t *testing.T, server debian.Found, rules, scrape, target string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yml": rules, "prometheus.yml": fmt.Sprintf(prometheusConfig, scrape, target)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	address := freeAddress(t)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	command := server.Command(ctx, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	command.Dir, command.Stderr = dir, log
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = command.Wait()
		_ = log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("the rules:\n%s\nthe log of Prometheus:\n%s", rules, text)
		}
	})
	return address
}

// freeAddress is an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// awaitAlerts waits until every wanted alert has fired. Meanwhile no other may.
func awaitAlerts(t *testing.T, address string, want []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	fired := map[string]string{}
	for {
		addFiring(ctx, t, address, fired)
		for alert := range fired {
			if !slices.Contains(want, alert) {
				t.Fatalf("alert %q fires: %s", alert, fired[alert])
			}
		}
		if len(fired) == len(want) {
			break
		}
		select {
		case <-ctx.Done():
			t.Fatalf("only %q fire, expected %q", slices.Sorted(maps.Keys(fired)), want)
		case <-time.After(100 * time.Millisecond):
		}
	}
	for alert, text := range fired {
		queue := alert[strings.Index(alert, " ")+1:]
		if !strings.Contains(text, "queue "+queue+" in virtual host test-") {
			t.Errorf("%s: the description does not name the queue: %q", alert, text)
		}
	}
}

// addFiring adds the alerts that fire now, as "alert queue", with their
// descriptions. A server that does not answer yet has none.
func addFiring(ctx context.Context, t *testing.T, address string, fired map[string]string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/alerts", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = resp.Body.Close() }()
	var answer struct {
		Data struct {
			Alerts []struct {
				State               string
				Labels, Annotations map[string]string
			}
		}
	}
	if json.NewDecoder(resp.Body).Decode(&answer) != nil {
		return
	}
	for _, alert := range answer.Data.Alerts {
		if alert.State == "firing" {
			fired[alert.Labels["alertname"]+" "+alert.Labels["queue"]] = alert.Annotations["description"]
		}
	}
}
