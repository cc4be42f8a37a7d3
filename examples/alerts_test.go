package examples_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/debian"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const (
	dashboardFile = "alerts/dashboard.json"
	scrapeFile    = "alerts/prometheus.yml"
)

// promtool returns Prometheus's own checker.
func promtool(t *testing.T) debian.Found {
	t.Helper()
	found, err := debian.Find(t.Context(), debian.Promtool)
	if err != nil {
		t.Skipf("no promtool to check with: %s", err)
	}
	return found
}

func check(t *testing.T, tool debian.Found, args ...string) {
	t.Helper()
	if output, err := tool.Command(t.Context(), args...).CombinedOutput(); err != nil {
		t.Errorf("promtool %q: %s\n%s", args, err, output)
	}
}

// TestAccAlertsExample: Prometheus accepts the rules and the configuration of
// the example.
func TestAccAlertsExample(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		tool := promtool(t)
		w := workspace(t, b, acctest.VHost(t, b), configuration(t, "alerts"))
		acctest.Run(t, w, "apply", "-auto-approve", "-input=false")
		rules, err := w.Command(t.Context(), "output", "-raw", "rules").Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(w.Dir, "rules"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{"rules/retries.yml": string(rules), "prometheus.yml": read(t, scrapeFile)} {
			if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		check(t, tool, "check", "config", "--lint-fatal", filepath.Join(w.Dir, "prometheus.yml"))
		check(t, tool, "check", "rules", "--lint-fatal", filepath.Join(w.Dir, "rules/retries.yml"))
		acctest.Run(t, w, "destroy", "-auto-approve", "-input=false")
	})
}

// dashboard is what is looked at of a dashboard of Grafana.
type dashboard struct {
	Title, UID    string
	SchemaVersion int
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []struct {
		ID                       int
		Title, Type, Description string
		GridPos                  struct{ X, Y, W, H int }
		FieldConfig              struct{ Defaults struct{ Unit string } }
		Targets                  []struct{ Expr string }
	}
}

// readDashboard refuses what is not JSON.
func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, dashboardFile)), &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || d.SchemaVersion == 0 || len(d.Panels) == 0 {
		t.Fatalf("%s is no dashboard", dashboardFile)
	}
	return d
}

// TestDashboard: every panel has a title, a unit and a place of its own, and
// uses only variables that are declared.
func TestDashboard(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	variable := regexp.MustCompile(`\$\{?(\w+)\}?`)
	for _, match := range variable.FindAllStringSubmatch(read(t, dashboardFile), -1) {
		if name := match[1]; name != "__all" && !slices.Contains(variables, name) {
			t.Errorf("variable %s is not declared, only %q", name, variables)
		}
	}
	type cell struct{ x, y int }
	taken := map[cell]string{}
	for _, p := range d.Panels {
		if p.Title == "" || p.FieldConfig.Defaults.Unit == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d (%q) has no title, unit or query", p.ID, p.Title)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				c := cell{p.GridPos.X + x, p.GridPos.Y + y}
				if other, ok := taken[c]; ok || c.x >= 24 {
					t.Fatalf("panel %q lies over %q or outside the grid", p.Title, other)
				}
				taken[c] = p.Title
			}
		}
	}
}

var (
	usedMetric     = regexp.MustCompile(`rabbitmq_\w+`)
	exportedMetric = regexp.MustCompile(`^(rabbitmq_\w+)\{`)
	scrapedFamily  = regexp.MustCompile(`(?m)^ +family: \[(.+)\]$`)
)

// TestAccMetricsExist: the broker exports every metric that dashboard and rules
// use, where the example's prometheus.yml scrapes it, and Prometheus can read
// every query of the dashboard.
func TestAccMetricsExist(t *testing.T) {
	acctest.Each(t, func(t *testing.T, given *rabbit.Broker) {
		tool := promtool(t)
		b := rabbit.Own(t, rabbit.Options{Version: given.Release(), Plugins: []string{"rabbitmq_prometheus"}})
		exported := exportedMetrics(t, b)

		d := readDashboard(t)
		used := read(t, dashboardFile)
		for _, name := range slices.Compact(slices.Sorted(slices.Values(usedMetric.FindAllString(used, -1)))) {
			if !exported[name] {
				t.Errorf("%s uses %s, which RabbitMQ %s does not export", dashboardFile, name, b.Version)
			}
		}
		values := strings.NewReplacer("$vhost", "/", "$chain", "orders")
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				rules := filepath.Join(t.TempDir(), "rules.yml")
				text, _ := json.Marshal(map[string]any{"groups": []any{map[string]any{
					"name": "panel", "rules": []any{map[string]any{"record": "panel:value", "expr": values.Replace(target.Expr)}},
				}}})
				if err := os.WriteFile(rules, text, 0o600); err != nil {
					t.Fatal(err)
				}
				check(t, tool, "check", "rules", rules)
			}
		}
	})
}

// exportedMetrics returns the names of the metrics of a classic queue with a
// message. The broker renews them every five seconds.
func exportedMetrics(t *testing.T, b *rabbit.Broker) map[string]bool {
	t.Helper()
	vhost := acctest.VHost(t, b)
	w := acctest.Worker(t, b, vhost)
	ch, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ch.QueueDeclare("queue", true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Publish(t.Context(), "", "queue", amqp.Publishing{Timestamp: time.Now()}); err != nil {
		t.Fatal(err)
	}
	families := scrapedFamily.FindStringSubmatch(read(t, scrapeFile))
	if families == nil {
		t.Fatalf("%s names no families", scrapeFile)
	}
	address := b.Metrics + "/detailed?family=" + strings.ReplaceAll(families[1], ", ", "&family=")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		names := map[string]bool{}
		for line := range strings.Lines(get(ctx, t, address)) {
			if match := exportedMetric.FindStringSubmatch(line); match != nil && strings.Contains(line, `vhost="`+vhost+`"`) {
				names[match[1]] = true
			}
		}
		if names["rabbitmq_detailed_queue_head_message_timestamp"] {
			return names
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s exports only %v", address, names)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func get(ctx context.Context, t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v", address, resp.Status, err)
	}
	return string(text)
}
