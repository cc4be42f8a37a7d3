package lifecycle

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestStoredFacts(t *testing.T) {
	t.Parallel()
	types := []string{"direct", "fanout", "headers", "topic", "x-delayed-message"}
	old, modern := retry.FeaturesOf(abilities.MustParse("3.10.8")), retry.FeaturesOf(abilities.MustParse("4.3.6"))
	for _, test := range []struct {
		facts Facts
		want  string
	}{
		{Facts{Version: "3.10.8", Features: old, ExchangeTypes: types[:4]}, `{"version":"3.10.8"}`},
		{
			Facts{Version: "4.0.5", ExchangeTypes: types, Features: retry.Features{LastDeathHeaders: true, ExactLimit: true}},
			`{"version":"4.0.5","features":{"LastDeathHeaders":true,"DeliveryLimit":false,"UnlimitedDelivery":false,` +
				`"DelayedRetry":false,"NoMnesia":false,"ExactLimit":true},"exchange_types":["x-delayed-message"]}`,
		},
		{
			Facts{
				Version: "4.3.6", Features: modern, ExchangeTypes: types[:4], WorkType: topology.Quorum, Inheritable: "{}",
				Drained: true, Imported: true,
			},
			`{"version":"4.3.6","work_type":"quorum","inheritable":"{}","drained":true,"imported":true}`,
		},
		{Facts{Version: "4.3.6", Features: modern, ExchangeTypes: []string{}}, `{"version":"4.3.6","exchange_types":[]}`},
	} {
		raw, err := json.Marshal(&test.facts)
		if err != nil || string(raw) != test.want {
			t.Errorf("%+v is stored as %s, %v, want %s", test.facts, raw, err, test.want)
		}
		var back Facts
		if err := json.Unmarshal(raw, &back); err != nil || !reflect.DeepEqual(back, test.facts) {
			t.Errorf("%s is read as %+v, %v, want %+v", raw, back, err, test.facts)
		}
	}
}

// TestEveryFeatureIsStored: what a chain was declared with can differ from the broker of today.
func TestEveryFeatureIsStored(t *testing.T) {
	t.Parallel()
	features := reflect.TypeFor[retry.Features]()
	for i := range features.NumField() {
		f, back := Facts{Version: "4.3.6", Features: retry.FeaturesOf(abilities.MustParse("4.3.6"))}, Facts{}
		field := reflect.ValueOf(&f.Features).Elem().Field(i)
		field.SetBool(!field.Bool())
		raw, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(raw, &back); err != nil || back.Features != f.Features {
			t.Errorf("%s: %s is read as %+v, %v", features.Field(i).Name, raw, back.Features, err)
		}
	}
}

// TestFactsOfEarlierBuilds are read.
func TestFactsOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	const text = `{"version":"4.0.5","features":{"LastDeathHeaders":true,"DeliveryLimit":true,"UnlimitedDelivery":false,` +
		`"DelayedRetry":false,"NoMnesia":false,"ExactLimit":true},"exchange_types":["direct","fanout","headers","topic"],"drained":true}`
	want := Facts{
		Version: "4.0.5", Features: retry.Features{LastDeathHeaders: true, DeliveryLimit: true, ExactLimit: true},
		ExchangeTypes: []string{"direct", "fanout", "headers", "topic"}, Drained: true,
	}
	var got Facts
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read as %+v, %v, want %+v", got, err, want)
	}
}
