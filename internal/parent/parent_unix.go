//go:build !windows

package parent

import (
	"os"
	"time"
)

// poll lies between two looks at the parent.
const poll = time.Second

// wait returns when another process has become the parent of this one: init or a
// subreaper. A parent with the id 1, as in a container, is one like any other.
func wait() {
	for began := os.Getppid(); os.Getppid() == began; {
		time.Sleep(poll)
	}
}
