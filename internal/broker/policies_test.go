package broker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rabbithole "github.com/michaelklishin/rabbit-hole/v2"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// attempts is a policy with a whole and a fractional number.
var attempts = topology.Policy{
	Name: "a/b %2F", Pattern: `^ord\.`, ApplyTo: topology.ApplyToQueues, Priority: 7,
	Definition: topology.Arguments{topology.KeyMessageTTL: int64(60000), topology.KeyDeadLetterExchange: "orders.retry"},
}

func TestPolicies(t *testing.T) {
	const path = "/api/policies/%2F/a%2Fb%20%252F"
	ctx, f := t.Context(), newFake(t)
	f.on("GET /api/policies/%2F", answer{status: 200, body: `[{"vhost":"/","name":"both","pattern":"x","apply-to":"all","priority":1,"definition":{"max-length":5}},
		{"vhost":"/","name":"odd","pattern":"x","apply-to":"queues","priority":0,"definition":{"n":5.0,"big":9007199254740993}}]`})
	f.on("GET /api/operator-policies/%2F", answer{status: 200, body: `[{"vhost":"/","name":"both","pattern":"y","apply-to":"queues","priority":2,"definition":[]}]`})
	c := f.client(t)
	want := topology.New()
	want.SetPolicy(topology.Policy{Name: "both", Pattern: "x", ApplyTo: "all", Priority: 1, Definition: topology.Arguments{"max-length": int64(5)}})
	want.SetPolicy(topology.Policy{Name: "odd", Pattern: "x", ApplyTo: "queues", Definition: topology.Arguments{"n": 5.0, "big": int64(9007199254740993)}})
	want.SetPolicy(topology.Policy{Name: "both", Operator: true, Pattern: "y", ApplyTo: "queues", Priority: 2})
	if got := view(t, c, "/"); !topology.Diff(got, want).Empty() {
		t.Errorf("%v", got.Policies())
	}

	var body string
	f.on("PUT "+path, madeIt, answer{do: captureBody(&body)}, hadIt)
	f.on("PUT /api/policies/%2F/both", hadIt)
	f.on("DELETE "+path, hadIt)
	for _, first := range []Made{MadeHere, Existed} {
		if made, err := c.setPolicy(ctx, "/", attempts); made != first || err != nil {
			t.Errorf("created %v, want %v: %v", made, first, err)
		}
	}
	for _, part := range []string{`"pattern":"^ord\\."`, `"apply-to":"queues"`, `"priority":7`, `"message-ttl":60000`} {
		if !strings.Contains(body, part) {
			t.Errorf("no %s in %s", part, body)
		}
	}
	want.SetPolicy(attempts)
	if got := view(t, c, "/"); !topology.Diff(got, want).Empty() {
		t.Errorf("after a write: %v", got.Policies())
	}
	must(t, c.DeletePolicy(ctx, "/", attempts))
	f.on("DELETE "+path, refusal(404, "Not Found"))
	must(t, c.DeletePolicy(ctx, "/", attempts))
	must(t, c.DeletePolicy(ctx, "/", topology.Policy{Name: "both"}))
	want.RemovePolicy(attempts)
	want.RemovePolicy(topology.Policy{Name: "both"})
	if got := view(t, c, "/"); !topology.Diff(got, want).Empty() {
		t.Errorf("after deletions: %v", got.Policies())
	}
	before := f.count("")
	if err := c.SetPolicy(ctx, "/", topology.Policy{Name: "both", Operator: true}); err == nil || f.count("") != before {
		t.Errorf("an operator policy was set: %v", err)
	}
}

// A refused policy is not tried again, whatever the broker's reason mentions.
func TestRefusedPolicy(t *testing.T) {
	const path = "PUT /api/policies/%2F/a%2Fb%20%252F"
	f := newFake(t)
	f.on(path, refusal(400, "Validation failed\n\n[{&lt;&lt;\"consumer-timeout\"&gt;&gt;,1}] are not recognised policy settings\n"))
	c := f.client(t)
	wantError[*APIError](t, c.SetPolicy(t.Context(), "/", attempts), `<<"consumer-timeout">>`, "not recognised")
	if n := f.count(path); n != 1 {
		t.Errorf("%d tries", n)
	}
}

func TestEffectivePolicy(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers []answer
		want    topology.Arguments
		exists  bool
	}{
		{"live", []answer{{status: 200, body: `{"name":"orders","effective_policy_definition":{"message-ttl":5}}`}}, topology.Arguments{"message-ttl": int64(5)}, true},
		{"statistics", []answer{{status: 200, body: `{"name":"orders"}`}, {status: 200, body: `{"effective_policy_definition":{"n":1}}`}}, topology.Arguments{"n": int64(1)}, true},
		{"none", []answer{{status: 200, body: `{"effective_policy_definition":{}}`}}, topology.Arguments{}, true},
		{"none as a list", []answer{{status: 200, body: `{"effective_policy_definition":[]}`}}, topology.Arguments{}, true},
		{"none as text", []answer{{status: 200, body: `{"effective_policy_definition":""}`}}, topology.Arguments{}, true},
		{"not said", []answer{{status: 200, body: `{"name":"orders"}`}}, nil, true},
		{"no queue", []answer{refusal(404, "Not Found")}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFake(t)
			f.on("GET /api/queues/%2F/orders", test.answers...)
			f.on("GET /api/queues/%2F page", answer{status: 200, body: `{"items":[{"name":"orders","policy":"named"}]}`})
			name, got, exists, err := f.client(t).EffectivePolicy(t.Context(), "/", "orders")
			if known := exists && got == nil; known != (name == "named") {
				t.Errorf("name %q", name)
			}
			if exists != test.exists || err != nil || !got.Equal(test.want) || (got == nil) != (test.want == nil) {
				t.Errorf("%v, %v, %v", got, exists, err)
			}
		})
	}
}

func TestApplyPolicies(t *testing.T) {
	const path = "/api/policies/%2F/a%2Fb%20%252F"
	f := newFake(t)
	f.on("PUT "+path, madeIt)
	f.on("DELETE "+path, hadIt)
	var did []string
	stages := []topology.Stage{{{SetPolicy: &attempts}}, {{DeletePolicy: &attempts}}}
	must(t, f.client(t).Apply(t.Context(), "/", stages, OnlyIfEmpty, func(step topology.Step, made Made) error {
		did = append(did, fmt.Sprint(step.SetPolicy != nil, step.DeletePolicy != nil, made == MadeHere))
		return nil
	}))
	if got := strings.Join(did, ", "); got != "true false true, false true false" {
		t.Error(got)
	}
}

// A 204 after a try whose outcome is unknown may be the doing of another run.
func TestApplySaysWhatMayBeOthers(t *testing.T) {
	f := newFake(t)
	e, q := topology.Exchange{Name: "e", Type: topology.Fanout}, topology.Queue{Name: "q", Type: topology.Classic}
	steps := topology.Stage{{DeclareExchange: &e}, {DeclareQueue: &q}, {SetPolicy: &attempts}}
	f.on("GET /api/exchanges/%2F/e", answer{status: 200, body: `{"name":"e","type":"fanout"}`})
	for _, path := range []string{"exchanges/%2F/e", "queues/%2F/q"} {
		f.on("PUT /api/"+path, answer{status: 502}, hadIt, answer{status: 502}, madeIt, hadIt)
	}
	// A policy is set again after an unknown outcome, and then without its mark.
	f.on("PUT /api/policies/%2F/a%2Fb%20%252F", answer{status: 502}, hadIt, hadIt, hadIt, answer{status: 502}, madeIt, hadIt)
	for _, want := range []Made{MaybeMade, MadeHere, Existed} {
		var mu sync.Mutex
		must(t, f.client(t).Apply(t.Context(), "/", []topology.Stage{steps}, OnlyIfEmpty, func(step topology.Step, made Made) error {
			mu.Lock()
			defer mu.Unlock()
			if made != want {
				t.Errorf("%+v: %d, want %d", step, made, want)
			}
			return nil
		}))
	}
}

func TestLivePolicies(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, c := t.Context(), b.client(t)
		view(t, c, b.vhost)
		for _, name := range oddNames {
			p := attempts
			p.Name = name
			made, err := c.setPolicy(ctx, b.vhost, p)
			must(t, created(made == MadeHere, err))
			p.Priority++
			if again, err := c.setPolicy(ctx, b.vhost, p); again != Existed || err != nil {
				t.Errorf("%q: second time: created=%v, %v", name, again, err)
			}
			if found, exists, err := readPolicy(ctx, c, b.vhost, name); !exists || err != nil || !found.Equal(p) {
				t.Errorf("%q: %v, %v, %v", name, found, exists, err)
			}
		}
		compareWithBroker(t, b, c)
		for _, name := range oddNames {
			must(t, c.DeletePolicy(ctx, b.vhost, topology.Policy{Name: name, Definition: attempts.Definition}))
			must(t, c.DeletePolicy(ctx, b.vhost, topology.Policy{Name: name, Definition: attempts.Definition}))
			if _, exists, err := readPolicy(ctx, c, b.vhost, name); exists || err != nil {
				t.Errorf("%q: after its deletion: %v, %v", name, exists, err)
			}
		}
		compareWithBroker(t, b, c)
		bad := attempts
		bad.Definition = topology.Arguments{topology.KeyMessageTTL: "soon"}
		wantError[*APIError](t, c.SetPolicy(ctx, b.vhost, bad), `<<"soon">> is not a valid message TTL`)
		bad.Definition = topology.Arguments{"no-such-key": int64(1)}
		wantError[*APIError](t, c.SetPolicy(ctx, b.vhost, bad), "no-such-key", "not recognised")
	})
}

func TestLivePolicyRights(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, weak, strong := t.Context(), b.user(t, "management"), b.user(t, "policymaker")
		wanted := topology.New()
		wanted.SetPolicy(attempts)
		for user, missing := range map[*Client]int{weak: 1, strong: 0, b.client(t): 0} {
			b.permit(t, user.Username(), ".*", ".*", ".*")
			if list, err := user.MissingPermissions(ctx, b.vhost, wanted); len(list) != missing || err != nil {
				t.Errorf("%s: %q, %v", user.Username(), list, err)
			}
		}
		wantError[*PermissionError](t, weak.SetPolicy(ctx, b.vhost, attempts), "tag policymaker or administrator", "set_user_tags")
		wantError[*PermissionError](t, weak.DeletePolicy(ctx, b.vhost, attempts), "tag policymaker or administrator")
		must(t, strong.SetPolicy(ctx, b.vhost, attempts))
		if found, exists, err := readPolicy(ctx, weak, b.vhost, attempts.Name); !exists || err != nil || !found.Equal(attempts) {
			t.Errorf("%v, %v, %v", found, exists, err)
		}
		must(t, strong.DeletePolicy(ctx, b.vhost, attempts))
	})
}

func TestLiveEffectivePolicy(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, c := t.Context(), b.client(t)
		must(t, c.SetPolicy(ctx, b.vhost, attempts))
		if _, err := b.admin.PutOperatorPolicy(b.vhost, "limit", operatorPolicy("^ord", "message-ttl", 5000)); err != nil {
			t.Fatal(err)
		}
		for _, kind := range []topology.QueueType{topology.Classic, topology.Quorum} {
			q := topology.Queue{Name: "ord." + string(kind), Type: kind, Durable: true}
			must(t, created(c.DeclareQueue(ctx, b.vhost, q)))
			want := topology.Arguments{topology.KeyMessageTTL: int64(5000), topology.KeyDeadLetterExchange: "orders.retry"}
			began := time.Now()
			for {
				_, got, exists, err := c.EffectivePolicy(ctx, b.vhost, q.Name)
				if !exists || err != nil {
					t.Fatal(exists, err)
				}
				if got.Equal(want) {
					break
				}
				if time.Since(began) > time.Minute {
					t.Fatalf("%s: %v", q.Name, got)
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Logf("%s: said after %s", kind, time.Since(began).Round(100*time.Millisecond))
		}
		if got := view(t, c, b.vhost).Policies(); len(got) != 2 || !got[1].Operator || got[1].Name != "limit" {
			t.Errorf("%v", got)
		}
		if _, _, exists, err := c.EffectivePolicy(ctx, b.vhost, "none"); exists || err != nil {
			t.Error(exists, err)
		}
	})
}

// TestWritesOfPolicies looks at the patterns that are sent until a policy is set or
// deleted, without the digits of their marks.
func TestWritesOfPolicies(t *testing.T) {
	const (
		path      = "PUT /api/policies/%2F/a%2Fb%20%252F"
		marked    = `^ord\.(?#apply-)`
		withdrawn = `(?!)(?:^ord\.)(?#apply-)`
	)
	set := func(c *Client) error { return c.SetPolicy(t.Context(), "/", attempts) }
	remove := func(c *Client) error { return c.DeletePolicy(t.Context(), "/", attempts) }
	half := attempts
	half.Pattern = topology.WithdrawPattern(half.Pattern)
	invalid := refusal(400, "Validation failed\n\n[ha-mode] are not recognised policy settings\n")
	for name, test := range map[string]struct {
		write   func(*Client) error
		answers []answer
		want    []string
	}{
		"set":                     {set, []answer{madeIt}, []string{marked, attempts.Pattern}},
		"set, cut":                {set, []answer{cut(false), hadIt}, []string{marked, marked, marked, attempts.Pattern}},
		"set, cut at the end":     {set, []answer{madeIt, cut(false), hadIt}, []string{marked, attempts.Pattern, attempts.Pattern}},
		"delete":                  {remove, []answer{hadIt}, []string{withdrawn}},
		"delete, cut":             {remove, []answer{cut(false), hadIt}, []string{withdrawn, withdrawn, marked, withdrawn}},
		"delete a withdrawn one":  {func(c *Client) error { return c.DeletePolicy(t.Context(), "/", half) }, []answer{hadIt}, []string{marked, withdrawn}},
		"delete an obsolete form": {remove, []answer{invalid}, []string{withdrawn}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			var got []string
			answers := slices.Clone(test.answers)
			f.on(path, answer{do: func(w http.ResponseWriter, r *http.Request) {
				var sent policyJSON
				must(t, json.NewDecoder(r.Body).Decode(&sent))
				got = append(got, regexp.MustCompile(`apply-[0-9a-f]{8}`).ReplaceAllString(sent.Pattern, "apply-"))
				a := answers[0]
				if len(answers) > 1 {
					answers = answers[1:]
				}
				if a.do != nil {
					a.do(w, r)
					return
				}
				w.WriteHeader(a.status)
				_, _ = w.Write([]byte(a.body))
			}})
			f.on("DELETE /api/policies/%2F/a%2Fb%20%252F", hadIt)
			must(t, test.write(f.client(t)))
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// TestLiveGrantedMeanwhile: a permission counts that was granted after the first
// question, such as for a virtual host that the same run creates.
func TestLiveGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	live(t, func(t *testing.T, b liveBroker) {
		t.Helper()
		ctx, user := t.Context(), b.user(t, "administrator")
		wanted := topology.New()
		wanted.SetExchange(topology.Exchange{Name: "orders.retry", Type: "headers", Durable: true})
		if list, err := user.MissingPermissions(ctx, b.vhost, wanted); len(list) != 1 || err != nil {
			t.Errorf("without permissions: %q, %v", list, err)
		}
		b.permit(t, user.Username(), ".*", ".*", ".*")
		if list, err := user.MissingPermissions(ctx, b.vhost, wanted); len(list) != 0 || err != nil {
			t.Errorf("with permissions: %q, %v", list, err)
		}
	})
}

// readPolicy asks the broker for one policy, past the snapshot.
func readPolicy(ctx context.Context, c *Client, vhost, name string) (p topology.Policy, exists bool, err error) {
	k := c.newCall(ctx, operation{text: "list the policies", vhost: vhost})
	found, err := get[[]policyJSON](k, func(rh *rabbithole.Client) (any, error) { return rh.ListPoliciesIn(vhost) })
	i := slices.IndexFunc(found, func(p policyJSON) bool { return p.Name == name })
	if err != nil || i < 0 {
		return topology.Policy{}, false, err
	}
	return found[i].policy(false), true, nil
}
