package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Workspace is a folder with one configuration, in which a Terraform CLI runs
// with a provider that was built from this repository.
type Workspace struct {
	// CLI is the path of the Terraform CLI.
	CLI string
	// Dir holds the configuration and the state.
	Dir string
	// Env is added to the environment of the CLI.
	Env []string
}

// BuildProvider compiles the provider of the module at root into dir.
func BuildProvider(ctx context.Context, root, dir string, flags ...string) error {
	args := append([]string{"build", "-o", filepath.Join(dir, "terraform-provider-rabbitmq")}, flags...)
	build := exec.CommandContext(ctx, "go", append(args, ".")...)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the provider in %s: %w\n%s", root, err, output)
	}
	return nil
}

// EnvProvider names the variable with the folder of a provider that was built for
// the brokers of the tests, so that not every package builds one.
const EnvProvider = "RETRYCHAIN_TEST_PROVIDER"

// BuildTestProvider compiles the provider for brokers that renew their counts of
// messages every so often; 0 is RabbitMQ's default.
func BuildTestProvider(ctx context.Context, root, dir string, statisticsInterval time.Duration) error {
	return BuildProvider(ctx, root, dir, "-ldflags=-s -w -X main.statisticsInterval="+statisticsInterval.String())
}

// NewWorkspace prepares dir for the CLI: the configuration, and the settings
// that make the CLI use the provider in providerDir.
func NewWorkspace(cliPath, dir, providerDir, config string) (*Workspace, error) {
	overrides := fmt.Sprintf("provider_installation {\n  dev_overrides {\n    %q = %q\n    %q = %q\n  }\n  direct {}\n}\n",
		"registry.terraform.io/retrychain/rabbitmq", providerDir, "registry.opentofu.org/retrychain/rabbitmq", providerDir)
	settings := filepath.Join(dir, "cli.tfrc")
	if err := os.WriteFile(settings, []byte(overrides), 0o600); err != nil {
		return nil, err
	}
	w := &Workspace{CLI: cliPath, Dir: dir, Env: []string{
		"TF_CLI_CONFIG_FILE=" + settings, "TF_IN_AUTOMATION=1", "CHECKPOINT_DISABLE=1",
		"TF_CLI_ARGS_plan=-no-color", "TF_CLI_ARGS_apply=-no-color", "TF_CLI_ARGS_destroy=-no-color", "TF_CLI_ARGS_import=-no-color",
	}}
	if err := w.Configure(config); err != nil {
		return nil, err
	}
	return w, nil
}

// Configure replaces the configuration.
func (w *Workspace) Configure(config string) error {
	return os.WriteFile(filepath.Join(w.Dir, "main.tf"), []byte(config), 0o600)
}

// Command prepares a run of the CLI.
func (w *Workspace) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, w.CLI, args...)
	command.Dir = w.Dir
	command.Env = append(os.Environ(), w.Env...)
	return command
}

// Run runs the CLI and returns what it printed. The error of a run that failed
// holds the output as well.
func (w *Workspace) Run(ctx context.Context, args ...string) (string, error) {
	output, err := w.Command(ctx, args...).CombinedOutput()
	if err != nil {
		return string(output), fmt.Errorf("%s %s: %w\n%s", filepath.Base(w.CLI), strings.Join(args, " "), err, output)
	}
	return string(output), nil
}
