package retrychain_test

import (
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// drift is something that somebody did to the broker by hand.
type drift struct {
	name string
	do   func(t *testing.T, api *rabbithole.Client, vhost string)
	// changed are the lines of the topology that the plan must show: the
	// wanted value by path, or null for what has to go.
	kind, object string
	gone         bool
}

func drifts(v variant) []drift {
	firstTier := "orders.retry.1s"
	if v.strategy == "routing_key" {
		firstTier = "orders.attempt.1s"
	}
	return []drift{
		{
			name: "binding deleted", kind: "bindings", object: "orders.redrive -> orders",
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteBinding(vhost, rabbithole.BindingInfo{
					Source: "orders.redrive", Destination: "orders", DestinationType: "queue", PropertiesKey: "~",
				})
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "exchange deleted", kind: "exchanges", object: "orders.redrive",
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteExchange(vhost, "orders.redrive")
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "empty tier deleted", kind: "queues", object: firstTier,
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeleteQueue(vhost, firstTier)
				acctest.Do(t, resp, err)
			},
		},
		{
			name: "foreign binding", kind: "bindings", object: "orders.retry -> spy {team=other}", gone: true,
			do: func(t *testing.T, api *rabbithole.Client, vhost string) {
				resp, err := api.DeclareQueue(vhost, "spy", rabbithole.QueueSettings{Durable: true})
				acctest.Do(t, resp, err)
				resp, err = api.DeclareBinding(vhost, rabbithole.BindingInfo{
					Source: "orders.retry", Destination: "spy", DestinationType: "queue", Arguments: map[string]any{"team": "other"},
				})
				acctest.Do(t, resp, err)
			},
		},
	}
}

// TestAccDrift changes one thing by hand: the next plan shows exactly that
// object, and the apply repairs it.
func TestAccDrift(t *testing.T) {
	eachVariant(t, func(t *testing.T, b *rabbit.Broker, vhost string, v variant) {
		config := v.chainConfig(b, vhost, `["1s", "2s"]`, "")
		steps := []resource.TestStep{{Config: config, ConfigPlanChecks: emptyPlan()}}
		for _, d := range drifts(v) {
			steps = append(steps, resource.TestStep{
				PreConfig: func() { d.do(t, acctest.API(t, b), vhost) },
				Config:    config,
				ConfigPlanChecks: resource.ConfigPlanChecks{
					PreApply:             []plancheck.PlanCheck{plancheck.ExpectResourceAction(address, plancheck.ResourceActionUpdate), d.expected(t)},
					PostApplyPostRefresh: []plancheck.PlanCheck{plancheck.ExpectEmptyPlan()},
				},
			})
		}
		resource.Test(t, resource.TestCase{ProtoV6ProviderFactories: acctest.Providers, Steps: steps})
	})
}

func (d drift) expected(t *testing.T) plancheck.PlanCheck {
	return topologyChange{t: t, name: d.name, kind: d.kind, object: d.object, gone: d.gone}
}
