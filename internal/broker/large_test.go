package broker

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// TestLargeVirtualHost reads a virtual host with 10,000 queues, 50,000 bindings and
// 500 policies, three in five of which backtrack, and asks which of them apply to the
// queues of a chain. By backtracking alone that would take 1,500 s.
func TestLargeVirtualHost(t *testing.T) {
	patterns := []string{`^([a-z]+\\.?)+$`, `^(?!amq\\.)([a-z]+\\.?)+$`, `^team\\.`, `orders`, `^(a|[a-z]+)+$`}
	bodies := map[string]string{
		"/api/queues/%2F": listOf(10_000, func(i int) string {
			return fmt.Sprintf(`{"name":"team.%d","type":"quorum","durable":true,"auto_delete":false,"exclusive":false,"arguments":{"x-queue-type":"quorum"}}`, i)
		}),
		"/api/exchanges/%2F": listOf(1000, func(i int) string {
			return fmt.Sprintf(`{"name":"team.%d","type":"topic","durable":true,"auto_delete":false,"internal":false,"arguments":{}}`, i)
		}),
		"/api/bindings/%2F": listOf(50_000, func(i int) string {
			return fmt.Sprintf(`{"source":"team.%d","destination":"team.%d","destination_type":"queue","routing_key":"%d","arguments":{}}`, i%1000, i%10_000, i)
		}),
		"/api/policies/%2F": listOf(500, func(i int) string {
			return fmt.Sprintf(`{"name":"p%d","pattern":"%s","apply-to":"queues","priority":%d,"definition":{"max-length":1000}}`, i, patterns[i%5], i)
		}),
		"/api/operator-policies/%2F": "[]",
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(bodies[r.URL.EscapedPath()])) }))
	defer server.Close()
	c, err := New(Config{Endpoint: server.URL, Username: "guest", Password: "guest"})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	err = c.View(t.Context(), "/", func(in *topology.Topology) {
		for i := range 5 {
			name := fmt.Sprintf("orders-checkout-notifications-mails.%d", i)
			if found := in.Governing(name, topology.Quorum, false); len(found) != 1 || found[0].Name != "p498" {
				t.Errorf("%d policies govern %q: %v", len(found), name, found)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	took, allocated := time.Since(began), (after.TotalAlloc-before.TotalAlloc)>>20
	t.Logf("%s, %d MiB allocated", took, allocated)
	if took > time.Minute || allocated > 300 {
		t.Errorf("took %s and allocated %d MiB", took, allocated)
	}
}

func listOf(n int, object func(i int) string) string {
	objects := make([]string, n)
	for i := range objects {
		objects[i] = object(i)
	}
	return "[" + strings.Join(objects, ",") + "]"
}
