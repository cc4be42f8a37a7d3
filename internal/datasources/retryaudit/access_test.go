package retryaudit_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/fake"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
)

// asUser makes a user with one tag, who may neither configure nor write nor read
// anything in the virtual host, and returns the broker as that user sees it.
func asUser(t *testing.T, w *world, tag string) *rabbit.Broker {
	t.Helper()
	const password = "s3cret-word"
	user := tag + "-" + w.vhost
	resp, err := w.api.PutUser(user, rabbithole.UserSettings{Name: user, Password: password, Tags: rabbithole.UserTags{tag}})
	acctest.Do(t, resp, err)
	t.Cleanup(func() {
		resp, err := w.api.DeleteUser(user)
		acctest.Do(t, resp, err)
	})
	nothing := rabbithole.Permissions{Configure: "^$", Write: "^$", Read: "^$"}
	resp, err = w.api.UpdatePermissionsIn(w.vhost, user, nothing)
	acctest.Do(t, resp, err)
	limited := *w.b
	limited.Username, limited.Password = user, password
	return &limited
}

// TestAccReadOnlyUser: a user who may read nothing but the management API finds
// the same, and without rights in the virtual host a clear error.
func TestAccReadOnlyUser(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		w.queue("work", "quorum", args{"x-dead-letter-exchange": "missing"})
		w.policy("work", args{"expires": 100000})
		want := w.audit()
		if len(want) == 0 {
			t.Fatal("nothing to find")
		}
		for _, tag := range []string{"monitoring", "management"} {
			user := asUser(t, w, tag)
			isUnknown := func(f finding) bool {
				return f.Rule == "shovel_without_acknowledgement" && f.Severity == "info" && f.Name == "shovels" && strings.Contains(f.Message, "policymaker")
			}
			if found := read(t, configured(t, user), map[string]any{"vhost": w.vhost}); !slices.ContainsFunc(found, isUnknown) || slices.ContainsFunc(want, isUnknown) {
				t.Errorf("%s may not list shovels, and the audit does not say so: %v", tag, found)
			}
			got := read(t, configured(t, user), map[string]any{"vhost": w.vhost})
			if !slices.Equal(withoutBroker(got), withoutBroker(want)) {
				t.Errorf("%s finds\n%v\nexpected\n%v", tag, got, want)
			}
			resp, err := w.api.ClearPermissionsIn(w.vhost, user.Username)
			acctest.Do(t, resp, err)
			_, found := configured(t, user).ReadData(t, source, map[string]any{"vhost": w.vhost})
			expectError(t, found, user.Username, w.vhost, "set_permissions")
		}
	})
}

// withoutBroker leaves out what the broker says of all virtual hosts: other tests
// change that.
func withoutBroker(findings []finding) []finding {
	return slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return f.Kind == "broker" })
}

func expectError(t *testing.T, found protocol.Diagnostics, words ...string) {
	t.Helper()
	if len(found.Errors()) != 1 {
		t.Fatalf("expected one error: %s", found)
	}
	for _, word := range words {
		if !strings.Contains(found.String(), word) {
			t.Errorf("the error lacks %q:\n%s", word, found)
		}
	}
}

func TestAccUnusableBroker(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		_, found := configured(t, b).ReadData(t, source, map[string]any{"vhost": "nowhere"})
		expectError(t, found, "Virtual Host Not Found", "nowhere", "[vhost]")

		wrong := *b
		wrong.Password = "wrong"
		_, found = configured(t, &wrong).ReadData(t, source, nil)
		expectError(t, found, "Login Refused", b.Username)
		if strings.Contains(found.String(), `"wrong"`) {
			t.Errorf("the error shows the password: %s", found)
		}

		silent := *b
		silent.Endpoint = "http://127.0.0.1:1"
		_, found = configured(t, &silent).ReadData(t, source, nil)
		expectError(t, found, "Broker Not Reached", "127.0.0.1:1")
	})
}

func TestBrokerThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	s := protocol.New(t, acctest.NewProvider(&rabbit.Broker{}))
	if found := s.Configure(t, map[string]any{"endpoint": protocol.Unknown, "username": "a", "password": "b"}); len(found) > 0 {
		t.Fatal(found)
	}
	_, found := s.ReadData(t, source, nil)
	expectError(t, found, "Broker Not Known", "-target")
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	s := configured(t, &rabbit.Broker{Endpoint: fake.New(t, "4.0.5").URL, Username: "guest", Password: "guest"})
	for name, test := range map[string]struct {
		config map[string]any
		want   []string
	}{
		"pattern":  {map[string]any{"name_pattern": "("}, []string{"[name_pattern]", "Invalid Regular Expression", "RE2"}},
		"rule":     {map[string]any{"ignore_rules": []any{"no_such_rule"}}, []string{"ignore_rules", "no_such_rule", "hot_loop"}},
		"severity": {map[string]any{"minimum_severity": "fatal"}, []string{"[minimum_severity]", "warning"}},
		"vhost":    {map[string]any{"vhost": ""}, []string{"[vhost]", "at least 1"}},
	} {
		_, found := s.ReadData(t, source, test.config)
		expectError(t, found, test.want...)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestAccFilters: each input leaves out what it says, and the counts count what
// is left.
func TestAccFilters(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		for _, name := range []string{"one", "two"} {
			w.queue(name, "classic", args{"x-dead-letter-exchange": "missing", "x-dead-leter-exchange": ""})
			w.queue(name+".plain", "classic", nil)
		}
		s := configured(t, b)
		for _, test := range []struct {
			config                map[string]any
			errors, warnings, all int
		}{
			{map[string]any{}, 2, 2, 6},
			{map[string]any{"minimum_severity": "warning"}, 2, 2, 4},
			{map[string]any{"minimum_severity": "error"}, 2, 0, 2},
			{map[string]any{"name_pattern": "^one"}, 1, 1, 3},
			{map[string]any{"ignore_rules": []any{"missing_dead_letter_exchange"}}, 0, 2, 4},
			{map[string]any{"ignore_rules": []any{"unknown_argument", "no_dead_letter_exchange"}, "name_pattern": "w"}, 1, 0, 1},
			{map[string]any{"name_pattern": "nothing"}, 0, 0, 0},
		} {
			config := map[string]any{"vhost": w.vhost, "ignore_rules": []any{"deprecated_feature"}}
			for key, value := range test.config {
				if key == "ignore_rules" {
					value = append([]any{"deprecated_feature"}, value.([]any)...)
				}
				config[key] = value
			}
			state, found := s.ReadData(t, source, config)
			if len(found) > 0 {
				t.Fatal(found)
			}
			number := func(path string) int { n, _ := protocol.Go(protocol.At(state, path)).(int64); return int(n) }
			list := protocol.Go(protocol.At(state, "findings")).([]any)
			if number("counts.error") != test.errors || number("counts.warning") != test.warnings || len(list) != test.all ||
				number("counts.info") != test.all-test.errors-test.warnings {
				t.Errorf("%v: %v, %v", test.config, protocol.Go(protocol.At(state, "counts")), list)
			}
			if version := protocol.Go(protocol.At(state, "broker_version")); version != b.Version {
				t.Errorf("the version is %v, expected %s", version, b.Version)
			}
		}
	})
}

// TestAccCalls: an audit shares the requests of a refresh, however many there
// are, and makes one more for shovels, and one where the broker can tell deprecated
// features.
func TestAccCalls(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		chain := map[string]any{"name": "orders", "vhost": w.vhost, "strategy": "routing_key", "delays": []any{"1s"}}
		s := configured(t, b)
		state, found := s.Apply(t, "rabbitmq_retry_chain", s.Plan(t, "rabbitmq_retry_chain", chain, protocol.State{}))
		if len(found.Errors()) > 0 {
			t.Fatal(found)
		}
		p := proxy.New(t, b.Endpoint)
		through := *b
		through.Endpoint = p.URL
		s = configured(t, &through)
		if _, found := s.Read(t, "rabbitmq_retry_chain", state); len(found.Errors()) > 0 {
			t.Fatal(found)
		}
		for range 3 {
			read(t, s, map[string]any{"vhost": w.vhost})
		}
		want := 7
		if acctest.Modern(b) {
			want = 8
		}
		if requests := p.Take(); len(requests) != want {
			t.Errorf("%d requests, expected %d: %v", len(requests), want, requests)
		}
	})
}

// TestAccDeprecatedFeature: a queue that is neither durable nor exclusive is
// found, on 3.13 and later also by what the broker says itself. That a restart
// deletes it is in RabbitMQ's own documentation; the brokers of the tests are
// shared.
func TestAccDeprecatedFeature(t *testing.T) {
	acctest.EachWith(t, "RabbitMQ 4.3 refuses transient queues", before43, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		resp, err := w.api.DeclareQueue(w.vhost, "transient", rabbithole.QueueSettings{Type: "classic", AutoDelete: false, Durable: false})
		acctest.Do(t, resp, err)
		isTransient := func(f finding) bool {
			return f.Rule == "deprecated_feature" && f.Severity == "warning" && f.Name == "transient"
		}
		if found := w.audit(); !slices.ContainsFunc(found, isTransient) {
			t.Errorf("not found in %v", found)
		}
		if acctest.Modern(b) {
			w.eventually("the broker's own word", func() bool {
				return slices.ContainsFunc(w.audit(), func(f finding) bool { return f.Kind == "broker" && f.Name == "transient_nonexcl_queues" })
			})
		}
		w.deleteQueue("transient")
		w.queue("transient", "classic", nil)
		if found := w.audit(); slices.ContainsFunc(found, isTransient) {
			t.Errorf("found in %v", found)
		}
	})
}

// TestBrokerWithoutDeprecatedFeatures: a broker, or a gateway before it, that
// does not know the request is not an error.
func TestBrokerWithoutDeprecatedFeatures(t *testing.T) {
	t.Parallel()
	api := fake.New(t, "4.0.5")
	s := configured(t, &rabbit.Broker{Endpoint: api.URL, Username: "guest", Password: "guest"})
	if findings := read(t, s, nil); len(findings) > 0 {
		t.Errorf("an empty virtual host has findings: %v", findings)
	}
	asked := slices.ContainsFunc(api.Take(), func(r fake.Request) bool {
		return r.Method == http.MethodGet && r.Path == "/api/deprecated-features/used"
	})
	if !asked {
		t.Error("the broker was not asked")
	}
}

// TestAccSeesChangesOfOthers: what others change while the provider's process
// goes on, as in an apply, is seen after a few seconds.
func TestAccSeesChangesOfOthers(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		w := newWorld(t, b)
		s := configured(t, b)
		config := map[string]any{"vhost": w.vhost, "minimum_severity": "error"}
		if found := read(t, s, config); len(found) > 0 {
			t.Fatalf("an empty virtual host has findings: %v", found)
		}
		w.queue("work", "classic", args{"x-dead-letter-exchange": "missing"})
		w.eventually("the finding", func() bool { return len(read(t, s, config)) == 1 })
	})
}
