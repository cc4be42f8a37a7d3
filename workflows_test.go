package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// job is a key of two spaces, and what follows up to the next.
	job    = regexp.MustCompile(`(?m)^  [\w-]+:$`)
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses:\s*(.*)$`)
	pinned = regexp.MustCompile(`^([\w.-]+)/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	// trusted marks a job that holds the key or may change the repository.
	trusted = regexp.MustCompile(`secrets\.|: write\b`)
	foreign = regexp.MustCompile(`\bgo (?:tool|run|install|test|build)\b|\bmake\b`)
)

// TestWorkflows: a tag of an action can be moved to other code, a commit cannot. Where the
// signing key or the right to publish is, only GitHub's own actions and plain shell
// run.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(".github/workflows/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, problem := range workflowProblems(string(text)) {
			t.Errorf("%s: %s", file, problem)
		}
	}
}

// TestWorkflowProblems: each fault is found.
func TestWorkflowProblems(t *testing.T) {
	t.Parallel()
	const commit = "@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"
	for _, test := range []struct {
		text string
		want int
	}{
		{"jobs:\n  a:\n    steps:\n      - uses: actions/checkout" + commit + "\n", 0},
		{"jobs:\n  a:\n    steps:\n      - uses: other/action" + commit + "\n", 0},
		{"jobs:\n  a:\n    steps:\n      - uses: actions/checkout@v7\n", 1},
		{"jobs:\n  a:\n    steps:\n      - name: x\n        uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1\n", 1},
		{"jobs:\n  a:\n    permissions:\n      contents: write\n    steps:\n      - uses: other/action" + commit + "\n", 1},
		{"jobs:\n  a:\n    steps:\n      - run: echo ${{ secrets.KEY }}\n      - run: go tool x\n", 1},
		{"jobs:\n  a:\n    steps:\n      - run: go tool x\n  b:\n    steps:\n      - run: echo ${{ secrets.KEY }}\n", 0},
	} {
		if got := workflowProblems(test.text); len(got) != test.want {
			t.Errorf("%q: %q, expected %d problems", test.text, got, test.want)
		}
	}
}

func workflowProblems(text string) []string {
	var problems []string
	for _, match := range uses.FindAllStringSubmatch(text, -1) {
		if !pinned.MatchString(match[1]) {
			problems = append(problems, match[1]+" is not pinned by a commit with its version as a comment")
		}
	}
	_, jobs, _ := strings.Cut(text, "\njobs:\n")
	if strings.HasPrefix(text, "jobs:\n") {
		jobs = text[len("jobs:\n"):]
	}
	starts := job.FindAllStringIndex(jobs, -1)
	for i, start := range starts {
		end := len(jobs)
		if i+1 < len(starts) {
			end = starts[i+1][0]
		}
		problems = append(problems, jobProblems(jobs[start[0]:end])...)
	}
	return problems
}

func jobProblems(text string) []string {
	if !trusted.MatchString(text) {
		return nil
	}
	var problems []string
	for _, match := range uses.FindAllStringSubmatch(text, -1) {
		if owner := pinned.FindStringSubmatch(match[1]); owner != nil && owner[1] != "actions" {
			problems = append(problems, match[1]+" runs beside the signing key or the right to publish")
		}
	}
	if command := foreign.FindString(text); command != "" {
		problems = append(problems, command+" runs third-party code beside the signing key or the right to publish")
	}
	return problems
}
