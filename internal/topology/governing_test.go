package topology_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

func policy(name, pattern, applyTo string, priority int64, keys ...string) topology.Policy {
	definition := topology.Arguments{}
	for _, key := range keys {
		definition[key] = int64(1)
	}
	return topology.Policy{Name: name, Pattern: pattern, ApplyTo: applyTo, Priority: priority, Definition: definition}
}

func TestGoverning(t *testing.T) {
	for name, test := range map[string]struct {
		policies []topology.Policy
		queue    string
		kind     topology.QueueType
		want     []string
	}{
		"none":                 {nil, "q", topology.Quorum, nil},
		"anywhere in the name": {[]topology.Policy{policy("p", "rder", "all", 0, "expires")}, "orders", topology.Quorum, []string{"p"}},
		"anchored":             {[]topology.Policy{policy("p", "^rder", "all", 0, "expires")}, "orders", topology.Quorum, nil},
		"exactly":              {[]topology.Policy{policy("p", `^a\.b$`, "queues", 0, "expires")}, "a.b", topology.Classic, []string{"p"}},
		"not exactly":          {[]topology.Policy{policy("p", `^a\.b$`, "queues", 0, "expires")}, "axb", topology.Classic, nil},
		"lookahead":            {[]topology.Policy{policy("p", `^(?!amq\.).*`, "queues", 0, "expires")}, "orders", topology.Classic, []string{"p"}},
		"lookahead that fails": {[]topology.Policy{policy("p", `^(?!amq\.).*`, "queues", 0, "expires")}, "amq.gen", topology.Classic, nil},
		"unreadable":           {[]topology.Policy{policy("p", `(`, "queues", 0, "expires")}, "orders", topology.Classic, []string{"p"}},
		"exchanges":            {[]topology.Policy{policy("p", ".", "exchanges", 0, "expires")}, "q", topology.Quorum, nil},
		"other type":           {[]topology.Policy{policy("p", ".", "quorum_queues", 0, "expires")}, "q", topology.Classic, nil},
		"this type":            {[]topology.Policy{policy("p", ".", "classic_queues", 0, "expires")}, "q", topology.Classic, []string{"p"}},
		"highest":              {[]topology.Policy{policy("low", ".", "all", 1, "expires"), policy("high", ".", "all", 2, "expires")}, "q", topology.Quorum, []string{"high"}},
		"equal":                {[]topology.Policy{policy("b", ".", "all", 2, "expires"), policy("a", ".", "all", 2, "expires")}, "q", topology.Quorum, []string{"a", "b"}},
		"key of the other type": {
			[]topology.Policy{policy("low", ".", "all", 1, "expires"), policy("high", ".", "all", 2, "expires", "delivery-limit")},
			"q", topology.Classic,
			[]string{"low"},
		},
		"key of quorum":        {[]topology.Policy{policy("p", ".", "all", 2, "expires", "delivery-limit")}, "q", topology.Quorum, []string{"p"}},
		"mirrors for a quorum": {[]topology.Policy{policy("p", ".", "all", 2, "ha-mode")}, "q", topology.Quorum, nil},
		"streams":              {[]topology.Policy{policy("p", ".", "all", 2, "message-ttl")}, "q", topology.Stream, nil},
		"passed over":          {[]topology.Policy{policy("mine", ".", "all", 9, "expires"), policy("theirs", ".", "all", 1, "expires")}, "q", topology.Quorum, []string{"theirs"}},
	} {
		t.Run(name, func(t *testing.T) {
			in := topology.New()
			for _, p := range test.policies {
				in.SetPolicy(p)
			}
			var got []string
			for _, p := range in.Clone().Governing(test.queue, test.kind, false, "mine") {
				got = append(got, p.Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if operators := in.Governing(test.queue, test.kind, true); len(operators) > 0 {
				t.Errorf("operator policies: %v", operators)
			}
		})
	}
}

// A pattern is read when its policy is set, also when it replaces another.
func TestGoverningAfterChange(t *testing.T) {
	in := topology.New()
	in.SetPolicy(policy("p", "^a$", "all", 0, "expires"))
	in.SetPolicy(policy("p", "^b$", "all", 0, "expires"))
	if len(in.Governing("a", topology.Quorum, false)) > 0 || len(in.Governing("b", topology.Quorum, false)) == 0 {
		t.Error("the pattern of before is in effect")
	}
	in.RemovePolicy(topology.Policy{Name: "p"})
	if len(in.Governing("b", topology.Quorum, false)) > 0 {
		t.Error("a policy that is gone is in effect")
	}
}

// Exact names, which are only compared, match what the expression matches.
func TestPropertyExactPatterns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-c.*+()$^|\\\[ é]{1,8}`).Draw(t, "name")
		other := rapid.OneOf(rapid.Just(name), rapid.StringMatching(`[a-c.*+()$^|\\\[ é]{1,8}`)).Draw(t, "other")
		pattern := "^" + rapid.SampledFrom([]func(string) string{regexp.QuoteMeta, func(s string) string { return s }}).Draw(t, "quote")(name) + "$"
		expression, err := regexp.Compile(bytewise(pattern))
		if err != nil {
			return
		}
		in := topology.New()
		in.SetPolicy(policy("p", pattern, "all", 0, "expires"))
		if got := len(in.Governing(other, topology.Quorum, false)) > 0; got != expression.MatchString(bytewise(other)) {
			t.Fatalf("%q on %q: %t", pattern, other, got)
		}
	})
}

// bytewise gives every byte a character of its own: RabbitMQ compares bytes, so that
// "." does not match an "é" of two.
func bytewise(text string) string {
	var runes []rune
	for _, b := range []byte(text) {
		runes = append(runes, rune(b))
	}
	return string(runes)
}

func TestGoverningConcurrently(t *testing.T) {
	in := topology.New()
	in.SetPolicy(policy("p", "^(?!x).*[a-z]", "all", 0, "expires"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 100 {
				if len(in.Governing("orders", topology.Quorum, false)) != 1 {
					t.Error("no policy")
				}
			}
		})
	}
	group.Wait()
}

// BenchmarkGoverning asks for 5,000 queues among 1,000 policies.
func BenchmarkGoverning(b *testing.B) {
	in := topology.New()
	for i := range 1000 {
		in.SetPolicy(policy(fmt.Sprint("p", i), fmt.Sprintf(`^orders\.%d$`, i), "queues", 1, "expires"))
	}
	for b.Loop() {
		for i := range 5000 {
			in.Governing(fmt.Sprintf("orders.%d", i), topology.Quorum, false)
		}
	}
}

// TestMatching: policies that match are returned whether they are in effect or
// not, with the keys that keep them from being so.
func TestMatching(t *testing.T) {
	t.Parallel()
	in := topology.New()
	set := func(name, pattern, applyTo string, priority int64, operator bool, keys ...string) {
		definition := topology.Arguments{}
		for _, key := range keys {
			definition[key] = int64(1)
		}
		in.SetPolicy(topology.Policy{Name: name, Pattern: pattern, ApplyTo: applyTo, Priority: priority, Operator: operator, Definition: definition})
	}
	set("low", "^or", topology.ApplyToQueues, 1, false, "message-ttl")
	set("mixed", "ders", topology.ApplyToAll, 5, false, "expires", "delivery-limit", "dead-letter-strategy")
	set("also", "^orders$", topology.ApplyToAll, 5, false, "expires")
	set("other name", "^billing", topology.ApplyToAll, 9, false, "expires")
	set("exchanges", ".*", topology.ApplyToExchanges, 9, false, "alternate-exchange")
	set("operator", ".*", topology.ApplyToQueues, 0, true, "max-length")
	text := func(matches []topology.PolicyMatch) string {
		var parts []string
		for _, m := range matches {
			parts = append(parts, fmt.Sprintf("%s %v", m.Name, m.Unsupported))
		}
		return strings.Join(parts, "; ")
	}
	if got, want := text(in.Matching("orders", topology.Classic, false)), "also []; mixed [dead-letter-strategy delivery-limit]; low []"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	if got, want := text(in.Matching("orders", topology.Quorum, true)), "operator []"; got != want {
		t.Errorf("%s, expected %s", got, want)
	}
	set("worse", ".*", topology.ApplyToAll, 3, false, "alternate-exchange")
	if p, found := in.ExchangePolicy("orders"); !found || p.Name != "exchanges" {
		t.Errorf("the exchange has the policy %v, %t", p, found)
	}
	if p, found := topology.New().ExchangePolicy("orders"); found {
		t.Errorf("an exchange without policies has %v", p)
	}
}

// Patterns with a mark match the same names, and withdrawn ones match nothing.
func TestMarkedPatterns(t *testing.T) {
	for _, pattern := range []string{"^orders$", "a|b", "^(a|b)$", `^x\.\(y\)$`, ""} {
		for _, name := range []string{"orders", "a", "b", "x.(y)", "none"} {
			applies := func(pattern string) bool {
				in := topology.New()
				in.SetPolicy(topology.Policy{Name: "p", Pattern: pattern, ApplyTo: topology.ApplyToQueues})
				return len(in.Governing(name, topology.Quorum, false)) > 0
			}
			if applies(topology.MarkPattern(pattern)) != applies(pattern) {
				t.Errorf("the marked pattern of %q does not match %q as it does", pattern, name)
			}
			if applies(topology.WithdrawPattern(pattern)) {
				t.Errorf("the withdrawn pattern of %q matches %q", pattern, name)
			}
		}
		marked, withdrawn := topology.MarkPattern(pattern), topology.WithdrawPattern(pattern)
		if marked == topology.MarkPattern(pattern) || withdrawn == topology.WithdrawPattern(pattern) {
			t.Errorf("a mark of %q came twice", pattern)
		}
		if n := len(withdrawn) - len(pattern); n != topology.PatternBytes {
			t.Errorf("%d bytes more, not %d", n, topology.PatternBytes)
		}
		if len(topology.MarkPattern(marked)) != len(marked) || len(topology.WithdrawPattern(marked)) != len(withdrawn) {
			t.Errorf("%q has two marks", pattern)
		}
		if before, is := topology.WithdrawnPattern(withdrawn); !is || before != pattern {
			t.Errorf("%q was %q, %t", withdrawn, before, is)
		}
		if _, is := topology.WithdrawnPattern(marked); is {
			t.Errorf("%q is not withdrawn", marked)
		}
	}
}
