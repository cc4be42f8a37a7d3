package provider_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
)

// TestUnknownConfigurationIsNotEmpty gives each attribute a value that is known
// only after apply, and everything else in configuration and environment. The
// plan works, leaves open what depends on the broker, and nobody is asked.
func TestUnknownConfigurationIsNotEmpty(t *testing.T) {
	api := fake.New(t, "4.0.5")
	t.Setenv("RABBITMQ_ENDPOINT", api.URL)
	t.Setenv("RABBITMQ_USERNAME", "environment")
	t.Setenv("RABBITMQ_PASSWORD", secret)
	blocks := map[string]config{
		"one of the headers": connection(api.URL).with("headers", map[string]any{"X-Token": protocol.Unknown, "X-Other": "known"}),
	}
	for _, a := range newServer(t).Schemas().Provider.Block.Attributes {
		if a.Name == "vhost" {
			continue // no part of the connection, see TestUnknownDefaultVHost
		}
		blocks[a.Name] = connection(api.URL).with(a.Name, protocol.Unknown)
	}
	for name, block := range blocks {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			if found := s.Configure(t, block); len(found) > 0 {
				t.Fatal(found)
			}
			p := s.Plan(t, chain, orders(), protocol.State{})
			if len(p.Diagnostics) > 0 {
				t.Fatal(p.Diagnostics)
			}
			for path, want := range map[string]any{
				"id": "orders@/", "retry_exchange": "orders.retry", "tiers[1]": "orders.attempt.5s",
				"topology": protocol.Unknown, "work_queue.delivery_limit": protocol.Unknown,
				"work_queue.effective_delivery_limit": protocol.Unknown, "work_queue_arguments": protocol.Unknown,
			} {
				if got := protocol.Go(protocol.At(p.Planned, path)); got != want {
					t.Errorf("%s is planned as %v, expected %v", path, got, want)
				}
			}
			if requests := api.Take(); len(requests) > 0 {
				t.Errorf("requests were made: %v", requests)
			}
		})
	}
}

// TestUnknownBrokerRefreshes: without a broker to ask, a refresh leaves the
// state as it is.
func TestUnknownBrokerRefreshes(t *testing.T) {
	api := fake.New(t, "4.0.5")
	known, later := newServer(t), newServer(t)
	found := append(known.Configure(t, connection(api.URL)), later.Configure(t, config{"endpoint": protocol.Unknown})...)
	if len(found) > 0 {
		t.Fatal(found)
	}
	state, found := known.Apply(t, chain, known.Plan(t, chain, orders(), protocol.State{}))
	if len(found) > 0 {
		t.Fatal(found)
	}
	read, found := later.Read(t, chain, state)
	if len(found) > 0 || !read.Value.Equal(state.Value) {
		t.Errorf("the refresh gives %v\n%s", protocol.Go(read.Value), found)
	}
	if p := later.Plan(t, chain, orders(), read); len(p.Diagnostics) > 0 || !p.Planned.Equal(state.Value) {
		t.Errorf("the plan after it is not empty: %v\n%s", protocol.Go(p.Planned), p.Diagnostics)
	}
}

// TestUnknownBrokerChangesNothing: what cannot be done without a broker is an
// error, not a crash, and the state is kept.
func TestUnknownBrokerChangesNothing(t *testing.T) {
	s := newServer(t)
	if found := s.Configure(t, config{"endpoint": protocol.Unknown}); len(found) > 0 {
		t.Fatal(found)
	}
	classic := orders().with("queue_type", "classic").with("strategy", "headers")
	p := s.Plan(t, chain, classic, protocol.State{})
	created, found := s.Apply(t, chain, p)
	expectError(t, found, "", "Broker Not Known", "known only after apply")
	if !created.Value.IsNull() {
		t.Errorf("the failed create leaves %v", protocol.Go(created.Value))
	}
	state := protocol.State{Value: p.Planned}
	destroyed, found := s.Apply(t, chain, s.Plan(t, chain, nil, state))
	expectError(t, found, "", "Broker Not Known")
	if destroyed.Value.IsNull() {
		t.Error("a destroy that failed forgets the chain")
	}
	_, found = s.Apply(t, chain, s.Plan(t, chain, classic.with("deletion_policy", "delete"), state))
	expectError(t, found, "", "Broker Not Known")
	_, found = s.Import(t, chain, "orders@/", nil)
	expectError(t, found, "", "Broker Not Known")
}

// expectError expects exactly one error, with the path and the words.
func expectError(t *testing.T, found protocol.Diagnostics, path string, words ...string) {
	t.Helper()
	errors := found.Errors()
	if len(errors) != 1 {
		t.Errorf("%d errors, expected one with %q:\n%s", len(errors), words, found)
		return
	}
	if got := protocol.PathOf(errors[0]); got != path {
		t.Errorf("the error is on %q, expected %q:\n%s", got, path, found)
	}
	for _, word := range words {
		if !strings.Contains(errors.String(), word) {
			t.Errorf("the error lacks %q:\n%s", word, found)
		}
	}
}

// TestInvalidConfiguration: each mistake is an error on its attribute, before
// any request.
func TestInvalidConfiguration(t *testing.T) {
	api := fake.New(t, "4.0.5")
	for name, test := range map[string]struct {
		attribute string
		value     any
		want      string
	}{
		"no endpoint":              {"endpoint", nil, "RABBITMQ_ENDPOINT"},
		"empty endpoint":           {"endpoint", "", "RABBITMQ_ENDPOINT"},
		"no username":              {"username", nil, "RABBITMQ_USERNAME"},
		"no password":              {"password", nil, "RABBITMQ_PASSWORD"},
		"endpoint of AMQP":         {"endpoint", "amqp://localhost:5672", "http:// or https://"},
		"password in the endpoint": {"endpoint", "http://terraform:" + secret + "@localhost:15672", "username and password"},
		"no URL":                   {"endpoint", "http://[::1", "not a valid URL"},
		"amqp_endpoint of HTTP":    {"amqp_endpoint", "http://localhost:15672", "amqp:// or amqps://"},
		"password in amqp":         {"amqp_endpoint", "amqp://terraform:" + secret + "@localhost:5672", "username and password"},
		"negative timeout":         {"request_timeout", "-5s", "negative"},
		"no duration":              {"request_timeout", "soon", "not a duration"},
		"part of a millisecond":    {"request_timeout", "10us", "milliseconds"},
		"no time at all":           {"request_timeout", "0s", "request_timeout"},
		"negative retries":         {"max_retries", -1, "between 0 and 20"},
		"many retries":             {"max_retries", 21, "between 0 and 20"},
		"no request":               {"max_parallel_requests", 0, "between 1 and 100"},
		"many requests":            {"max_parallel_requests", 101, "between 1 and 100"},
		"proxy without scheme":     {"proxy", "localhost:3128", "http://proxy:3128"},
		"missing CA file":          {"cacert_file", "no-such-file.pem", "no-such-file.pem"},
		"missing certificate":      {"clientcert_file", "no-such-file.pem", "set both"},
		"missing key":              {"clientkey_file", "no-such-file.pem", "set both"},
		"header name":              {"headers", map[string]any{"X Gateway": "a"}, "name of an HTTP header"},
		"header value":             {"headers", map[string]any{"X-Gateway": secret + "\n"}, "line break"},
	} {
		t.Run(name, func(t *testing.T) {
			found := plan(t, connection(api.URL).with(test.attribute, test.value))
			path := test.attribute
			switch name { // the mistake is the attribute that is not there
			case "missing certificate":
				path = "clientkey_file"
			case "missing key":
				path = "clientcert_file"
			}
			expectError(t, found, path, test.want)
		})
	}
	t.Run("RABBITMQ_INSECURE", func(t *testing.T) {
		t.Setenv("RABBITMQ_INSECURE", "perhaps")
		expectError(t, plan(t, connection(api.URL)), "insecure", "Invalid Environment Variable", `"perhaps"`, "true or false")
	})
	if requests := api.Take(); len(requests) > 0 {
		t.Errorf("requests were made: %v", requests)
	}
}

// TestEveryMissingValueIsSaid: an empty block is one error per value.
func TestEveryMissingValueIsSaid(t *testing.T) {
	var paths []string
	for _, d := range newServer(t).Configure(t, config{}).Errors() {
		paths = append(paths, protocol.PathOf(d))
	}
	slices.Sort(paths)
	if want := []string{"endpoint", "password", "username"}; !slices.Equal(paths, want) {
		t.Errorf("errors on %q, expected %q", paths, want)
	}
}

// literal finds the default in a description, where it is a value.
var literal = regexp.MustCompile("Default: `([^`]+)`\\.")

// TestDescribedDefaultsAreTrue plans a chain that sets nothing, but for a policy
// that is left out of the plan otherwise, and compares
// what the descriptions say with what is planned.
func TestDescribedDefaultsAreTrue(t *testing.T) {
	api := fake.New(t, "4.0.5")
	s := newServer(t)
	if found := s.Configure(t, connection(api.URL)); len(found) > 0 {
		t.Fatal(found)
	}
	p := s.Plan(t, chain, config{"name": "orders", "delays": []any{}, "policy": map[string]any{}}, protocol.State{})
	checked := compareDefaults(t, p, s.Schemas().ResourceSchemas[chain].Block.Attributes, "")
	slices.Sort(checked)
	for _, name := range []string{"deletion_policy", "queue_type", "strategy", "vhost", "work_queue.single_active_consumer"} {
		if !slices.Contains(checked, name) {
			t.Errorf("the description of %s tells no default; those of %q do", name, checked)
		}
	}
}

func compareDefaults(t *testing.T, p protocol.Plan, attributes []*tfprotov6.SchemaAttribute, within string) []string {
	t.Helper()
	var checked []string
	for _, a := range attributes {
		if a.Name == "timeouts" {
			continue // Terraform's own, which the provider never plans
		}
		if a.NestedType != nil && a.NestedType.Nesting == tfprotov6.SchemaObjectNestingModeSingle {
			checked = append(checked, compareDefaults(t, p, a.NestedType.Attributes, a.Name+".")...)
		}
		said := literal.FindStringSubmatch(a.Description)
		if said == nil {
			continue
		}
		checked = append(checked, within+a.Name)
		if got := fmt.Sprint(protocol.Go(protocol.At(p.Planned, within+a.Name))); got != said[1] {
			t.Errorf("the default of %s is %s, its description says %s", within+a.Name, got, said[1])
		}
	}
	return checked
}

// runs are the resources that stand for a run, and not for an object of the
// broker that could be identified.
var runs = []string{"rabbitmq_discard", "rabbitmq_redrive"}

// TestTheSchemaIsValid checks names and descriptions of everything that the
// provider offers, the identity included.
func TestTheSchemaIsValid(t *testing.T) {
	s := newServer(t)
	identities, err := s.GetResourceIdentitySchemas(t.Context(), &tfprotov6.GetResourceIdentitySchemasRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Schemas().ResourceSchemas)) {
		if s.Schemas().ResourceSchemas[name].Block.Description == "" {
			t.Errorf("the resource %s has no description", name)
		}
		identity := identities.IdentitySchemas[name]
		if slices.Contains(runs, name) {
			continue
		}
		if identity == nil {
			t.Errorf("the resource %s has no identity", name)
			continue
		}
		for _, a := range identity.IdentityAttributes {
			if a.Description == "" {
				t.Errorf("the identity of %s has no description of %q", name, a.Name)
			}
		}
	}
}

// TestTokenOrPassword: a token and a user rule each other out, in one place. What the block
// has hides the environment of the other.
func TestTokenOrPassword(t *testing.T) {
	api := fake.New(t, "4.0.5")
	t.Setenv("RABBITMQ_ENDPOINT", api.URL)
	user, token := config{"username": "u", "password": secret}, config{"token": secret}
	const missing = "Missing Provider Configuration"
	both := map[string]string{"RABBITMQ_USERNAME": "u", "RABBITMQ_PASSWORD": secret, "RABBITMQ_TOKEN": secret}
	for name, test := range map[string]struct {
		block       config
		environment map[string]string
		title, want string
	}{
		"both in the block":       {token.with("username", "u").with("password", "p"), nil, "Invalid Attribute Combination", ""},
		"both in the environment": {config{}, both, "Token and Password", ""},
		"the block has a token":   {token, both, "", "Bearer " + secret},
		"the block has a user":    {user, both, "", "Basic "},
		"an empty token":          {config{"token": ""}, nil, "Invalid Attribute Value Length", ""},
		"half a user":             {config{"username": "u"}, both, "", "Basic "},
		"a user, no password":     {config{"username": "u"}, map[string]string{"RABBITMQ_TOKEN": secret}, missing, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range test.environment {
				t.Setenv(variable, value)
			}
			found := plan(t, test.block)
			if test.title != "" {
				if len(found.Errors()) == 0 || found.Errors()[0].Summary != test.title {
					t.Errorf("expected %q, found %s", test.title, found)
				}
				return
			}
			requests := api.Take()
			if len(found) > 0 || len(requests) == 0 || !strings.HasPrefix(requests[0].Header.Get("Authorization"), test.want) {
				t.Errorf("%v: %s", requests, found)
			}
		})
	}
}
