package tfkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// CheckForms refuses what can only be deleted and declared again. needer is what
// the objects are for, such as "the delay network".
func CheckForms(have, want topology.Lines, needer string, diags *diag.Diagnostics) {
	compare := func(kind string, have, want map[string]string) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			actual, exists := have[name]
			if !exists || actual == want[name] {
				continue
			}
			diags.AddAttributeError(path.Root("topology"), kind+" Exists in Another Form",
				fmt.Sprintf("%s %q is on the broker as\n\n  %s\n\nand %s needs\n\n  %s\n\nRabbitMQ cannot change it in place, and to delete and declare it again would lose "+
					"messages that arrive in between. Stop senders, wait until no message is under way, delete the object by hand and apply again.", kind, name, actual, needer, want[name]))
		}
	}
	compare("Exchange", have.Exchanges, want.Exchanges)
	compare("Queue", have.Queues, want.Queues)
}

// AddHalfMade says that err kept a failed create from removing what it had made,
// and how to import that under its identifier.
func AddHalfMade(diags *diag.Diagnostics, title, id string, err error) {
	diags.AddError(title,
		fmt.Sprintf("What this create had made could not be removed again: %s.\n\nNo message is lost. Mend the cause, then import what is there and apply:\n\n"+
			"  terraform import <address of this resource> '%s'", strings.TrimSuffix(err.Error(), "."), id))
}
