// Command install puts a provider that was built from this repository where
// "terraform init" and "tofu init" find it without a registry: into the plugin folder
// of the user, which both search before they ask a registry.
//
//	go run ./tools/install bin/terraform-provider-rabbitmq
//	go run ./tools/install -remove
//
// A build of a tagged commit gets the version of the tag. Any other build gets a version
// that counts commits, 0.0.N before the first tag. It is never a pre-release: an init
// without an exact version constraint ignores those.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
)

func main() {
	remove := flag.Bool("remove", false, "remove all versions instead")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *remove, flag.Args())
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, remove bool, args []string) error {
	plugins, err := pluginFolder()
	if err != nil {
		return err
	}
	switch {
	case remove && len(args) == 0:
		return removeAll(plugins)
	case remove || len(args) != 1:
		return errors.New("usage: install BINARY, or install -remove")
	}
	version := currentVersion(ctx)
	folders, err := install(args[0], plugins, version)
	if err != nil {
		return err
	}
	report(os.Stdout, version, folders)
	for _, file := range configFiles() {
		if hasInstallationBlock(file) {
			adviseMirror(os.Stdout, file, plugins)
		}
	}
	return nil
}

// hosts are the registries that the source "retrychain/rabbitmq" means to Terraform and
// to OpenTofu.
var hosts = []string{"registry.terraform.io", "registry.opentofu.org"}

// providerFolder holds the versions of the provider, below the folder of a registry.
var providerFolder = filepath.Join("retrychain", "rabbitmq")

// pluginFolder is the folder that both programs search by default
// ("implied local mirror directories" in Terraform's documentation).
func pluginFolder() (string, error) {
	if appData := os.Getenv("APPDATA"); runtime.GOOS == "windows" && appData != "" {
		return filepath.Join(appData, "terraform.d", "plugins"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(home, ".terraform.d", "plugins"), nil
}

// install puts the binary into the plugin folder, once for each registry, and returns
// the folders.
func install(binary, plugins, version string) ([]string, error) {
	name := "terraform-provider-rabbitmq_v" + version
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	var folders []string
	for _, host := range hosts {
		folder := filepath.Join(plugins, host, providerFolder, version, runtime.GOOS+"_"+runtime.GOARCH)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return nil, err
		}
		if err := place(binary, filepath.Join(folder, name)); err != nil {
			return nil, err
		}
		folders = append(folders, folder)
	}
	return folders, nil
}

// place copies a program. It replaces an older file instead of writing into it: a
// program that runs cannot be written to.
func place(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	unfinished, err := os.CreateTemp(filepath.Dir(to), "unfinished-")
	if err != nil {
		return err
	}
	defer os.Remove(unfinished.Name())
	_, err = io.Copy(unfinished, source)
	if err := errors.Join(err, unfinished.Chmod(0o755), unfinished.Close()); err != nil {
		return err
	}
	return os.Rename(unfinished.Name(), to)
}

func removeAll(plugins string) error {
	for _, host := range hosts {
		folder := filepath.Join(plugins, host, providerFolder)
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
		fmt.Println("removed", folder)
	}
	return nil
}
