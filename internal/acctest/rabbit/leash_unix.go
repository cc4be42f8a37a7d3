//go:build unix

package rabbit

import (
	"io"
	"os/exec"
	"syscall"
)

// leash is a shell that waits for the end of this process, whatever ends it,
// and then ends what this process started.
type leash struct {
	cmd *exec.Cmd
	// held is the writing end of the shell's standard input. The system
	// closes it when this process ends.
	held io.Closer
}

// newLeash returns a leash that runs a shell script with the arguments.
func newLeash(script string, args ...string) (*leash, error) {
	args = append([]string{"-c", "cat >/dev/null\n" + script, "leash"}, args...)
	cmd := exec.Command("/bin/sh", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	held, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &leash{cmd: cmd, held: held}, nil
}

// release runs the script now and returns when it has ended.
func (l *leash) release() {
	if l == nil {
		return
	}
	l.held.Close()
	l.cmd.Wait()
}
