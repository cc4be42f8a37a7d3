package retrychain_test

import (
	"encoding/json"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccWorkQueueArguments: an application that declares the work queue with
// work_queue_arguments finds it as it is, whatever its settings. With other arguments the
// broker refuses it.
func TestAccWorkQueueArguments(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for name, work := range map[string]string{
			"plain":    `{ name = "orders" }`,
			"settings": `{ message_ttl = "1d", max_length = 10, single_active_consumer = true, arguments = jsonencode({ "x-max-priority" = 5 }) }`,
		} {
			if name == "settings" && !acctest.Modern(b) {
				continue // strategy "routing_key" refuses them
			}
			for _, queueType := range []string{"quorum", "classic"} {
				work := work
				if queueType == "quorum" {
					work = strings.Replace(work, `"x-max-priority" = 5`, `"x-quorum-initial-group-size" = 1`, 1)
				}
				t.Run(name+" "+queueType, func(t *testing.T) { declaredTwice(t, b, queueType, work) })
			}
		}
	})
}

func declaredTwice(t *testing.T, b *rabbit.Broker, queueType, work string) {
	t.Helper()
	vhost := acctest.VHost(t, b)
	w := acctest.Terraform(t, defaultVariant(b, queueType).chainConfig(b, vhost, `["1s"]`, "work_queue = "+work))
	apply(t, w)
	var state struct {
		Values struct {
			Root struct {
				Resources []struct {
					Values struct {
						WorkQueueArguments string `json:"work_queue_arguments"`
						WorkQueue          struct {
							Limit     *float64 `json:"delivery_limit"`
							Effective *float64 `json:"effective_delivery_limit"`
						} `json:"work_queue"`
					}
				}
			} `json:"root_module"`
		}
	}
	parse(t, acctest.Run(t, w, "show", "-json"), &state)
	shown := state.Values.Root.Resources[0].Values
	var arguments amqp.Table
	if err := json.Unmarshal([]byte(shown.WorkQueueArguments), &arguments); err != nil {
		t.Fatalf("%q: %s", shown.WorkQueueArguments, err)
	}
	for key, value := range arguments {
		if n, is := value.(float64); is {
			arguments[key] = int64(n)
		}
	}
	limit, limited := arguments["x-delivery-limit"].(int64)
	if limited != (shown.WorkQueue.Effective != nil) || limited && int64(*shown.WorkQueue.Effective) != limit {
		t.Errorf("effective_delivery_limit is %v, the queue is declared with %v", shown.WorkQueue.Effective, arguments)
	}
	declare := func() error {
		channel, err := acctest.Worker(t, b, vhost).Connection().Channel()
		if err != nil {
			t.Fatal(err)
		}
		_, err = channel.QueueDeclare("orders", true, false, false, false, arguments)
		return err
	}
	if err := declare(); err != nil {
		t.Errorf("the queue cannot be declared with %v: %s", arguments, err)
	}
	arguments["x-dead-letter-exchange"] = "elsewhere"
	if err := declare(); err == nil || !strings.Contains(err.Error(), "PRECONDITION_FAILED") {
		t.Errorf("declared with another exchange: %v", err)
	}
}
