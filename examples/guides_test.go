package examples_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// templates holds what the documentation says besides the schema.
const (
	templates = "../templates"
	readme    = "../README.md"
)

var (
	codeBlock = regexp.MustCompile("(?ms)^```(?:terraform|hcl)\n(.*?)^```")
	// An action is a block of its own since Terraform 1.14, and an ephemeral
	// resource is read when a plan is made.
	actionBlock    = regexp.MustCompile(`(?m)^action "`)
	ephemeralBlock = regexp.MustCompile(`(?m)^ephemeral "`)
	mockBlock      = regexp.MustCompile(`(?m)^mock_provider "`)
	otherProvider  = regexp.MustCompile(`(?ms)^ {4}rabbitmq +?= \{\s+source = "cyrilgdn/rabbitmq"\s+\}\n`)
)

// TestAccTemplates plans every configuration in the documentation that is no
// example of its own.
func TestAccTemplates(t *testing.T) {
	blocks := templateBlocks(t)
	if len(blocks) == 0 {
		t.Fatal("the templates hold no configuration")
	}
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		for name, block := range blocks {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if mockBlock.MatchString(block) {
					runMocked(t, b, block)
					return
				}
				if actionBlock.MatchString(block) {
					acctest.NeedActions(t)
				}
				files := map[string]string{"main.tf": block}
				if !strings.Contains(block, "required_providers") {
					files["provider.tf"] = read(t, providerFile)
				}
				vhost := acctest.VHost(t, b)
				if ephemeralBlock.MatchString(block) {
					resp, err := acctest.API(t, b).DeclareQueue(vhost, "orders.parking", rabbithole.QueueSettings{
						Type: "quorum", Durable: true, Arguments: map[string]any{"x-delivery-limit": -1},
					})
					acctest.Do(t, resp, err)
				}
				w := workspace(t, b, vhost, files)
				if output := acctest.Run(t, w, "plan", "-input=false"); strings.Contains(output, "Source Exchange Not Found") {
					t.Errorf("an apply would fail:\n%s", output)
				}
			})
		}
	})
}

// mockedModule refers to what a mock must give.
const mockedModule = `
resource "rabbitmq_retry_chain" "orders" {
  name   = "orders"
  delays = ["5s"]
}

output "first" {
  value = rabbitmq_retry_chain.orders.tiers[0]
}
`

// runMocked runs a test of a module with the mocks of a block.
func runMocked(t *testing.T, b *rabbit.Broker, block string) {
	t.Helper()
	w := acctest.TerraformFiles(t, b, map[string]string{
		"main.tf": mockedModule, "provider.tf": read(t, providerFile),
		"mock.tftest.hcl": block + "\nrun \"mocked\" {\n  assert {\n    condition     = output.first == \"orders.retry.5s\"\n" +
			"    error_message = output.first\n  }\n}\n",
	})
	if output := acctest.Run(t, w, "test", "-no-color"); !strings.Contains(output, "1 passed, 0 failed") {
		t.Error(output)
	}
}

// templateBlocks returns the configurations by file and number. The provider of
// others is left out: the tests do not download it.
func templateBlocks(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	add := func(path string) {
		for i, match := range codeBlock.FindAllStringSubmatch(read(t, path), -1) {
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			blocks[fmt.Sprintf("%s/%d", name, i+1)] = otherProvider.ReplaceAllString(match[1], "")
		}
	}
	add(readme)
	err := filepath.WalkDir(templates, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			add(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}
