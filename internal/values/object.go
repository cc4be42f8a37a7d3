package values

import (
	"reflect"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
)

// TypesOf returns the types of the parts of a nested attribute.
func TypesOf(nested schema.Attribute) map[string]attr.Type {
	object, _ := nested.GetType().(attr.TypeWithAttributeTypes)
	return object.AttributeTypes()
}

// Read sets the fields of a struct from the parts of an object that their tags "tfsdk"
// name. A part of an object that is null or unknown is null.
func Read(object types.Object, into any) {
	parts := object.Attributes()
	fields := reflect.ValueOf(into).Elem()
	for i := range fields.NumField() {
		if part, exists := parts[tag(fields.Type(), i)]; exists {
			fields.Field(i).Set(reflect.ValueOf(part))
		}
	}
}

// Object is an object of the fields of a struct, by their tags "tfsdk".
func Object(parts map[string]attr.Type, from any) types.Object {
	fields := reflect.ValueOf(from)
	attributes := make(map[string]attr.Value, fields.NumField())
	for i := range fields.NumField() {
		attributes[tag(fields.Type(), i)], _ = fields.Field(i).Interface().(attr.Value)
	}
	return types.ObjectValueMust(parts, attributes)
}

func tag(of reflect.Type, field int) string { return of.Field(field).Tag.Get("tfsdk") }
