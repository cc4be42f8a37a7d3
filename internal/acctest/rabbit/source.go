package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// dockerSource is the name of the source that runs containers.
const dockerSource = "Docker"

var (
	fromDocker    = source{dockerSource, dockerOrigin}
	fromInstalled = source{"installed rabbitmq-server", installedOrigin}
	fromPackage   = source{"Debian package rabbitmq-server", packageOrigin}
	fromTree      = source{"Debian tree", treeOrigin}
)

// sources returns the ways to get a version in the order they are tried. For
// any version that is the quickest first; for a certain one, what leaves this machine
// as it is before what installs a package.
func sources(version string) []source {
	if version == "" {
		return []source{fromDocker, fromInstalled, fromPackage, fromTree}
	}
	return []source{fromInstalled, fromTree, fromDocker, fromPackage}
}

// candidate is a source that is asked for a version.
type candidate struct {
	source
	version string
}

// newestFirst returns what is tried for the newest version: Docker, which has all of
// them, then each version by whatever leaves the machine as it is.
func newestFirst() []candidate {
	list := []candidate{{fromDocker, ""}}
	for _, version := range slices.Backward(versions) {
		list = append(list, candidate{fromInstalled, version}, candidate{fromTree, version})
	}
	return list
}

// chooseNewest returns the newest origin among the candidates, or else any.
func chooseNewest(ctx context.Context, candidates []candidate, log io.Writer) (origin, error) {
	for _, c := range candidates {
		o, err := c.get(ctx, c.version, log)
		if err == nil {
			return o, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("get RabbitMQ: %w", context.Cause(ctx))
		}
		if c.name == fromTree.name {
			fmt.Fprintf(log, "RabbitMQ %s is not available from a %s: %v\n", c.version, c.name, err)
		}
	}
	return choose(ctx, "", log)
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
	return nil, fmt.Errorf("%s is not to be had on this machine. Tried:%s\nInstall Docker and see that \"docker info\" works, or run "+
		"as root on Debian, or set %s to the management URLs of brokers that run, such as http://guest:guest@localhost:15672",
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

// Output runs a command and returns its standard output, or an error with
// what it wrote to standard error.
func Output(cmd *exec.Cmd, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(stderr.String(), 20))
	}
	return stdout.String(), nil
}
