package rabbit

import (
	"context"
	"os"
	"testing"
)

// EnvAll names the variable that makes it an error if a broker cannot be had.
const EnvAll = "RETRYCHAIN_ALL_BROKERS"

// Release is the broker's version without the last number, such as "4.0".
func (b *Broker) Release() string { return minor(b.Version) }

// Own starts a broker for one test, which may do with it what it wants, and stops it
// when the test ends. If no broker of the version can be had, the test is skipped, or
// with [EnvAll] fails.
func Own(t testing.TB, o Options) *Broker {
	t.Helper()
	if o.Log == nil {
		o.Log = t.Output()
	}
	if _, err := Prepare(t.Context(), o.Version, o.Log); err != nil {
		if os.Getenv(EnvAll) != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	b, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}
