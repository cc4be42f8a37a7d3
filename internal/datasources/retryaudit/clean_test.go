package retryaudit_test

import (
	"maps"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// own is a resource of this provider whose topology has no finding.
type own struct {
	kind   string
	config map[string]any
	// least is the version of RabbitMQ that it needs.
	major, minor int
	// work is an existing queue that is made first, with its type.
	work, workType string
}

// owns are the resources of this provider: chains of every strategy and queue
// type, attached ones and delay networks.
func owns() []own {
	var all []own
	chain := func(name, strategy, queueType string, major, minor int, more map[string]any) {
		config := map[string]any{"name": name + "." + queueType, "strategy": strategy, "queue_type": queueType, "delays": []any{"1s", "2s", "3s"}}
		maps.Copy(config, more)
		all = append(all, own{kind: "rabbitmq_retry_chain", config: config, major: major, minor: minor})
	}
	for _, queueType := range []string{"classic", "quorum"} {
		chain("headers", "headers", queueType, 3, 13, nil)
		chain("keys", "routing_key", queueType, 3, 10, nil)
		chain("republish", "republish", queueType, 3, 10, nil)
		chain("at_once", "headers", queueType, 3, 13, map[string]any{"delays": []any{"0s", "0s"}})
		chain("none", "routing_key", queueType, 3, 10, map[string]any{"delays": []any{}})
		chain("bound", "headers", queueType, 3, 13, map[string]any{"work_queue": map[string]any{
			"message_ttl": "1h", "bindings": []any{map[string]any{"exchange": "amq.topic", "routing_key": "order.#"}},
		}})
		chain("shielded", "routing_key", queueType, 3, 10, map[string]any{"policy": map[string]any{"shield": true, "priority": int64(2000)}})
		chain("attached", "routing_key", queueType, 3, 10, map[string]any{"work_queue": map[string]any{"name": "own." + queueType, "ownership": "application"}})
		all[len(all)-1].work, all[len(all)-1].workType = "own."+queueType, queueType
		all = append(all, own{kind: "rabbitmq_delay_network", config: map[string]any{
			"name": "delays." + queueType, "queue_type": queueType, "levels": int64(5),
		}, major: 3, minor: 10})
	}
	chain("at_most_once", "headers", "quorum", 3, 13, map[string]any{"dead_letter_strategy": "at-most-once"})
	chain("native", "delayed_retry", "quorum", 4, 3, nil)
	return append(all, own{kind: "rabbitmq_delay_destination", config: map[string]any{
		"network": "delays.quorum", "queue": "keys.quorum",
	}, major: 3, minor: 10})
}

// TestAccOwnResourcesAreClean: what this provider makes has no finding of the
// severity warning or error, alone and together.
func TestAccOwnResourcesAreClean(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		made := 0
		for _, o := range owns() {
			if !acctest.AtLeast(b, o.major, o.minor) {
				continue
			}
			if o.work != "" {
				w.queue(o.work, o.workType, nil)
				w.bind("amq.topic", o.work, "order.*", nil)
			}
			o.config["vhost"] = w.vhost
			s := configured(t, b)
			_, diagnostics := s.Apply(t, o.kind, s.Plan(t, o.kind, o.config, protocol.State{}))
			if len(diagnostics.Errors()) > 0 {
				t.Fatal(diagnostics)
			}
			made++
		}
		if made < 11 {
			t.Errorf("only %d resources were made", made)
		}
		for _, f := range w.audit() {
			if f.Severity != "info" {
				t.Errorf("%s", f)
			} else {
				t.Logf("%s", f)
			}
		}
	})
}
