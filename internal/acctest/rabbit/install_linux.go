package rabbit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// install is an installed rabbitmq-server: that of the machine, or one in a
// directory with a whole system, which is entered with chroot.
type install struct {
	// Root is the directory of the system, "" for the machine's own.
	Root string `json:"root"`
	// Bin is the directory of the scripts, seen from inside.
	Bin string `json:"bin"`
	// Version is that of the server, such as "4.0.5".
	Version string `json:"version"`
}

// mountPoint is where a node's directory appears inside a tree.
const mountPoint = "/srv/rabbitmq"

// findInstall looks below root for the layout that Debian's packages and those
// of the RabbitMQ team share.
func findInstall(root string) (install, error) {
	const prefix = "/usr/lib/rabbitmq/lib/rabbitmq_server-"
	found, err := filepath.Glob(root + prefix + "*/sbin")
	if err != nil {
		return install{}, err
	}
	if len(found) == 0 {
		return install{}, errors.New("not installed")
	}
	bin := strings.TrimPrefix(found[len(found)-1], root)
	version := strings.TrimPrefix(filepath.Dir(bin), prefix)
	return install{Root: root, Bin: bin, Version: version}, nil
}

func (i install) String() string {
	if i.Root == "" {
		return "the installed rabbitmq-server " + i.Version
	}
	return fmt.Sprintf("the Debian %s tree with rabbitmq-server %s", filepath.Base(i.Root), i.Version)
}

// matches returns an error unless the installation has the wanted version.
func (i install) matches(version string) error {
	if version != "" && minor(i.Version) != version {
		return fmt.Errorf("it is %s", i.Version)
	}
	return nil
}

// program is the path of one of RabbitMQ's scripts, seen from inside.
func (i install) program(name string) string { return i.Bin + "/" + name }

// inside is the path of a node's directory as its processes see it.
func (i install) inside(dir string) string {
	if i.Root == "" {
		return dir
	}
	return mountPoint
}

// searchPath is the PATH of the node's processes.
func (i install) searchPath() string {
	const system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	if own := os.Getenv("PATH"); own != "" && i.Root == "" {
		return own + ":" + system
	}
	return system
}

// enterTree runs a program in a tree. It works in a mount namespace of its
// own, so that nothing needs to be unmounted.
const enterTree = `set -e
tree=$1 dir=$2
shift 2
mount --rbind /dev "$tree/dev"
mount -t proc proc "$tree/proc"
mount --bind "$dir" "$tree` + mountPoint + `"
exec chroot "$tree" "$@"`

// command makes a command that runs a program of this installation for a node
// with its files in dir. Killing it by ctx is only right for short programs.
func (i install) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	if i.Root == "" {
		cmd := exec.CommandContext(ctx, program, args...)
		cmd.Dir = dir
		cmd.SysProcAttr = &syscall.SysProcAttr{}
		return cmd
	}
	args = append([]string{"-c", enterTree, "enter-tree", i.Root, dir, program}, args...)
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	return cmd
}

// installedOrigin returns the machine's own rabbitmq-server.
func installedOrigin(_ context.Context, version string, _ io.Writer) (origin, error) {
	i, err := findInstall("")
	if err != nil {
		return nil, err
	}
	if err := i.matches(version); err != nil {
		return nil, err
	}
	if _, err := exec.LookPath("epmd"); err != nil {
		return nil, fmt.Errorf("rabbitmq-server %s is installed without Erlang's epmd: %w", i.Version, err)
	}
	return i, nil
}

// packageOrigin installs Debian's own package, if this release holds the version.
func packageOrigin(ctx context.Context, version string, log io.Writer) (origin, error) {
	if err := needRootOnDebian(); err != nil {
		return nil, err
	}
	if version != "" {
		codename, err := osRelease("VERSION_CODENAME")
		if err != nil {
			return nil, err
		}
		if codename != suites[version] {
			return nil, fmt.Errorf("this release of Debian, %s, holds another version", codename)
		}
	}
	if err := aptInstall(ctx, log, "rabbitmq-server"); err != nil {
		return nil, err
	}
	return installedOrigin(ctx, version, log)
}
