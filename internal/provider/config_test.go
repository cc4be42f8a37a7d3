package provider

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// minimal is a configuration with what is required and nothing else.
func minimal() model {
	return model{
		Endpoint: types.StringValue("http://configured"), Username: types.StringValue("user"), Password: types.StringValue("word"),
		Headers: types.MapNull(types.StringType),
	}
}

func TestConfigurationBeatsEnvironmentBeatsDefault(t *testing.T) {
	for _, test := range []struct {
		variable   string
		configure  func(*model, string)
		get        func(broker.Config) any
		configured any
		fromEnv    any
		byDefault  any
	}{
		{
			"RABBITMQ_ENDPOINT", func(m *model, s string) { m.Endpoint = text(s) },
			func(c broker.Config) any { return c.Endpoint }, "configured", "environment", "",
		},
		{
			"RABBITMQ_USERNAME", func(m *model, s string) { m.Username = text(s) },
			func(c broker.Config) any { return c.Username }, "configured", "environment", "",
		},
		{
			"RABBITMQ_PASSWORD", func(m *model, s string) { m.Password = text(s) },
			func(c broker.Config) any { return c.Password }, "configured", "environment", "",
		},
		{
			"RABBITMQ_AMQP_ENDPOINT", func(m *model, s string) { m.AMQPEndpoint = text(s) },
			func(c broker.Config) any { return c.AMQPEndpoint }, "configured", "environment", "",
		},
		{
			"RABBITMQ_CACERT", func(m *model, s string) { m.CACertFile = text(s) },
			func(c broker.Config) any { return c.CACertFile }, "configured", "environment", "",
		},
		{
			"RABBITMQ_CLIENTCERT", func(m *model, s string) { m.ClientCertFile = text(s) },
			func(c broker.Config) any { return c.ClientCertFile }, "configured", "environment", "",
		},
		{
			"RABBITMQ_CLIENTKEY", func(m *model, s string) { m.ClientKeyFile = text(s) },
			func(c broker.Config) any { return c.ClientKeyFile }, "configured", "environment", "",
		},
		{
			"RABBITMQ_PROXY", func(m *model, s string) { m.Proxy = text(s) },
			func(c broker.Config) any { return c.Proxy }, "configured", "environment", "",
		},
	} {
		t.Run(test.variable, func(t *testing.T) {
			settings := func(value string) any {
				m := minimal()
				test.configure(&m, value)
				var diags diag.Diagnostics
				return test.get(m.settings(t.Context(), &diags))
			}
			t.Setenv(test.variable, "")
			if got := settings(""); got != test.byDefault {
				t.Errorf("by default it is %v, expected %v", got, test.byDefault)
			}
			t.Setenv(test.variable, "environment")
			if got := settings(""); got != test.fromEnv {
				t.Errorf("from the environment it is %v, expected %v", got, test.fromEnv)
			}
			if got := settings("configured"); got != test.configured {
				t.Errorf("configured it is %v, expected %v", got, test.configured)
			}
		})
	}
}

// text is null for the empty string.
func text(s string) types.String {
	if s == "" {
		return types.StringNull()
	}
	return types.StringValue(s)
}

func TestInsecure(t *testing.T) {
	for _, test := range []struct {
		environment string
		configured  types.Bool
		want, fails bool
	}{
		{"", types.BoolNull(), false, false},
		{"true", types.BoolNull(), true, false},
		{"true", types.BoolValue(false), false, false},
		{"false", types.BoolValue(true), true, false},
		{"perhaps", types.BoolNull(), false, true},
		{"perhaps", types.BoolValue(true), true, false},
	} {
		t.Setenv("RABBITMQ_INSECURE", test.environment)
		var diags diag.Diagnostics
		if got := insecure(&diags, test.configured); got != test.want || diags.HasError() != test.fails {
			t.Errorf("%+v gives %v, %v", test, got, diags)
		}
	}
}

func TestLimits(t *testing.T) {
	var diags diag.Diagnostics
	m := minimal()
	m.RequestTimeout, m.MaxRetries, m.MaxParallelRequests = text("1m30s"), types.Int64Value(0), types.Int64Value(3)
	m.Headers = types.MapValueMust(types.StringType, map[string]attr.Value{"X-Gateway": types.StringValue("a")})
	c := m.settings(t.Context(), &diags)
	if c.RequestTimeout != 90*time.Second || c.MaxRetries != -1 || c.MaxParallelRequests != 3 || c.Headers["X-Gateway"] != "a" {
		t.Errorf("%+v", c)
	}
	c = minimal().settings(t.Context(), &diags)
	if c.RequestTimeout != broker.DefaultRequestTimeout || c.MaxRetries != 0 || c.MaxParallelRequests != 0 || diags.HasError() {
		t.Errorf("%+v, %v", c, diags)
	}
}

// What is missing is said on its attribute, with the variable that can stand in.
func TestRequiredConfiguration(t *testing.T) {
	for _, variable := range []string{"RABBITMQ_ENDPOINT", "RABBITMQ_USERNAME", "RABBITMQ_PASSWORD"} {
		t.Setenv(variable, "")
	}
	var diags diag.Diagnostics
	model{Headers: types.MapNull(types.StringType)}.settings(t.Context(), &diags)
	if diags.ErrorsCount() != 3 {
		t.Fatal(diags)
	}
	for i, variable := range []string{"RABBITMQ_ENDPOINT", "RABBITMQ_USERNAME", "RABBITMQ_PASSWORD"} {
		if !strings.Contains(diags[i].Detail(), variable) {
			t.Errorf("%q does not name %s", diags[i].Detail(), variable)
		}
	}
}

// An unknown value is not an empty one: the environment must not stand in.
func TestUnknownConfiguration(t *testing.T) {
	unknown := map[reflect.Type]any{
		reflect.TypeFor[types.String](): types.StringUnknown(),
		reflect.TypeFor[types.Bool]():   types.BoolUnknown(),
		reflect.TypeFor[types.Int64]():  types.Int64Unknown(),
		reflect.TypeFor[types.Map]():    types.MapUnknown(types.StringType),
	}
	for i := range reflect.TypeFor[model]().NumField() {
		m := minimal()
		field := reflect.ValueOf(&m).Elem().Field(i)
		field.Set(reflect.ValueOf(unknown[field.Type()]))
		if !m.hasUnknown() {
			t.Errorf("an unknown %s is taken for known", reflect.TypeFor[model]().Field(i).Name)
		}
	}
	if minimal().hasUnknown() {
		t.Error("a known configuration is taken for unknown")
	}
}

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
