package retrychain

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/values"
)

// findConflicts lists the objects that the chain would have to declare and that
// exist already, each with the chain it seems to belong to.
func findConflicts(c retry.Chain, wanted, in *topology.Topology) []string {
	var conflicts []string
	note := func(kind topology.Kind, name string) { conflicts = append(conflicts, withOwner(c, kind, name, in)) }
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
	for _, p := range wanted.Policies() {
		if _, exists := in.Policy(p.Name); exists {
			conflicts = append(conflicts, fmt.Sprintf("policy %q", p.Name))
		}
	}
	return conflicts
}

// withOwner names an object and another chain that it seems to belong to.
func withOwner(c retry.Chain, kind topology.Kind, name string, in *topology.Topology) string {
	text := fmt.Sprintf("%s %q", kind, name)
	if owner := retry.OwnerOf(kind, name, in); owner != "" && owner != c.Name {
		text += fmt.Sprintf(" (of the retry chain %q)", owner)
	}
	return text
}

// addForeign refuses a change that needs names which others use: the state does
// not know the objects, and they do not look as the chain needs them. Without
// this an update would take a queue for a tier that drifted, and declare it
// anew.
func addForeign(before model, c retry.Chain, wanted, in *topology.Topology, diags *diag.Diagnostics) {
	known := before.lines()
	for _, queue := range values.Texts(before.Draining) {
		known.Queues[queue] = "draining"
	}
	// Whether these can be taken over [retry.Chain.TakeoverProblems] says.
	for _, queue := range []string{before.workQueue().Name.ValueString(), before.parkingQueue().Name.ValueString()} {
		known.Queues[queue] = "existing"
	}
	var foreign []string
	for _, e := range wanted.Exchanges() {
		have, exists := in.Exchange(e.Name)
		if _, ours := known.Exchanges[e.Name]; exists && !ours && !have.Equal(e) {
			foreign = append(foreign, withOwner(c, topology.KindExchange, e.Name, in)+": "+have.Line())
		}
	}
	for _, q := range wanted.Queues() {
		have, exists := in.Queue(q.Name)
		if _, ours := known.Queues[q.Name]; exists && !ours && !have.Equal(q) {
			foreign = append(foreign, withOwner(c, topology.KindQueue, q.Name, in)+": "+have.Line())
		}
	}
	if len(foreign) > 0 {
		diags.AddAttributeError(path.Root("name"), "Object Already Exists",
			fmt.Sprintf("This change of the chain %q in virtual host %q needs names that others use:\n\n  %s\n\n"+
				"The provider never takes over what it did not make, and nothing was changed. Choose other delays.",
				c.Name, before.VHost.ValueString(), strings.Join(foreign, "\n  ")))
	}
}

// conflictText says which objects exist and what to do about it.
func conflictText(m model, conflicts []string) string {
	return fmt.Sprintf("The chain %q in virtual host %q needs objects that exist already and are not in this state:\n\n  %s\n\n"+
		"The provider never takes over what it did not make. If they are this chain, import it:\n\n"+
		"  terraform import <address of this resource> '%s'\n\n"+
		"If another address of this configuration has the chain (after a rename), tell Terraform with a moved block. "+
		"If a queue belongs to an application, set work_queue.ownership or parking_queue.ownership = \"application\": the chain then uses it as it is. "+
		"Otherwise choose another name for the chain or its queues.",
		m.Name.ValueString(), m.VHost.ValueString(), strings.Join(conflicts, "\n  "), m.ID.ValueString())
}
