package acctest

import (
	"context"
	"net/http"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/cli"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
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

// unknownQueue finds the queues that the provider does not know enough of to delete them.
var unknownQueue = regexp.MustCompile(`not\s+known\s+what\s+queue\s+"([^"]+)"`)

// RunAfterKill runs the CLI after a run that was killed. RabbitMQ 3.10 can leave a queue
// whose deletion was cut off listed without a Raft server, see [RunDespiteUnknown]. Later
// versions tell that such a queue holds nothing.
func RunAfterKill(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace, args ...string) string {
	t.Helper()
	if Modern(b) {
		return Run(t, w, args...)
	}
	return RunDespiteUnknown(t, b, vhost, w, args...)
}

// RunDespiteUnknown runs the CLI where RabbitMQ may have left a queue of which the provider
// does not know what it holds. Its error names the queue. A user deletes that and runs the
// CLI again, and so does this.
func RunDespiteUnknown(t *testing.T, b *rabbit.Broker, vhost string, w *cli.Workspace, args ...string) string {
	t.Helper()
	for range 5 {
		output, err := w.Run(t.Context(), args...)
		if err == nil {
			return output
		}
		queues := unknownQueue.FindAllStringSubmatch(output, -1)
		if queues == nil {
			t.Fatal(err)
		}
		for _, queue := range queues {
			t.Logf("RabbitMQ left queue %q, which is deleted by hand", queue[1])
			do(t, func() (*http.Response, error) { return API(t, b).DeleteQueue(vhost, queue[1]) })
		}
	}
	t.Fatalf("terraform %v leaves queues again and again", args)
	return ""
}
