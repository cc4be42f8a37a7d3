package examples_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// templates holds what the documentation says besides the schema.
const templates = "../templates"

var (
	codeBlock     = regexp.MustCompile("(?ms)^```(?:terraform|hcl)\n(.*?)^```")
	otherProvider = regexp.MustCompile(`(?ms)^ {4}rabbitmq = \{\n +source = "cyrilgdn/rabbitmq"\n {4}\}\n`)
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
				files := map[string]string{"main.tf": block}
				if !strings.Contains(block, "required_providers") {
					files["provider.tf"] = read(t, providerFile)
				}
				w := workspace(t, b, acctest.VHost(t, b), files)
				acctest.Run(t, w, "validate")
				acctest.Run(t, w, "plan", "-input=false")
			})
		}
	})
}

// templateBlocks returns the configurations by file and number. The provider of
// others is left out: the tests do not download it.
func templateBlocks(t *testing.T) map[string]string {
	t.Helper()
	blocks := map[string]string{}
	err := filepath.WalkDir(templates, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		for i, match := range codeBlock.FindAllStringSubmatch(read(t, path), -1) {
			name, _, _ := strings.Cut(filepath.Base(path), ".")
			blocks[fmt.Sprintf("%s/%d", name, i+1)] = otherProvider.ReplaceAllString(match[1], "")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}
