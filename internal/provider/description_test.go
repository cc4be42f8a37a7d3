package provider

import (
	"context"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

// Every attribute is described, and one that can be left out says what happens
// then.
func TestEveryAttributeIsDescribed(t *testing.T) {
	p := New("test")()
	var block provider.SchemaResponse
	p.Schema(t.Context(), provider.SchemaRequest{}, &block)
	for name, a := range block.Schema.Attributes {
		described(t, "provider."+name, a.GetMarkdownDescription(), a.IsOptional())
	}
	for _, constructor := range p.Resources(t.Context()) {
		r := constructor()
		var resp resource.SchemaResponse
		r.Schema(context.Background(), resource.SchemaRequest{}, &resp)
		describedAll(t, "resource", resp.Schema.Attributes)
	}
}

func describedAll(t *testing.T, at string, attributes map[string]schema.Attribute) {
	t.Helper()
	for name, a := range attributes {
		text := a.GetMarkdownDescription()
		if text == "" {
			text = a.GetDescription()
		}
		described(t, at+"."+name, text, a.IsOptional())
		switch nested := a.(type) {
		case schema.SingleNestedAttribute:
			describedAll(t, at+"."+name, nested.Attributes)
		case schema.ListNestedAttribute:
			describedAll(t, at+"."+name, nested.NestedObject.Attributes)
		}
	}
}

func described(t *testing.T, name, text string, optional bool) {
	t.Helper()
	if text == "" {
		t.Errorf("%s has no description", name)
	}
	if optional && !strings.Contains(text, "Default:") && !strings.Contains(text, "Required here or as") {
		t.Errorf("%s does not say its default: %q", name, text)
	}
}

// Every function and every parameter is described.
func TestEveryFunctionIsDescribed(t *testing.T) {
	p, ok := New("test")().(provider.ProviderWithFunctions)
	if !ok {
		t.Fatal("the provider has no functions")
	}
	for _, constructor := range p.Functions(t.Context()) {
		f := constructor()
		var metadata function.MetadataResponse
		f.Metadata(t.Context(), function.MetadataRequest{}, &metadata)
		var resp function.DefinitionResponse
		f.Definition(t.Context(), function.DefinitionRequest{}, &resp)
		described(t, metadata.Name, resp.Definition.Summary, false)
		described(t, metadata.Name, resp.Definition.MarkdownDescription, false)
		for _, parameter := range resp.Definition.Parameters {
			described(t, metadata.Name+"."+parameter.GetName(), parameter.GetMarkdownDescription(), false)
		}
	}
}
