package retrychain

import (
	"fmt"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// findConflicts lists the objects that the chain would have to declare and that
// exist already, each with the chain it seems to belong to.
func findConflicts(c retry.Chain, wanted, in *topology.Topology) []string {
	var conflicts []string
	note := func(kind topology.Kind, name string) {
		text := fmt.Sprintf("%s %q", kind, name)
		if owner := retry.OwnerOf(kind, name, in); owner != "" && owner != c.Name {
			text += fmt.Sprintf(" (of the retry chain %q)", owner)
		}
		conflicts = append(conflicts, text)
	}
	for _, e := range wanted.Exchanges() {
		if _, exists := in.Exchange(e.Name); exists {
			note(topology.KindExchange, e.Name)
		}
	}
	for _, q := range wanted.Queues() {
		if _, exists := in.Queue(q.Name); exists {
			note(topology.KindQueue, q.Name)
		}
	}
	return conflicts
}

// conflictText says which objects exist and what to do about it.
func conflictText(m model, conflicts []string) string {
	return fmt.Sprintf("The chain %q in virtual host %q needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are this chain, import it:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If another address of this configuration has the chain (after a rename), tell Terraform with a moved block. "+
		"Otherwise choose another name for the chain or its queues, or remove the objects.",
		m.Name.ValueString(), m.VHost.ValueString(), strings.Join(conflicts, "\n  "), m.ID.ValueString())
}
