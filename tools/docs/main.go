// Command docs writes the documentation of the provider that the Terraform
// Registry shows, from the schema, examples/, templates/ and the table of
// internal/abilities to docs/.
//
//	go run ./tools/docs                  write docs/
//	go run ./tools/docs -check           fail if docs/ is not what would be written
//	go run ./tools/docs -schema FILE     write the schema as JSON and nothing else ("-" is standard output)
//
// Run it in the root of the repository. It needs no Terraform CLI: the schema
// is read from the provider in this process (package schemajson says why) and
// handed to tfplugindocs as a file.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/provider"
	"github.com/retrychain/terraform-provider-rabbitmq/tools/docs/schemajson"
)

const (
	// schemaAddress is what tfplugindocs looks for in a schema file. It
	// knows only the namespace hashicorp, whatever the provider's own is.
	schemaAddress = "registry.terraform.io/hashicorp/rabbitmq"
	// docsDir is where the registry expects the documentation.
	docsDir = "docs"
)

func main() {
	check := flag.Bool("check", false, "fail if docs/ is not what would be written")
	schemaFile := flag.String("schema", "", `write the schema as JSON to this file ("-" is standard output) and nothing else`)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *check, *schemaFile)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "docs:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, check bool, schemaFile string) error {
	encoded, err := schema(ctx)
	if err != nil {
		return err
	}
	switch schemaFile {
	case "":
	case "-":
		_, err := os.Stdout.Write(encoded)
		return err
	default:
		return os.WriteFile(schemaFile, encoded, 0o600)
	}

	temporary, err := os.MkdirTemp("", "docs-")
	if err != nil {
		return fmt.Errorf("make a folder for the schema: %w", err)
	}
	defer os.RemoveAll(temporary)
	schemaFile = filepath.Join(temporary, "schema.json")
	if err := os.WriteFile(schemaFile, encoded, 0o600); err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	if !check {
		return generate(ctx, schemaFile, docsDir)
	}
	fresh := filepath.Join(temporary, docsDir)
	if err := generate(ctx, schemaFile, fresh); err != nil {
		return err
	}
	if err := compare(docsDir, fresh); err != nil {
		return fmt.Errorf("docs/ is not what the schema, examples/ and templates/ make it (\"make generate\" writes it):\n%w", err)
	}
	return validate(ctx, schemaFile)
}

// schema returns the schema of the provider as JSON.
func schema(ctx context.Context) ([]byte, error) {
	server := providerserver.NewProtocol6(provider.New("dev")())()
	schemas, err := schemajson.Export(ctx, schemaAddress, server)
	if err != nil {
		return nil, err
	}
	encoded, err := json.MarshalIndent(schemas, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return append(encoded, '\n'), nil
}

// generate runs "tfplugindocs generate" into a folder. Its account of each
// file is shown only when it fails.
func generate(ctx context.Context, schemaFile, into string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	// tfplugindocs takes the folder as relative to the provider's, even if
	// it begins with a slash.
	if filepath.IsAbs(into) {
		if into, err = filepath.Rel(root, into); err != nil {
			return err
		}
	}
	err = tfplugindocs(ctx, "generate",
		"--provider-name", "rabbitmq",
		"--rendered-provider-name", "RabbitMQ",
		"--providers-schema", schemaFile,
		"--rendered-website-dir", into,
	)
	if err != nil {
		return err
	}
	return insertAbilities(into)
}

// validate has the written documentation checked against the rules of the
// registry (names, sizes, front matter) and against the schema.
func validate(ctx context.Context, schemaFile string) error {
	return tfplugindocs(ctx, "validate",
		"--provider-name", "rabbitmq",
		"--providers-schema", schemaFile,
	)
}

func tfplugindocs(ctx context.Context, args ...string) error {
	args = append([]string{"tool", "-modfile=tools/docs.mod", "tfplugindocs"}, args...)
	output, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("tfplugindocs: %w\n%s", err, output)
	}
	return nil
}
