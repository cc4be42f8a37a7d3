package provider_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/oauth"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/poll"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/worker"
)

// tokenVersions are the brokers of this test.
var tokenVersions = []string{"4.0", "4.3"}

// tokens are a broker and who signs the tokens that it accepts.
type tokens struct {
	*rabbit.Broker
	*oauth.Issuer
}

// TestAccToken uses a broker of its own that accepts tokens.
func TestAccToken(t *testing.T) {
	t.Parallel()
	if os.Getenv("TF_ACC") == "" {
		t.Skip("an acceptance test: set TF_ACC=1, or run make test")
	}
	for _, version := range rabbit.Spread(t.Name(), tokenVersions) {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			issuer := oauth.New(t)
			b := tokens{rabbit.Own(t, issuer.Options(rabbit.Options{Version: version, FastStatistics: true})), issuer}
			t.Run("refused", b.testRefused)
			t.Run("lifecycle", b.testLifecycle)
			t.Run("expires", b.testExpires)
			t.Run("secret", b.testSecret)
		})
	}
}

// token signs one for an hour.
func (b tokens) token(t *testing.T, scopes ...string) string {
	t.Helper()
	return b.Token(t, "deploy", scopes, time.Now().Add(time.Hour))
}

// server configures a provider with a token.
func (b tokens) server(t *testing.T, token string) *protocol.Server {
	t.Helper()
	s := protocol.New(t, acctest.NewProvider(b.Broker))
	block := config{"endpoint": b.Endpoint, "amqp_endpoint": b.amqp(t).String(), "token": token, "max_retries": 0}
	if found := s.Configure(t, block); len(found) > 0 {
		t.Fatal(found)
	}
	return s
}

// amqp is the AMQP address without credentials.
func (b tokens) amqp(t *testing.T) *url.URL {
	t.Helper()
	u, err := url.Parse(b.AMQP)
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = nil, ""
	return u
}

// dial logs an application in with a token.
func (b tokens) dial(t *testing.T, token string) *worker.Worker {
	t.Helper()
	u := b.amqp(t)
	u.User = url.UserPassword("", token)
	w, err := worker.Dial(u.String(), "/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// withPolicy is a chain that needs every kind of permission.
func withPolicy() config {
	return config{
		"name": "orders", "delays": []any{"100ms"}, "strategy": "headers", "policy": map[string]any{"shield": true},
		"work_queue": map[string]any{"bindings": []any{map[string]any{"exchange": "amq.topic", "routing_key": "order.#"}}},
	}
}

// leastScopes are those that the documentation gives for the chain, and the tag for policies.
var leastScopes = []string{
	"rabbitmq.tag:policymaker",
	"rabbitmq.configure:%2F/orders*", "rabbitmq.write:%2F/orders*", "rabbitmq.read:%2F/orders*", "rabbitmq.read:%2F/amq.topic/*",
}

// testLifecycle creates a chain, moves a message through it and back from its parking queue,
// and destroys it, with nothing but a token that may do no more than it has to.
func (b tokens) testLifecycle(t *testing.T) {
	s := b.server(t, b.token(t, leastScopes...))
	created, found := s.Apply(t, chain, s.Plan(t, chain, withPolicy(), protocol.State{}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	read, found := s.Read(t, chain, created)
	if p := s.Plan(t, chain, withPolicy(), read); len(found) > 0 || len(p.Diagnostics) > 0 || !p.Planned.Equal(created.Value) {
		t.Errorf("the second plan is not empty: %v\n%s%s", protocol.Go(p.Planned), found, p.Diagnostics)
	}
	w := b.dial(t, b.token(t, oauth.Full...))
	park(t, w)
	redriven := s.Plan(t, "rabbitmq_redrive", config{"queue": "orders.parking", "strict": true}, protocol.State{})
	result, found := s.Apply(t, "rabbitmq_redrive", redriven)
	if moved := protocol.Go(protocol.At(result.Value, "moved")); len(found) > 0 || moved != int64(1) {
		t.Errorf("%v messages were moved: %s", moved, found)
	}
	_, found = s.Apply(t, chain, s.Plan(t, chain, nil, read))
	expectError(t, found, "", "orders: ", "1 ready")
	if drained, err := w.Drain("orders"); err != nil || len(drained) != 1 {
		t.Fatal(drained, err)
	}
	if destroyed, found := s.Apply(t, chain, s.Plan(t, chain, nil, read)); len(found) > 0 || !destroyed.Value.IsNull() {
		t.Errorf("the destroy leaves %v\n%s", protocol.Go(destroyed.Value), found)
	}
}

// park publishes a message that names the token's user, and rejects it until it is parked.
func park(t *testing.T, w *worker.Worker) {
	t.Helper()
	if err := w.Publish(t.Context(), "amq.topic", "order.created", amqp.Publishing{UserId: "deploy", Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	channel, err := w.Connection().Channel()
	if err != nil {
		t.Fatal(err)
	}
	deliveries, err := channel.Consume("orders", "", false, false, false, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d := <-deliveries
		if err := d.Reject(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := channel.Close(); err != nil {
		t.Fatal(err)
	}
	if !poll.Until(20*time.Second, func() bool {
		n, err := w.Ready("orders.parking")
		return err == nil && n == 1
	}) {
		t.Fatal("the message is not parked")
	}
}

// testRefused shows what is said of each kind of insufficient token. Only tags are checked by
// the plan: what else a token may do is known to the broker alone.
func (b tokens) testRefused(t *testing.T) {
	scopes := func(names ...string) string {
		for i, name := range names {
			names[i] = oauth.Audience + "." + name
		}
		return b.token(t, names...)
	}
	const all, in = "tag:administrator", "*/*/*"
	for name, test := range map[string]struct {
		token string
		// planned says that the plan finds it.
		planned bool
		path    string
		words   []string
	}{
		"expired": {
			b.Token(t, "deploy", oauth.Full, time.Unix(1e9, 0)), true, "",
			[]string{"Login Refused", "it expired at 2001-09-09T01:46:40Z", "get a new one"},
		},
		"another issuer": {
			oauth.New(t).Token(t, "deploy", oauth.Full, time.Now().Add(time.Hour)), true, "",
			[]string{"Login Refused", "trusts the token's issuer"},
		},
		"no token": {"opaque", true, "", []string{"Login Refused", "trusts the token's issuer"}},
		"too long": {
			scopes(slices.Repeat([]string{"read:*/*"}, 500)...), true, "",
			[]string{"431", "probably the token"},
		},
		"no tag": {
			scopes("configure:"+in, "write:"+in, "read:"+in), true, "",
			[]string{"Login Refused", "Not management user", "<resource_server_id>.tag:management"},
		},
		"no tag for policies": {
			scopes("configure:"+in, "write:"+in, "read:"+in, "tag:management"), true, "",
			[]string{"Permission Missing", `User "deploy"`, "policymaker", "<resource_server_id>.tag:policymaker"},
		},
		"no configure": {
			scopes("configure:*/other", "write:"+in, "read:"+in, all), false, "",
			[]string{"Permission Missing", `the user "deploy"`, "configure", "<resource_server_id>.configure:%2F/*/*"},
		},
		"another virtual host": {
			scopes("configure:shop/*", "write:shop/*", "read:shop/*", "tag:policymaker"), true, "vhost",
			[]string{"Virtual Host Not Found", `the user "deploy"`, "<resource_server_id>.configure:%2F/*/*"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := b.server(t, test.token)
			p := s.Plan(t, chain, withPolicy(), protocol.State{})
			found := p.Diagnostics
			if planned := len(found.Errors()) > 0; planned != test.planned {
				t.Fatalf("the plan finds %s", found)
			}
			if !test.planned {
				_, found = s.Apply(t, chain, p)
			}
			expectRefusal(t, found, test.token, test.path, test.words...)
		})
	}
}

// testExpires: a token that expires while the provider runs is named as the cause, over HTTP
// and over AMQP, and the next run with a new one continues.
func (b tokens) testExpires(t *testing.T) {
	lasting := b.server(t, b.token(t, oauth.Full...))
	created, found := lasting.Apply(t, chain, lasting.Plan(t, chain, withPolicy(), protocol.State{}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	expires := time.Now().Add(8 * time.Second)
	expired := "it expired at " + expires.UTC().Format(time.RFC3339)
	token := b.Token(t, "deploy", oauth.Full, expires)
	short := b.server(t, token)
	longer := withPolicy().with("delays", []any{"100ms", "200ms"})
	planned := short.Plan(t, chain, longer, created)
	if len(planned.Diagnostics) > 0 {
		t.Fatal(planned.Diagnostics)
	}
	w := b.dial(t, b.token(t, oauth.Full...))
	const n = 12
	for i := range n {
		if err := w.Publish(t.Context(), "", "orders.parking", amqp.Publishing{MessageId: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	slow := config{"queue": "orders.parking", "destination": map[string]any{"queue": "orders"}, "max_messages_per_second": 1}
	_, found = short.Apply(t, "rabbitmq_redrive", short.Plan(t, "rabbitmq_redrive", slow, protocol.State{}))
	if len(found.Errors()) > 0 || b.Release() != "4.0" { // there, an open channel outlives the token
		expectRefusal(t, found, token, "", "Login Refused", expired, "messages moved")
	}
	if !poll.Until(20*time.Second, func() bool {
		moved, err := w.Ready("orders")
		left, err2 := w.Ready("orders.parking")
		return err == nil && err2 == nil && moved+left >= n
	}) {
		t.Error("messages are lost")
	}
	time.Sleep(time.Until(expires.Add(time.Second)))
	_, found = short.Apply(t, chain, planned)
	expectRefusal(t, found, token, "", "Login Refused", expired, "apply again")
	if _, found := lasting.Apply(t, chain, lasting.Plan(t, chain, longer, created)); len(found) > 0 {
		t.Error(found)
	}
}

// testSecret applies through the CLI, with the token in the environment. Neither the output nor
// the state nor the most detailed log shows it.
func (b tokens) testSecret(t *testing.T) {
	token, log := b.token(t, oauth.Full...), filepath.Join(t.TempDir(), "log")
	w := acctest.Terraform(t, `resource "rabbitmq_retry_tiers" "secret" {
  name   = "secret"
  delays = ["1s"]
}`)
	w.Env = append(w.Env, "RABBITMQ_ENDPOINT="+b.Endpoint, "RABBITMQ_AMQP_ENDPOINT="+b.amqp(t).String(), "RABBITMQ_TOKEN="+token,
		"TF_LOG=TRACE", "TF_LOG_PATH="+log)
	shown := acctest.Run(t, w, "apply", "-auto-approve")
	for _, name := range []string{log, filepath.Join(w.Dir, "terraform.tfstate")} {
		text, err := os.ReadFile(name)
		if err != nil || len(text) == 0 {
			t.Fatal(name, err)
		}
		shown += string(text)
	}
	for _, part := range strings.Split(token, ".")[1:] { // the first part is no secret
		if strings.Contains(shown, part) {
			t.Error("a part of the token is shown")
		}
	}
}

// expectRefusal expects one error with the words, and no part of the token.
func expectRefusal(t *testing.T, found protocol.Diagnostics, token, path string, words ...string) {
	t.Helper()
	expectError(t, found, path, words...)
	for part := range strings.SplitSeq(token, ".") {
		if strings.Contains(found.String(), part) {
			t.Errorf("a diagnostic shows a part of the token: %s", found)
		}
	}
}
