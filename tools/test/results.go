package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// event is a line of "go test -json" (go doc test2json). Build output has an
// ImportPath in place of a Package.
type event struct {
	Time       time.Time
	Action     string
	Package    string
	ImportPath string
	Test       string
	Output     string
	Elapsed    float64 // seconds
}

// testName is a test of a package; without a name it is the package itself.
type testName struct{ pkg, test string }

func (n testName) String() string { return short(n.pkg) + " " + n.test }

// ancestors are the names of the tests that the test is a subtest of. Names can hold
// slashes, and so some of them may be of no test.
func (n testName) ancestors() []testName {
	var all []testName
	for i, r := range n.test {
		if r == '/' {
			all = append(all, testName{n.pkg, n.test[:i]})
		}
	}
	return all
}

// function is the test that it is, or is a subtest of.
func (n testName) function() testName {
	name, _, _ := strings.Cut(n.test, "/")
	return testName{n.pkg, name}
}

func mark(set map[testName]bool, names []testName) {
	for _, n := range names {
		set[n] = true
	}
}

// outcome is what became of a test that ended.
type outcome struct {
	testName

	action  string // pass, fail or skip
	elapsed time.Duration
	output  string
}

// results are what is known of a run so far.
type results struct {
	begin time.Time
	// running holds the tests that run and are not paused, with their start.
	running map[testName]time.Time
	// parents are tests with subtests, which mostly wait for them.
	parents map[testName]bool
	// blamed are tests with a subtest that failed.
	blamed map[testName]bool
	// output is what tests that have not ended have written.
	output map[testName]*strings.Builder
	ended  []outcome
	// packages are those that ended, other than for want of tests.
	packages []outcome
	// exit is the exit code of go test.
	exit int
}

func newResults(begin time.Time) *results {
	return &results{
		begin: begin, running: map[testName]time.Time{}, parents: map[testName]bool{},
		blamed: map[testName]bool{}, output: map[testName]*strings.Builder{},
	}
}

// follow reads what go test says to the end, and shows it.
func follow(from io.Reader, r *results, d *display) {
	lines := make(chan string)
	go readLines(from, lines)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case line, open := <-lines:
			if !open {
				d.clear()
				return
			}
			r.line(line, d)
		case now := <-tick.C:
			d.progress(r, now)
		}
	}
}

// readLines reads to the end. A line can be as long as a state.
func readLines(from io.Reader, lines chan<- string) {
	defer close(lines)
	reader := bufio.NewReader(from)
	for {
		line, err := reader.ReadString('\n')
		if line != "" {
			lines <- line
		}
		if err != nil {
			return
		}
	}
}

// line takes a line of go test, which is an event or else is shown as it is.
func (r *results) line(line string, d *display) {
	var e event
	if json.Unmarshal([]byte(line), &e) != nil {
		d.print(line)
		return
	}
	if o := r.take(e); o != nil {
		d.ended(*o)
	}
}

// take notes an event. It returns what became of the test or package that it ends.
func (r *results) take(e event) *outcome {
	name := testName{cmp.Or(e.Package, e.ImportPath), e.Test}
	switch e.Action {
	case "run", "cont":
		r.running[name] = e.Time
		mark(r.parents, name.ancestors())
	case "pause":
		delete(r.running, name)
	case "output", "build-output":
		if r.output[name] == nil {
			r.output[name] = &strings.Builder{}
		}
		r.output[name].WriteString(e.Output)
	case "pass", "fail", "skip", "build-fail":
		return r.end(name, e)
	}
	return nil
}

func (r *results) end(name testName, e event) *outcome {
	o := outcome{testName: name, action: strings.TrimPrefix(e.Action, "build-"), elapsed: time.Duration(e.Elapsed * float64(time.Second))}
	if text := r.output[name]; text != nil {
		o.output = frame.ReplaceAllString(text.String(), "")
	}
	delete(r.running, name)
	delete(r.output, name)
	if o.action == "fail" {
		mark(r.blamed, name.ancestors())
	}
	switch {
	case name.test == "" && o.action == "skip": // it has no tests
		return nil
	case name.test == "":
		r.packages = append(r.packages, o)
	case r.parents[name] && (o.action != "fail" || r.blamed[name] && o.output == ""): // its subtests are counted
		return nil
	default:
		r.ended = append(r.ended, o)
	}
	return &o
}

// frame is what go test writes around the output of a test.
var frame = regexp.MustCompile(`(?m)^(=== |\s*--- ).*\n|^(PASS|FAIL)\n`)

func (r *results) count(action string) int {
	n := 0
	for _, o := range r.ended {
		if o.action == action {
			n++
		}
	}
	return n
}

func (r *results) failed() bool { return r.exit != 0 || r.count("fail") > 0 }

// slowest returns the test without subtests that runs longest, and which packages
// have such tests.
func (r *results) slowest() (name testName, since time.Time, packages []string) {
	seen := map[string]bool{}
	for n, began := range r.running {
		if r.parents[n] || n.test == "" {
			continue
		}
		seen[short(n.pkg)] = true
		if since.IsZero() || began.Before(since) {
			name, since = n, began
		}
	}
	return name, since, slices.Sorted(maps.Keys(seen))
}

var skipReason = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// skip is a reason for which tests were skipped.
type skip struct {
	tests int
	// all are the functions of which nothing ran.
	all []string
}

// skipped returns the tests that were skipped by their reasons.
func (r *results) skipped() map[string]skip {
	ran := map[testName]bool{}
	for _, o := range r.ended {
		ran[o.function()] = ran[o.function()] || o.action != "skip"
	}
	reasons := map[string]skip{}
	for _, o := range r.ended {
		if o.action != "skip" {
			continue
		}
		reason := "no reason given"
		if all := skipReason.FindAllStringSubmatch(o.output, -1); len(all) > 0 {
			reason = all[len(all)-1][1]
		}
		s := reasons[reason]
		s.tests++
		if f := o.function(); !ran[f] && !slices.Contains(s.all, f.test) {
			s.all = append(s.all, f.test)
		}
		reasons[reason] = s
	}
	return reasons
}
