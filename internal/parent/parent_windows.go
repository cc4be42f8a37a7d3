package parent

import "os"

// wait returns when the parent has ended. Windows keeps the id of a parent that has, and
// so the process is held.
func wait() {
	p, err := os.FindProcess(os.Getppid())
	if err != nil {
		select {} // it had ended before
	}
	_, _ = p.Wait()
}
