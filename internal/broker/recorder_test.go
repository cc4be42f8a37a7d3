package broker_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// An undo gets only what is certain to be the create's own. The rest is named.
func TestRecorder(t *testing.T) {
	r := broker.NewRecorder("this chain")
	exchange := func(name string) topology.Step {
		return topology.Step{DeclareExchange: &topology.Exchange{Name: name, Type: topology.Fanout}}
	}
	queue := func(name string) topology.Step { return topology.Step{DeclareQueue: &topology.Queue{Name: name}} }
	policy := func(name string) topology.Step { return topology.Step{SetPolicy: &topology.Policy{Name: name}} }
	for _, step := range []topology.Step{exchange("e"), queue("q"), policy("p"), {Bind: &topology.Binding{}}} {
		if err := r.Record(step, broker.MadeHere); err != nil {
			t.Error(err)
		}
	}
	if unsure := r.Unsure(); len(unsure) != 0 {
		t.Errorf("%q", unsure)
	}
	for _, step := range []topology.Step{exchange("maybe e"), queue("maybe q"), policy("maybe p")} {
		if err := r.Record(step, broker.MaybeMade); err != nil {
			t.Error(err)
		}
		if err := r.Record(step, broker.Existed); err == nil || !strings.Contains(err.Error(), "maybe") {
			t.Errorf("an object of another: %v", err)
		}
	}
	made := r.Topology()
	if len(made.Exchanges()) != 1 || len(made.Queues()) != 1 || len(made.Policies()) != 1 {
		t.Errorf("%v %v %v", made.Exchanges(), made.Queues(), made.Policies())
	}
	want := []string{`exchange "maybe e"`, `queue "maybe q"`, `policy "maybe p"`}
	if unsure := r.Unsure(); !slices.Equal(unsure, want) {
		t.Errorf("unsure of %q, expected %q", unsure, want)
	}
}
