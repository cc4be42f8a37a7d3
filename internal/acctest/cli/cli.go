// Package cli finds the Terraform-compatible command-line program that tests
// and the demo run, and builds OpenTofu from its source where there is none.
package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// pathVariable names the program. terraform-plugin-testing reads the
	// same variable.
	pathVariable = "TF_ACC_TERRAFORM_PATH"
	// configVariable names the configuration file of the program.
	configVariable = "TF_CLI_CONFIG_FILE"
	// hostVariable is the registry under which terraform-plugin-testing
	// offers the provider to the program.
	hostVariable = "TF_ACC_PROVIDER_HOST"
	// tofuHost is what "hashicorp/x" in a configuration means to OpenTofu.
	tofuHost = "registry.opentofu.org"
	// cacheVariable overrides the folder for what is built once.
	cacheVariable = "RETRYCHAIN_CACHE"

	tofuModule  = "github.com/opentofu/opentofu"
	tofuModFile = "tools/opentofu.mod"
)

// Find returns the path of the program named by TF_ACC_TERRAFORM_PATH, else
// of terraform on PATH, else of tofu on PATH, else of the OpenTofu that
// FindTofu builds. It says whether the program is OpenTofu.
func Find(ctx context.Context) (path string, isTofu bool, err error) {
	if path = os.Getenv(pathVariable); path != "" {
		isTofu, err = IsTofu(ctx, path)
		if err != nil {
			return "", false, fmt.Errorf("%s: %w", pathVariable, err)
		}
		return path, isTofu, nil
	}
	if path, err = exec.LookPath("terraform"); err == nil {
		// Someone may have made "terraform" a link to OpenTofu.
		isTofu, err = IsTofu(ctx, path)
		return path, isTofu, err
	}
	path, err = FindTofu(ctx)
	return path, err == nil, err
}

// FindTofu returns the path of OpenTofu: of the program named by
// TF_ACC_TERRAFORM_PATH if it is OpenTofu, else of tofu on PATH, else of the
// version in tools/opentofu.mod in the cache folder. If that does not exist it
// is built, which takes a few minutes; two processes that find it missing both
// build it.
func FindTofu(ctx context.Context) (string, error) {
	if path := os.Getenv(pathVariable); path != "" {
		if isTofu, err := IsTofu(ctx, path); err == nil && isTofu {
			return path, nil
		}
	}
	if path, err := exec.LookPath("tofu"); err == nil {
		return path, nil
	}
	return buildTofu(ctx, os.Stderr)
}

// IsTofu says whether the program at a path is OpenTofu (true) or Terraform
// (false). Any other program is an error.
func IsTofu(ctx context.Context, path string) (bool, error) {
	command := exec.CommandContext(ctx, path, "version")
	// No question to HashiCorp's servers about newer versions.
	command.Env = append(withoutMissingConfig(os.Environ()), "CHECKPOINT_DISABLE=1")
	output, err := command.CombinedOutput()
	if err != nil {
		return false, fmt.Errorf("run %s version: %w\n%s", path, err, output)
	}
	// A warning may come before the line with the name.
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		switch {
		case strings.HasPrefix(lines.Text(), "OpenTofu v"):
			return true, nil
		case strings.HasPrefix(lines.Text(), "Terraform v"):
			return false, nil
		}
	}
	return false, fmt.Errorf("%s is neither Terraform nor OpenTofu: its version command says %q", path, output)
}

// Environ returns the environment in which terraform-plugin-testing runs the
// program: base with its path, for OpenTofu its registry, and without a
// TF_CLI_CONFIG_FILE that does not exist. The last of two equal names counts.
func Environ(base []string, path string, isTofu bool) []string {
	env := append(withoutMissingConfig(base), pathVariable+"="+path)
	if isTofu {
		env = append(env, hostVariable+"="+tofuHost)
	}
	return env
}

// DropMissingConfig unsets TF_CLI_CONFIG_FILE in this process if it names a
// file that does not exist: Terraform warns about it before anything else it
// says, and runs of OpenTofu whose output is read as JSON fail on the warning.
func DropMissingConfig() error {
	if !configMissing(os.Getenv(configVariable)) {
		return nil
	}
	return os.Unsetenv(configVariable)
}

func withoutMissingConfig(env []string) []string {
	kept := make([]string, 0, len(env)+2)
	for _, entry := range env {
		if file, ok := strings.CutPrefix(entry, configVariable+"="); ok && configMissing(file) {
			continue
		}
		kept = append(kept, entry)
	}
	return kept
}

func configMissing(file string) bool {
	if file == "" {
		return false
	}
	_, err := os.Stat(file)
	return errors.Is(err, fs.ErrNotExist)
}

// buildTofu returns the path of OpenTofu in the cache folder, built if it is
// not there yet. It says on log that it builds.
func buildTofu(ctx context.Context, log io.Writer) (string, error) {
	root, err := repository(ctx)
	if err != nil {
		return "", err
	}
	version, err := goOutput(ctx, root, "list", "-m", "-modfile="+tofuModFile, "-f", "{{.Version}}", tofuModule)
	if err != nil {
		return "", fmt.Errorf("read the version of OpenTofu in %s: %w", tofuModFile, err)
	}
	folder, err := cacheFolder()
	if err != nil {
		return "", err
	}
	folder = filepath.Join(folder, "bin")
	if err := os.MkdirAll(folder, 0o750); err != nil {
		return "", fmt.Errorf("make the cache folder: %w", err)
	}
	path := filepath.Join(folder, "tofu-"+version)
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}

	fmt.Fprintf(log, "Building OpenTofu %s from source as %s; this takes a few minutes, once.\n", version, path)
	// Built under another name first, so that a build that was killed, or
	// one in another process, leaves no half of a program at the path.
	building := fmt.Sprintf("%s.%d", path, os.Getpid())
	defer os.Remove(building)
	if _, err := goOutput(ctx, root, "build", "-modfile="+tofuModFile,
		// Without dev=no it calls itself a pre-release, and version
		// constraints do not match it.
		"-ldflags=-s -w -X "+tofuModule+"/version.dev=no",
		"-o", building, tofuModule+"/cmd/tofu"); err != nil {
		return "", fmt.Errorf("build OpenTofu %s: %w", version, err)
	}
	if err := os.Rename(building, path); err != nil {
		return "", fmt.Errorf("keep the OpenTofu that was built: %w", err)
	}
	return path, nil
}

// repository returns the root of the repository that the working directory is
// in. A test runs in the folder of its package, a command where it was called.
func repository(ctx context.Context) (string, error) {
	file, err := goOutput(ctx, "", "env", "GOMOD")
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	root := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(root, tofuModFile)); err != nil {
		return "", fmt.Errorf("%s says how to build OpenTofu, and it is found only from inside the repository: %w",
			tofuModFile, err)
	}
	return root, nil
}

// cacheFolder returns the folder for what is built once, whether it exists or
// not.
func cacheFolder() (string, error) {
	if folder := os.Getenv(cacheVariable); folder != "" {
		return folder, nil
	}
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder (%s can name one): %w", cacheVariable, err)
	}
	return filepath.Join(folder, "terraform-provider-rabbitmq"), nil
}

// goOutput runs the go command in a folder and returns what it prints without
// space around it.
func goOutput(ctx context.Context, folder string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	var output, errorOutput bytes.Buffer
	command.Stdout, command.Stderr = &output, &errorOutput
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, errorOutput.Bytes())
	}
	return strings.TrimSpace(output.String()), nil
}
