package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
)

const (
	chainsVHost = "retry-bench"
	importVHost = "retry-bench-import"
)

// table is what was measured.
type table struct {
	subjects                        []*subject
	imported, floorPlan, floorApply []time.Duration
	objects                         definitions
}

// subject is a provider with what was measured of it.
type subject struct {
	provider
	plan, apply             []time.Duration
	planCalls, applyCalls   int
	planWrites, applyWrites int
	planMemory, applyMemory int64
	stateBytes              int64
}

func newTable(providers []provider) *table {
	t := &table{}
	for _, p := range providers {
		t.subjects = append(t.subjects, &subject{provider: p})
	}
	return t
}

// measure takes every time once, of one provider after the other.
func (t *table) measure(ctx context.Context, b *bench, tf *terraform, chains int) error {
	for _, s := range t.subjects {
		if err := b.inVHost(chainsVHost, func() error { return t.measureChains(ctx, b, tf, s, chains) }); err != nil {
			return err
		}
	}
	err := b.inVHost(importVHost, func() error {
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

func (t *table) measureChains(ctx context.Context, b *bench, tf *terraform, s *subject, chains int) error {
	w, err := tf.workspace(ctx, b, s.provider, b.endpoint, b.chains(chains, chainsVHost))
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
	s.apply, s.plan = append(s.apply, apply), append(s.plan, plan)
	say("%s: apply %s, plan %s", s.name, seconds(apply), seconds(plan))
	if s.stateBytes, err = stateSize(w); err != nil {
		return err
	}
	t.objects, err = b.exportDefinitions(ctx, chainsVHost)
	return err
}

func stateSize(w *cli.Workspace) (int64, error) {
	info, err := os.Stat(filepath.Join(w.Dir, "terraform.tfstate"))
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (t *table) measureFloor(ctx context.Context, b *bench, tf *terraform, resources int) error {
	w, err := tf.workspace(ctx, b, tf.providers[0], b.endpoint, fmt.Sprintf(floorConfig, resources))
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

// count runs again through a proxy and looks at the provider's memory.
func (s *subject) count(ctx context.Context, b *bench, tf *terraform, chains int) error {
	p, err := proxy.Start(b.endpoint)
	if err != nil {
		return err
	}
	defer p.Close()
	return b.inVHost(chainsVHost, func() error {
		w, err := tf.workspace(ctx, b, s.provider, p.URL, b.chains(chains, chainsVHost))
		if err != nil {
			return err
		}
		if s.applyMemory, err = peakMemory(ctx, s.provider, w, applyArgs); err != nil {
			return err
		}
		s.applyCalls, s.applyWrites = tally(p.Take())
		if s.planMemory, err = peakMemory(ctx, s.provider, w, planArgs); err != nil {
			return err
		}
		s.planCalls, s.planWrites = tally(p.Take())
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
	fmt.Printf("\n%d chains of 3 delays, classic queues, strategy %s: %d exchanges, %d queues, %d bindings, together %d objects\n",
		chains, b.strategy(), len(t.objects.Exchanges), len(t.objects.Queues), len(t.objects.Bindings), t.objects.objects())
	fmt.Printf("seconds are the median of %d (lowest to highest)\n\n", runs)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "\tplan\tapply\t")
	for _, s := range t.subjects {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", s.name, spread(s.plan), spread(s.apply))
	}
	fmt.Fprintf(w, "the broker's import of the same definitions\t-\t%s\t\n", spread(t.imported))
	fmt.Fprintf(w, "Terraform with %d terraform_data\t%s\t%s\t\n", chains, spread(t.floorPlan), spread(t.floorApply))
	for _, s := range t.subjects {
		fmt.Fprintf(w, "%s as a multiple of that\t%s\t%s\t\n", s.name, multiple(s.plan, t.floorPlan), multiple(s.apply, t.floorApply))
	}
	for _, s := range t.subjects {
		fmt.Fprintf(w, "%s:\t\t\t\n", s.name)
		fmt.Fprintf(w, "  requests to the management API\t%d\t%d\t\n", s.planCalls, s.applyCalls)
		fmt.Fprintf(w, "  of which writes\t%d\t%d\t\n", s.planWrites, s.applyWrites)
		fmt.Fprintf(w, "  peak memory of the provider\t%s\t%s\t\n", megabytes(s.planMemory), megabytes(s.applyMemory))
		fmt.Fprintf(w, "  size of the state\t-\t%d kB\t\n", s.stateBytes/1000)
	}
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
