package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
)

// Templates cannot call into the provider, so that tables from its code replace a comment
// in what tfplugindocs has written.
const (
	indexFile       = "index.md"
	abilitiesMarker = "<!-- What needs which RabbitMQ: tools/docs writes the table of internal/abilities here. -->"
)

// insertAbilities replaces the marker in a folder of written documentation by the table.
func insertAbilities(folder string) error {
	path := filepath.Join(folder, indexFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.Count(string(text), abilitiesMarker) != 1 {
		return fmt.Errorf("templates/%s.tmpl needs this line once:\n%s", indexFile, abilitiesMarker)
	}
	changed := strings.Replace(string(text), abilitiesMarker, abilitiesTable(abilities.Table()), 1)
	return os.WriteFile(path, []byte(changed), 0o644)
}

// abilitiesTable is a table in Markdown of the abilities that features need.
func abilitiesTable(all []*abilities.Ability) string {
	rows := []string{"| feature | RabbitMQ | because it | source |", "|---|---|---|---|"}
	for _, a := range all {
		if len(a.Enables) > 0 {
			rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", strings.Join(a.Enables, "<br>"), a.In, a.Does, a.Source))
		}
	}
	return strings.Join(rows, "\n")
}
