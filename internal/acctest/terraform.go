package acctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

var built struct {
	sync.Once
	dir string
	// temporary: the folder was made by this process.
	temporary bool
	err       error
}

// Terraform prepares a folder in which the real CLI runs the real provider
// binary, for tests that look at the text of a plan or at processes. The
// configuration needs no required_providers block.
func Terraform(t *testing.T, config string) *cli.Workspace {
	t.Helper()
	return workspace(t, requiredProviders+config)
}

// TerraformFiles is like [Terraform] for a complete configuration in several
// files. The provider finds the broker in its environment.
func TerraformFiles(t *testing.T, b *rabbit.Broker, files map[string]string) *cli.Workspace {
	t.Helper()
	w := workspace(t, "")
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Env = append(w.Env, "RABBITMQ_ENDPOINT="+b.Endpoint, "RABBITMQ_USERNAME="+b.Username, "RABBITMQ_PASSWORD="+b.Password,
		"RABBITMQ_AMQP_ENDPOINT="+amqpAddress(b))
	return w
}

func workspace(t *testing.T, config string) *cli.Workspace {
	t.Helper()
	built.Do(buildProvider)
	if built.err != nil {
		t.Fatal(built.err)
	}
	w, err := cli.NewWorkspace(os.Getenv("TF_ACC_TERRAFORM_PATH"), t.TempDir(), built.dir, config)
	if err != nil {
		t.Fatal(err)
	}
	// Making keys for every connection of the CLI to a provider takes half of the
	// processor time of a short run.
	w.Env = append(w.Env, "TF_DISABLE_PLUGIN_TLS=1")
	return w
}

const requiredProviders = "terraform {\n  required_providers {\n    rabbitmq = {\n      source = \"retrychain/rabbitmq\"\n    }\n  }\n}\n"

// Reconfigure replaces the configuration of the folder.
func Reconfigure(t *testing.T, w *cli.Workspace, config string) {
	t.Helper()
	if err := w.Configure(requiredProviders + config); err != nil {
		t.Fatal(err)
	}
}

// NeedActions skips the test unless the CLI is Terraform 1.14 or later, the
// first with actions. OpenTofu 1.12 has none.
func NeedActions(t *testing.T) {
	t.Helper()
	command := exec.CommandContext(t.Context(), os.Getenv("TF_ACC_TERRAFORM_PATH"), "version")
	command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1")
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	name, _, _ := strings.Cut(string(output), "\n")
	var major, minor int
	_, err = fmt.Sscanf(name, "Terraform v%d.%d", &major, &minor)
	if err != nil || major < 1 || major == 1 && minor < 14 {
		t.Skipf("actions need Terraform 1.14, this is %s: name a later one in TF_ACC_TERRAFORM_PATH", name)
	}
}

// Run runs the CLI and fails the test if it fails.
func Run(t *testing.T, w *cli.Workspace, args ...string) string {
	t.Helper()
	output, err := w.Run(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// RunError runs the CLI, which must fail, and returns what it printed.
func RunError(t *testing.T, w *cli.Workspace, args ...string) string {
	t.Helper()
	output, err := w.Run(t.Context(), args...)
	if err == nil {
		t.Fatalf("terraform %v succeeded:\n%s", args, output)
	}
	return output
}

// Killable is a run of the CLI that can be ended together with the provider.
type Killable struct {
	command *exec.Cmd
}

// Start starts the CLI without waiting for it.
func Start(t *testing.T, w *cli.Workspace, args ...string) *Killable {
	t.Helper()
	command := w.Command(context.Background(), args...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	k := &Killable{command}
	t.Cleanup(k.Kill)
	return k
}

// Kill ends the CLI and the provider as kill -9 does. Killing twice is fine.
func (k *Killable) Kill() { _ = syscall.Kill(-k.command.Process.Pid, syscall.SIGKILL) }

// KillCLI ends the CLI alone as kill -9 does, and waits for its end.
func (k *Killable) KillCLI() {
	_ = k.command.Process.Kill()
	_ = k.command.Wait()
}

// Interrupt sends SIGINT to the CLI alone, as a person does who ends a run.
func (k *Killable) Interrupt() { _ = k.command.Process.Signal(os.Interrupt) }

// Living says whether any process of the run lives, such as a provider that the CLI left
// behind.
func (k *Killable) Living() bool { return syscall.Kill(-k.command.Process.Pid, 0) == nil }

// Wait waits for the end and says whether the run succeeded.
func (k *Killable) Wait() bool {
	err := k.command.Wait()
	var exit *exec.ExitError
	return err == nil && !errors.As(err, &exit)
}

// buildProvider compiles the provider once for all tests of a package, unless
// [cli.EnvProvider] names one.
func buildProvider() {
	if built.dir = os.Getenv(cli.EnvProvider); built.dir != "" {
		return
	}
	root, err := moduleRoot()
	if err == nil {
		built.dir, err = os.MkdirTemp("", "provider-under-test-")
		built.temporary = true
	}
	if err == nil {
		err = cli.BuildTestProvider(context.Background(), root, built.dir, rabbit.StatisticsInterval(brokers.all))
	}
	built.err = err
}

// moduleRoot is the nearest folder above with a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("no go.mod in any folder above the test")
		}
		dir = parent
	}
}
