package redrive_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// TestAccDefaultVHost: resource and action work in the provider's virtual host, also where
// the plan did not know it.
func TestAccDefaultVHost(t *testing.T) {
	eachPlace(t, func(p *place) {
		config := object{"queue": "parking", "max_messages": 1}
		here, later := server(p.t, p.b, object{"vhost": p.vhost}), server(p.t, p.b, object{"vhost": protocol.Unknown})
		p.park("work", 3)
		run(p.t, here, redriveType, config, object{"total": 3, "moved": 1})
		if _, found := invoke(p.t, here, redriveType, config); len(found) > 0 {
			p.t.Error(found)
		}
		unknown := later.Plan(p.t, redriveType, config, protocol.State{})
		state, found := here.Apply(p.t, redriveType, unknown)
		if got := protocol.Go(protocol.At(state.Value, "vhost")); len(found) > 0 || got != p.vhost {
			p.t.Errorf("it ran in %v: %s", got, found)
		}
		if again := later.Plan(p.t, redriveType, config, state); len(again.Replace) > 0 {
			p.t.Errorf("a run whose virtual host is unknown asks for another: %v", again.Replace)
		}
		if _, found := invoke(p.t, later, redriveType, config); !strings.Contains(found.String(), "Virtual Host Not Known") {
			p.t.Error(found)
		}
		p.drain("work", 3)
	})
}

// TestUpgradeOfVHost: version 0 kept null for "/", which must not look like a change.
func TestUpgradeOfVHost(t *testing.T) {
	s := protocol.New(t, acctest.NewProvider(&rabbit.Broker{}))
	for before, want := range map[string]string{"null": "/", `"shop"`: "shop"} {
		for _, resource := range []string{redriveType, discardType} {
			resp, err := s.UpgradeResourceState(t.Context(), &tfprotov6.UpgradeResourceStateRequest{
				TypeName: resource, Version: 0, RawState: &tfprotov6.RawState{JSON: json.RawMessage(`{"queue":"parking","vhost":` + before + `,"total":3}`)},
			})
			if err != nil || len(resp.Diagnostics) > 0 {
				t.Fatal(err, protocol.Diagnostics(resp.Diagnostics))
			}
			state, err := resp.UpgradedState.Unmarshal(s.Schemas().ResourceSchemas[resource].ValueType())
			if err != nil {
				t.Fatal(err)
			}
			if got := protocol.Go(protocol.At(state, "vhost")); got != want || protocol.Go(protocol.At(state, "total")) != int64(3) {
				t.Errorf("%s: the upgraded state is %v", resource, protocol.Go(state))
			}
		}
	}
}
