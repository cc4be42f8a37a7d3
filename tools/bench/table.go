package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
)

const (
	chainsVHost = "retry-bench"
	importVHost = "retry-bench-import"
)

// table is what was measured.
type table struct {
	plan, apply, imported, floorPlan, floorApply []time.Duration

	objects                 definitions
	planCalls, applyCalls   int
	planWrites, applyWrites int
	planMemory, applyMemory int64
}

// measure takes every time once.
func (t *table) measure(ctx context.Context, b *bench, tf *terraform, chains int) error {
	err := b.inVHost(chainsVHost, func() error { return t.measureChains(ctx, b, tf, chains) })
	if err != nil {
		return err
	}
	err = b.inVHost(importVHost, func() error {
		begin := time.Now()
		err := b.importDefinitions(ctx, importVHost, t.objects)
		t.imported = append(t.imported, time.Since(begin))
		return err
	})
	if err != nil {
		return fmt.Errorf("import the definitions: %w", err)
	}
	return t.measureFloor(ctx, b, tf, chains)
}

func (t *table) measureChains(ctx context.Context, b *bench, tf *terraform, chains int) error {
	w, err := tf.workspace(ctx, b, b.endpoint, b.chains(chains, chainsVHost))
	if err != nil {
		return err
	}
	apply, err := timed(ctx, w, applyArgs)
	if err != nil {
		return err
	}
	plan, err := timed(ctx, w, planArgs)
	if err != nil {
		return err
	}
	t.apply, t.plan = append(t.apply, apply), append(t.plan, plan)
	say("apply %s, plan %s", seconds(apply), seconds(plan))
	t.objects, err = b.exportDefinitions(ctx, chainsVHost)
	return err
}

func (t *table) measureFloor(ctx context.Context, b *bench, tf *terraform, resources int) error {
	w, err := tf.workspace(ctx, b, b.endpoint, fmt.Sprintf(floorConfig, resources))
	if err != nil {
		return err
	}
	apply, err := timed(ctx, w, applyArgs)
	if err != nil {
		return err
	}
	plan, err := timed(ctx, w, planArgs)
	t.floorApply, t.floorPlan = append(t.floorApply, apply), append(t.floorPlan, plan)
	return err
}

// count runs once more through a proxy and looks at the provider's memory.
func (t *table) count(ctx context.Context, b *bench, tf *terraform, chains int) error {
	p, err := proxy.Start(b.endpoint)
	if err != nil {
		return err
	}
	defer p.Close()
	return b.inVHost(chainsVHost, func() error {
		w, err := tf.workspace(ctx, b, p.URL, b.chains(chains, chainsVHost))
		if err != nil {
			return err
		}
		if t.applyMemory, err = tf.peakMemory(ctx, w, applyArgs); err != nil {
			return err
		}
		t.applyCalls, t.applyWrites = tally(p.Take())
		if t.planMemory, err = tf.peakMemory(ctx, w, planArgs); err != nil {
			return err
		}
		t.planCalls, t.planWrites = tally(p.Take())
		return nil
	})
}

func tally(requests []proxy.Request) (calls, writes int) {
	for _, r := range requests {
		if r.Write() {
			writes++
		}
	}
	return len(requests), writes
}

func (t *table) print(chains, runs int, b *bench) error {
	fmt.Printf("\n%d chains of 3 delays, classic queues, strategy %s: %d exchanges, %d queues, %d bindings, together %d objects\n", chains, b.strategy(),
		len(t.objects.Exchanges), len(t.objects.Queues), len(t.objects.Bindings), t.objects.objects())
	fmt.Printf("seconds are the median of %d (lowest to highest)\n\n", runs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tplan\tapply\t")
	fmt.Fprintf(w, "this provider\t%s\t%s\t\n", spread(t.plan), spread(t.apply))
	fmt.Fprintf(w, "the broker's import of the same definitions\t-\t%s\t\n", spread(t.imported))
	fmt.Fprintf(w, "Terraform with %d terraform_data\t%s\t%s\t\n", chains, spread(t.floorPlan), spread(t.floorApply))
	fmt.Fprintf(w, "this provider as a multiple of that\t%s\t%s\t\n", multiple(t.plan, t.floorPlan), multiple(t.apply, t.floorApply))
	fmt.Fprintf(w, "requests to the management API\t%d\t%d\t\n", t.planCalls, t.applyCalls)
	fmt.Fprintf(w, "of which writes\t%d\t%d\t\n", t.planWrites, t.applyWrites)
	fmt.Fprintf(w, "peak memory of the provider\t%s\t%s\t\n", megabytes(t.planMemory), megabytes(t.applyMemory))
	return w.Flush()
}

func median(times []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}

// spread shows the median, and the range if there was more than one run.
func spread(times []time.Duration) string {
	if len(times) == 1 {
		return seconds(times[0])
	}
	return fmt.Sprintf("%s (%s to %s)", seconds(median(times)), number(slices.Min(times)), number(slices.Max(times)))
}

func seconds(d time.Duration) string { return number(d) + " s" }

func number(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()) }

func multiple(times, of []time.Duration) string {
	return fmt.Sprintf("%.1f", median(times).Seconds()/median(of).Seconds())
}

func megabytes(bytes int64) string {
	if bytes == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%d MB", bytes/1_000_000)
}
