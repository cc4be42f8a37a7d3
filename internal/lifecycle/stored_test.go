package lifecycle

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestStoredFacts(t *testing.T) {
	t.Parallel()
	types := []string{"direct", "fanout", "headers", "topic", "x-delayed-message"}
	for _, test := range []struct {
		facts Facts
		want  string
	}{
		{Facts{Version: "3.10.8", ExchangeTypes: types[:4]}, `{"version":"3.10.8"}`},
		{
			Facts{Version: "4.0.5", ExchangeTypes: types, Features: retry.Features{LastDeathHeaders: true, ExactLimit: true}},
			`{"version":"4.0.5","has":"eh","exchange_types":["x-delayed-message"]}`,
		},
		{
			Facts{Version: "4.3.6", ExchangeTypes: types[:4], WorkType: topology.Quorum, Inheritable: "{}", Drained: true, Imported: true},
			`{"version":"4.3.6","work_type":"quorum","inheritable":"{}","drained":true,"imported":true}`,
		},
		{Facts{Version: "4.3.6", ExchangeTypes: []string{}}, `{"version":"4.3.6","exchange_types":[]}`},
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

// TestEveryFeatureIsStored: a feature without a letter would be lost.
func TestEveryFeatureIsStored(t *testing.T) {
	t.Parallel()
	features := reflect.TypeFor[retry.Features]()
	for i := range features.NumField() {
		var f, back Facts
		reflect.ValueOf(&f.Features).Elem().Field(i).SetBool(true)
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
