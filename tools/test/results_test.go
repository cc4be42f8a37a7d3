package main

import (
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// stream is what go test says of a package in which one test passes, one is skipped and
// one fails, and of one that does not compile.
const stream = `
{"Action":"start","Package":"example.com/a"}
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"example.com/a","Test":"TestAccBoth"}
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"example.com/a","Test":"TestAccBoth/4.0"}
{"Time":"2026-01-01T00:00:00Z","Action":"pause","Package":"example.com/a","Test":"TestAccBoth/4.0"}
{"Time":"2026-01-01T00:00:00Z","Action":"run","Package":"example.com/a","Test":"TestAccBoth/3.10"}
{"Time":"2026-01-01T00:00:01Z","Action":"cont","Package":"example.com/a","Test":"TestAccBoth/4.0"}
MIDDLE
{"Action":"output","Package":"example.com/a","Test":"TestAccBoth/3.10","Output":"    a_test.go:7: needs 3.13, this is 3.10.8\n"}
{"Action":"output","Package":"example.com/a","Test":"TestAccBoth/3.10","Output":"--- SKIP: TestAccBoth/3.10 (0.00s)\n"}
{"Action":"skip","Package":"example.com/a","Test":"TestAccBoth/3.10","Elapsed":0}
{"Action":"output","Package":"example.com/a","Test":"TestAccBoth/4.0","Output":"=== CONT  TestAccBoth/4.0\n"}
{"Action":"output","Package":"example.com/a","Test":"TestAccBoth/4.0","Output":"    a_test.go:9: lost\n"}
{"Action":"fail","Package":"example.com/a","Test":"TestAccBoth/4.0","Elapsed":3}
{"Action":"fail","Package":"example.com/a","Test":"TestAccBoth","Elapsed":3}
{"Time":"2026-01-01T00:00:02Z","Action":"run","Package":"example.com/a","Test":"TestPlain"}
{"Action":"pass","Package":"example.com/a","Test":"TestPlain","Elapsed":0.5}
{"Action":"fail","Package":"example.com/a","Elapsed":4}
{"Action":"skip","Package":"example.com/empty","Elapsed":0}
{"Action":"build-output","ImportPath":"example.com/b","Output":"b.go:1:1: expected package\n"}
{"Action":"build-fail","ImportPath":"example.com/b"}
not JSON
`

func TestResults(t *testing.T) {
	before, after, _ := strings.Cut(strings.TrimSpace(stream), "MIDDLE\n")
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r := newResults(begin)
	var shown strings.Builder
	d := &display{to: &shown}
	follow(strings.NewReader(before), r, d)
	d.progress(r, begin.Add(time.Minute))
	if want := "60 s: 0 tests done; in example.com/a; slowest now TestAccBoth/3.10 (60 s)\n"; shown.String() != want {
		t.Errorf("progress %q, want %q", shown.String(), want)
	}
	shown.Reset()
	follow(strings.NewReader(after), r, d)
	want := `FAIL  example.com/a TestAccBoth/4.0 (3.0 s)
    a_test.go:9: lost
FAIL  example.com/a (4.0 s)
FAIL  example.com/b (0.0 s)
b.go:1:1: expected package
not JSON
`
	if shown.String() != want {
		t.Errorf("shown:\n%s\nwant:\n%s", shown.String(), want)
	}

	if !r.failed() {
		t.Error("the run has not failed")
	}
	shown.Reset()
	r.summary(&shown, []*rabbit.Broker{{Name: "3.10", Version: "3.10.8"}, {Name: "4.0", Version: "4.0.5"}}, []missing{{version: "4.3"}})
	for _, line := range []string{
		"skipped       1  needs 3.13, this is 3.10.8\n",
		"FAILED    3.0 s  example.com/a TestAccBoth/4.0\n",
		"FAILED    0.0 s  example.com/b\n",
		", 1 failed, 1 skipped; RabbitMQ 3.10.8: 0, 4.0.5: 1; WITHOUT RabbitMQ 4.3, which cannot be had here\n",
	} {
		if !strings.Contains(shown.String(), line) {
			t.Errorf("the summary lacks %q:\n%s", line, shown.String())
		}
	}
}

// A terminal shows one line of progress, which makes room for what stays.
func TestTerminal(t *testing.T) {
	r := newResults(time.Now())
	var shown strings.Builder
	d := &display{to: &shown, terminal: true}
	d.progress(r, r.begin)
	d.print("a line")
	if want := "\r\033[K\033[?7l0.0 s: 0 tests done\033[?7h\r\033[Ka line\n"; shown.String() != want {
		t.Errorf("shown %q, want %q", shown.String(), want)
	}
}
