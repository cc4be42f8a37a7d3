package alerts_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/debian"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/alerts"
)

// orders is a chain with one tier of five minutes.
func orders() alerts.Chain {
	return alerts.Chain{
		Name: "orders", VHost: "/", Work: "orders", Parking: "orders.parking", AtLeastOnce: true,
		Tiers: []alerts.Tier{{Queue: "orders.retry.5m", Delay: 5 * time.Minute}},
	}
}

// strange has names that mean something in YAML, PromQL, templates or HTML.
func strange() alerts.Chain {
	name := "{{ printf }} \"o'r\\ders\": #é\x01 <b>"
	return alerts.Chain{
		Name: name, VHost: "a\nb", Work: name, Parking: name + ".parking", AtLeastOnce: true, Timestamps: true,
		Tiers: []alerts.Tier{{Queue: name + ".retry.1d", Delay: 25*time.Hour + 1500*time.Millisecond}},
	}
}

func promtool(t *testing.T) debian.Found {
	t.Helper()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("an acceptance test: set TF_ACC=1, or run make test")
	}
	found, err := debian.Find(t.Context(), debian.Promtool)
	if err != nil {
		t.Skipf("no promtool to check with: %s", err)
	}
	return found
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAccParsed: Prometheus reads the rules of every kind of chain, strange
// names and no chain at all included.
func TestAccParsed(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	held := orders()
	held.Name, held.HoldsBack, held.Parking = "held", true, "held.parking"
	held.Tiers = []alerts.Tier{{Queue: "held.retry.5m", Delay: 5 * time.Minute}}
	matched := alerts.Defaults()
	matched.Matchers, matched.Prefix = `job="rabbitmq", cluster!~"test.*"`, alerts.PerObject
	for name, test := range map[string]struct {
		chains  []alerts.Chain
		options alerts.Options
		rules   int
	}{
		"none":    {nil, alerts.Defaults(), 0},
		"several": {[]alerts.Chain{orders(), held}, alerts.Defaults(), 6 + 5},
		"strange": {[]alerts.Chain{strange()}, alerts.Defaults(), 7},
		"matched": {[]alerts.Chain{orders()}, matched, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := write(t, t.TempDir(), "rules.yml", alerts.Render(test.chains, test.options))
			output, err := tool.Command(t.Context(), "check", "rules", "--lint-fatal", path).CombinedOutput()
			if want := fmt.Sprintf("SUCCESS: %d rules found", test.rules); err != nil || !strings.Contains(string(output), want) {
				t.Errorf("%v: expected %s:\n%s", err, want, output)
			}
		})
	}
}

// sample is one queue's metrics at one-minute steps, in promtool's notation.
type sample struct{ messages, ready, unacked string }

func (s sample) series(vhost, queue string) []any {
	var all []any
	for metric, values := range map[string]string{"": s.messages, "_ready": s.ready, "_unacked": s.unacked} {
		all = append(all, map[string]any{
			"series": fmt.Sprintf("rabbitmq_detailed_queue_messages%s{vhost=%q, queue=%q, instance=\"one\"}", metric, vhost, queue), "values": values,
		})
	}
	return all
}

// TestAccTime: when each alert fires, by the minute, seen by Prometheus's own
// engine.
func TestAccTime(t *testing.T) {
	t.Parallel()
	tool := promtool(t)
	for name, test := range map[string]struct {
		queue   string
		metrics sample
		firing  map[string][2]int // from and to this minute, of 60
	}{
		"empty parking": {"orders.parking", sample{"0x60", "0x60", "0x60"}, nil},
		"one parked at 10": {"orders.parking", sample{"0x9 1x50", "0x9 1x50", "0x60"}, map[string][2]int{
			alerts.ParkingNotEmpty: {10, 60},
		}},
		"parked and taken out": {"orders.parking", sample{"0x9 1x9 0x40", "0x9 1x9 0x40", "0x60"}, map[string][2]int{
			alerts.ParkingNotEmpty: {10, 19},
		}},
		"growing from 10 to 40": {"orders.parking", sample{"0x9 1+1x29 30x20", "0x9 1+1x29 30x20", "0x60"}, map[string][2]int{
			alerts.ParkingNotEmpty: {10, 60}, alerts.ParkingGrowing: {25, 43},
		}},
		// The delay of five minutes, five of slack.
		"a tier that nothing leaves": {"orders.retry.5m", sample{"0x9 7x50", "0x9 7x50", "0x60"}, map[string][2]int{
			alerts.RetryTierStuck: {20, 60},
		}},
		"a tier that works":         {"orders.retry.5m", sample{"0x9 3 4 5 5 5 4 3 2 3 3 4 3 2 1 3 3 4 3 3 2 0x30", "0x60", "0x60"}, nil},
		"a tier in a steady flow":   {"orders.retry.5m", sample{"9 8 9 9 8 9 10 9 9 8 9 9 8 9 8 8 9 9 8 8 9 8 9 9 9 8 9 9 8 8 9 8", "9 8 9 9 8 9 10 9 9 8 9 9 8 9 8 8 9 9 8 8 9 8 9 9 9 8 9 9 8 8 9 8", "0x31"}, nil},
		"dead letters for a moment": {"orders", sample{"5x9 5x2 5x47", "5x9 2x2 5x47", "0x60"}, nil},
		"dead letters that stay": {"orders", sample{"5x60", "5x9 2x50", "0x60"}, map[string][2]int{
			alerts.DeadLettersBlocked: {15, 60},
		}},
		"dead letters that come and go": {"orders", sample{"9x60", "7 6 5 8 4 7 6 7 5 4 6 8 5 6 7 4 6 7 8 5 6 7 5 7 8 5 6 9x33", "0x60"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, "rules.yml", alerts.Render([]alerts.Chain{orders()}, alerts.Defaults()))
			var cases []any
			for minute := range 61 {
				for _, alert := range []string{alerts.ParkingNotEmpty, alerts.ParkingGrowing, alerts.ParkingNotEmptied, alerts.RetryTierStuck, alerts.DeadLettersBlocked} {
					samples := []any{}
					if span, ok := test.firing[alert]; ok && span[0] <= minute && minute <= span[1] {
						samples = append(samples, map[string]any{"labels": fmt.Sprintf("{alertname=%q}", alert), "value": 1})
					}
					cases = append(cases, map[string]any{
						"expr":      fmt.Sprintf("count by (alertname) (ALERTS{alertstate=\"firing\", alertname=%q, queue=%q})", alert, test.queue),
						"eval_time": fmt.Sprintf("%dm", minute), "exp_samples": samples,
					})
				}
			}
			text, err := json.Marshal(map[string]any{
				"rule_files": []string{"rules.yml"}, "evaluation_interval": "1m",
				"tests": []any{map[string]any{"interval": "1m", "input_series": test.metrics.series("/", test.queue), "promql_expr_test": cases}},
			})
			if err != nil {
				t.Fatal(err)
			}
			path := write(t, dir, "test.yml", string(text))
			if output, err := tool.Command(t.Context(), "test", "rules", path).CombinedOutput(); err != nil {
				t.Errorf("%s\n%s", err, output)
			}
		})
	}
}

// TestShared: chains that share a parking queue have its rules once, and the
// order of chains does not matter.
func TestShared(t *testing.T) {
	t.Parallel()
	one, two := orders(), orders()
	two.Name, two.Work, two.Tiers = "billing", "billing", nil
	text := alerts.Render([]alerts.Chain{one, two}, alerts.Defaults())
	if n := strings.Count(text, alerts.ParkingNotEmpty+"\n"); n != 1 {
		t.Errorf("%d rules for one parking queue:\n%s", n, text)
	}
	if !strings.Contains(text, "retry chain billing, orders are parked") {
		t.Errorf("the rule does not name both chains:\n%s", text)
	}
	if other := alerts.Render([]alerts.Chain{two, one}, alerts.Defaults()); other != text {
		t.Errorf("another order leads to other rules:\n%s\n%s", text, other)
	}
}
