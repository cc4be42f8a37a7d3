package redrive_test

import (
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/messages"
)

// orphanLimit is how long a provider may outlive its CLI, and a run an interrupt, on a
// busy machine. The redrive would go on for longer.
const orphanLimit = 10 * time.Second

// TestAccCLIEnds kills the CLI in the middle of a redrive for which another one waits, and
// interrupts it. The provider ends by itself, and no message is lost.
func TestAccCLIEnds(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for name, end := range map[string]func(*acctest.Killable){
			"kill -9": (*acctest.Killable).KillCLI,
			"SIGINT": func(k *acctest.Killable) {
				k.Interrupt()
				k.Wait()
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				const parked = 600
				p := newPlace(t, b, "quorum")
				p.t = t
				p.park("work", parked)
				w := acctest.Terraform(t, acctest.Config(b, `
resource "rabbitmq_redrive" "all" {
  count                   = 2
  queue                   = "parking"
  vhost                   = %q
  max_messages_per_second = 20
}
`, p.vhost))
				run := acctest.Start(t, w, "apply", "-auto-approve")
				p.wait(func() bool { return p.ready("work") > 0 })
				end(run)
				if !poll.Until(orphanLimit, func() bool { return !run.Living() }) {
					t.Errorf("the provider lives %s after its CLI", orphanLimit)
				}
				var moved, left int
				p.wait(func() bool {
					moved, left = p.ready("work"), p.ready("parking")
					return moved+left >= parked
				})
				if moved == parked || left == 0 {
					t.Fatalf("the end was not in the middle: %d moved, %d left", moved, left)
				}
				if moved+left < parked || moved+left > parked+messages.RedriveBatch {
					t.Errorf("%d moved and %d left of %d", moved, left, parked)
				}
			})
		}
	})
}
