package rabbit

import (
	"bufio"
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

// aptEntry is a place apt takes packages from.
type aptEntry struct {
	uris   []string
	suites []string
}

// debianMirror returns the URL of the Debian archive this machine uses.
func debianMirror() (string, error) {
	lists, err := filepath.Glob("/etc/apt/sources.list.d/*")
	if err != nil {
		return "", err
	}
	var entries []aptEntry
	for _, path := range append([]string{"/etc/apt/sources.list"}, lists...) {
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return "", err
		case strings.HasSuffix(path, ".list"):
			entries = append(entries, parseAptList(string(text))...)
		case strings.HasSuffix(path, ".sources"):
			entries = append(entries, parseAptSources(string(text))...)
		}
	}
	codename, err := osRelease("VERSION_CODENAME")
	if err != nil {
		return "", err
	}
	return pickMirror(entries, codename, readMirrorList)
}

// pickMirror returns the first usable URL of a Debian archive among entries.
// readList returns the URLs in a mirror list, which apt can be pointed to.
func pickMirror(entries []aptEntry, codename string, readList func(path string) []string) (string, error) {
	releases := []string{codename, "oldstable", "stable", "testing", "unstable", "sid"}
	isRelease := func(suite string) bool { return slices.Contains(releases, suite) }
	var candidates []string
	for _, e := range entries {
		if !slices.ContainsFunc(e.suites, isRelease) {
			continue
		}
		for _, uri := range e.uris {
			if path, ok := strings.CutPrefix(uri, "mirror+file:"); ok {
				candidates = append(candidates, readList("/"+strings.TrimLeft(path, "/"))...)
			} else {
				candidates = append(candidates, uri)
			}
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

// parseAptList reads the one-line format:
//
//	deb [ option=value ... ] uri suite [component ...]
func parseAptList(text string) []aptEntry {
	var entries []aptEntry
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || rest == "" || !strings.ContainsAny(rest[:1], " \t[") {
			continue
		}
		rest = strings.TrimSpace(rest)
		if strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		if fields := strings.Fields(rest); len(fields) >= 2 {
			entries = append(entries, aptEntry{uris: fields[:1], suites: fields[1:2]})
		}
	}
	return entries
}

// parseAptSources reads the deb822 format: stanzas of "Field: value", with
// continuation lines that begin with white space.
func parseAptSources(text string) []aptEntry {
	var entries []aptEntry
	for stanza := range splitStanzas(text) {
		if slices.Contains(strings.Fields(stanza["types"]), "deb") && !isNo(stanza["enabled"]) {
			entries = append(entries, aptEntry{
				uris:   strings.Fields(stanza["uris"]),
				suites: strings.Fields(stanza["suites"]),
			})
		}
	}
	return entries
}

// splitStanzas yields the fields of each stanza by their names in lower case.
func splitStanzas(text string) func(yield func(map[string]string) bool) {
	return func(yield func(map[string]string) bool) {
		fields, last := map[string]string{}, ""
		scanner := bufio.NewScanner(strings.NewReader(text))
		for scanner.Scan() {
			line := scanner.Text()
			switch {
			case strings.HasPrefix(line, "#"):
			case strings.TrimSpace(line) == "":
				if !yield(fields) {
					return
				}
				fields, last = map[string]string{}, ""
			case strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t"):
				fields[last] += " " + line
			default:
				name, value, _ := strings.Cut(line, ":")
				last = strings.ToLower(strings.TrimSpace(name))
				fields[last] = value
			}
		}
		yield(fields)
	}
}

// isNo reads a deb822 truth value.
func isNo(value string) bool {
	no := []string{"no", "false", "without", "off", "disable"}
	return slices.Contains(no, strings.ToLower(strings.TrimSpace(value)))
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
	_, err := output(cmd, "apt-get", args...)
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
