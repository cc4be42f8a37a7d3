package acctest

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// BreakOff sends a request to the management API and closes the connection after
// the given time. path is what follows "/api/", escaped; body may be nil.
func BreakOff(t *testing.T, b *rabbit.Broker, method, path string, body any, after time.Duration) {
	t.Helper()
	u, err := url.Parse(b.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	var text []byte
	if body != nil {
		if text, err = json.Marshal(body); err != nil {
			t.Fatal(err)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), method, b.Endpoint+"/api/"+path, bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(b.Username, b.Password)
	request.Header.Set("Content-Type", "application/json")
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Write(conn); err != nil {
		t.Fatal(err)
	}
	time.Sleep(after)
	_ = conn.Close()
}

// StorePolicy sets the existing policy again in a way that RabbitMQ lists it
// and no queue obeys it: requests are broken off until one leaves that behind.
func StorePolicy(t *testing.T, b *rabbit.Broker, vhost, name, queue string) {
	t.Helper()
	api := API(t, b)
	policy, err := api.GetPolicy(vhost, name)
	if err != nil {
		t.Fatal(err)
	}
	const tries = 300
	for i := range tries {
		do(t, func() (*http.Response, error) { return api.DeletePolicy(vhost, name) })
		BreakOff(t, b, http.MethodPut, "policies/"+url.PathEscape(vhost)+"/"+url.PathEscape(name), policy,
			time.Duration(i%16)*500*time.Microsecond)
		time.Sleep(100 * time.Millisecond)
		if !listed(t, api, vhost, name) {
			continue
		}
		// A request that was not broken off may take a while on a busy machine. The
		// statistics of a queue may keep the policy that was deleted: then try again.
		is := func() bool { return applied(t, b, vhost, name, queue) }
		gone := func() bool { return !counted(t, api, vhost, name, queue) }
		if poll.Until(15*time.Second, func() bool { return is() || gone() }) && !poll.Until(3*time.Second, is) {
			return
		}
	}
	t.Fatalf("none of %d broken-off requests left the policy %q without effect", tries, name)
}

// counted says whether RabbitMQ's statistics of the queue have the policy.
func counted(t *testing.T, api *rabbithole.Client, vhost, name, queue string) bool {
	t.Helper()
	q, err := api.GetQueue(vhost, queue)
	if err != nil {
		t.Fatal(err)
	}
	return q.Policy == name
}

func listed(t *testing.T, api *rabbithole.Client, vhost, name string) bool {
	t.Helper()
	list, err := api.ListPoliciesIn(vhost)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		if p.Name == name {
			return true
		}
	}
	return false
}

// applied says whether RabbitMQ's database has the policy as that of the queue. The list
// tells it; a single queue without statistics has no policy (4.0.5).
func applied(t *testing.T, b *rabbit.Broker, vhost, name, queue string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		b.Endpoint+"/api/queues/"+url.PathEscape(vhost)+"?columns=name,policy&disable_stats=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(b.Username, b.Password)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var list []rabbithole.QueueInfo
	if err := json.NewDecoder(response.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(list, func(q rabbithole.QueueInfo) bool { return q.Name == queue && q.Policy == name })
}
