package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
)

func report(w io.Writer, version string, folders []string) {
	fmt.Fprintf(w, "Installed version %s to:\n", version)
	for _, folder := range folders {
		fmt.Fprintf(w, "  %s\n", folder)
	}
	fmt.Fprintln(w, "\"terraform init\" and \"tofu init\" find it there. If a working directory has a .terraform.lock.hcl\n"+
		"with an older build, run them with -upgrade; with another build of this version, delete that file first.")
}

// installationBlock begins the block that replaces the default search for providers.
var installationBlock = regexp.MustCompile(`(?m)^\s*provider_installation\b`)

func hasInstallationBlock(file string) bool {
	text, err := os.ReadFile(file)
	return err == nil && installationBlock.Match(text)
}

func adviseMirror(w io.Writer, file, plugins string) {
	fmt.Fprintf(w, "\n%s has a provider_installation block, so the folder is not searched by default. Add to that block:\n"+
		"  filesystem_mirror {\n    path    = %q\n    include = [", file, plugins)
	for i, host := range hosts {
		if i > 0 {
			fmt.Fprint(w, ", ")
		}
		fmt.Fprintf(w, "%q", host+"/retrychain/rabbitmq")
	}
	fmt.Fprint(w, "]\n  }\n")
}

// configFiles returns where the CLI configuration files of Terraform and OpenTofu can be.
func configFiles() []string {
	if file := os.Getenv("TF_CLI_CONFIG_FILE"); file != "" {
		return []string{file}
	}
	var files []string
	if appData := os.Getenv("APPDATA"); runtime.GOOS == "windows" && appData != "" {
		files = append(files, filepath.Join(appData, "terraform.rc"), filepath.Join(appData, "tofu.rc"))
	} else if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".terraformrc"), filepath.Join(home, ".tofurc"))
	}
	if xdg := os.Getenv("XDG_CONFIG_HOME"); xdg != "" {
		files = append(files, filepath.Join(xdg, "opentofu", "tofurc"))
	}
	return files
}
