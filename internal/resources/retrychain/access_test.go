package retrychain_test

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/protocol"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/proxy"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/acctest/rabbit"
	"github.com/retrychain/terraform-provider-rabbitmq/internal/broker"
)

// everything is a user's permission to do all in a virtual host.
var everything = rabbithole.Permissions{Configure: ".*", Write: ".*", Read: ".*"}

const userPassword = "s3cret-word"

// asUser makes a user with one tag and returns the broker as that user sees it.
func asUser(t *testing.T, b *rabbit.Broker, vhost, tag string, permissions rabbithole.Permissions) *rabbit.Broker {
	t.Helper()
	api, user := acctest.API(t, b), tag+"-"+vhost
	resp, err := api.PutUser(user, rabbithole.UserSettings{Name: user, Password: userPassword, Tags: rabbithole.UserTags{tag}})
	acctest.Do(t, resp, err)
	t.Cleanup(func() {
		resp, err := api.DeleteUser(user)
		acctest.Do(t, resp, err)
	})
	permit(t, b, vhost, user, permissions)
	limited := *b
	limited.Username, limited.Password = user, userPassword
	limited.AMQP = "amqp://" + user + ":" + userPassword + "@" + amqpHost(b)
	return &limited
}

func permit(t *testing.T, b *rabbit.Broker, vhost, user string, permissions rabbithole.Permissions) {
	t.Helper()
	resp, err := acctest.API(t, b).UpdatePermissionsIn(vhost, user, permissions)
	acctest.Do(t, resp, err)
}

// otherDelays is the session's configuration with another delay.
func (s *session) otherDelays() map[string]any {
	config := maps.Clone(s.config)
	config["delays"] = []any{"1s", "3s"}
	return config
}

// attempts are the runs that meet a broker which has changed: a refresh, a plan
// and an apply without one, and a destroy without one. All plans were made
// before. Each returns what the provider says and the state that it leaves.
func (s *session) attempts() map[string]func() (protocol.State, protocol.Diagnostics) {
	s.t.Helper()
	update := s.provider().Plan(s.t, chainType, s.otherDelays(), s.state)
	destroy := s.provider().Plan(s.t, chainType, nil, s.state)
	for _, plan := range []protocol.Plan{update, destroy} {
		if len(plan.Diagnostics.Errors()) > 0 {
			s.t.Fatal(plan.Diagnostics)
		}
	}
	return map[string]func() (protocol.State, protocol.Diagnostics){
		"refresh": func() (protocol.State, protocol.Diagnostics) { return s.provider().Read(s.t, chainType, s.state) },
		"plan": func() (protocol.State, protocol.Diagnostics) {
			return s.state, s.provider().Plan(s.t, chainType, s.otherDelays(), s.state).Diagnostics
		},
		"apply":   func() (protocol.State, protocol.Diagnostics) { return s.provider().Apply(s.t, chainType, update) },
		"destroy": func() (protocol.State, protocol.Diagnostics) { return s.provider().Apply(s.t, chainType, destroy) },
	}
}

// expectKept fails the test unless the run failed with the words, shows no
// password, and left a state with the inputs of before.
func (s *session) expectKept(run string, after protocol.State, found protocol.Diagnostics, words ...string) {
	s.t.Helper()
	if len(found.Errors()) == 0 {
		s.t.Errorf("%s: no error", run)
		return
	}
	expectRefused(s.t, found, words...)
	expectNoText(s.t, found.String(), s.b.Password)
	if run == "refresh" {
		return // Terraform keeps the state after a refresh with an error
	}
	for _, attribute := range []string{"name", "vhost", "delays", "id", "deletion_policy"} {
		if before, now := protocol.At(s.state.Value, attribute), protocol.At(after.Value, attribute); !now.Equal(before) {
			s.t.Errorf("%s: the state has %s = %v, and had %v", run, attribute, protocol.Go(now), protocol.Go(before))
		}
	}
}

// TestAccLostAccess takes the user's rights in the virtual host away. Every run
// fails and names the user and the virtual host; the chain stays in the state,
// and with the rights back there is nothing to do.
func TestAccLostAccess(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, tag := range []string{"monitoring", "management"} {
			t.Run(tag, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				user := asUser(t, b, vhost, tag, everything)
				s := newSession(t, user, vhost, turn(b, i), map[string]any{"deletion_policy": "if_empty"})
				s.apply()
				before := queues(t, b, vhost) + exchanges(t, b, vhost)
				attempts := s.attempts()

				resp, err := acctest.API(t, b).ClearPermissionsIn(vhost, user.Username)
				acctest.Do(t, resp, err)
				for run, attempt := range attempts {
					after, found := attempt()
					s.expectKept(run, after, found, "no access to", user.Username, vhost, "set_permissions")
					if tag == "monitoring" {
						expectRefused(t, found, "No Access to the Virtual Host")
					}
				}
				if now := queues(t, b, vhost) + exchanges(t, b, vhost); now != before {
					t.Errorf("%d objects of %d are left", now, before)
				}
				permit(t, b, vhost, user.Username, everything)
				s.expectPlan(s.plan())
			})
		}
	})
}

// TestAccAdministratorLosesAccess: an administrator reads every virtual host and
// changes none without permissions. A refresh works as before, and what would
// change something names the user and the virtual host.
func TestAccAdministratorLosesAccess(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost := acctest.VHost(t, b)
		user := asUser(t, b, vhost, "administrator", everything)
		s := newSession(t, user, vhost, turn(b, 0), map[string]any{"deletion_policy": "if_empty"})
		s.apply()
		attempts := s.attempts()
		resp, err := acctest.API(t, b).ClearPermissionsIn(vhost, user.Username)
		acctest.Do(t, resp, err)

		s.expectPlan(s.plan())
		after, found := attempts["apply"]()
		s.expectKept("apply", after, found, "Permission Missing", "configure", "3s", user.Username, vhost, "set_permissions")
		after, found = attempts["destroy"]()
		s.expectKept("destroy", after, found, user.Username, vhost, "set_permissions")
		permit(t, b, vhost, user.Username, everything)
		s.expectPlan(s.plan())
	})
}

// TestAccDeletedVHost deletes the virtual host. Who sees all virtual hosts gets
// the chain dropped from the state, and a plan that says what is missing; a
// destroy succeeds. Who does not cannot know, and gets an error.
func TestAccDeletedVHost(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, tag := range []string{"administrator", "monitoring", "management"} {
			t.Run(tag, func(t *testing.T) {
				t.Parallel()
				vhost, api := acctest.VHost(t, b), acctest.API(t, b)
				s := newSession(t, asUser(t, b, vhost, tag, everything), vhost, turn(b, i+1), map[string]any{"deletion_policy": "if_empty"})
				s.apply()
				attempts := s.attempts()
				resp, err := api.DeleteVhost(vhost)
				acctest.Do(t, resp, err)

				after, found := attempts["apply"]()
				s.expectKept("apply", after, found, "Virtual Host Not Found", vhost, "create it")
				after, found = attempts["plan"]()
				if tag == "management" {
					s.expectKept("plan", after, found, "Virtual Host Not Found", vhost, "create it")
				} else {
					expectWarned(t, found, "Virtual Host Not Found", vhost, "create it")
				}
				if visible := vhosts(t, b); slices.Contains(visible, vhost) {
					t.Error("the virtual host is there again")
				}
				state, found := attempts["refresh"]()
				if tag == "management" {
					s.expectKept("refresh", state, found, "Virtual Host Not Found", "or the user", s.b.Username, vhost)
					after, found := attempts["destroy"]()
					s.expectKept("destroy", after, found, "Virtual Host Not Found", s.b.Username, vhost)
					return
				}
				if len(found) > 0 || !state.Value.IsNull() {
					t.Errorf("the refresh gives %v\n%s", protocol.Go(state.Value), found)
				}
				s.expectDropped()
				if after, found := attempts["destroy"](); len(found.Errors()) > 0 || !after.Value.IsNull() {
					t.Errorf("the destroy leaves %v\n%s", protocol.Go(after.Value), found)
				}
			})
		}
	})
}

// expectDropped: the plan that follows the refresh which dropped the chain only
// warns, and so does the plan at apply. The same run may create the virtual host
// again; the apply fails if it does not.
func (s *session) expectDropped() {
	s.t.Helper()
	server := s.provider()
	server.Read(s.t, chainType, s.state)
	plan := server.Plan(s.t, chainType, s.config, protocol.State{})
	if titles := warnings(plan.Diagnostics); len(plan.Diagnostics.Errors()) > 0 || !slices.Contains(titles, "Virtual Host Not Found") {
		s.t.Errorf("the plan after the refresh says:\n%s", plan.Diagnostics)
	}
	if again := s.provider().Plan(s.t, chainType, s.config, protocol.State{}); len(again.Diagnostics.Errors()) > 0 {
		s.t.Errorf("the plan at apply says:\n%s", again.Diagnostics)
	}
	after, found := s.provider().Apply(s.t, chainType, plan)
	expectRefused(s.t, found, "Virtual Host Not Found", "create it")
	if !after.Value.IsNull() {
		s.t.Errorf("the create that failed leaves %v", protocol.Go(after.Value))
	}
}

// vhosts asks with the provider's own client: rabbit-hole cannot read a list from which
// another test is deleting.
func vhosts(t *testing.T, b *rabbit.Broker) []string {
	t.Helper()
	c, err := broker.New(broker.Config{Endpoint: b.Endpoint, Username: b.Username, Password: b.Password})
	if err != nil {
		t.Fatal(err)
	}
	names, err := c.Vhosts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// TestAccDeletedVHostPlan does the same with the CLI: a plan warns, its apply
// fails, a destroy succeeds, and the chain is made again where the virtual host
// has come back.
func TestAccDeletedVHostPlan(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		vhost, api := acctest.VHost(t, b), acctest.API(t, b)
		w := acctest.Terraform(t, settings{policy: "if_empty"}.config(b, vhost))
		apply(t, w)
		again := func() {
			resp, err := api.PutVhost(vhost, rabbithole.VhostSettings{})
			acctest.Do(t, resp, err)
			permit(t, b, vhost, b.Username, everything)
		}
		remove := func() {
			resp, err := api.DeleteVhost(vhost)
			acctest.Do(t, resp, err)
		}
		remove()
		missing := []string{"Virtual Host Not Found", "here is no virtual host \"" + vhost + "\"", "create it"}
		expectText(t, acctest.Run(t, w, "plan", "-refresh-only"), "has been deleted")
		expectText(t, acctest.Run(t, w, "plan"), append(missing, "Warning:", "will be created")...)
		expectText(t, acctest.RunError(t, w, "apply", "-auto-approve"), append(missing, "Error:")...)
		if slices.Contains(vhosts(t, b), vhost) {
			t.Error("the virtual host is there again")
		}
		again()
		apply(t, w)
		expectEmptyPlan(t, w)
		remove()
		acctest.Run(t, w, "destroy", "-auto-approve")
		if state := acctest.Run(t, w, "state", "list"); state != "" {
			t.Errorf("the state still holds %s", state)
		}
		again() // for the end of the test
	})
}

// failure is how a broker, or a gateway in front of it, does not answer.
type failure struct {
	name   string
	answer http.HandlerFunc
	words  []string
}

var failures = []failure{
	{"500", status(http.StatusInternalServerError), []string{"500"}},
	{"503 with a page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte("<html>no healthy upstream</html>"))
	}, []string{"503"}},
	{"cut connection", cut, []string{"Broker Not Reached"}},
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = w.Write([]byte(`{"error":"broken","reason":"broken on purpose"}`))
	}
}

// cut ends the connection in the place of an answer.
func cut(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		if tcp, is := conn.(*net.TCPConn); is {
			_ = tcp.SetLinger(0)
		}
		_ = conn.Close()
	}
}

// behind is the broker behind a proxy.
func behind(b *rabbit.Broker, p *proxy.Proxy) *rabbit.Broker {
	hidden := *b
	hidden.Endpoint = p.URL
	return &hidden
}

// spread runs n cases, each on one of the brokers in turn.
func spread(t *testing.T, n int, name func(i int) string, test func(t *testing.T, b *rabbit.Broker, i int)) {
	brokers := acctest.Brokers(t)
	for i := range n {
		b := brokers[i%len(brokers)]
		t.Run(b.Name+"/"+name(i), func(t *testing.T) {
			t.Parallel()
			test(t, b, i)
		})
	}
}

// TestAccFailingBroker: every run against a broker that fails, or that nobody
// reaches, is an error and keeps the state; afterwards there is nothing to mend.
// What fails is a proxy, and so each case meets one broker.
func TestAccFailingBroker(t *testing.T) {
	all := append(slices.Clone(failures), failure{"nothing listens", nil, []string{"Broker Not Reached", "connection refused"}})
	spread(t, len(all), func(i int) string { return all[i].name }, func(t *testing.T, b *rabbit.Broker, i int) {
		f := all[i]
		vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
		s := newSession(t, behind(b, p), vhost, turn(b, i), map[string]any{"deletion_policy": "if_empty"})
		s.apply()
		attempts := s.attempts()
		p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
			f.answer(w, r)
			return true
		})
		if f.answer == nil {
			s.b.Endpoint = "http://127.0.0.1:1"
		}
		var runs sync.WaitGroup
		for run, attempt := range attempts {
			runs.Go(func() {
				after, found := attempt()
				s.expectKept(run, after, found, append(slices.Clone(f.words), s.b.Endpoint)...)
			})
		}
		runs.Wait()
		p.OnRequest(nil)
		s.b.Endpoint = p.URL
		s.expectPlan(s.plan())
		if n := queues(t, b, vhost); n != 4 {
			t.Errorf("%d queues, expected 4", n)
		}
	})
}

// TestAccRecoveringBroker: a broker that fails for a moment, at every kind of
// run, is waited for.
func TestAccRecoveringBroker(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, f := range failures {
			t.Run(f.name, func(t *testing.T) {
				t.Parallel()
				vhost, p := acctest.VHost(t, b), proxy.New(t, b.Endpoint)
				s := newSession(t, behind(b, p), vhost, turn(b, i), nil)
				var failed atomic.Int64
				fail := func() {
					until := time.Now().Add(700 * time.Millisecond)
					p.OnRequest(func(w http.ResponseWriter, r *http.Request) bool {
						if time.Now().After(until) {
							return false
						}
						failed.Add(1)
						f.answer(w, r)
						return true
					})
				}
				fail()
				s.apply()
				fail()
				s.expectPlan(s.plan())
				s.config = s.otherDelays()
				fail()
				s.apply()
				s.expectOnly()
				fail()
				if found := s.destroy(); len(found.Errors()) > 0 {
					t.Fatal(found)
				}
				if failed.Load() < 4 {
					t.Errorf("only %d requests failed", failed.Load())
				}
				if n := queues(t, b, vhost) + exchanges(t, b, vhost); n != 0 {
					t.Errorf("%d objects are left", n)
				}
			})
		}
	})
}

// onePermission is what a user may do, with one object left out.
type onePermission struct {
	tag, permission, object string
	permissions             rabbithole.Permissions
	// early: the plan can tell.
	early bool
}

// onePermissions leaves out one object for each permission, in a pattern that
// the plan can read and in one that only RabbitMQ understands, for a user whose
// permissions the plan can read and for one whose it cannot.
func onePermissions() []onePermission {
	var all []onePermission
	for i, p := range []onePermission{
		{permission: "configure", object: `"orders.parking"`, permissions: rabbithole.Permissions{Configure: `^orders(\.re.*|\.att.*)?$`, Write: ".*", Read: ".*"}},
		{permission: "configure", object: `"orders.parking"`, permissions: rabbithole.Permissions{Configure: `^(?!orders\.parking$)`, Write: ".*", Read: ".*"}},
		{permission: "write", object: `"orders.retry"`, permissions: rabbithole.Permissions{Configure: ".*", Write: `^orders($|\.parking|\.retry\.|\.return|\.att)`, Read: ".*"}},
		{permission: "write", object: `"orders.retry.first"`, permissions: rabbithole.Permissions{Configure: ".*", Write: `^(?!orders\.retry\.first$)`, Read: ".*"}},
		{permission: "read", object: `"orders.redrive"`, permissions: rabbithole.Permissions{Configure: ".*", Write: ".*", Read: `^orders($|\.parking|\.ret|\.att)`}},
		{permission: "read", object: `"orders.redrive"`, permissions: rabbithole.Permissions{Configure: ".*", Write: ".*", Read: `^(?!orders\.redrive$)`}},
	} {
		for _, tag := range []string{"administrator", "management"} {
			p.tag, p.early = tag, tag == "administrator" && i%2 == 0
			all = append(all, p)
		}
	}
	return all
}

// TestAccOneNamePermitted: a permission that leaves out one object is named
// with that object, at plan where that can be known, and else at apply. A create
// that fails leaves nothing.
func TestAccOneNamePermitted(t *testing.T) {
	all := onePermissions()
	name := func(i int) string { return fmt.Sprintf("%s of %s %d", all[i].permission, all[i].tag, i) }
	spread(t, len(all), name, func(t *testing.T, b *rabbit.Broker, i int) {
		test := all[i]
		vhost := acctest.VHost(t, b)
		user := asUser(t, b, vhost, test.tag, test.permissions)
		s := newSession(t, user, vhost, turn(b, i), nil)
		plan := s.plan()
		found := plan.Diagnostics
		if test.early != (len(found.Errors()) > 0) {
			t.Errorf("the plan has %d errors:\n%s", len(found.Errors()), found)
		}
		if len(found.Errors()) == 0 {
			_, found = s.provider().Apply(t, chainType, plan)
		}
		expectRefused(t, found, "Permission Missing", test.permission, test.object, user.Username)
		expectNoText(t, found.String(), userPassword)
		if n := queues(t, b, vhost) + exchanges(t, b, vhost); n != 0 {
			t.Errorf("%d objects are left", n)
		}
	})
}

// TestAccPermissionForChange: a user that may not declare the new tier, or not
// delete what is there, gets an error that names it, and the state stays true.
func TestAccPermissionForChange(t *testing.T) {
	acctest.Each(t, func(t *testing.T, b *rabbit.Broker) {
		for i, tag := range []string{"administrator", "management"} {
			t.Run(tag, func(t *testing.T) {
				t.Parallel()
				vhost := acctest.VHost(t, b)
				user := asUser(t, b, vhost, tag, everything)
				v := turn(b, i)
				s := newSession(t, user, vhost, v, nil)
				s.apply()
				config := s.config
				permit(t, b, vhost, user.Username, rabbithole.Permissions{Configure: `^(?!.*\.3s$)`, Write: ".*", Read: ".*"})
				s.config = s.otherDelays()
				expectRefused(t, s.tryApply(), "Permission Missing", "configure", ".3s\"", user.Username)
				s.config = config
				permit(t, b, vhost, user.Username, everything)
				s.apply()
				s.expectPlan(s.plan())
				s.expectOnly()

				permit(t, b, vhost, user.Username, rabbithole.Permissions{Configure: `^(?!orders\.parking$)`, Write: ".*", Read: ".*"})
				plan := s.provider().Plan(t, chainType, nil, s.state)
				after, found := s.provider().Apply(t, chainType, plan)
				s.expectKept("destroy", after, found, "Permission Missing", "configure", `"orders.parking"`, user.Username)
				permit(t, b, vhost, user.Username, everything)
				s.apply()
				s.expectPlan(s.plan())
			})
		}
	})
}
