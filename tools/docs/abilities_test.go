package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

func TestInsertAbilities(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, indexFile)
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before\n" + abilitiesMarker + "\nafter\n")
	if err := insertAbilities(folder); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"before\n| feature |", "| `rabbitmq_retry_chain` with strategy `delayed_retry` | 4.3.1 or later |", "|\nafter\n",
	} {
		if !strings.Contains(string(text), part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
	write("nothing to replace")
	if err := insertAbilities(folder); err == nil {
		t.Error("a template without the marker is accepted")
	}
}

func TestAbilitiesTable(t *testing.T) {
	got := abilitiesTable([]*abilities.Ability{
		{In: abilities.DelayedRetry.In, Does: "waits", Source: "its source", Enables: []string{"one", "another"}},
		{In: abilities.DelayedRetry.In, Does: "is no feature", Source: "its source"},
	})
	const want = `| feature | RabbitMQ | because it | source |
|---|---|---|---|
| one<br>another | 4.3.1 or later | waits | its source |`
	if got != want {
		t.Errorf("the table is\n%s\nexpected\n%s", got, want)
	}
}
