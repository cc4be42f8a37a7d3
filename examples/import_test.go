package examples_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

const chainFolder = "resources/rabbitmq_retry_chain"

var importCommand = regexp.MustCompile(`(?m)^terraform import (\S+) '(.+)@/'$`)

// TestAccImportExamples imports a chain in all the ways that the examples show,
// from a virtual host of the test's own.
func TestAccImportExamples(t *testing.T) {
	acctest.EachModern(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		acctest.Run(t, workspace(t, b, vhost, configuration(t, chainFolder)), "apply", "-auto-approve")

		t.Run("import.sh", func(t *testing.T) {
			command := importCommand.FindStringSubmatch(read(t, chainFolder+"/import.sh"))
			if command == nil {
				t.Fatal("import.sh holds no import of a chain in the virtual host /")
			}
			w := workspace(t, b, vhost, configuration(t, chainFolder))
			acctest.Run(t, w, "import", command[1], command[2]+"@"+vhost)
			acctest.Run(t, w, "plan", "-detailed-exitcode")
		})
		t.Run("import-by-string-id.tf", func(t *testing.T) { importByBlock(t, b, vhost, "import-by-string-id.tf", "orders@/", "orders@"+vhost) })
		t.Run("import-by-identity.tf", func(t *testing.T) { importByBlock(t, b, vhost, "import-by-identity.tf", `"/"`, `"`+vhost+`"`) })
	})
}

// importByBlock plans an import block, with the virtual host replaced.
func importByBlock(t *testing.T, b *rabbit.Broker, vhost, file, old, replacement string) {
	t.Helper()
	block := read(t, chainFolder+"/"+file)
	if !strings.Contains(block, old) {
		t.Fatalf("%s does not hold %s", file, old)
	}
	files := configuration(t, chainFolder)
	files[file] = strings.Replace(block, old, replacement, 1)
	w := workspace(t, b, vhost, files)
	if strings.Contains(block, "identity") && !knowsIdentity(t, w) {
		t.Skip("import by identity needs Terraform 1.12 or OpenTofu 1.12")
	}
	const wanted = "1 to import, 0 to add, 0 to change, 0 to destroy"
	if output := acctest.Run(t, w, "plan", "-input=false"); !strings.Contains(output, wanted) {
		t.Errorf("the plan does not say %q:\n%s", wanted, output)
	}
}

var oldCLI = regexp.MustCompile(`v1\.(\d|1[01])\.`)

func knowsIdentity(t *testing.T, w *cli.Workspace) bool {
	t.Helper()
	return !oldCLI.MatchString(acctest.Run(t, w, "version"))
}
