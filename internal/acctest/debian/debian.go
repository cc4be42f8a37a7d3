// Package debian gives tests programs that Debian packages, without installing
// them: the packages are unpacked into the cache.
package debian

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// Program is a program and where Debian has it.
type Program struct {
	// Names are looked for on the PATH, in this order.
	Names []string
	// Package and Path say which file of which package to take otherwise.
	Package, Path string
	// Libraries are patterns of folders in which it finds shared libraries, relative
	// to the root of what was unpacked.
	Libraries []string
}

// Found is a program that can be run.
type Found struct {
	Path string
	env  []string
}

// Command prepares a run.
func (f Found) Command(ctx context.Context, args ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, f.Path, args...)
	command.Env = append(os.Environ(), f.env...)
	return command
}

// Find returns the program of this machine, or else unpacks its package, which
// takes root on Debian. The error says why the program is not to be had.
func Find(ctx context.Context, p Program) (Found, error) {
	for _, name := range p.Names {
		if path, err := exec.LookPath(name); err == nil {
			return Found{Path: path}, nil
		}
	}
	root, err := unpacked(ctx, p.Package)
	if err != nil {
		return Found{}, fmt.Errorf("%s is not installed, and the Debian package %s is not to be had: %w", p.Names[0], p.Package, err)
	}
	var libraries []string
	for _, pattern := range p.Libraries {
		folders, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return Found{}, err
		}
		libraries = append(libraries, folders...)
	}
	found := Found{Path: filepath.Join(root, p.Path)}
	if len(libraries) > 0 {
		found.env = append(found.env, "LD_LIBRARY_PATH="+strings.Join(libraries, ":"))
	}
	if exists(filepath.Join(root, fontsFile)) {
		found.env = append(found.env, "FONTCONFIG_FILE="+filepath.Join(root, fontsFile))
	}
	_, err = os.Stat(found.Path)
	return found, err
}

// unpacked returns the folder with a package and with what it needs and this
// machine lacks. It appears only when it is complete.
func unpacked(ctx context.Context, name string) (string, error) {
	cache, err := rabbit.CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "packages", name)
	if exists(root) {
		return root, nil
	}
	if os.Geteuid() != 0 {
		return "", errors.New("needs root")
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return "", err
	}
	return root, rabbit.WithAPT(ctx, func() error {
		if exists(root) { // another process was faster
			return nil
		}
		if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil {
			return err
		}
		unfinished, err := os.MkdirTemp(filepath.Dir(root), name+".unfinished-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(unfinished)
		if err := unpack(ctx, name, unfinished); err != nil {
			return err
		}
		if err := nameFonts(filepath.Join(unfinished, "root"), root); err != nil {
			return err
		}
		return os.Rename(filepath.Join(unfinished, "root"), root)
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unpack downloads a package into dir, with new package lists if the ones at
// hand do not do, and unpacks it below dir/root.
func unpack(ctx context.Context, name, dir string) error {
	archives := filepath.Join(dir, "archives")
	if err := os.MkdirAll(filepath.Join(archives, "partial"), 0o755); err != nil {
		return err
	}
	download := []string{
		"--quiet", "--yes", "--download-only", "--no-install-recommends", "--option=Debug::NoLocking=1",
		"--option=APT::Sandbox::User=root", "--option=Dir::Cache::archives=" + archives, "install", name,
	}
	if run(ctx, "apt-get", download...) != nil {
		if err := run(ctx, "apt-get", "--quiet", "--option=DPkg::Lock::Timeout=300", "update"); err != nil {
			return err
		}
		if err := run(ctx, "apt-get", download...); err != nil {
			return err
		}
	}
	packages, err := filepath.Glob(filepath.Join(archives, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := run(ctx, "dpkg-deb", "--extract", file, filepath.Join(dir, "root")); err != nil {
			return err
		}
	}
	return nil
}

// fontsFile is for fontconfig, which looks for fonts where they are installed.
const fontsFile = "fonts.conf"

// nameFonts says where the fonts of a package are that was unpacked to dir and will be
// in root. If there are none, this machine has them. Without fonts a browser shows no
// text.
func nameFonts(dir, root string) error {
	if !exists(filepath.Join(dir, "usr/share/fonts")) {
		return nil
	}
	var text bytes.Buffer
	text.WriteString("<?xml version=\"1.0\"?>\n<!DOCTYPE fontconfig SYSTEM \"fonts.dtd\">\n<fontconfig>\n")
	for element, path := range map[string]string{"dir": "usr/share/fonts", "cachedir": "var/cache/fontconfig"} {
		fmt.Fprintf(&text, "<%s>", element)
		if err := xml.EscapeText(&text, []byte(filepath.Join(root, path))); err != nil {
			return err
		}
		fmt.Fprintf(&text, "</%s>\n", element)
	}
	text.WriteString("</fontconfig>\n")
	return os.WriteFile(filepath.Join(dir, fontsFile), text.Bytes(), 0o600)
}

func run(ctx context.Context, name string, args ...string) error {
	_, err := rabbit.Output(exec.CommandContext(ctx, name, args...), name, args...)
	return err
}
