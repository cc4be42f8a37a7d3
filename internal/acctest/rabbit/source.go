package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// origin is something brokers can be started from.
type origin interface {
	fmt.Stringer
	// start starts a broker and does not wait until it answers.
	start(ctx context.Context, o Options) (*Broker, error)
}

// source is a way to get an origin.
type source struct {
	name string
	// get returns an origin of the version ("" is any) and makes it first
	// if it can. The error says why there is none.
	get func(ctx context.Context, version string, log io.Writer) (origin, error)
}

const dockerSource = "Docker"

// sources returns the ways to get a version in the order they are tried. For
// any version that is the quickest first; for a certain one, what leaves this machine
// as it is before what installs a package.
func sources(version string) []source {
	docker := source{dockerSource, dockerOrigin}
	installed := source{"installed rabbitmq-server", installedOrigin}
	debianPackage := source{"Debian package rabbitmq-server", packageOrigin}
	tree := source{"Debian tree", treeOrigin}
	if version == "" {
		return []source{docker, installed, debianPackage, tree}
	}
	return []source{installed, tree, docker, debianPackage}
}

// choose returns the first origin that can be had.
func choose(ctx context.Context, version string, log io.Writer) (origin, error) {
	if log == nil {
		log = io.Discard
	}
	return chooseFrom(ctx, sources(version), version, log)
}

func chooseFrom(ctx context.Context, from []source, version string, log io.Writer) (origin, error) {
	var tried strings.Builder
	for _, s := range from {
		o, err := s.get(ctx, version, log)
		if err == nil {
			return o, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("get RabbitMQ: %w", context.Cause(ctx))
		}
		fmt.Fprintf(&tried, "\n  - %s: %v", s.name, err)
	}
	what := "RabbitMQ"
	if version != "" {
		what += " " + version
	}
	return nil, fmt.Errorf("%s is not to be had on this machine. Tried:%s\n"+
		"Install Docker and see that \"docker info\" works, or run as root on Debian, "+
		"or set %s to the management URLs of brokers that run, such as http://guest:guest@localhost:15672",
		what, tried.String(), EnvEndpoints)
}

// CacheDir is the directory for what is made once and used often. It is
// RETRYCHAIN_CACHE, or a directory in the user's cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("RETRYCHAIN_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("no place for the cache (set RETRYCHAIN_CACHE): %w", err)
		}
		base = filepath.Join(home, ".cache")
	}
	return filepath.Join(base, "terraform-provider-rabbitmq"), nil
}

// tail returns the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, "\n")
}

// output runs a command and returns its standard output, or an error with
// what it wrote to standard error.
func output(cmd *exec.Cmd, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(stderr.String(), 20))
	}
	return stdout.String(), nil
}
