package cli_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
)

// program writes a shell script that prints a text and exits with a code.
func program(t *testing.T, folder, name, prints, code string) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs in this test are shell scripts")
	}
	path := filepath.Join(folder, name)
	script := "#!/bin/sh\ncat <<'END'\n" + prints + "\nEND\nexit " + code + "\n"
	if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// onlyOnPath makes PATH a new folder that has sh, cat and go and returns it.
func onlyOnPath(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range []string{"sh", "cat", "go"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			t.Skip(err)
		}
	}
	t.Setenv("PATH", folder)
	t.Setenv("TF_ACC_TERRAFORM_PATH", "")
	t.Setenv("RETRYCHAIN_CACHE", t.TempDir())
	return folder
}

func TestFindOrder(t *testing.T) {
	path := onlyOnPath(t)
	elsewhere := t.TempDir()

	// Nothing else is there: what was built before is used, not built again.
	mod, err := os.ReadFile(filepath.Join("..", "..", "..", "tools", "opentofu.mod"))
	if err != nil {
		t.Fatal(err)
	}
	_, version, _ := strings.Cut(string(mod), "github.com/opentofu/opentofu v")
	version, _, _ = strings.Cut(version, "\n")
	version, _, _ = strings.Cut(version, " ")
	cache := filepath.Join(os.Getenv("RETRYCHAIN_CACHE"), "bin")
	if err := os.Mkdir(cache, 0o700); err != nil {
		t.Fatal(err)
	}
	built := program(t, cache, "tofu-v"+version, "OpenTofu v"+version, "0")
	wantFound(t, built, true)

	tofu := program(t, path, "tofu", "OpenTofu v1.12.6\non linux_amd64", "0")
	wantFound(t, tofu, true)

	terraform := program(t, path, "terraform", "Terraform v1.11.4\non linux_amd64", "0")
	wantFound(t, terraform, false)

	named := program(t, elsewhere, "chosen", "OpenTofu v1.10.0", "0")
	t.Setenv("TF_ACC_TERRAFORM_PATH", named)
	wantFound(t, named, true)
	if got, err := cli.FindTofu(t.Context()); err != nil || got != named {
		t.Errorf("FindTofu: %q, %v; want %q", got, err, named)
	}

	t.Setenv("TF_ACC_TERRAFORM_PATH", terraform)
	if got, err := cli.FindTofu(t.Context()); err != nil || got != tofu {
		t.Errorf("FindTofu with a Terraform named: %q, %v; want %q", got, err, tofu)
	}
}

func wantFound(t *testing.T, path string, isTofu bool) {
	t.Helper()
	gotPath, gotTofu, err := cli.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if gotPath != path || gotTofu != isTofu {
		t.Errorf("Find: %q, OpenTofu %t; want %q, %t", gotPath, gotTofu, path, isTofu)
	}
}

func TestFindRefusesAnotherProgram(t *testing.T) {
	onlyOnPath(t)
	folder := t.TempDir()
	for name, path := range map[string]string{
		"other program":   program(t, folder, "other", "Vagrant 2.4.0", "0"),
		"failing program": program(t, folder, "failing", "no such command", "2"),
		"no program":      filepath.Join(folder, "missing"),
	} {
		t.Setenv("TF_ACC_TERRAFORM_PATH", path)
		got, _, err := cli.Find(t.Context())
		if err == nil {
			t.Errorf("%s: found %q", name, got)
			continue
		}
		if !strings.Contains(err.Error(), "TF_ACC_TERRAFORM_PATH") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: the error names neither the variable nor the program: %v", name, err)
		}
	}
}

func TestIsTofuReadsPastWarnings(t *testing.T) {
	onlyOnPath(t)
	path := program(t, t.TempDir(), "tofu", "\nWarning: Unable to open CLI configuration file\n\nOpenTofu v1.12.6", "0")
	isTofu, err := cli.IsTofu(t.Context(), path)
	if err != nil || !isTofu {
		t.Errorf("IsTofu: %t, %v; want true", isTofu, err)
	}
}

func TestEnviron(t *testing.T) {
	t.Parallel()
	exists := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(exists, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	missing := exists + ".missing"

	got := cli.Environ([]string{"A=1", "TF_CLI_CONFIG_FILE=" + missing}, "/bin/tofu", true)
	want := []string{"A=1", "TF_ACC_TERRAFORM_PATH=/bin/tofu", "TF_ACC_PROVIDER_HOST=registry.opentofu.org"}
	if !slices.Equal(got, want) {
		t.Errorf("missing configuration, OpenTofu: %q, want %q", got, want)
	}

	got = cli.Environ([]string{"TF_CLI_CONFIG_FILE=" + exists}, "/bin/terraform", false)
	want = []string{"TF_CLI_CONFIG_FILE=" + exists, "TF_ACC_TERRAFORM_PATH=/bin/terraform"}
	if !slices.Equal(got, want) {
		t.Errorf("existing configuration, Terraform: %q, want %q", got, want)
	}
}

func TestDropMissingConfig(t *testing.T) {
	exists := filepath.Join(t.TempDir(), "rc")
	if err := os.WriteFile(exists, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, kept := range map[string]bool{exists: true, exists + ".missing": false} {
		t.Setenv("TF_CLI_CONFIG_FILE", file)
		if err := cli.DropMissingConfig(); err != nil {
			t.Fatal(err)
		}
		if _, set := os.LookupEnv("TF_CLI_CONFIG_FILE"); set != kept {
			t.Errorf("TF_CLI_CONFIG_FILE=%s: still set: %t, want %t", file, set, kept)
		}
	}
}
