package lifecycle

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/retry"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// plainFacts are facts that encoding/json writes field by field.
type plainFacts Facts

// storedFacts are the form of facts in private state. It is short, because the state
// holds it for every resource, encoded twice.
type storedFacts struct {
	plainFacts
	// Has is a letter for each feature, see [featureLetters].
	Has string `json:"has,omitempty"`
	// Features are in states of earlier builds instead of Has.
	Features *retry.Features `json:"features,omitempty"`
	// ExchangeTypes leaves out those of every broker; nil means those, and an empty list
	// that the types are not known.
	ExchangeTypes *[]string `json:"exchange_types,omitempty"`
}

// everyBroker are exchange types that each broker has.
var everyBroker = []string{topology.Direct, topology.Fanout, topology.Headers, topology.Topic}

// featureLetters returns the features with their letters.
func featureLetters(f *retry.Features) map[string]*bool {
	return map[string]*bool{
		"h": &f.LastDeathHeaders, "l": &f.DeliveryLimit, "u": &f.UnlimitedDelivery,
		"r": &f.DelayedRetry, "m": &f.NoMnesia, "e": &f.ExactLimit,
	}
}

// MarshalJSON writes the stored form.
func (f Facts) MarshalJSON() ([]byte, error) {
	stored := storedFacts{plainFacts: plainFacts(f)}
	var letters []string
	for letter, has := range featureLetters(&f.Features) {
		if *has {
			letters = append(letters, letter)
		}
	}
	slices.Sort(letters)
	stored.Has = strings.Join(letters, "")
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
	*f = Facts(stored.plainFacts)
	if stored.Features != nil {
		f.Features = *stored.Features
	}
	for letter, has := range featureLetters(&f.Features) {
		*has = *has || strings.Contains(stored.Has, letter)
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
