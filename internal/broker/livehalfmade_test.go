package broker

import (
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// A quorum queue that holds messages and does not answer, because its Raft server is busy
// or has ended, looks like one that is half made when the broker has lost its counts. It
// is not deleted. One whose Raft server was deleted is.
func TestLiveBusyQueueIsNotHalfMade(t *testing.T) {
	t.Parallel()
	if !rabbit.Given() {
		t.Skipf("no brokers: set %s (go run ./tools/brokers starts some)", rabbit.EnvEndpoints)
	}
	for _, version := range rabbit.Spread(t.Name(), rabbit.Versions()) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			own := rabbit.Own(t, rabbit.Options{Version: version, FastStatistics: true})
			admin, err := own.API()
			must(t, err)
			b := liveBroker{Broker: own, admin: admin, vhost: "/"}
			c, channel := b.client(t), b.channel(t)
			c.proof.patience, c.proof.settle = 0, 0
			must(t, channel.Confirm(false))
			const server = "'%%2F_%s'" // the name of the Raft server of a queue in the vhost "/"
			change := map[string]string{
				"busy":  "sys:suspend(whereis(" + server + "))",
				"ended": "ra:stop_server(quorum_queues, {" + server + ", node()})",
				"half":  "ra:force_delete_server(quorum_queues, {" + server + ", node()})",
			}
			if version == "3.10" {
				delete(change, "ended") // see neverHeld
			}
			var script []string
			for name, expression := range change {
				must(t, created(c.DeclareQueue(t.Context(), "/", topology.Queue{Name: name, Type: topology.Quorum, Durable: true})))
				if name != "half" {
					if version == "3.10" { // which does not tell more of a queue that is not bound
						must(t, c.Bind(t.Context(), "/", topology.Binding{Source: "amq.fanout", Destination: name, DestinationKind: topology.KindQueue}))
					}
					publishTo(t, channel, "", name, amqp.Publishing{Body: []byte("kept")})
				}
				script = append(script, fmt.Sprintf(expression, name))
			}
			// Counts that a server was about to report when it was stopped come first. The
			// broker loses those that it would collect again, too.
			script = append(script, "timer:sleep(2000)", "[ets:delete_all_objects(T) || T <- [queue_metrics, queue_coarse_metrics]]", "rabbit_mgmt_storage:reset_all().")
			if out, err := own.Ctl(t.Context(), "eval", strings.Join(script, ", ")); err != nil {
				t.Fatal(out, err)
			}
			for name := range change {
				q := topology.Queue{Name: name, Type: topology.Quorum}
				removed, err := c.RemoveHalfMade(t.Context(), "/", []topology.Queue{q})
				if name == "half" {
					if must(t, err); len(removed) != 1 {
						t.Error("the queue without a Raft server was not deleted")
					}
					continue
				}
				if len(removed) > 0 {
					t.Errorf("%s: deleted with its message", name)
				}
				if name == "busy" {
					wantError[*UnknownError](t, err, name, "it does not answer")
				}
				if err := c.DeleteQueue(t.Context(), "/", q, OnlyIfEmpty); err == nil || strings.Contains(err.Error(), "deadline") {
					t.Errorf("%s: %v", name, err)
				}
				if _, exists, err := c.Queue(t.Context(), "/", name); !exists || err != nil {
					t.Errorf("%s: exists=%v, %v", name, exists, err)
				}
			}
		})
	}
}
