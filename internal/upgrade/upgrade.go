// Package upgrade brings states of earlier versions of a schema up to date. A
// resource supplies functions that change the attributes, as JSON decodes them.
package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
)

// State holds the attributes of a resource or of a nested object. Numbers are
// [json.Number]. A nil State is one that is null.
type State map[string]any

// Upgraders returns an upgrader for each version but the last. steps[i] changes a state
// of version i into one of version i+1.
func Upgraders(steps ...func(State)) map[int64]resource.StateUpgrader {
	upgraders := make(map[int64]resource.StateUpgrader, len(steps))
	for i := range steps {
		upgraders[int64(i)] = resource.StateUpgrader{StateUpgrader: upgrader(steps[i:])}
	}
	return upgraders
}

func upgrader(steps []func(State)) func(context.Context, resource.UpgradeStateRequest, *resource.UpgradeStateResponse) {
	return func(_ context.Context, req resource.UpgradeStateRequest, resp *resource.UpgradeStateResponse) {
		var state State
		decoder := json.NewDecoder(bytes.NewReader(req.RawState.JSON))
		decoder.UseNumber()
		if err := decoder.Decode(&state); err != nil {
			resp.Diagnostics.AddError("State Not Readable", fmt.Sprintf("The state of the resource is not a JSON object: %v.", err))
			return
		}
		for _, step := range steps {
			step(state)
		}
		text, err := json.Marshal(state)
		if err != nil {
			resp.Diagnostics.AddError("State Not Upgraded", err.Error())
			return
		}
		resp.DynamicValue = &tfprotov6.DynamicValue{JSON: text}
	}
}

// Object returns a nested object, to change it in place. It is nil if it is null or
// missing.
func (s State) Object(name string) State {
	object, _ := s[name].(map[string]any)
	return object
}

// Objects returns the objects of a list.
func (s State) Objects(name string) []State {
	list, _ := s[name].([]any)
	var objects []State
	for _, element := range list {
		if object, is := element.(map[string]any); is {
			objects = append(objects, object)
		}
	}
	return objects
}

// Rename gives an attribute another name. A nil State stays as it is.
func (s State) Rename(from, to string) {
	if s != nil {
		s[to] = s[from]
		delete(s, from)
	}
}

// Add adds attributes that an earlier version did not have. A nil State stays as it is.
func (s State) Add(values map[string]any) {
	for name, value := range values {
		if s != nil {
			s[name] = value
		}
	}
}

// Remove removes attributes.
func (s State) Remove(names ...string) {
	for _, name := range names {
		delete(s, name)
	}
}
