package redrive_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccActions runs both actions through the CLI: by name, and when a
// resource changes.
func TestAccActions(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		acctest.NeedActions(t)
		p := newPlace(t, b, "quorum")
		config := func(release string) string {
			return acctest.Config(b, `
action "rabbitmq_redrive" "first" {
  config {
    queue        = "parking"
    vhost        = %[1]q
    max_messages = 2
  }
}

action "rabbitmq_discard" "blue" {
  config {
    queue  = "parking"
    vhost  = %[1]q
    filter = { headers = jsonencode({ tenant = "blue" }) }
  }
}

resource "terraform_data" "release" {
  input = %[2]q

  lifecycle {
    action_trigger {
      events  = [after_create, after_update]
      actions = [action.rabbitmq_discard.blue]
    }
  }
}
`, p.vhost, release)
		}
		w := acctest.Terraform(t, config("one"))
		p.park("work", 20)

		output := acctest.Run(t, w, "apply", "-auto-approve", "-invoke=action.rabbitmq_redrive.first")
		if !strings.Contains(output, "2 messages moved, 2 of 20 looked at") {
			t.Errorf("no progress:\n%s", output)
		}
		if got := ids(p.drain("work", 2)); !slices.Equal(got, []string{"0", "1"}) {
			t.Errorf("moved %v", got)
		}

		// The plan only tells what would run.
		if output := acctest.Run(t, w, "plan"); !strings.Contains(output, "rabbitmq_discard") {
			t.Errorf("the plan does not tell of the action:\n%s", output)
		}
		p.wait(func() bool { return p.ready("parking") == 18 })
		if output := acctest.Run(t, w, "apply", "-auto-approve"); !strings.Contains(output, "3 messages discarded, 18 of 18 looked at") {
			t.Errorf("no progress:\n%s", output)
		}
		p.wait(func() bool { return p.ready("parking") == 15 })
		if output := acctest.Run(t, w, "apply", "-auto-approve"); strings.Contains(output, "discarded") {
			t.Errorf("an apply without changes ran the action:\n%s", output)
		}
		p.park("work", 5)
		acctest.Reconfigure(t, w, config("two"))
		if output := acctest.Run(t, w, "apply", "-auto-approve"); !strings.Contains(output, "1 message discarded, 20 of 20 looked at") {
			t.Errorf("no progress:\n%s", output)
		}
		red := numbers(20, red)
		if got := ids(p.drain("parking", 19)); !slices.Equal(got, append(red[1:], "1", "2", "3", "4")) {
			t.Errorf("left %v", got)
		}
	})
}

// TestAccActionRefused: an action that cannot work fails with the reason, and
// changes nothing.
func TestAccActionRefused(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		acctest.NeedActions(t)
		p := newPlace(t, b, "classic")
		config := func(arguments string) string {
			return acctest.Config(b, "action \"rabbitmq_discard\" \"all\" {\n  config {\n    queue = \"parking\"\n    vhost = %q\n    %s\n  }\n}\n", p.vhost, arguments)
		}
		w := acctest.Terraform(t, config(""))
		p.park("work", 3)
		for arguments, text := range map[string]string{
			"": "No Filter",
			"all    = true\n    filter = { reason = \"rejected\" }": "Filter and All",
			"max_messages = 0\n    all = true":                      "max_messages",
		} {
			acctest.Reconfigure(t, w, config(arguments))
			if output := acctest.RunError(t, w, "apply", "-auto-approve", "-invoke=action.rabbitmq_discard.all"); !strings.Contains(output, text) {
				t.Errorf("the error lacks %q:\n%s", text, output)
			}
		}
		p.drain("parking", 3)
	})
}
