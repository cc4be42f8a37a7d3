package topology

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
)

// Governing returns the policy, or the operator policy, that applies to a queue
// of that name and type: the one with the highest priority among those whose
// pattern and apply-to match and all of whose keys the type supports
// (rabbit_policy:match_all/3 and rabbit_queue_type:is_policy_applicable/2).
// Policies of the names in except are passed over.
//
// There are several, ordered by name, when the policies alone do not tell which
// of them RabbitMQ applies:
//   - Several share the highest priority. RabbitMQ's choice is unspecified.
//   - A pattern has a construct of PCRE that regexp2 lacks, or takes longer than
//     a second and is not one of which RE2 knows that it does not match.
//   - A key is supported by the queue's type in some versions only.
//
// A policy of the last two sorts is returned beside those of lower priority that
// may apply in its place: a question too many is better than a lost message.
func (t *Topology) Governing(queue string, kind QueueType, operator bool, except ...string) []Policy {
	var found []Policy
	floor := int64(math.MinInt64) // the highest priority among those that surely apply
	for key, m := range t.matchers {
		if key.operator != operator || !m.possible(queue) || slices.Contains(except, key.name) {
			continue
		}
		p := t.policies[key]
		if p.Priority < floor {
			continue
		}
		applies := p.supportedBy(kind)
		if applies != no {
			applies = min(applies, m.matches(queue, t.done))
		}
		if applies != no {
			found = append(found, p)
		}
		if applies == yes {
			floor = p.Priority
		}
	}
	found = slices.DeleteFunc(found, func(p Policy) bool { return p.Priority < floor })
	slices.SortFunc(found, func(a, b Policy) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// PolicyMatch is a policy whose pattern and apply-to match a queue for certain.
type PolicyMatch struct {
	Policy
	// Unsupported are the keys that queues of the type do not know in any
	// version. RabbitMQ passes the policy over if there are any.
	Unsupported []string
}

// Matching returns the policies, or the operator policies, whose pattern and
// apply-to match a queue of that name and type for certain, whether they are in
// effect or not: the highest priority first, then by name.
func (t *Topology) Matching(queue string, kind QueueType, operator bool) []PolicyMatch {
	var found []PolicyMatch
	for key, m := range t.matchers {
		p := t.policies[key]
		if key.operator != operator || !p.appliesTo(kind) || !m.possible(queue) || m.matches(queue, t.done) != yes {
			continue
		}
		match := PolicyMatch{Policy: p}
		for name := range p.Definition {
			if !kind.Supports(name) {
				match.Unsupported = append(match.Unsupported, name)
			}
		}
		slices.Sort(match.Unsupported)
		found = append(found, match)
	}
	slices.SortFunc(found, func(a, b PolicyMatch) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), strings.Compare(a.Name, b.Name))
	})
	return found
}

// ExchangePolicy returns the policy that applies to an exchange: the one of the
// highest priority among those that match for certain (rabbit_policy:match_all/3).
// Where several share it, it takes the first by name.
func (t *Topology) ExchangePolicy(exchange string) (Policy, bool) {
	var best Policy
	found := false
	for key, m := range t.matchers {
		p := t.policies[key]
		if key.operator || p.ApplyTo != ApplyToAll && p.ApplyTo != ApplyToExchanges {
			continue
		}
		if !m.possible(exchange) || m.matches(exchange, t.done) != yes {
			continue
		}
		if !found || p.Priority > best.Priority || p.Priority == best.Priority && p.Name < best.Name {
			best, found = p, true
		}
	}
	return best, found
}

// answer says whether a policy applies. The least of several answers holds for
// all of them together.
type answer int

const (
	no answer = iota
	perhaps
	yes
)

// supportedBy says whether the policy is for queues of the type and has only
// keys that the type knows.
func (p Policy) supportedBy(kind QueueType) answer {
	if !p.appliesTo(kind) {
		return no
	}
	supported := yes
	for key := range p.Definition {
		switch {
		case !kind.Supports(key):
			return no
		case slices.Contains(byKey[key].InSomeVersions, kind):
			supported = perhaps
		}
	}
	return supported
}

func (p Policy) appliesTo(kind QueueType) bool {
	switch p.ApplyTo {
	case ApplyToAll, ApplyToQueues:
		return true
	case ApplyToClassicQueues, ApplyToQuorumQueues, ApplyToStreams:
		return strings.HasPrefix(p.ApplyTo, string(kind))
	default:
		return false
	}
}

// matcher is a policy's pattern, taken apart so that most names are told not to
// match without a regular expression. Copies share what is compiled.
type matcher struct {
	// prefix starts every name that the pattern matches.
	prefix string
	// exact says that the pattern matches the prefix itself and nothing else.
	exact      bool
	expression *expression
}

func newMatcher(pattern string) matcher {
	prefix, rest := literalPrefix(pattern)
	return matcher{prefix: prefix, exact: prefix != "" && rest == "$", expression: &expression{pattern: pattern}}
}

// possible says whether the pattern can match the name.
func (m matcher) possible(name string) bool {
	if m.exact {
		return name == m.prefix
	}
	return strings.HasPrefix(name, m.prefix)
}

// matches says whether the pattern matches a name for which possible is true. See
// [expression] for done.
func (m matcher) matches(name string, done <-chan struct{}) answer {
	if m.exact {
		return yes
	}
	return m.expression.matches(name, done)
}

// literalPrefix splits an anchored pattern into the text that starts every
// match and the rest of the pattern. The text is empty when there is none.
func literalPrefix(pattern string) (prefix, rest string) {
	rest, anchored := strings.CutPrefix(pattern, "^")
	if !anchored || strings.Contains(rest, "|") {
		return "", pattern
	}
	var literal strings.Builder
	for {
		char, after, ok := cutLiteral(rest)
		if !ok || startsWithAny(after, "*+?{") {
			return literal.String(), rest
		}
		literal.WriteByte(char)
		rest = after
	}
}

// cutLiteral cuts one byte that stands for itself off a pattern.
func cutLiteral(pattern string) (char byte, after string, ok bool) {
	switch {
	case pattern == "" || startsWithAny(pattern, `^$.[]|()*+?{}`):
		return 0, pattern, false
	case pattern[0] != '\\':
		return pattern[0], pattern[1:], true
	case startsWithAny(pattern[1:], punctuation):
		return pattern[1], pattern[2:], true
	default:
		return 0, pattern, false
	}
}

// punctuation is what stands for itself after a backslash.
const punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

func startsWithAny(text, chars string) bool {
	return text != "" && strings.IndexByte(chars, text[0]) >= 0
}

// compile compiles a PCRE as RabbitMQ uses it: re:run/3 without the option
// unicode, which compares bytes. It returns nil when regexp2 does not know a
// construct of the pattern.
func compile(pattern string) *regexp2.Regexp {
	translated, ok := translate(pattern)
	if !ok {
		return nil
	}
	expression, err := regexp2.Compile(byteText(translated), regexp2.None)
	if err != nil {
		return nil
	}
	expression.MatchTimeout = matchTimeout
	return expression
}

// byteText turns every byte into the character of that number, as re:run/3 sees
// a binary.
func byteText(text string) string {
	runes := make([]rune, len(text))
	for i := range len(text) {
		runes[i] = rune(text[i])
	}
	return string(runes)
}

// translate rewrites what regexp2 would silently read otherwise than PCRE: white
// space is ASCII only, "[" stands for itself inside brackets, and [:alpha:] and
// the like are sets of characters. It fails for a set that it does not know.
func translate(pattern string) (translated string, ok bool) {
	ok = true
	member := func(token string) string {
		set, known := sets[token]
		switch {
		case known:
			return set
		case token == "[":
			return `\[`
		default:
			ok = ok && token[0] == '\\'
			return token
		}
	}
	translated = constructs.ReplaceAllStringFunc(pattern, func(construct string) string {
		if start := bracketStart.FindString(construct); start != "" {
			return start + members.ReplaceAllStringFunc(construct[len(start):], member)
		}
		if set, known := sets[construct]; known {
			return "[" + set + "]"
		}
		return construct
	})
	return translated, ok
}

var (
	// constructs are escape sequences and expressions in brackets.
	constructs   = regexp.MustCompile(`(?s)\\.|\[\^?\]?(?:\\.|\[:\^?\w+:\]|[^\\\]])*\]`)
	bracketStart = regexp.MustCompile(`^\[\^?\]?`)
	members      = regexp.MustCompile(`(?s)\\.|\[:\^?\w+:\]|\[`)
)

// sets are sets of bytes, as they are written inside brackets.
var sets = map[string]string{
	`\s`:         `\t-\r\x20`,
	`\S`:         `\x00-\x08\x0e-\x1f\x21-\xff`,
	`\v`:         `\n-\r\x85`,
	`[:alnum:]`:  `\p{L}0-9`,
	`[:alpha:]`:  `\p{L}`,
	`[:digit:]`:  `0-9`,
	`[:lower:]`:  `\p{Ll}\xaa\xba`,
	`[:space:]`:  `\t-\r\x20`,
	`[:upper:]`:  `\p{Lu}`,
	`[:word:]`:   `\w`,
	`[:xdigit:]`: `0-9A-Fa-f`,
}
