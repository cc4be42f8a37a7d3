package retrychain_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/plancheck"
)

// topologyChange expects that a plan changes one object of the topology, and
// with it only bindings that the broker removed along with that object.
type topologyChange struct {
	t            *testing.T
	name         string
	kind, object string
	gone         bool
}

func (c topologyChange) CheckPlan(_ context.Context, req plancheck.CheckPlanRequest, resp *plancheck.CheckPlanResponse) {
	for _, change := range req.Plan.ResourceChanges {
		if change.Address != address {
			continue
		}
		changed := topologyChanges(change.Change.Before, change.Change.After)
		want := c.kind + " + " + c.object
		if c.gone {
			want = c.kind + " - " + c.object
		}
		for _, line := range changed {
			if line != want && !c.followsFrom(line) {
				resp.Error = fmt.Errorf("%s: the plan also changes %q; all changes: %q", c.name, line, changed)
				return
			}
		}
		if !slices.Contains(changed, want) {
			resp.Error = fmt.Errorf("%s: the plan changes %q, expected %q", c.name, changed, want)
		}
		if inputs := inputChanges(change.Change.Before, change.Change.After); len(inputs) > 0 {
			resp.Error = fmt.Errorf("%s: the plan also changes the attributes %q", c.name, inputs)
		}
		return
	}
	resp.Error = fmt.Errorf("%s: the plan does not hold %s", c.name, address)
}

// followsFrom says whether the line is a binding that starts or ends at the
// object: RabbitMQ deletes it together with the object.
func (c topologyChange) followsFrom(line string) bool {
	binding, found := strings.CutPrefix(line, "bindings + ")
	return found && c.kind != "bindings" &&
		(strings.HasPrefix(binding, c.object+" -> ") || strings.Contains(binding+" ", " -> "+c.object+" "))
}

// topologyChanges lists what differs in the attribute topology: "+" for what
// comes, "-" for what goes, "~" for what changes.
func topologyChanges(before, after any) []string {
	var changes []string
	for _, kind := range []string{"exchanges", "queues", "bindings"} {
		a, b := lines(before, kind), lines(after, kind)
		for _, name := range slices.Sorted(maps.Keys(b)) {
			switch old, exists := a[name]; {
			case !exists:
				changes = append(changes, kind+" + "+name)
			case old != b[name]:
				changes = append(changes, kind+" ~ "+name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(a)) {
			if _, exists := b[name]; !exists {
				changes = append(changes, kind+" - "+name)
			}
		}
	}
	return changes
}

func lines(state any, kind string) map[string]any {
	attributes, _ := state.(map[string]any)
	topology, _ := attributes["topology"].(map[string]any)
	lines, _ := topology[kind].(map[string]any)
	return lines
}

// inputChanges lists all other attributes that differ.
func inputChanges(before, after any) []string {
	a, _ := before.(map[string]any)
	b, _ := after.(map[string]any)
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if name != "topology" && fmt.Sprint(a[name]) != fmt.Sprint(b[name]) {
			changed = append(changed, name)
		}
	}
	return changed
}
