package rabbit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// aptSource is a place apt takes the packages of a release from.
type aptSource struct{ release, uri string }

// debianMirror returns the URL of the Debian archive this machine uses.
func debianMirror(ctx context.Context) (string, error) {
	args := []string{"indextargets", "--format", "$(RELEASE) $(REPO_URI)", "Created-By: Packages"}
	listed, err := Output(exec.CommandContext(ctx, "apt-get", args...), "apt-get", args...)
	if err != nil {
		return "", err
	}
	codename, err := osRelease("VERSION_CODENAME")
	if err != nil {
		return "", err
	}
	return pickMirror(readSources(listed), codename, readMirrorList)
}

// readSources reads lines of a release and a URL.
func readSources(text string) []aptSource {
	var sources []aptSource
	for line := range strings.Lines(text) {
		if release, uri, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			sources = append(sources, aptSource{release, uri})
		}
	}
	return sources
}

// pickMirror returns the first usable URL of a Debian archive among the sources.
// readList returns the URLs in a mirror list, which apt can be pointed to.
func pickMirror(sources []aptSource, codename string, readList func(path string) []string) (string, error) {
	releases := []string{codename, "oldstable", "stable", "testing", "unstable", "sid"}
	var candidates []string
	for _, s := range sources {
		if !slices.Contains(releases, s.release) {
			continue
		}
		if path, ok := strings.CutPrefix(s.uri, "mirror+file:"); ok {
			candidates = append(candidates, readList("/"+strings.TrimLeft(path, "/"))...)
		} else {
			candidates = append(candidates, s.uri)
		}
	}
	for _, c := range candidates {
		if strings.HasPrefix(c, "http://") || strings.HasPrefix(c, "https://") {
			return strings.TrimRight(c, "/"), nil
		}
	}
	return "", errors.New("the apt sources of this machine name no Debian archive by http")
}

// readMirrorList returns the URLs in a file with one a line.
func readMirrorList(path string) []string {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	var urls []string
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			urls = append(urls, fields[0])
		}
	}
	return urls
}

// osRelease returns a field of /etc/os-release, "" if it is not there.
func osRelease(field string) (string, error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+"="); ok {
			return strings.Trim(value, `"'`), nil
		}
	}
	return "", nil
}

// needRootOnDebian says what is missing for installing packages.
func needRootOnDebian() error {
	id, err := osRelease("ID")
	if err != nil || id != "debian" {
		return errors.New("this machine is not Debian")
	}
	if os.Geteuid() != 0 {
		return errors.New("needs root")
	}
	return nil
}

// aptInstall installs a Debian package, with new package lists if the ones at
// hand do not do. Services that come with the package are not started.
func aptInstall(ctx context.Context, log io.Writer, name string) error {
	return WithAPT(ctx, func() error {
		allow, err := denyServices()
		if err != nil {
			return err
		}
		defer allow()
		fmt.Fprintf(log, "installing the Debian package %s\n", name)
		if apt(ctx, "install", "--yes", "--no-install-recommends", name) == nil {
			return nil
		}
		if err := apt(ctx, "update"); err != nil {
			return err
		}
		return apt(ctx, "install", "--yes", "--no-install-recommends", name)
	})
}

// WithAPT calls f while no other process that calls it uses apt, which does not wait
// for all of its locks. ctx ends the wait.
func WithAPT(ctx context.Context, f func() error) error {
	cache, err := CacheDir()
	if err != nil {
		return err
	}
	return withLock(ctx, filepath.Join(cache, "apt.lock"), f)
}

func apt(ctx context.Context, args ...string) error {
	args = append([]string{"--quiet", "--option=DPkg::Lock::Timeout=300"}, args...)
	cmd := exec.CommandContext(ctx, "apt-get", args...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	_, err := Output(cmd, "apt-get", args...)
	return err
}

// denyServices makes Debian's packages not start their services while they
// are installed, unless the machine has a rule of its own for that. The
// returned function undoes it.
func denyServices() (allow func(), err error) {
	const path = "/usr/sbin/policy-rc.d"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if errors.Is(err, os.ErrExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	_, err = f.WriteString("#!/bin/sh\nexit 101\n")
	return func() { os.Remove(path) }, errors.Join(err, f.Close())
}
