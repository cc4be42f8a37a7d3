package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// quietTime lies between two lines of progress where they stay.
const quietTime = 20 * time.Second

// What a terminal understands as: cut long lines off, and continue them in the next line.
const noWrap, wrap = "\033[?7l", "\033[?7h"

// display shows a run. On a terminal the line of progress replaces itself.
type display struct {
	to       io.Writer
	terminal bool
	shown    time.Time
}

func newDisplay(to *os.File) *display {
	info, err := to.Stat()
	return &display{to: to, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0, shown: time.Now()}
}

func (d *display) clear() {
	if d.terminal {
		fmt.Fprint(d.to, "\r\033[K")
	}
}

func (d *display) print(line string) {
	d.clear()
	fmt.Fprintln(d.to, strings.TrimSuffix(line, "\n"))
}

// ended shows packages that ended, and tests that failed with what they wrote.
func (d *display) ended(o outcome) {
	switch {
	case o.action == "fail" && o.test != "":
		d.print(fmt.Sprintf("FAIL  %s (%s)\n%s", o.testName, roughly(o.elapsed), o.output))
	case o.action == "fail":
		d.print(fmt.Sprintf("FAIL  %s (%s)\n%s", short(o.pkg), roughly(o.elapsed), o.output))
	case o.test == "" && o.elapsed > time.Second:
		d.print(fmt.Sprintf("ok    %s (%s)", short(o.pkg), roughly(o.elapsed)))
	}
}

// progress says how far the run is.
func (d *display) progress(r *results, now time.Time) {
	if !d.terminal && now.Sub(d.shown) < quietTime {
		return
	}
	d.shown = now
	line := fmt.Sprintf("%s: %d tests done", roughly(now.Sub(r.begin)), len(r.ended))
	if n := r.count("fail"); n > 0 {
		line += fmt.Sprintf(", %d failed", n)
	}
	if name, since, packages := r.slowest(); name.test != "" {
		line += fmt.Sprintf("; in %s; slowest now %s (%s)", strings.Join(packages, ", "), name.test, roughly(now.Sub(since)))
	}
	if d.terminal {
		fmt.Fprintf(d.to, "\r\033[K%s%s%s", noWrap, line, wrap)
		return
	}
	fmt.Fprintln(d.to, line)
}

// summary says what ran, where, what took longest, what was skipped and what failed.
func (r *results) summary(to io.Writer, brokers []*rabbit.Broker, missing []missing) {
	fmt.Fprintln(to)
	byTime := slices.SortedFunc(slices.Values(r.ended), func(a, b outcome) int { return cmp.Compare(b.elapsed, a.elapsed) })
	for _, o := range byTime[:min(5, len(byTime))] {
		fmt.Fprintf(to, "slow     %6s  %s\n", roughly(o.elapsed), o.testName)
	}
	skipped := r.skipped()
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		fmt.Fprintf(to, "skipped  %6d  %s\n", skipped[reason].tests, reason)
		if all := skipped[reason].all; len(all) > 0 {
			fmt.Fprintf(to, "                 and so nothing of %s ran\n", strings.Join(all, ", "))
		}
	}
	for _, o := range r.ended {
		if o.action == "fail" {
			fmt.Fprintf(to, "FAILED   %6s  %s\n", roughly(o.elapsed), o.testName)
		}
	}
	for _, o := range r.packages {
		if o.action == "fail" {
			fmt.Fprintf(to, "FAILED   %6s  %s\n", roughly(o.elapsed), short(o.pkg))
		}
	}
	fmt.Fprintln(to, r.verdict(brokers, missing))
}

// verdict is the last line.
func (r *results) verdict(brokers []*rabbit.Broker, missing []missing) string {
	word := "ok"
	if r.failed() {
		word = "FAILED"
	}
	line := fmt.Sprintf("%s: %d tests in %s, %d failed, %d skipped",
		word, len(r.ended), roughly(time.Since(r.begin)), r.count("fail"), r.count("skip"))
	var counts []string
	for _, b := range brokers {
		counts = append(counts, fmt.Sprintf("%s: %d", b.Version, r.on(b.Name)))
	}
	if len(counts) > 0 {
		line += "; RabbitMQ " + strings.Join(counts, ", ")
	}
	if len(missing) == 0 {
		return line
	}
	var versions []string
	for _, m := range missing {
		versions = append(versions, m.version)
	}
	return line + fmt.Sprintf("; WITHOUT RabbitMQ %s, which cannot be had here", strings.Join(versions, " and "))
}

// on counts the tests that ran on a broker, which stands in their names.
func (r *results) on(broker string) int {
	n := 0
	for _, o := range r.ended {
		if o.action != "skip" && slices.Contains(strings.Split(o.test, "/"), broker) {
			n++
		}
	}
	return n
}
