package broker

import (
	"net/url"
	"testing"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func TestPermissionsAreReadOnce(t *testing.T) {
	f := newFake(t)
	f.on("GET /api/users/u/permissions", answer{status: 200, body: `[{"user":"u","vhost":"/","configure":"^a","write":"^b","read":"^c"}]`})
	c := f.client(t)
	for range 2 {
		configure, write, read, known, err := c.Permissions(t.Context(), "/")
		if configure != "^a" || write != "^b" || read != "^c" || !known || err != nil {
			t.Error(configure, write, read, known, err)
		}
	}
	if configure, _, _, known, _ := c.Permissions(t.Context(), "other"); configure != "" || !known {
		t.Error("permissions where there are none")
	}
	if n := f.count(""); n != 2 {
		t.Errorf("%d requests", n)
	}
	// A user of another authentication backend is not in the database.
	f.on("GET /api/users/u/permissions", refusal(404, "Not Found"))
	if _, _, _, known, err := f.client(t).Permissions(t.Context(), "/"); known || err != nil {
		t.Error(known, err)
	}
}

func TestAMQPAddress(t *testing.T) {
	listeners := func(text string) answer {
		return answer{status: 200, body: `{"rabbitmq_version":"4.0.5","node":"b","listeners":[` + text + `]}`}
	}
	const plain = `{"node":"a","protocol":"amqp","port":1},{"node":"b","protocol":"amqp","port":2},{"node":"b","protocol":"http","port":3}`
	const secure = `{"node":"a","protocol":"amqp/ssl","port":"4"}`
	for _, test := range []struct {
		endpoint, given string
		info            answer
		want            string
	}{
		{"http://h:15672", "", listeners(plain), "amqp://h:2"},
		{"http://[::1]:15672", "", listeners(plain + "," + secure), "amqp://[::1]:2"},
		{"https://h", "", listeners(plain + "," + secure), "amqps://h:4"},
		{"http://h:15672", "", listeners(""), "amqp://h:5672"},
		{"https://h:15671", "", listeners(""), "amqps://h:5671"},
		{"http://h:15672", "amqps://other", answer{status: 500}, "amqps://other:5671"},
		{"https://h:15672", "amqp://[::1]:9/", answer{status: 500}, "amqp://[::1]:9"},
		// Never over plain TCP because TLS is missing.
		{"https://h", "", listeners(plain), ""},
	} {
		f := newFake(t)
		f.on("GET /api/overview", test.info)
		endpoint, err := parseEndpoint(test.endpoint)
		must(t, err)
		c := f.client(t, func(cfg *Config) { cfg.AMQPEndpoint = test.given })
		_, _ = c.services(t.Context())
		c.addresses.list = []*url.URL{endpoint}
		d, err := c.AMQP(t.Context())
		switch {
		case test.want == "":
			wantError[*AMQPError](t, err, "no such listener")
		case err != nil || d.Address != test.want:
			t.Errorf("%s: %s, %v, want %s", test.endpoint, d.Address, err, test.want)
		}
	}
}

func TestWireArguments(t *testing.T) {
	f := newFake(t)
	var sent string
	f.on(putOrders, answer{do: captureBody(&sent)})
	q := orders
	q.Arguments = topology.Arguments{"f": 5.0, "i": int64(5), "l": []any{1.0, int64(1)}, "t": map[string]any{"h": 2.5}, "big": 1e25}
	_, err := f.client(t).DeclareQueue(t.Context(), "/", q)
	must(t, err)
	want := `{"type":"quorum","durable":true,"arguments":{"big":1e+25,"f":5.0,"i":5,"l":[1.0,1],"t":{"h":2.5},"x-queue-type":"quorum"}}`
	if sent != want {
		t.Errorf("sent %s", sent)
	}
	f.on("PUT /api/exchanges/%2F/e", answer{do: captureBody(&sent)})
	f.on("GET /api/exchanges/%2F/e", answer{status: 200, body: `{"name":"e"}`})
	_, err = f.client(t).DeclareExchange(t.Context(), "/", topology.Exchange{Name: "e", Type: "fanout", Internal: true})
	must(t, err)
	if want := `{"type":"fanout","durable":false,"internal":true}`; sent != want {
		t.Errorf("sent %s", sent)
	}
}
