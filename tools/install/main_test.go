package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestVersionOf(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ description, commits, want string }{
		{"v0.1.0-0-g0f9ad21", "200", "0.1.0"},
		{"v0.1.0-5-g0f9ad21", "205", "0.1.5"},
		{"v1.2.3-4-g0f9ad21", "400", "1.2.7"},
		{"v0.2.0-rc.1-0-g0f9ad21", "300", "0.2.0"},
		{"v0.2.0-rc.1-3-g0f9ad21", "303", "0.2.3"},
		{"", "107", "0.0.107"},
		{"", "", "0.0.0"},
		{"vendor-1-g0f9ad21", "12", "0.0.12"},
	} {
		if got := versionOf(test.description, test.commits); got != test.want {
			t.Errorf("versionOf(%q, %q) is %q, want %q", test.description, test.commits, got, test.want)
		}
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	binary, plugins := filepath.Join(dir, "built"), filepath.Join(dir, "plugins")
	for _, text := range []string{"first", "second"} {
		if err := os.WriteFile(binary, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		folders, err := install(binary, plugins, "0.0.7")
		if err != nil {
			t.Fatal(err)
		}
		if len(folders) != 2 {
			t.Fatalf("folders %q", folders)
		}
		for i, host := range []string{"registry.terraform.io", "registry.opentofu.org"} {
			want := filepath.Join(plugins, host, "retrychain", "rabbitmq", "0.0.7", runtime.GOOS+"_"+runtime.GOARCH)
			if folders[i] != want {
				t.Errorf("folder %s, want %s", folders[i], want)
			}
			checkProgram(t, folders[i], text)
		}
	}
	if err := removeAll(plugins); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(plugins, "*", "retrychain", "*")); len(left) > 0 {
		t.Errorf("left after the removal: %q", left)
	}
}

// checkProgram expects one executable file in a folder.
func checkProgram(t *testing.T, folder, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %q, %v", files, err)
	}
	if name := filepath.Base(files[0]); !strings.HasPrefix(name, "terraform-provider-rabbitmq_v0.0.7") {
		t.Errorf("file name %s", name)
	}
	got, err := os.ReadFile(files[0])
	if err != nil || string(got) != text {
		t.Errorf("%q, %v, want %q", got, err, text)
	}
	if info, err := os.Stat(files[0]); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o755 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestInstallationBlock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for text, want := range map[string]bool{
		"provider_installation {\n  direct {}\n}\n":            true,
		"# a comment\n  provider_installation {}\n":            true,
		"plugin_cache_dir = \"/tmp\"\n":                        false,
		"# provider_installation { is described elsewhere }\n": false,
	} {
		file := filepath.Join(dir, "rc")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := hasInstallationBlock(file); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
	if hasInstallationBlock(filepath.Join(dir, "missing")) {
		t.Error("a file that does not exist has a block")
	}
	var advice strings.Builder
	adviseMirror(&advice, "rc", "/home/a/.terraform.d/plugins")
	for _, part := range []string{
		"rc has", `path    = "/home/a/.terraform.d/plugins"`,
		`include = ["registry.terraform.io/retrychain/rabbitmq", "registry.opentofu.org/retrychain/rabbitmq"]`,
	} {
		if !strings.Contains(advice.String(), part) {
			t.Errorf("the advice does not hold %q:\n%s", part, advice.String())
		}
	}
}

func TestConfigFiles(t *testing.T) {
	t.Setenv("TF_CLI_CONFIG_FILE", "")
	t.Setenv("XDG_CONFIG_HOME", "/xdg")
	if files := configFiles(); len(files) != 3 {
		t.Errorf("files %q", files)
	}
	t.Setenv("TF_CLI_CONFIG_FILE", "/own")
	if files := configFiles(); len(files) != 1 || files[0] != "/own" {
		t.Errorf("files %q", files)
	}
}
