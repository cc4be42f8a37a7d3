package topology_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlclark/regexp2"
	"pgregory.net/rapid"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/topology"
)

// backtracking are patterns that take a backtracking matcher longer than the age of
// the universe to compare with [longName]. Erlang gives up at its match limit and
// answers nomatch, after 70 to 300 ms (re:run/3, OTP 25).
var backtracking = []string{
	`^([a-z]+\.?)+$`, `^(?!amq\.)([a-z]+\.?)+$`, `^(?:(?:[a-z]+[.]?)+|x)$`, `^(?=.*o)(?<!a)([a-z]+\.?)+$`, `([a-z]+\.?)+!`, `^((?!\))[a-z]+\.?)+$`,
}

var longName = "orders." + strings.Repeat("a", 33) + "-1"

// TestBacktrackingPatterns: such a pattern matches no name, and thousands of names
// do not take longer than one does with a backtracking matcher.
func TestBacktrackingPatterns(t *testing.T) {
	t.Parallel()
	in := topology.New()
	for i, pattern := range backtracking {
		in.SetPolicy(policy(fmt.Sprint("p", i), pattern, "all", 0, "expires"))
	}
	began := time.Now()
	for i := range 1000 {
		name := longName + fmt.Sprint(i)
		if found := in.Governing(name, topology.Quorum, false); len(found) > 0 {
			t.Fatalf("%q governs %q", found[0].Pattern, name)
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d patterns and 1,000 names took %s", len(backtracking), took)
	}
}

// TestUndecidedPattern: a pattern whose answer is not found is compared with a name
// once, and not at all when nobody waits for the answer any more.
func TestUndecidedPattern(t *testing.T) {
	t.Parallel()
	in := topology.New()
	in.SetPolicy(policy("p", `^(?>([a-z]+\.?)+)*([a-z]+\.?)+\z!|^(a|aa)+\1x$`, "all", 0, "expires"))
	name := strings.Repeat("a", 200)
	ended := make(chan struct{})
	close(ended)
	began := time.Now()
	for range 100 {
		if found := in.Until(ended).Governing(name, topology.Quorum, false); len(found) != 1 {
			t.Fatalf("nobody waits, and the answer is %v, not that the policy may apply", found)
		}
	}
	if took := time.Since(began); took > time.Second {
		t.Errorf("100 comparisons that nobody waits for took %s", took)
	}
	for range 20 {
		if found := in.Clone().Governing(name, topology.Quorum, false); len(found) != 1 {
			t.Fatalf("the answer is %v, not that the policy may apply", found)
		}
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("20 comparisons of one name took %s, each again as long as the first", took)
	}
}

// TestPropertyPatterns compares answers with those of regexp2 alone, for patterns of
// every construct that RE2 knows as well, and for others.
func TestPropertyPatterns(t *testing.T) {
	atoms := []string{
		"a", "b", `\.`, ".", "[ab]", "[^a]", "[]a]", `[\w-]`, "[a-c-]", `[[:alpha:]]`, `[^[:upper:]]`, `\d`, `\w`, `\S`, `\b`, "^", "$", `\z`, "|", "(?:", "(",
		")", "(?!", "(?=", "(?<!", "(?i)", "(?i:", "*", "+", "?", "*?", "{2}", "{0,1}", `\x61`, `\1`, `(?>`, "++", "[)]", `\)`, `(?!\))`, "{,2}", "A", "-",
	}
	governed := 0
	rapid.Check(t, func(t *rapid.T) {
		pattern := strings.Join(rapid.SliceOfN(rapid.SampledFrom(atoms), 1, 8).Draw(t, "atoms"), "")
		expression, err := regexp2.Compile(pattern, regexp2.None)
		if err != nil || strings.Contains(pattern, "[:") || strings.Contains(pattern, "[)]") {
			t.Skip("not a pattern that both engines read alike")
		}
		in := topology.New()
		in.SetPolicy(policy("p", pattern, "all", 0, "expires"))
		for _, name := range rapid.SliceOfN(rapid.StringMatching(`[abcA.)1 -]{0,6}`), 5, 5).Draw(t, "names") {
			matches, err := expression.MatchString(name)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(in.Governing(name, topology.Quorum, false)) > 0; got != matches {
				t.Fatalf("%q on %q: %t, expected %t", pattern, name, got, matches)
			}
			if matches {
				governed++
			}
		}
	})
	if governed == 0 {
		t.Error("no pattern matched")
	}
}

// BenchmarkGoverningForeign asks for the queues of a chain among policies some of
// which backtrack. The cost per policy and name does not depend on their numbers.
func BenchmarkGoverningForeign(b *testing.B) {
	for _, n := range []int{250, 500, 1000} {
		in := topology.New()
		for i := range n {
			in.SetPolicy(policy(fmt.Sprint("p", i), backtracking[i%len(backtracking)], "all", int64(i), "expires"))
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			names := 0
			for b.Loop() {
				for range 10 {
					names++
					in.Governing(longName+fmt.Sprint(names), topology.Quorum, false)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(names)/float64(n), "ns/policy")
		})
	}
}
