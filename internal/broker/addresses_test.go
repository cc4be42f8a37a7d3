package broker

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// dead is an address where nothing listens.
func dead(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

// ofCluster answers with the overview of a node of the cluster.
func ofCluster(name string) answer {
	return answer{status: 200, body: fmt.Sprintf(`{"rabbitmq_version":"4.0.5","node":"rabbit@a","cluster_name":%q}`, name)}
}

// pair returns two fakes of one cluster and a client of both.
func pair(t *testing.T, options ...func(*Config)) (first, second *fake, c *Client) {
	t.Helper()
	first, second = newFake(t), newFake(t)
	first.on("GET /api/overview", ofCluster("one"))
	second.on("GET /api/overview", ofCluster("one"))
	both := func(cfg *Config) { cfg.Endpoint = first.URL + " , " + second.URL + "/" }
	return first, second, first.client(t, append([]func(*Config){both}, options...)...)
}

func TestDeadFirstAddress(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	c := f.client(t, func(cfg *Config) { cfg.Endpoint = "http://" + dead(t) + "," + f.URL + "/prefix" })
	f.on("GET /prefix/api/overview", ofCluster("one"))
	f.on("GET /prefix/api/queues/%2F/a%2Fb", answer{status: 200, body: `{"name":"a/b","durable":true,"type":"quorum"}`})
	_, err := c.Info(t.Context())
	must(t, err)
	if q, exists, err := c.Queue(t.Context(), "/", "a/b"); !exists || q.Name != "a/b" || err != nil {
		t.Error(q, exists, err)
	}
	if len(f.slept) > 0 || c.Endpoint() != f.URL+"/prefix" {
		t.Errorf("waited %s, now at %s", f.slept, c.Endpoint())
	}
}

func TestAddressDiesInTheMiddle(t *testing.T) {
	t.Parallel()
	first, second, c := pair(t)
	first.on(putOrders, madeIt)
	_, err := c.DeclareQueue(t.Context(), "/", orders)
	must(t, err)
	if second.count("") > 0 {
		t.Error("the second address was asked though the first one answers")
	}
	first.Close()
	second.on("GET /api/vhosts", answer{status: 200, body: `[{"name":"/"}]`})
	if _, err := c.Vhosts(t.Context()); err != nil {
		t.Error(err)
	}
	if n := second.count("GET /api/vhosts"); n != 1 || c.Endpoint() != second.URL {
		t.Errorf("%d requests, now at %s", n, c.Endpoint())
	}
}

// A request that was sent may have had its effect: after a pause it goes to the next
// address, and what that says does not prove that another run made the object.
func TestUncertainWriteGoesToTheNextAddress(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]answer{"cut": cut(false), "502": {status: 502}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, c := pair(t)
			first.on(putOrders, a)
			second.on(putOrders, hadIt)
			made, unsure, err := c.declareQueue(t.Context(), "/", orders)
			if made == Existed || !unsure || err != nil {
				t.Errorf("created=%v, unsure=%v, %v", made, unsure, err)
			}
			if first.count("PUT") != 1 || second.count("PUT") != 1 || len(first.slept) != 1 {
				t.Errorf("%d and %d requests, waits %s", first.count("PUT"), second.count("PUT"), first.slept)
			}
		})
	}
}

func TestAddressOfAnotherCluster(t *testing.T) {
	t.Parallel()
	first, second, c := pair(t)
	second.on("GET /api/overview", ofCluster("other"))
	_, err := c.Info(t.Context())
	must(t, err)
	first.Close()
	_, err = c.DeclareQueue(t.Context(), "/", orders)
	wantError[*ClusterError](t, err, `"one"`, `"other"`, first.URL, second.URL)
	if n := second.count("PUT"); n != 0 {
		t.Errorf("%d requests to the other cluster", n)
	}
}

// Without a name that was set, each node calls the cluster after itself.
func TestAddressesOfAClusterWithoutAName(t *testing.T) {
	t.Parallel()
	overview := func(node string) answer {
		return answer{status: 200, body: fmt.Sprintf(`{"rabbitmq_version":"4.0.5","node":"rabbit@%[1]s","cluster_name":"rabbit@%[1]s.example"}`, node)}
	}
	for name, test := range map[string]struct {
		nodes   answer
		refused bool
	}{
		"a node of it":    {answer{status: 200, body: `[{"name":"rabbit@a"},{"name":"rabbit@b"}]`}, false},
		"nodes not shown": {refusal(401, "Not monitor user"), false},
		"of another one":  {answer{status: 200, body: `[{"name":"rabbit@a"},{"name":"rabbit@c"}]`}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second, c := pair(t)
			first.on("GET /api/overview", overview("a"))
			first.on("GET /api/nodes", test.nodes)
			second.on("GET /api/overview", overview("b"))
			second.on(putOrders, madeIt)
			_, err := c.Info(t.Context())
			must(t, err)
			first.Close()
			_, err = c.DeclareQueue(t.Context(), "/", orders)
			if !test.refused {
				must(t, err)
				return
			}
			wantError[*ClusterError](t, err, "rabbit@a.example", "rabbit@b.example")
		})
	}
}

func TestNoAddressAnswers(t *testing.T) {
	t.Parallel()
	one, two := dead(t), dead(t)
	f := newFake(t)
	c := f.client(t, func(cfg *Config) { cfg.Endpoint = "http://" + one + ",http://" + two })
	_, err := c.Info(t.Context())
	wantError[*ConnectionError](t, err, one+": connection refused", two+": connection refused", "6 tries")
	if len(f.slept) != DefaultMaxRetries {
		t.Errorf("%d waits", len(f.slept))
	}
	waits := len(f.slept)
	err = c.View(t.Context(), "/", func(*topology.Topology) {})
	wantError[*ConnectionError](t, err, "connection refused")
	if len(f.slept) != waits {
		t.Error("another call right after waited again")
	}
}

// Without an AMQP endpoint, AMQP is spoken with the node whose API answered, and then
// with the others.
func TestAMQPAddressesOfSeveral(t *testing.T) {
	t.Parallel()
	refuse := func(c net.Conn) { _ = c.Close() }
	at := func(address string) answer {
		_, port, _ := strings.Cut(address, ":")
		return answer{status: 200, body: `{"rabbitmq_version":"4.0.5","node":"n","cluster_name":"one","listeners":[{"node":"n","protocol":"amqp","port":` + port + `}]}`}
	}
	first, second, c := pair(t, func(cfg *Config) { cfg.MaxRetries = 1 })
	one, atOne := door(t, refuse)
	two, atTwo := door(t, refuse)
	first.on("GET /api/overview", at(one))
	second.on("GET /api/overview", at(two))
	_, err := c.openAMQP(t.Context(), "/")
	wantError[*AMQPError](t, err, one, two, "2 tries")
	if atOne.Load() != 2 || atTwo.Load() != 2 {
		t.Errorf("%d and %d connections", atOne.Load(), atTwo.Load())
	}

	c = first.client(t, func(cfg *Config) { cfg.AMQPEndpoint = "amqp://" + one + ", amqp://" + two; cfg.MaxRetries = 1 })
	_, err = c.openAMQP(t.Context(), "/")
	wantError[*AMQPError](t, err, one, two, "2 tries")
	if atOne.Load() != 4 || atTwo.Load() != 4 {
		t.Errorf("%d and %d connections", atOne.Load(), atTwo.Load())
	}
}

func TestAddressListsAreChecked(t *testing.T) {
	t.Parallel()
	for text, say := range map[string]string{
		"http://a:1,":        "is empty",
		"http://a:1,ftp://b": "address 2 of 2",
		"http://a,http://u:" + secret + "@b,http://c": "address 2 of 3",
	} {
		_, err := New(Config{Endpoint: text, Username: "u", Password: secret, RequestTimeout: time.Second})
		wantError[*ConfigError](t, err, say)
	}
	_, err := New(Config{Endpoint: "http://a", AMQPEndpoint: "amqp://a,amqp://u:" + secret + "@b", Username: "u", Password: secret})
	wantError[*ConfigError](t, err, "address 2 of 2", "amqp://b")
}
