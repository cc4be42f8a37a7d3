package protocol

import (
	"math/big"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

// value converts what a test writes down to a value of the type: nil becomes
// null, [Unknown] an unknown value, and what a map leaves out null.
func value(t testing.TB, ty tftypes.Type, from any) tftypes.Value {
	t.Helper()
	switch from := from.(type) {
	case nil:
		return tftypes.NewValue(ty, nil)
	case unknown:
		return tftypes.NewValue(ty, tftypes.UnknownValue)
	case []any:
		elements := make([]tftypes.Value, 0, len(from))
		for _, element := range from {
			elements = append(elements, value(t, elementType(t, ty), element))
		}
		return tftypes.NewValue(ty, elements)
	case map[string]any:
		return object(t, ty, from)
	case tftypes.Value:
		return from
	default:
		if err := tftypes.ValidateValue(ty, from); err != nil {
			t.Fatal(err)
		}
		return tftypes.NewValue(ty, from)
	}
}

func elementType(t testing.TB, ty tftypes.Type) tftypes.Type {
	t.Helper()
	switch ty := ty.(type) {
	case tftypes.List:
		return ty.ElementType
	case tftypes.Set:
		return ty.ElementType
	default:
		t.Fatalf("a list was given for a %s", ty)
		return nil
	}
}

func object(t testing.TB, ty tftypes.Type, from map[string]any) tftypes.Value {
	t.Helper()
	parts := map[string]tftypes.Value{}
	switch ty := ty.(type) {
	case tftypes.Map:
		for name, element := range from {
			parts[name] = value(t, ty.ElementType, element)
		}
	case tftypes.Object:
		for name := range from {
			if _, exists := ty.AttributeTypes[name]; !exists {
				t.Fatalf("there is no attribute %q in %s", name, ty)
			}
		}
		for name, part := range ty.AttributeTypes {
			parts[name] = value(t, part, from[name])
		}
	default:
		t.Fatalf("a map was given for a %s", ty)
	}
	return tftypes.NewValue(ty, parts)
}

// At returns a part of a value, such as "work_queue.bindings[0].exchange". A
// part of a null or unknown value is that value, and one that does not exist is
// the zero [tftypes.Value].
func At(v tftypes.Value, path string) tftypes.Value {
	for _, step := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if v.IsNull() || !v.IsKnown() {
			return v
		}
		if index, err := strconv.Atoi(step); err == nil {
			elements := list(v)
			if index >= len(elements) {
				return tftypes.Value{}
			}
			v = elements[index]
			continue
		}
		v = parts(v)[step]
	}
	return v
}

// Go converts a value to what fmt and == understand: nil for null, [Unknown],
// string, bool, int64, []any or map[string]any.
func Go(v tftypes.Value) any {
	switch {
	case v.Type() == nil || v.IsNull():
		return nil
	case !v.IsKnown():
		return Unknown
	}
	switch ty := v.Type().(type) {
	case tftypes.List:
		values := []any{}
		for _, element := range list(v) {
			values = append(values, Go(element))
		}
		return values
	case tftypes.Map, tftypes.Object:
		values := map[string]any{}
		for name, part := range parts(v) {
			values[name] = Go(part)
		}
		return values
	default:
		return primitive(v, ty)
	}
}

func primitive(v tftypes.Value, ty tftypes.Type) any {
	switch {
	case ty.Is(tftypes.String):
		var text string
		_ = v.As(&text)
		return text
	case ty.Is(tftypes.Bool):
		var truth bool
		_ = v.As(&truth)
		return truth
	case ty.Is(tftypes.Number):
		number := new(big.Float)
		_ = v.As(&number)
		whole, _ := number.Int64()
		return whole
	default:
		return v.String()
	}
}

// list returns the elements of a list; null and unknown ones have none.
func list(v tftypes.Value) []tftypes.Value {
	var elements []tftypes.Value
	if v.Type() != nil && v.IsKnown() && !v.IsNull() {
		_ = v.As(&elements)
	}
	return elements
}

// parts returns the parts of an object or a map; null and unknown ones have none.
func parts(v tftypes.Value) map[string]tftypes.Value {
	var values map[string]tftypes.Value
	if v.Type() != nil && v.IsKnown() && !v.IsNull() {
		_ = v.As(&values)
	}
	return values
}

// fill replaces the unknown parts of a value by those that another one knows.
func fill(v, from tftypes.Value) tftypes.Value {
	if v.Type() == nil || from.Type() == nil || from.IsNull() {
		return v
	}
	if !v.IsKnown() {
		return from
	}
	switch v.Type().(type) {
	case tftypes.Object:
		filled, known := map[string]tftypes.Value{}, parts(from)
		for name, part := range parts(v) {
			filled[name] = fill(part, known[name])
		}
		return tftypes.NewValue(v.Type(), filled)
	case tftypes.List:
		elements, known := list(v), list(from)
		for i := range min(len(elements), len(known)) {
			elements[i] = fill(elements[i], known[i])
		}
		return tftypes.NewValue(v.Type(), elements)
	default:
		return v
	}
}
