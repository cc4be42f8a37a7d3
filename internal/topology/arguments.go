package topology

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Arguments are the optional arguments of an exchange, a queue or a binding.
//
// Values are string, bool, int64, float64, []any or map[string]any; use
// [Normalize] on values from elsewhere. RabbitMQ compares arguments by value
// and class, so the integer 1, the float 1.0 and the string "1" all differ.
type Arguments map[string]any

// Clone returns a copy that shares no map with a. Lists and nested tables are
// treated as immutable and shared.
func (a Arguments) Clone() Arguments {
	if a == nil {
		return Arguments{}
	}
	return maps.Clone(a)
}

// Equal says whether both hold the same keys with the same typed values.
func (a Arguments) Equal(b Arguments) bool {
	if len(a) == 0 && len(b) == 0 {
		return true
	}
	return reflect.DeepEqual(a, b)
}

// Text returns the arguments as "key=value" pairs in the order of their keys,
// separated by ", ". Strings that could be taken for another type or for more
// than one pair are quoted. The text is empty when there are no arguments.
func (a Arguments) Text() string {
	keys := slices.Sorted(maps.Keys(a))
	pairs := make([]string, 0, len(keys))
	for _, key := range keys {
		pairs = append(pairs, key+"="+valueText(a[key]))
	}
	return strings.Join(pairs, ", ")
}

// String returns the string argument of that name, or "" when it is absent or
// no string.
func (a Arguments) String(key string) string {
	s, _ := a[key].(string)
	return s
}

// Int returns the integer argument of that name and whether there is one.
func (a Arguments) Int(key string) (int64, bool) {
	n, ok := a[key].(int64)
	return n, ok
}

// Normalize converts a value to the types that Arguments may hold: every
// integer type becomes int64, float32 becomes float64, and lists and tables
// are converted all the way down. It fails for any other type.
func Normalize(value any) (any, error) {
	switch v := value.(type) {
	case string, bool, int64, float64:
		return v, nil
	case int:
		return int64(v), nil
	case int8:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case uint8:
		return int64(v), nil
	case uint16:
		return int64(v), nil
	case uint32:
		return int64(v), nil
	case float32:
		return float64(v), nil
	case []any:
		return normalizeList(v)
	case map[string]any:
		return normalizeTable(v)
	case Arguments:
		return normalizeTable(v)
	default:
		return nil, fmt.Errorf("a value of type %T cannot be an argument", value)
	}
}

func normalizeList(list []any) (any, error) {
	out := make([]any, len(list))
	for i, element := range list {
		value, err := Normalize(element)
		if err != nil {
			return nil, err
		}
		out[i] = value
	}
	return out, nil
}

func normalizeTable(table map[string]any) (any, error) {
	out := make(map[string]any, len(table))
	for key, element := range table {
		value, err := Normalize(element)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		out[key] = value
	}
	return out, nil
}

func valueText(value any) string {
	switch v := value.(type) {
	case string:
		return stringText(v)
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0"
		}
		return text
	case []any:
		texts := make([]string, len(v))
		for i, element := range v {
			texts[i] = valueText(element)
		}
		return "[" + strings.Join(texts, ", ") + "]"
	case map[string]any:
		return "{" + Arguments(v).Text() + "}"
	default:
		return fmt.Sprint(v)
	}
}

// stringText quotes s where its plain form would be ambiguous.
func stringText(s string) string {
	_, notNumber := strconv.ParseFloat(s, 64)
	_, notBool := strconv.ParseBool(s)
	unsafe := s == "" || strings.ContainsAny(s, "\",=[]{}") || strings.TrimSpace(s) != s ||
		strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) })
	if notNumber == nil || notBool == nil || unsafe {
		return strconv.Quote(s)
	}
	return s
}

// FromJSON converts a decoded JSON object. A number without a fraction becomes
// an integer, because that is how RabbitMQ's management API takes and writes
// integers. null is refused: RabbitMQ does not accept it over HTTP.
func FromJSON(object map[string]any) (Arguments, error) {
	arguments := make(Arguments, len(object))
	for key, element := range object {
		value, err := fromJSON(element)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", key, err)
		}
		arguments[key] = value
	}
	return arguments, nil
}

func fromJSON(value any) (any, error) {
	switch v := value.(type) {
	case nil:
		return nil, errors.New("the value is null, which RabbitMQ does not accept")
	case float64:
		if n := int64(v); float64(n) == v {
			return n, nil
		}
		return v, nil
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			converted, err := fromJSON(element)
			if err != nil {
				return nil, err
			}
			list[i] = converted
		}
		return list, nil
	case map[string]any:
		table, err := FromJSON(v)
		return map[string]any(table), err
	default:
		return v, nil
	}
}
