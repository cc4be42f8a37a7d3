package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// sampleInterval is how often the memory of the provider is read.
const sampleInterval = 10 * time.Millisecond

// memorySampler finds the processes of a program and notes the largest peak of
// their resident memory.
type memorySampler struct {
	program string
	peak    int64
}

func (s *memorySampler) sample() {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == s.program {
			s.peak = max(s.peak, highWater(filepath.Join(filepath.Dir(link), "status")))
		}
	}
}

// highWater reads VmHWM, in bytes.
func highWater(status string) int64 {
	text, err := os.ReadFile(status)
	if err != nil {
		return 0 // the process has ended
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0
	}
	return kilobytes * 1024
}
