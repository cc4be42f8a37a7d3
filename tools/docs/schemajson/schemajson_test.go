package schemajson_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	tfjson "github.com/hashicorp/terraform-json"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/zclconf/go-cty/cty"

	"github.com/retrychain/terraform-provider-rabbitmq/tools/docs/schemajson"
)

const address = "registry.terraform.io/hashicorp/fake"

var update = flag.Bool("update", false, "write testdata/schema.json instead of comparing with it")

// The file in testdata was compared with what Terraform 1.11.4 and OpenTofu
// 1.12.6 write for the same provider ("providers schema -json"): it is equal
// but for the kinds those two do not know, and OpenTofu's empty descriptions
// and deprecation messages.
func TestExportWritesWhatACLIWrites(t *testing.T) {
	t.Parallel()
	schemas, err := schemajson.Export(t.Context(), address, providerserver.NewProtocol6(fake{})())
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(schemas, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	golden := filepath.Join("testdata", "schema.json")
	if *update {
		if err := os.WriteFile(golden, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the schema is not that of %s (-update writes it):\n%s", golden, got)
	}
}

func TestExportIsReadByTerraformJSON(t *testing.T) {
	t.Parallel()
	schemas, err := schemajson.Export(t.Context(), address, providerserver.NewProtocol6(fake{})())
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(schemas)
	if err != nil {
		t.Fatal(err)
	}
	var read tfjson.ProviderSchemas
	if err := json.Unmarshal(encoded, &read); err != nil {
		t.Fatal(err)
	}
	provider := read.Schemas[address]
	if provider == nil {
		t.Fatalf("no schema under %s", address)
	}
	thing := provider.ResourceSchemas["fake_thing"]
	if thing == nil || thing.Version != 3 {
		t.Fatalf("fake_thing: %+v, want version 3", thing)
	}
	types := map[string]cty.Type{
		"delays": cty.List(cty.String),
		"labels": cty.Map(cty.Number),
		"tags":   cty.Set(cty.Bool),
		"any":    cty.DynamicPseudoType,
		"point":  cty.Object(map[string]cty.Type{"x": cty.Number, "y": cty.List(cty.Number)}),
	}
	for name, want := range types {
		if got := thing.Block.Attributes[name].AttributeType; !got.Equals(want) {
			t.Errorf("%s has type %#v, want %#v", name, got, want)
		}
	}
	for _, kind := range []struct {
		name  string
		found bool
	}{
		{"identity", provider.ResourceIdentitySchemas["fake_thing"] != nil},
		{"data source", provider.DataSourceSchemas["fake_things"] != nil},
		{"ephemeral resource", provider.EphemeralResourceSchemas["fake_token"] != nil},
		{"list resource", provider.ListResourceSchemas["fake_thing"] != nil},
		{"action", provider.ActionSchemas["fake_do"] != nil},
		{"function", provider.Functions["backoff"] != nil},
	} {
		if !kind.found {
			t.Errorf("there is no %s in the schema", kind.name)
		}
	}
}

func TestExportFailsOnErrorDiagnostics(t *testing.T) {
	t.Parallel()
	_, err := schemajson.Export(t.Context(), address, providerserver.NewProtocol6(fake{functionless: true})())
	if err == nil {
		t.Fatal("a provider that reports an error in its schema was exported")
	}
	if !strings.Contains(err.Error(), "backoff") {
		t.Errorf("the error does not name the function: %v", err)
	}
}
