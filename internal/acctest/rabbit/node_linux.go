package rabbit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	// stopLimit is how long a node may take to end by itself.
	stopLimit = 15 * time.Second
	// markVariable is set in every process of a node to the node's name. The
	// processes are found by it, so a reused process id is never taken for one.
	markVariable = "RETRYCHAIN_TEST_NODE"
)

// node is a RabbitMQ node of our own: a server process and its epmd, each in
// a process group of its own.
type node struct {
	Install install `json:"install"`
	// Dir holds all the node's files. It is removed at the end if Temporary.
	Dir       string `json:"dir"`
	Temporary bool   `json:"temporary"`
	// Name is the Erlang node name, unique on this machine.
	Name string `json:"name"`
	// EpmdPort and DistPort are for Erlang's own traffic.
	EpmdPort int `json:"epmd_port"`
	DistPort int `json:"dist_port"`
	// Epmd and Server are process groups, 0 if not started.
	Epmd   int `json:"epmd"`
	Server int `json:"server"`

	leash *leash
}

// start starts a private node of this installation.
func (i install) start(_ context.Context, o Options) (*Broker, error) {
	base, err := portBlock()
	if err != nil {
		return nil, err
	}
	p := ports{amqp: base + 2, management: base + 3, tls: base + 4, metrics: base + 5}
	n := &node{
		Install:  i,
		Name:     nodeName(),
		EpmdPort: base,
		DistPort: base + 1,
	}
	if o.member != nil {
		n.Name, n.EpmdPort = o.member.name(), o.member.epmdPort
	}
	b := o.broker(p)
	b.run = n
	if err := n.launch(o, p); err != nil {
		return nil, errors.Join(err, n.stop(context.Background()))
	}
	b.Dir = n.Dir
	return b, nil
}

// launch writes the node's files and starts its processes.
func (n *node) launch(o Options, p ports) error {
	if err := n.makeDir(o.Dir); err != nil {
		return err
	}
	if err := n.writeFiles(o, p); err != nil {
		return err
	}
	if !o.Detached {
		remove := ""
		if n.Temporary {
			remove = n.Dir
		}
		var err error
		if n.leash, err = newLeash(endMarked, n.mark(), remove); err != nil {
			return err
		}
	}
	if err := n.startEpmd(); err != nil {
		return err
	}
	return n.startServer()
}

// Names of files in a node's directory.
const (
	logFile     = "node.log"
	consoleFile = "console.log"
)

// endMarked is the leash of a node: it kills the processes with a mark and
// removes the node's directory.
const endMarked = `for file in $(grep -lazxF -- "$1" /proc/[0-9]*/environ 2>/dev/null); do
	pid=${file#/proc/}
	kill -s KILL "${pid%/environ}"
done
if [ -n "$2" ]; then rm -rf -- "$2"; fi`

func (n *node) makeDir(dir string) error {
	var err error
	if dir == "" {
		n.Temporary = true
		n.Dir, err = os.MkdirTemp("", "rabbit-")
		return err
	}
	if n.Dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	return os.MkdirAll(n.Dir, 0o755)
}

func (n *node) writeFiles(o Options, p ports) error {
	files := map[string]string{
		"rabbitmq.conf":   o.config(p, n.Install.inside(n.Dir), false),
		"advanced.config": o.advancedConfig(),
		"enabled_plugins": o.plugins(),
		"env.conf":        "",
	}
	maps.Copy(files, o.Files)
	for name, text := range files {
		if err := os.WriteFile(n.path(name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	// The cookie of a directory that is used again stays: it may be read-only.
	if _, err := os.Stat(n.path(".erlang.cookie")); err != nil {
		if err := os.WriteFile(n.path(".erlang.cookie"), []byte(o.cookie()), 0o400); err != nil {
			return err
		}
	}
	return o.TLS.copyTo(n.Dir)
}

func (n *node) path(name string) string { return filepath.Join(n.Dir, name) }

// env is the whole environment of the node's processes. It leaves nothing to
// the machine's own RabbitMQ configuration.
func (n *node) env() []string {
	dir := n.Install.inside(n.Dir)
	const local = "-kernel inet_dist_use_interface {127,0,0,1}"
	return []string{
		"PATH=" + n.Install.searchPath(),
		"HOME=" + dir,
		"LC_ALL=C.UTF-8",
		"RABBITMQ_NODENAME=" + n.Name,
		"RABBITMQ_CONF_ENV_FILE=" + dir + "/env.conf",
		"RABBITMQ_CONFIG_FILE=" + dir + "/rabbitmq.conf",
		"RABBITMQ_CONFIG_FILES=" + dir + "/conf.d/*.conf",
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + dir + "/advanced.config",
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + dir + "/enabled_plugins",
		"RABBITMQ_MNESIA_BASE=" + dir + "/data",
		"RABBITMQ_LOG_BASE=" + dir,
		"RABBITMQ_LOGS=" + dir + "/" + logFile,
		"RABBITMQ_DIST_PORT=" + strconv.Itoa(n.DistPort),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + local,
		// Any free port for rabbitmqctl, whose default range is small.
		"RABBITMQ_CTL_DIST_PORT_MIN=0",
		"RABBITMQ_CTL_DIST_PORT_MAX=0",
		"RABBITMQ_CTL_ERL_ARGS=" + local,
		"ERL_EPMD_PORT=" + strconv.Itoa(n.EpmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"ERL_CRASH_DUMP=" + dir + "/erl_crash.dump",
	}
}

// startEpmd starts the node's port mapper, which would else be started by
// Erlang as a daemon that nobody ends. It holds its port from here on. The nodes
// of a cluster share the port mapper of the one that was started first.
func (n *node) startEpmd() error {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(n.EpmdPort))
	if epmdAnswers(address) {
		return nil
	}
	group, err := n.spawn("epmd")
	if err != nil {
		return err
	}
	n.Epmd = group
	for range 100 {
		if epmdAnswers(address) {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("epmd does not answer on %s:\n%s", address, n.logTail())
}

// epmdAnswers asks an epmd for the names it knows.
func epmdAnswers(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return false
	}
	if _, err := conn.Write([]byte{0, 1, 'n'}); err != nil {
		return false
	}
	_, err = io.ReadAll(conn)
	return err == nil
}

// startServer starts RabbitMQ itself. The script is the one that does not
// switch to another user.
func (n *node) startServer() error {
	group, err := n.spawn(n.Install.program("rabbitmq-server"))
	if err != nil {
		return err
	}
	n.Server = group
	return nil
}

// spawn starts a program in its own session and process group, which is
// returned. Its output goes to the console log.
func (n *node) spawn(program string, args ...string) (int, error) {
	console, err := os.OpenFile(n.path(consoleFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer console.Close()
	cmd := n.Install.command(context.Background(), n.Dir, program, args...)
	cmd.Env = append(n.env(), n.mark())
	cmd.Stdout, cmd.Stderr = console, console
	cmd.SysProcAttr.Setsid = true
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go cmd.Wait() // lest it stays as a zombie
	return cmd.Process.Pid, nil
}

func (n *node) pids() []int {
	var groups []int
	for _, group := range []int{n.Server, n.Epmd} {
		if group != 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

func (n *node) mark() string { return markVariable + "=" + n.Name }

// processes are all the node's living processes but epmd.
func (n *node) processes() []int { return marked(n.mark(), n.Epmd) }

// everything is all the node's living processes.
func (n *node) everything() []int { return marked(n.mark()) }

func (n *node) running() bool { return len(n.processes()) > 0 }

func (n *node) restart(ctx context.Context) error {
	if err := n.endServer(ctx); err != nil {
		return err
	}
	if len(n.everything()) == 0 {
		if err := n.startEpmd(); err != nil {
			return err
		}
	}
	return n.startServer()
}

func (n *node) kill() error { return killAll(n.processes) }

// endServer lets the server end in good order, and kills it when ctx is done
// or stopLimit has passed.
func (n *node) endServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopLimit)
	defer cancel()
	endInOrder(ctx, n.Server, n.processes())
	return n.kill()
}

func (n *node) stop(ctx context.Context) error {
	if !n.Temporary { // else nothing is kept that order would be good for
		if err := n.endServer(ctx); err != nil {
			return err
		}
	}
	if err := killAll(n.everything); err != nil {
		return err // the leash still holds what remains
	}
	n.leash.release()
	if n.Temporary {
		return os.RemoveAll(n.Dir)
	}
	return nil
}

func (n *node) ctl(ctx context.Context, args ...string) (string, error) {
	cmd := n.Install.command(ctx, n.Dir, n.Install.program("rabbitmqctl"), args...)
	cmd.Env = n.env() // without the mark: it is no part of the node
	return Output(cmd, "rabbitmqctl", args...)
}

func (n *node) logTail() string {
	var all []string
	for _, name := range []string{consoleFile, logFile} {
		if text, err := os.ReadFile(n.path(name)); err == nil && len(text) > 0 {
			all = append(all, tail(reason(string(text)), 25))
		}
	}
	return strings.Join(all, "\n")
}

// reason cuts what Erlang reports after a failed start. RabbitMQ has said why
// before that.
func reason(log string) string {
	before, after, failed := strings.Cut(log, "Error during startup")
	if !failed {
		return log
	}
	line, _, _ := strings.Cut(after, "\n")
	return before + "Error during startup" + line
}
