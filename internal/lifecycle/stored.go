package lifecycle

import (
	"encoding/json"
	"slices"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/abilities"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// plainFacts are facts that encoding/json writes field by field.
type plainFacts Facts

// storedFacts are the form of facts in private state. It is short, because the state
// holds it for every resource, encoded twice.
type storedFacts struct {
	plainFacts
	// Features leaves out those of the version.
	Features *retry.Features `json:"features,omitempty"`
	// ExchangeTypes leaves out those of every broker; nil means those, and an empty list
	// that the types are not known.
	ExchangeTypes *[]string `json:"exchange_types,omitempty"`
}

// everyBroker are exchange types that each broker has.
var everyBroker = []string{topology.Direct, topology.Fanout, topology.Headers, topology.Topic}

// MarshalJSON writes the stored form.
func (f Facts) MarshalJSON() ([]byte, error) {
	stored := storedFacts{plainFacts: plainFacts(f)}
	version, err := abilities.Parse(f.Version)
	if err != nil {
		return nil, err
	}
	if f.Features != retry.FeaturesOf(version) {
		stored.Features = &f.Features
	}
	further := slices.DeleteFunc(slices.Clone(f.ExchangeTypes), func(name string) bool { return slices.Contains(everyBroker, name) })
	if len(further) > 0 || len(f.ExchangeTypes) == 0 {
		further = append([]string{}, further...) // never nil, which would be null in JSON
		stored.ExchangeTypes = &further
	}
	return json.Marshal(stored)
}

// UnmarshalJSON reads the stored form.
func (f *Facts) UnmarshalJSON(text []byte) error {
	var stored storedFacts
	if err := json.Unmarshal(text, &stored); err != nil {
		return err
	}
	version, err := abilities.Parse(stored.Version)
	if err != nil {
		return err
	}
	*f = Facts(stored.plainFacts)
	f.Features = retry.FeaturesOf(version)
	if stored.Features != nil {
		f.Features = *stored.Features
	}
	if stored.ExchangeTypes != nil {
		f.ExchangeTypes = *stored.ExchangeTypes
	}
	if stored.ExchangeTypes == nil || len(f.ExchangeTypes) > 0 {
		f.ExchangeTypes = slices.Concat(everyBroker, f.ExchangeTypes)
		slices.Sort(f.ExchangeTypes)
		f.ExchangeTypes = slices.Compact(f.ExchangeTypes)
	}
	return nil
}
