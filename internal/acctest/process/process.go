// Package process runs example programs as a reader would, and ends them in good
// order and otherwise.
package process

import (
	"bytes"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// Process is a program that runs.
type Process struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan struct{} // closed when the process has ended
	err     error         // of the process, set when ended

	mu  sync.Mutex
	log bytes.Buffer
}

// programs are those that were compiled, by folder.
var programs struct {
	sync.Mutex
	dir   string
	paths map[string]string
}

// Build compiles the program in a folder, once for all tests, and returns its path.
// [Remove] removes it.
func Build(t *testing.T, folder string) string {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if path, ok := programs.paths[folder]; ok {
		return path
	}
	path, err := newPath()
	if err != nil {
		t.Fatal(err)
	}
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", path, folder).CombinedOutput(); err != nil {
		t.Fatalf("build the program in %s: %s\n%s", folder, err, output)
	}
	programs.paths[folder] = path
	return path
}

// newPath is for the next program, in a folder for all tests of the package.
func newPath() (string, error) {
	if programs.dir == "" {
		dir, err := os.MkdirTemp("", "programs-under-test-")
		if err != nil {
			return "", err
		}
		programs.dir, programs.paths = dir, map[string]string{}
	}
	return filepath.Join(programs.dir, strconv.Itoa(len(programs.paths))), nil
}

// Remove removes the programs that [Build] compiled.
func Remove() error {
	programs.Lock()
	defer programs.Unlock()
	dir := programs.dir
	programs.dir, programs.paths = "", nil
	if dir == "" {
		return nil
	}
	return os.RemoveAll(dir)
}

// Address is the AMQP URL of a virtual host for a user, nil for the broker's own.
func Address(t *testing.T, b *rabbit.Broker, vhost string, user *url.Userinfo) string {
	t.Helper()
	u, err := url.Parse(b.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	if user != nil {
		u.User = user
	}
	return u.Scheme + "://" + u.User.String() + "@" + u.Host + "/" + url.PathEscape(vhost)
}

// Start starts a program, which finds its broker in AMQP_URL. It is killed at the
// end of the test if it still runs then, and its log is shown if the test failed.
func Start(t *testing.T, path, amqpURL string, arguments ...string) *Process {
	t.Helper()
	p := &Process{t: t, ended: make(chan struct{})}
	p.command = exec.Command(path, arguments...)
	p.command.Env = append(os.Environ(), "AMQP_URL="+amqpURL)
	p.command.Stderr = p
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("the end of the program's log:\n%s", tail(p.Text(), 15))
		}
	})
	return p
}

// Write takes the program's log.
func (p *Process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.Write(text)
}

// Text is the program's log.
func (p *Process) Text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// Logged says how often the program has logged something.
func (p *Process) Logged(what string) int { return strings.Count(p.Text(), what) }

// Kill ends the program as kill -9 does. Killing twice is fine.
func (p *Process) Kill() {
	_ = p.command.Process.Signal(syscall.SIGKILL)
	<-p.ended
}

// Terminate ends the program with SIGTERM, which it must obey in good order and
// in that time.
func (p *Process) Terminate(limit time.Duration) {
	p.t.Helper()
	began := time.Now()
	if err := p.command.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Errorf("SIGTERM: %s", err)
	}
	<-p.ended
	if p.err != nil || time.Since(began) > limit {
		p.t.Errorf("the program ended %s after SIGTERM: %v", time.Since(began), p.err)
	}
}

// Eventually waits until a condition holds.
func Eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const patience, poll = 90 * time.Second, 2 * time.Millisecond
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
		time.Sleep(poll)
	}
}

func tail(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
