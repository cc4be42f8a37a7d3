package audit_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/audit"
)

// template is what the documentation of the data source is made from.
const template = "../../templates/data-sources/retry_audit.md.tmpl"

// TestDocumentationHasEveryRule compares the table in the documentation with the
// rules.
func TestDocumentationHasEveryRule(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(template)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "\n\n"+table()+"\n\n") {
		t.Errorf("%s does not have this table:\n%s", template, table())
	}
}

func table() string {
	lines := []string{"| rule | severity | what happens | source |", "|---|---|---|---|"}
	for _, rule := range audit.Rules() {
		severities := make([]string, len(rule.Severities))
		for i, severity := range rule.Severities {
			severities[i] = string(severity)
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s | %s | %s |", rule.ID, strings.Join(severities, ", "), rule.Title, rule.Source))
	}
	return strings.Join(lines, "\n")
}
