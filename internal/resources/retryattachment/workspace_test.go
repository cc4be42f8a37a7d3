package retryattachment_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// workspace is a configuration and a state in the hands of one team.
type workspace interface {
	// configure replaces the configuration.
	configure(t *testing.T, resources ...declared)
	// plan and apply return what they say.
	plan(t *testing.T) string
	apply(t *testing.T) string
	destroy(t *testing.T)
	expectEmptyPlan(t *testing.T)
	// refused runs "plan", "apply" or "destroy", which must fail, and returns
	// what it says.
	refused(t *testing.T, command string) string
	// forget takes a resource out of the state, and adopt imports one.
	forget(t *testing.T, address string)
	adopt(t *testing.T, address, id string)
}

type attributes = map[string]any

// declared is a resource of a configuration.
type declared struct {
	kind, name string
	attributes attributes
}

func (d declared) address() string { return d.kind + "." + d.name }

// byCLI runs Terraform, which shows what people see of it. It takes a second of
// both processors for each command.
type byCLI struct {
	*cli.Workspace
	b *rabbit.Broker
}

func newCLI(t *testing.T, b *rabbit.Broker, resources ...declared) workspace {
	t.Helper()
	return &byCLI{acctest.Terraform(t, configuration(t, b, resources)), b}
}

// configuration writes the resources as Terraform reads them. What JSON can say
// looks the same there.
func configuration(t *testing.T, b *rabbit.Broker, resources []declared) string {
	t.Helper()
	var text strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&text, "resource %q %q {\n", r.kind, r.name)
		for _, key := range slices.Sorted(maps.Keys(r.attributes)) {
			value, err := json.Marshal(r.attributes[key])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&text, "  %s = %s\n", key, value)
		}
		text.WriteString("}\n")
	}
	return acctest.Config(b, "%s", text.String())
}

func (w *byCLI) configure(t *testing.T, resources ...declared) {
	t.Helper()
	acctest.Reconfigure(t, w.Workspace, configuration(t, w.b, resources))
}

func (w *byCLI) plan(t *testing.T) string {
	t.Helper()
	return acctest.Run(t, w.Workspace, "plan")
}

func (w *byCLI) apply(t *testing.T) string {
	t.Helper()
	return acctest.Run(t, w.Workspace, "apply", "-auto-approve")
}

func (w *byCLI) destroy(t *testing.T) {
	t.Helper()
	acctest.Run(t, w.Workspace, "destroy", "-auto-approve")
}

func (w *byCLI) expectEmptyPlan(t *testing.T) {
	t.Helper()
	if output, err := w.Run(t.Context(), "plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the plan is not empty: %s", output)
	}
}

func (w *byCLI) refused(t *testing.T, command string) string {
	t.Helper()
	if command == "plan" {
		return acctest.RunError(t, w.Workspace, command)
	}
	return acctest.RunError(t, w.Workspace, command, "-auto-approve")
}

func (w *byCLI) forget(t *testing.T, address string) {
	t.Helper()
	acctest.Run(t, w.Workspace, "state", "rm", address)
}

func (w *byCLI) adopt(t *testing.T, address, id string) {
	t.Helper()
	acctest.Run(t, w.Workspace, "import", address, id)
}

// inProcess does what Terraform does without its processes. Every plan and every
// apply has a provider of its own, as there.
type inProcess struct {
	b         *rabbit.Broker
	resources []declared
	states    map[string]protocol.State
}

func newInProcess(b *rabbit.Broker, resources ...declared) workspace {
	return &inProcess{b, resources, map[string]protocol.State{}}
}

func (w *inProcess) configure(_ *testing.T, resources ...declared) { w.resources = resources }

// change is what is planned for a resource.
type change struct {
	declared
	protocol.Plan
}

// wanted are the resources of the configuration, and without attributes those
// that must go.
func (w *inProcess) wanted(destroy bool) []declared {
	var wanted []declared
	if !destroy {
		wanted = slices.Clone(w.resources)
	}
	for _, address := range slices.Sorted(maps.Keys(w.states)) {
		if !slices.ContainsFunc(wanted, func(d declared) bool { return d.address() == address }) {
			kind, name, _ := strings.Cut(address, ".")
			wanted = append(wanted, declared{kind: kind, name: name})
		}
	}
	return wanted
}

// changes refreshes and plans.
func (w *inProcess) changes(t *testing.T, destroy bool) (changes []change, found protocol.Diagnostics) {
	t.Helper()
	server := acctest.Server(t, w.b)
	for _, d := range w.wanted(destroy) {
		state, exists := w.states[d.address()]
		var more protocol.Diagnostics
		if exists {
			state, more = server.Read(t, d.kind, state)
			found = append(found, more...)
		}
		if d.attributes != nil {
			found = append(found, server.Validate(t, d.kind, d.attributes)...)
		}
		if len(found.Errors()) > 0 || d.attributes == nil && state.Value.IsNull() {
			continue
		}
		plan := server.Plan(t, d.kind, d.attributes, state)
		found = append(found, plan.Diagnostics...)
		changes = append(changes, change{d, plan})
	}
	return changes, found
}

// carryOut applies the changes, as far as they get.
func (w *inProcess) carryOut(t *testing.T, changes []change) protocol.Diagnostics {
	t.Helper()
	var found protocol.Diagnostics
	server := acctest.Server(t, w.b)
	for _, c := range changes {
		if c.Prior.Equal(c.Planned) {
			continue
		}
		if len(c.Replace) > 0 && !c.Prior.IsNull() && !c.Planned.IsNull() {
			t.Fatalf("%s would be replaced", c.address())
		}
		state, more := server.Apply(t, c.kind, c.Plan)
		if found = append(found, more...); state.Value.IsNull() {
			delete(w.states, c.address())
		} else {
			w.states[c.address()] = state
		}
	}
	return found
}

// run plans, and applies unless the plan fails.
func (w *inProcess) run(t *testing.T, command string) (output string, found protocol.Diagnostics) {
	t.Helper()
	changes, found := w.changes(t, command == "destroy")
	output = describe(changes)
	if len(found.Errors()) == 0 && command != "plan" {
		found = append(found, w.carryOut(t, changes)...)
	}
	return output + found.String(), found
}

func (w *inProcess) succeed(t *testing.T, command string) string {
	t.Helper()
	output, found := w.run(t, command)
	if len(found.Errors()) > 0 {
		t.Fatal(output)
	}
	return output
}

func (w *inProcess) plan(t *testing.T) string {
	t.Helper()
	return w.succeed(t, "plan")
}

func (w *inProcess) apply(t *testing.T) string {
	t.Helper()
	return w.succeed(t, "apply")
}

func (w *inProcess) destroy(t *testing.T) {
	t.Helper()
	w.succeed(t, "destroy")
}

func (w *inProcess) expectEmptyPlan(t *testing.T) {
	t.Helper()
	changes, found := w.changes(t, false)
	if output := describe(changes); len(found.Errors()) > 0 || !strings.HasPrefix(output, "Plan: 0 to add, 0 to change, 0 to destroy.") {
		t.Errorf("the plan is not empty: %s%s", output, found)
	}
}

func (w *inProcess) refused(t *testing.T, command string) string {
	t.Helper()
	output, found := w.run(t, command)
	if len(found.Errors()) == 0 {
		t.Fatalf("%s succeeded: %s", command, output)
	}
	return output
}

func (w *inProcess) forget(_ *testing.T, address string) { delete(w.states, address) }

func (w *inProcess) adopt(t *testing.T, address, id string) {
	t.Helper()
	kind, _, _ := strings.Cut(address, ".")
	state, found := acctest.Server(t, w.b).Import(t, kind, id, nil)
	if len(found.Errors()) > 0 {
		t.Fatal(found)
	}
	w.states[address] = state
}

// describe writes changes as Terraform does, the lines of the topology only.
func describe(changes []change) string {
	var lines []string
	count := map[string]int{}
	for _, c := range changes {
		switch {
		case c.Prior.Equal(c.Planned):
			continue
		case c.Prior.IsNull():
			count["add"]++
		case c.Planned.IsNull():
			count["destroy"]++
		default:
			count["change"]++
		}
		for _, kind := range []string{"exchanges", "queues", "bindings", "policies"} {
			before, after := linesOf(c.Prior, kind), linesOf(c.Planned, kind)
			lines = append(lines, differences("-", before, after)...)
			lines = append(lines, differences("+", after, before)...)
		}
	}
	return fmt.Sprintf("Plan: %d to add, %d to change, %d to destroy.\n%s\n", count["add"], count["change"], count["destroy"], strings.Join(lines, "\n"))
}

// differences are the lines that one side has and the other has not.
func differences(sign string, of, without map[string]any) []string {
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if of[name] != without[name] {
			lines = append(lines, fmt.Sprintf("%s %q = %q", sign, name, of[name]))
		}
	}
	return lines
}

// linesOf are the lines of one kind in a resource's topology.
func linesOf(resource tftypes.Value, kind string) map[string]any {
	lines, _ := protocol.Go(protocol.At(resource, "topology."+kind)).(map[string]any)
	return lines
}
