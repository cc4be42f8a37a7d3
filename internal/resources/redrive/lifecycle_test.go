package redrive_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccTriggers: the resource runs when it is created and when an argument or
// a trigger changes, and at no other time. A destroy changes nothing.
func TestAccTriggers(t *testing.T) {
	for _, resource := range []string{redriveType, discardType} {
		t.Run(resource, func(t *testing.T) {
			acctest.Each(t, func(t *testing.T, b *rabbit.Broker) { tryTriggers(t, b, resource) })
		})
	}
}

func tryTriggers(t *testing.T, b *rabbit.Broker, resource string) {
	t.Helper()
	const n = 30
	p := newPlace(t, b, "quorum")
	p.park("work", n)
	config := func(arguments string) string {
		return acctest.Config(b, "resource %q \"one\" {\n  queue = \"parking\"\n  vhost = %q\n  filter = { origin_queue = \"work\" }\n  %s\n}\n", resource, p.vhost, arguments)
	}
	left := n
	expect := func(gone int) {
		t.Helper()
		left -= gone
		p.wait(func() bool { return p.ready("parking") == left })
		if resource == redriveType {
			p.wait(func() bool { return p.ready("work") == n-left })
		}
	}
	w := acctest.Terraform(t, config("max_messages = 2"))
	acctest.Run(t, w, "apply", "-auto-approve")
	expect(2)
	nothingToDo(t, w)
	acctest.Run(t, w, "apply", "-auto-approve")
	expect(0)
	for _, step := range []struct {
		arguments string
		gone      int
	}{
		{"max_messages = 3", 3},
		{"max_messages = 3\n  triggers = { ticket = \"1\" }", 3},
		{"max_messages = 3\n  triggers = { ticket = \"2\" }", 3},
		{"max_messages = 3\n  triggers = { ticket = \"2\", again = \"yes\" }", 3},
		{"max_messages = 3", 3},
		{"max_messages = 3\n  dry_run = true", 0},
		{"max_messages = 3\n  dry_run = false", 3},
	} {
		acctest.Reconfigure(t, w, config(step.arguments))
		if output := acctest.Run(t, w, "apply", "-auto-approve"); !strings.Contains(output, "1 to add, 0 to change, 1 to destroy") || !strings.Contains(output, "forces replacement") {
			t.Errorf("%s: the plan does not replace it:\n%s", step.arguments, output)
		}
		expect(step.gone)
	}
	nothingToDo(t, w)
	acctest.Run(t, w, "destroy", "-auto-approve")
	expect(0)
	if got := ids(p.drain("parking", left)); !slices.Equal(got, numbers(n, every)[n-left:]) {
		t.Errorf("left %v", got)
	}
}

func nothingToDo(t *testing.T, w *cli.Workspace) {
	t.Helper()
	acctest.Run(t, w, "plan", "-detailed-exitcode")
}

// TestAccFailedRun: after a run that failed there is no resource, and the next
// apply runs again.
func TestAccFailedRun(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		p := newPlace(t, b, "classic")
		p.park("work", 5)
		w := acctest.Terraform(t, acctest.Config(b, `
resource "rabbitmq_redrive" "one" {
  queue       = "parking"
  vhost       = %q
  destination = { queue = "later" }
}
`, p.vhost))
		output := strings.Join(strings.Fields(strings.ReplaceAll(acctest.RunError(t, w, "apply", "-auto-approve"), "│", "")), " ")
		for _, text := range []string{"Messages Not Moved", `"later" does not exist`, "None is lost", "0 messages moved"} {
			if !strings.Contains(output, text) {
				t.Errorf("the error lacks %q:\n%s", text, output)
			}
		}
		p.wait(func() bool { return p.ready("parking") == 5 })
		p.declare("later", "classic", nil)
		acctest.Run(t, w, "apply", "-auto-approve")
		nothingToDo(t, w)
		if got := ids(p.drain("later", 5)); !slices.Equal(got, numbers(5, every)) {
			t.Errorf("moved %v", got)
		}
	})
}

// TestRefusedByValidate: what is wrong whatever the broker is an error before
// anything runs, in the resource and in the action.
func TestRefusedByValidate(t *testing.T) {
	t.Parallel()
	s := protocol.New(t, acctest.NewProvider(&rabbit.Broker{}))
	for i, c := range []struct {
		kind   string
		change object
		text   string
	}{
		{redriveType, object{"destination": object{}}, "exactly one of queue and exchange"},
		{redriveType, object{"destination": object{"queue": "a", "exchange": "b"}}, "exactly one of queue and exchange"},
		{redriveType, object{"destination": object{"queue": "parking"}}, `in queue "parking" already`},
		{redriveType, object{"max_messages": 0}, "max_messages"},
		{redriveType, object{"max_messages_per_second": 0}, "max_messages_per_second"},
		{redriveType, object{"max_messages_per_second": 1_000_001}, "max_messages_per_second"},
		{redriveType, object{"filter": object{"older_than": "soon"}}, "older_than"},
		{redriveType, object{"filter": object{"headers": "{"}}, "headers"},
		{redriveType, object{"queue": ""}, "queue"},
		{redriveType, object{"vhost": ""}, "vhost"},
		{discardType, object{}, "set all = true"},
		{discardType, object{"all": false}, "set all = true"},
		{discardType, object{"filter": object{}}, "set all = true"},
		{discardType, object{"filter": object{"headers": "{}"}}, "set all = true"},
		{discardType, object{"filter": object{"routing_key": "#", "older_than": "0s"}}, "set all = true"},
		{discardType, object{"all": true, "filter": object{"reason": "rejected"}}, "either a filter or all = true"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			config := object{"queue": "parking"}
			for name, value := range c.change {
				config[name] = value
			}
			expectError(t, s.Validate(t, c.kind, config), c.text)
			expectError(t, validateAction(t, s, c.kind, config), c.text)
		})
	}
}
