// Package parent tells when the process that started this one has ended.
package parent

// Watch calls ended once when the parent of this process has ended. It does not call it
// if the parent had ended before.
func Watch(ended func()) {
	go func() {
		wait()
		ended()
	}()
}
