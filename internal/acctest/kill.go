package acctest

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
)

// KillAtWrite runs the CLI and kills it before its n-th write reaches the
// broker.
func KillAtWrite(t *testing.T, p *proxy.Proxy, w *cli.Workspace, n int64, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var writes atomic.Int64
	kill := make(chan struct{}, 1)
	p.OnRequest(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet || writes.Add(1) < n {
			return false
		}
		select {
		case kill <- struct{}{}:
		default:
		}
		<-ctx.Done() // never answered
		return true
	})
	run := Start(t, w, args...)
	go func() {
		<-kill
		run.Kill()
	}()
	if run.Wait() {
		t.Fatalf("the run ended before write %d", n)
	}
	cancel()
	p.OnRequest(nil)
	time.Sleep(time.Second) // writes that were under way may still arrive
}
