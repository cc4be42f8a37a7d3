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
	"syscall"
	"time"
)

// suites are the Debian releases that hold a version.
var suites = map[string]string{
	"3.10": "bookworm",
	"4.0":  "trixie",
	"4.3":  "sid",
}

// treeOrigin returns a directory with the Debian release that holds the
// version, made if it is not in the cache.
func treeOrigin(ctx context.Context, version string, log io.Writer) (origin, error) {
	if err := needRootOnDebian(); err != nil {
		return nil, err
	}
	if err := canEnterTrees(); err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	trees := filepath.Join(cache, "trees")
	if version == "" {
		version = anyTree(trees)
	}
	suite, ok := suites[version]
	if !ok {
		return nil, fmt.Errorf("no Debian release is known to hold RabbitMQ %s", version)
	}
	var i install
	err = withLock(ctx, filepath.Join(trees, suite+".lock"), func() error {
		path := filepath.Join(trees, suite)
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			if err := makeTree(ctx, path, suite, log); err != nil {
				return err
			}
		}
		i, err = findInstall(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", suite, err)
	}
	if err := i.matches(version); err != nil {
		return nil, fmt.Errorf("%s holds another version now: %w (remove %s to have it made anew)", suite, err, i.Root)
	}
	return i, nil
}

// anyTree returns the version of a tree that exists, or else the version to
// make one for.
func anyTree(trees string) string {
	for _, v := range versions {
		if _, err := os.Stat(filepath.Join(trees, suites[v])); err == nil {
			return v
		}
	}
	return "4.0"
}

// canEnterTrees checks that this process may mount, which root in a container
// often may not.
func canEnterTrees() error {
	cmd := exec.Command("/bin/sh", "-c", "mount -t tmpfs tmpfs /mnt")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("root may not mount here: %w", err)
	}
	return nil
}

// makeTree puts a Debian release with rabbitmq-server into path, which appears
// only when it is complete.
func makeTree(ctx context.Context, path, suite string, log io.Writer) error {
	mirror, err := debianMirror(ctx)
	if err != nil {
		return err
	}
	if _, err := exec.LookPath("debootstrap"); err != nil {
		if err := aptInstall(ctx, log, "debootstrap"); err != nil {
			return err
		}
	}
	unfinished := path + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return err
	}
	fmt.Fprintf(log, "making a tree of Debian %s with rabbitmq-server in %s (about a minute, 250 MB)\n", suite, path)
	if err := debootstrap(ctx, unfinished, suite, mirror); err != nil {
		return errors.Join(err, os.RemoveAll(unfinished))
	}
	if err := finishTree(unfinished); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

// debootstrap runs the program of that name. It mounts /proc for a while; in
// its own mount namespace that can not be left behind.
func debootstrap(ctx context.Context, dir, suite, mirror string) error {
	args := []string{"--variant=minbase", "--include=rabbitmq-server,ca-certificates", suite, dir, mirror}
	const scripts = "/usr/share/debootstrap/scripts/"
	if _, err := os.Stat(scripts + suite); err != nil {
		args = append(args, scripts+"sid") // newer than this debootstrap
	}
	cmd := exec.CommandContext(ctx, "debootstrap", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	said, err := Output(cmd, "debootstrap", args...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(said, 10))
	}
	return nil
}

// finishTree adds what a node needs in a tree and removes the packages, which
// are installed by now.
func finishTree(dir string) error {
	// Debian's own file is missing in newer releases.
	const hosts = "127.0.0.1 localhost\n::1 localhost\n"
	if err := os.WriteFile(filepath.Join(dir, "etc/hosts"), []byte(hosts), 0o644); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, mountPoint), 0o755); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(dir, "var/cache/apt/archives/*.deb"))
	if err != nil {
		return err
	}
	lists, err := filepath.Glob(filepath.Join(dir, "var/lib/apt/lists/*Packages"))
	if err != nil {
		return err
	}
	for _, path := range slices.Concat(packages, lists) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

// withLock calls f while it holds a lock on a file, which is made if needed
// and left. Other processes wait; ctx ends the wait.
func withLock(ctx context.Context, path string, f func() error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer file.Close() // gives the lock up
	for syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(200 * time.Millisecond):
		}
	}
	return f()
}
