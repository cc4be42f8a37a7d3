package delaynetwork_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestMain(m *testing.M) { acctest.Main(m) }

const address = "rabbitmq_delay_network.delays"

// config declares the network "delays" with a small unit. more are further
// attributes, rest is what comes after the resource.
func config(b *rabbit.Broker, vhost, more, rest string) string {
	return acctest.Config(b, `
resource "rabbitmq_delay_network" "delays" {
  name   = "delays"
  vhost  = %q
  unit   = "100ms"
  levels = 5
  %s
}
%s
`, vhost, more, rest)
}

// destination attaches an application's queue.
func destination(vhost, queue string) string {
	return fmt.Sprintf(`
resource "rabbitmq_delay_destination" %q {
  network = rabbitmq_delay_network.delays.name
  vhost   = %q
  queue   = %q
}
`, strings.ReplaceAll(queue, ".", "_"), vhost, queue)
}

func apply(t *testing.T, w *cli.Workspace, args ...string) string {
	t.Helper()
	return acctest.Run(t, w, append([]string{"apply", "-auto-approve"}, args...)...)
}

func expectEmptyPlan(t *testing.T, w *cli.Workspace) {
	t.Helper()
	if output, err := w.Run(t.Context(), "plan", "-detailed-exitcode"); err != nil {
		t.Errorf("the plan is not empty: %s", output)
	}
}

// expectText compares words only: Terraform wraps the text of errors.
func expectText(t *testing.T, output string, wanted ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(strings.NewReplacer("│", " ", "╷", " ", "╵", " ").Replace(output)), " ")
	for _, text := range wanted {
		if !strings.Contains(flat, text) {
			t.Errorf("the output lacks %q:\n%s", text, output)
		}
	}
}
