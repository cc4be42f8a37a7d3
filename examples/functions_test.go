package examples_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/function"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/functions"
)

// statedOutput is an output after a comment that says its value in HCL.
var statedOutput = regexp.MustCompile(`(?ms)^# ([\[{].*?)\noutput "(\w+)" \{\n  value = ([^\n]+)\n\}`)

// TestAccFunctionExamples checks that every function has an example, and what
// its comment says that the output is.
func TestAccFunctionExamples(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for _, constructor := range functions.All() {
			var metadata function.MetadataResponse
			constructor().Metadata(t.Context(), function.MetadataRequest{}, &metadata)
			folder := "functions/" + metadata.Name
			t.Run(folder, func(t *testing.T) {
				t.Parallel()
				files := configuration(t, folder)
				stated := statedOutput.FindStringSubmatch(all(files))
				if stated == nil {
					t.Fatal("no output has a comment that says its value")
				}
				value := strings.ReplaceAll(stated[1], "\n# ", "\n")
				files["check.tf"] = "output \"check\" {\n  value = true\n  precondition {\n" +
					"    condition     = jsonencode(" + stated[3] + ") == jsonencode(" + value + ")\n" +
					"    error_message = \"The comment is wrong.\"\n  }\n}\n"
				acctest.Run(t, workspace(t, b, acctest.VHost(t, b), files), "plan", "-input=false")
			})
		}
	})
}
