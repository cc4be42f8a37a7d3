package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// marked returns the living processes whose environment holds mark
// ("NAME=value"), without those of the given ids.
func marked(mark string, without ...int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err == nil && !slices.Contains(without, pid) && hasMark(pid, mark) && lives(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

func hasMark(pid int, mark string) bool {
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.Contains(strings.Split(string(environ), "\x00"), mark)
}

// lives says whether a process is there. One that has ended and that its parent
// has not asked about yet does not count, unless some of its threads still end:
// they hold its files and ports.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// "pid (name) state ...", where the name may hold anything.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) == 0 || fields[0] != "Z" {
		return true
	}
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	return err == nil && len(threads) > 1
}

// endInOrder asks a process to end and waits until all in the list are gone or
// ctx is done. It does nothing if the process is not in the list.
func endInOrder(ctx context.Context, pid int, list []int) {
	if ctx.Err() != nil || !slices.Contains(list, pid) {
		return
	}
	_ = syscall.Kill(pid, syscall.SIGTERM) // it may just have ended
	for ctx.Err() == nil && slices.ContainsFunc(list, lives) {
		time.Sleep(20 * time.Millisecond)
	}
}

// killAll kills the processes in a list and returns when they are gone and the
// list is empty.
func killAll(list func() []int) error {
	// A process that ends has no environment to be found by, but may still
	// hold ports.
	ending := map[int]bool{}
	for range 500 {
		for _, pid := range list() {
			ending[pid] = true
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may just have ended
		}
		maps.DeleteFunc(ending, func(pid int, _ bool) bool { return !lives(pid) })
		if len(ending) == 0 {
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("processes %v did not end", slices.Sorted(maps.Keys(ending)))
}
