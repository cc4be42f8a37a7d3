package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
)

// A wait for a lock ends with its context and says what it waited for.
func TestLockEndsWithItsContext(t *testing.T) {
	t.Parallel()
	names := NewNames()
	var diags diag.Diagnostics
	unlock, ok := names.Lock(t.Context(), "orders@/", &diags)
	if !ok {
		t.Fatal(diags)
	}
	if free, ok := names.Lock(t.Context(), "billing@/", &diags); !ok {
		t.Fatal(diags)
	} else {
		free()
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	began := time.Now()
	if _, ok := names.Lock(ctx, "orders@/", &diags); ok {
		t.Fatal("two have one lock at once")
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("waited %s after the end", took)
	}
	if text := diags[0].Detail(); !strings.Contains(text, "orders@/") {
		t.Error(text)
	}
	unlock()
	unlock, ok = names.Lock(t.Context(), "orders@/", &diags)
	if !ok {
		t.Fatal(diags)
	}
	unlock()
}

func TestLocksAreHandedOnAndForgotten(t *testing.T) {
	t.Parallel()
	l := locks{turns: map[string]*turn{}}
	unlock, err := l.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	next := make(chan error)
	go func() {
		free, err := l.lock(t.Context(), "a")
		if err == nil {
			free()
		}
		next <- err
	}()
	ended, stop := context.WithCancelCause(t.Context())
	reason := errors.New("over")
	stop(reason)
	if _, err := l.lock(ended, "a"); !errors.Is(err, reason) {
		t.Error(err)
	}
	unlock()
	if err := <-next; err != nil {
		t.Error(err)
	}
	if len(l.turns) != 0 {
		t.Errorf("%d locks are kept", len(l.turns))
	}
}
