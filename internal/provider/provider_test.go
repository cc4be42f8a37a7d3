package provider_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/provider"
)

const (
	chain  = "rabbitmq_retry_chain"
	secret = "p4ssw0rd-that-nobody-may-see"
)

// config is a configuration of a provider or a resource.
type config map[string]any

// with returns a copy with one more attribute; nil takes it out.
func (c config) with(name string, value any) config {
	copied := config{name: value}
	for other, v := range c {
		if other != name {
			copied[other] = v
		}
	}
	return copied
}

// orders is a chain for any broker.
func orders() config {
	return config{"name": "orders", "strategy": "routing_key", "delays": []any{"1s", "5s"}}
}

// connection is a provider block for the endpoint.
func connection(endpoint string) config {
	return config{"endpoint": endpoint, "username": "terraform", "password": secret, "max_retries": 0}
}

// TestMain takes away what the person who runs the tests has set.
func TestMain(m *testing.M) {
	for _, variable := range variables {
		_ = os.Unsetenv(variable)
	}
	acctest.Main(m)
}

func newServer(t *testing.T) *protocol.Server {
	t.Helper()
	return protocol.New(t, providerserver.NewProtocol6(provider.New("1.2.3")())())
}

// variables are all that the provider reads from its environment.
var variables = []string{
	"RABBITMQ_ENDPOINT", "RABBITMQ_USERNAME", "RABBITMQ_PASSWORD", "RABBITMQ_AMQP_ENDPOINT", "RABBITMQ_INSECURE",
	"RABBITMQ_CACERT", "RABBITMQ_CLIENTCERT", "RABBITMQ_CLIENTKEY", "RABBITMQ_PROXY", "RABBITMQ_VHOST", "RABBITMQ_TOKEN",
}

// plan configures a provider, plans a chain and returns all diagnostics. None
// of them may show the password.
func plan(t *testing.T, block config) protocol.Diagnostics {
	t.Helper()
	s := newServer(t)
	found := s.Configure(t, block)
	if len(found.Errors()) == 0 {
		found = append(found, s.Plan(t, chain, orders(), protocol.State{}).Diagnostics...)
	}
	if strings.Contains(found.String(), secret) {
		t.Errorf("a diagnostic shows the password:\n%s", found)
	}
	return found
}

// TestConfigurationBeatsEnvironment looks at what arrives at the broker: for
// each attribute with an environment variable, the configuration wins, the
// variable stands in for what the configuration leaves out, and without both
// there is the default.
func TestConfigurationBeatsEnvironment(t *testing.T) {
	for _, test := range precedences(t) {
		t.Run(test.attribute, func(t *testing.T) {
			t.Setenv(test.variable, test.environment)
			if got := test.observe(test.block.with(test.attribute, test.configured)); got != test.fromConfiguration {
				t.Errorf("with configuration and environment: %q, expected %q", got, test.fromConfiguration)
			}
			if got := test.observe(test.block.with(test.attribute, nil)); got != test.fromEnvironment {
				t.Errorf("with the environment alone: %q, expected %q", got, test.fromEnvironment)
			}
			t.Setenv(test.variable, "")
			if got := test.observe(test.block.with(test.attribute, nil)); got != test.byDefault {
				t.Errorf("with neither: %q, expected %q", got, test.byDefault)
			}
		})
	}
}

// precedence is a case of [TestConfigurationBeatsEnvironment].
type precedence struct {
	attribute, variable string
	configured          any
	environment         string
	// block are the other attributes.
	block config
	// observe plans with a provider block and says what came of it.
	observe func(config) string

	fromConfiguration, fromEnvironment, byDefault string
}

func precedences(t *testing.T) []precedence {
	one, two := fake.New(t, "4.0.5"), fake.New(t, "4.3.6")
	login := func(block config) string {
		one.Take()
		if found := plan(t, block); len(found.Errors()) > 0 {
			return found.Errors()[0].Summary
		}
		request := one.Take()[0]
		if request.Username == "" {
			return request.Header.Get("Authorization")
		}
		return request.Username + ":" + request.Password
	}
	which := func(block config) string {
		one.Take()
		two.Take()
		found := plan(t, block)
		switch first, second := len(one.Take()), len(two.Take()); {
		case first > 0 && second == 0:
			return "first"
		case second > 0 && first == 0:
			return "second"
		case len(found) > 0:
			return found[0].Summary
		default:
			return "nobody was asked"
		}
	}
	return append(tlsPrecedences(t), []precedence{
		{
			"endpoint", "RABBITMQ_ENDPOINT", one.URL, two.URL, connection(""), which,
			"first", "second", "Missing Provider Configuration",
		},
		{
			"username", "RABBITMQ_USERNAME", "configured", "environment", connection(one.URL), login,
			"configured:" + secret, "environment:" + secret, "Missing Provider Configuration",
		},
		{
			"password", "RABBITMQ_PASSWORD", "configured", "environment", connection(one.URL), login,
			"terraform:configured", "terraform:environment", "Missing Provider Configuration",
		},
		{
			"token", "RABBITMQ_TOKEN", "configured", " environment\n",
			connection(one.URL).with("username", nil).with("password", nil), login,
			"Bearer configured", "Bearer environment", "Missing Provider Configuration",
		},
		{
			"proxy", "RABBITMQ_PROXY", one.URL, two.URL, connection("http://192.0.2.1:15672").with("request_timeout", "100ms"), which,
			"first", "second", "Broker Not Reached",
		},
		{
			"vhost", "RABBITMQ_VHOST", "configured", "environment", connection(one.URL),
			func(block config) string { return plannedVHost(t, block) },
			"configured", "environment", "/",
		},
		{
			"amqp_endpoint", "RABBITMQ_AMQP_ENDPOINT", "amqp://127.0.0.1:2", "amqp://127.0.0.1:3", connection(one.URL),
			func(block config) string { return amqpAddress(t, block) },
			"127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:5672",
		},
	}...)
}

// plannedVHost plans a resource that names no virtual host, and says which it gets.
func plannedVHost(t *testing.T, block config) string {
	s := newServer(t)
	if found := s.Configure(t, block); len(found) > 0 {
		return found.String()
	}
	p := s.Plan(t, "rabbitmq_redrive", config{"queue": "orders.parking"}, protocol.State{})
	return fmt.Sprint(protocol.Go(protocol.At(p.Planned, "vhost")))
}

// amqpAddress destroys a chain, which must ask over AMQP, and says where it
// asked.
func amqpAddress(t *testing.T, block config) string {
	s := newServer(t)
	if found := s.Configure(t, block); len(found) > 0 {
		return found.String()
	}
	created, found := s.Apply(t, chain, s.Plan(t, chain, orders(), protocol.State{}))
	if len(found) > 0 {
		return found.String()
	}
	_, found = s.Apply(t, chain, s.Plan(t, chain, nil, created))
	for _, address := range []string{"127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:5672"} {
		if strings.Contains(found.String(), "//"+address+": ") {
			return address
		}
	}
	return found.String()
}

// tlsPrecedences are those about certificates.
func tlsPrecedences(t *testing.T) []precedence {
	ca, other := fake.NewAuthority(t), fake.NewAuthority(t)
	key := fake.NewKey(t)
	server := ca.Issue(t, "broker", key, time.Now().Add(time.Hour))
	broker := fake.NewTLS(t, "4.0.5", &tls.Config{
		Certificates: []tls.Certificate{server}, ClientAuth: tls.VerifyClientCertIfGiven, ClientCAs: ca.Pool,
	})
	first, keyFile := ca.Files(t, "first", key)
	second, _ := ca.Files(t, "second", key)
	_, wrongKey := ca.Files(t, "third", fake.NewKey(t))
	outcome := func(block config) string {
		broker.Take()
		if found := plan(t, block); len(found.Errors()) > 0 {
			return found.Errors()[0].Summary
		}
		return "connected as " + broker.Take()[0].Client
	}
	const refused, invalid = "No Secure Connection to the Broker", "Invalid Provider Configuration"
	block := connection(broker.URL)
	trusting := block.with("cacert_file", ca.File)
	return []precedence{
		{"cacert_file", "RABBITMQ_CACERT", ca.File, other.File, block, outcome, "connected as ", refused, refused},
		{"cacert_file", "RABBITMQ_CACERT", other.File, ca.File, block, outcome, refused, "connected as ", refused},
		{"insecure", "RABBITMQ_INSECURE", false, "true", block, outcome, refused, "connected as ", refused},
		{"insecure", "RABBITMQ_INSECURE", true, "false", block, outcome, "connected as ", refused, refused},
		{
			"clientcert_file", "RABBITMQ_CLIENTCERT", first, second, trusting.with("clientkey_file", keyFile), outcome,
			"connected as first", "connected as second", invalid,
		},
		{
			"clientkey_file", "RABBITMQ_CLIENTKEY", keyFile, wrongKey, trusting.with("clientcert_file", first), outcome,
			"connected as first", invalid, invalid,
		},
	}
}

// TestEveryVariableIsTested fails when the provider gains an attribute or a
// variable that the tables of this file do not know.
func TestEveryVariableIsTested(t *testing.T) {
	tested := map[string]bool{"headers": true, "request_timeout": true, "max_retries": true, "max_parallel_requests": true}
	for _, test := range precedences(t) {
		tested[test.attribute] = true
	}
	for _, a := range newServer(t).Schemas().Provider.Block.Attributes {
		if !tested[a.Name] {
			t.Errorf("no test says whether the configuration of %q beats its environment", a.Name)
		}
		for _, variable := range strings.FieldsFunc(a.Description, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }) {
			if strings.HasPrefix(variable, "RABBITMQ_") && !strings.Contains(strings.Join(variables, " "), variable) {
				t.Errorf("no test knows the variable %s", variable)
			}
		}
	}
}

// TestHeadersArriveAtTheBroker checks the headers of a gateway, and that the
// provider says who it is.
func TestHeadersArriveAtTheBroker(t *testing.T) {
	t.Parallel()
	api := fake.New(t, "4.0.5")
	if found := plan(t, connection(api.URL).with("headers", map[string]any{"X-Gateway": "a"})); len(found) > 0 {
		t.Fatal(found)
	}
	requests := api.Take()
	if len(requests) == 0 {
		t.Fatal("no request was made")
	}
	for _, request := range requests {
		if request.Header.Get("X-Gateway") != "a" || request.Header.Get("User-Agent") != "terraform-provider-rabbitmq/1.2.3" {
			t.Errorf("%s %s carries %v", request.Method, request.Path, request.Header)
		}
	}
}

// TestRetriesAreLimited counts how often a request is made that fails each time.
func TestRetriesAreLimited(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		retries any
		want    int
	}{"none": {0, 1}, "two": {2, 3}, "default": {nil, 6}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.New(t, "4.0.5")
			api.SetStatus(http.StatusServiceUnavailable)
			if found := plan(t, connection(api.URL).with("max_retries", test.retries)); len(found.Errors()) == 0 {
				t.Fatal("a plan without an answer succeeded")
			}
			if requests := api.Take(); len(requests) != test.want {
				t.Errorf("%d requests, expected %d", len(requests), test.want)
			}
		})
	}
}

// TestRequestTimeoutEndsARequest: the default is 30 s.
func TestRequestTimeoutEndsARequest(t *testing.T) {
	t.Parallel()
	api := fake.New(t, "4.0.5")
	api.SetPause(time.Second)
	if found := plan(t, connection(api.URL).with("request_timeout", "100ms")); len(found.Errors()) == 0 {
		t.Error("a plan succeeded although each answer came too late")
	}
	if found := plan(t, connection(api.URL)); len(found.Errors()) > 0 {
		t.Errorf("a slow broker is an error: %s", found)
	}
}

// TestParallelRequestsAreLimited creates a chain that has more objects of a kind
// than requests may be under way at once.
func TestParallelRequestsAreLimited(t *testing.T) {
	t.Parallel()
	delays := make([]any, 30)
	for i := range delays {
		delays[i] = time.Duration((i + 1) * int(time.Second)).String()
	}
	for name, test := range map[string]struct {
		limit any
		want  int
	}{"one": {1, 1}, "three": {3, 3}, "default": {nil, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := fake.New(t, "4.0.5")
			api.SetPause(3 * time.Millisecond)
			s := newServer(t)
			if found := s.Configure(t, connection(api.URL).with("max_parallel_requests", test.limit)); len(found) > 0 {
				t.Fatal(found)
			}
			if _, found := s.Apply(t, chain, s.Plan(t, chain, orders().with("delays", delays), protocol.State{})); len(found) > 0 {
				t.Fatal(found)
			}
			if most := api.MostParallel(); most != test.want {
				t.Errorf("%d requests were under way at once, expected %d", most, test.want)
			}
		})
	}
}
