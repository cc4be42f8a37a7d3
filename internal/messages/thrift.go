package messages

import (
	"runtime/debug"
	"sync"
)

// readingGC is how much garbage there may be while messages are read, in percent
// of what is in use. Their bodies are garbage as soon as they were looked at.
const readingGC = 50

// thrift collects garbage more often while a pass is under way.
var thrift thrifty

type thrifty struct {
	mu             sync.Mutex
	passes, before int
}

func (t *thrifty) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes++
	if t.passes == 1 {
		t.before = debug.SetGCPercent(readingGC)
	}
}

func (t *thrifty) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passes--
	if t.passes == 0 {
		debug.SetGCPercent(t.before)
	}
}
