package lifecycle

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// CheckForms refuses what can only be deleted and declared again: exchanges, and queues
// that are fixed. needer is what the objects are for, such as "the delay network".
func CheckForms(have, want topology.Lines, fixed func(queue string) bool, needer string, diags *diag.Diagnostics) {
	compare := func(kind string, have, want map[string]string, fixed func(string) bool) {
		for _, name := range slices.Sorted(maps.Keys(want)) {
			actual, exists := have[name]
			if !exists || actual == want[name] || !fixed(name) {
				continue
			}
			diags.AddAttributeError(path.Root("topology"), kind+" Exists in Another Form",
				FormText(kind, name, actual, needer, want[name]))
		}
	}
	compare("Exchange", have.Exchanges, want.Exchanges, func(string) bool { return true })
	compare("Queue", have.Queues, want.Queues, fixed)
}

// FormText says that an exchange or a queue (kind) exists in another form than
// needer needs, and how to replace it without losing a message.
func FormText(kind, name, actual, needer, wanted string) string {
	text := fmt.Sprintf("%s %q is on the broker as\n\n  %s\n\nand %s needs\n\n  %s\n\nRabbitMQ cannot change it in place. ", kind, name,
		actual, needer, wanted)
	if kind == "Queue" {
		return text + "Deleting it deletes every message in it: stop publishers, move all messages to another queue, parked ones " +
			"included, then delete it and apply again."
	}
	return text + "Messages that are routed to it while it is missing are lost: stop publishers, wait until every queue that leads to it " +
		"is empty, then delete it and apply again."
}

// AddHalfMade says that err kept a failed create from removing what it had made,
// and how to import that under its identifier.
func AddHalfMade(diags *diag.Diagnostics, title, id string, err error) {
	diags.AddError(title,
		fmt.Sprintf("What this create had made could not be removed again: %s.\n\nNo message is lost. Mend the cause, then import "+
			"what is there and apply:\n\n  terraform import <address of this resource> '%s'", strings.TrimSuffix(err.Error(), "."), id))
}
