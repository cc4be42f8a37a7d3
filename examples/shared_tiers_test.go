package examples_test

import (
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccSharedTiers applies the configurations of both teams in one virtual
// host: neither changes the plan of the other.
func TestAccSharedTiers(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		resp, err := acctest.API(t, b).DeclareQueue(vhost, "billing", rabbithole.QueueSettings{Type: "quorum", Durable: true})
		acctest.Do(t, resp, err)
		platform := workspace(t, b, vhost, configuration(t, "shared_tiers/platform"))
		team := workspace(t, b, vhost, configuration(t, "shared_tiers/team"))
		acctest.Run(t, platform, "apply", "-auto-approve", "-input=false")
		acctest.Run(t, team, "apply", "-auto-approve", "-input=false")
		acctest.Run(t, platform, "plan", "-detailed-exitcode", "-input=false")
		acctest.Run(t, team, "plan", "-detailed-exitcode", "-input=false")
		acctest.Run(t, team, "destroy", "-auto-approve", "-input=false")
		acctest.Run(t, platform, "plan", "-detailed-exitcode", "-input=false")
		acctest.Run(t, platform, "destroy", "-auto-approve", "-input=false")
	})
}
