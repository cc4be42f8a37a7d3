// Package examples_test runs the examples and the configurations in the guides
// as a reader would, through the real CLI on real brokers.
package examples_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

func TestMain(m *testing.M) { acctest.Main(m) }

// providerFile is the block that the examples of single resources leave out.
const providerFile = "provider/provider.tf"

// folders returns the folders that hold configurations.
func folders(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, pattern := range []string{"*/*.tf", "*/*/*.tf"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			found = append(found, filepath.Dir(file))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// configuration returns the files of a folder, without the import blocks that
// the documentation shows beside a resource, and with a provider block.
func configuration(t *testing.T, folder string) map[string]string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.tf"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, path := range paths {
		if name := filepath.Base(path); !strings.HasPrefix(name, "import-") {
			files[name] = read(t, path)
		}
	}
	if !strings.Contains(all(files), "required_providers") {
		files["provider.tf"] = read(t, providerFile)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func all(files map[string]string) string {
	var text strings.Builder
	for _, part := range files {
		text.WriteString(part + "\n")
	}
	return text.String()
}

var brokerBlock = regexp.MustCompile(`(?m)^(resource|data) "(rabbitmq_\w+)" "(\w+)"`)

// ephemeralStart is the first line of a block that override files do not change.
var ephemeralStart = regexp.MustCompile(`(?m)^ephemeral "rabbitmq_\w+" "\w+" \{$`)

// workspace prepares a folder with the configuration as it is. What names a
// certain broker or virtual host in it is overridden: an override file changes
// single attributes of blocks that other files hold.
func workspace(t *testing.T, b *rabbit.Broker, vhost string, files map[string]string) *cli.Workspace {
	t.Helper()
	text := all(files)
	var override strings.Builder
	if strings.Contains(text, "endpoint =") {
		fmt.Fprintf(&override, "provider \"rabbitmq\" {\n  endpoint = %q\n  username = %q\n  password = %q\n}\n",
			b.Endpoint, b.Username, b.Password)
	}
	if !strings.Contains(text, "var.vhost") {
		for _, match := range brokerBlock.FindAllStringSubmatch(text, -1) {
			fmt.Fprintf(&override, "%s %q %q {\n  vhost = %q\n}\n", match[1], match[2], match[3], vhost)
		}
	}
	for name, text := range files {
		if !strings.Contains(text, "var.vhost") {
			files[name] = ephemeralStart.ReplaceAllString(text, fmt.Sprintf("$0\n  vhost = %q", vhost))
		}
	}
	files["test_override.tf"] = override.String()
	w := acctest.TerraformFiles(t, b, files)
	w.Env = append(w.Env, "TF_VAR_vhost="+vhost)
	return w
}
