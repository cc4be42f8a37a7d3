package examples_test

import (
	"math/rand/v2"
	"net/url"
	"os/exec"
	"strings"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/process"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/delay"
)

// TestAccDelaySenderExample runs the example of a sender: its keys are those of
// the function delay_key, and its message arrives.
func TestAccDelaySenderExample(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		files := configuration(t, "resources/rabbitmq_delay_network")
		files["destination.tf"] = "resource \"rabbitmq_delay_destination\" \"orders\" {\n" +
			"  network = rabbitmq_delay_network.delays.name\n  queue   = \"orders\"\n}\n"
		resp, err := acctest.API(t, b).DeclareQueue(vhost, "orders", rabbithole.QueueSettings{Type: "quorum", Durable: true})
		acctest.Do(t, resp, err)
		acctest.Run(t, workspace(t, b, vhost, files), "apply", "-auto-approve", "-input=false")

		program := process.Build(t, "./delay_sender")
		network := delay.Network{Unit: delay.DefaultUnit, Levels: delay.DefaultLevels}
		for _, d := range []time.Duration{0, 1, time.Second, 1500 * time.Millisecond, rand.N(network.Maximum()), network.Maximum()} {
			want, err := network.Key(d, "orders")
			if err != nil {
				t.Fatal(err)
			}
			output, err := exec.Command(program, "-amqp", b.AMQP+"/"+url.PathEscape(vhost), "-delay", d.String()).CombinedOutput()
			if err != nil || !strings.Contains(string(output), "sent with key "+want+"\n") {
				t.Errorf("%s: %v, %s, expected the key %s", d, err, output, want)
			}
		}
		w := acctest.Worker(t, b, vhost)
		for range 4 { // those of 0 to 2 seconds
			if _, err := w.Get(t.Context(), "orders"); err != nil {
				t.Fatal(err)
			}
		}
		over := (network.Maximum() + 1).String()
		if output, err := exec.Command(program, "-delay", over).CombinedOutput(); err == nil {
			t.Errorf("a delay over the maximum was sent: %s", output)
		}
	})
}
