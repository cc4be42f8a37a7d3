package topology

import (
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/dlclark/regexp2"
)

const (
	// matchTimeout bounds one comparison by backtracking.
	matchTimeout = time.Second
	// memorable is how long a comparison takes whose answer is kept.
	memorable = time.Millisecond
)

// expression is a pattern that is compiled when it is first compared with a name.
// It is safe for concurrent use.
type expression struct {
	pattern string
	compile sync.Once
	// wider matches, in linear time, every plain name that the pattern matches, and
	// maybe others. It is nil for a pattern that RE2 cannot read.
	wider *regexp.Regexp
	// exact is nil if regexp2 cannot compile the pattern.
	exact *regexp2.Regexp

	mu sync.Mutex
	// slow are answers that took long to find.
	slow map[string]answer
}

// matches says whether the pattern matches the name. It does not start a comparison
// by backtracking after done was closed.
//
// A pattern that backtracks without end matches no name for RabbitMQ: re:run/3 gives
// up after 10,000,000 steps and answers nomatch (match_limit, OTP 25, 27 and 29). RE2
// finds out here that such a name does not match.
func (e *expression) matches(name string, done <-chan struct{}) answer {
	e.compile.Do(func() { e.wider, e.exact = widen(e.pattern), compile(e.pattern) })
	if e.wider != nil && isPlain(name) && !e.wider.MatchString(name) {
		return no
	}
	if e.exact == nil {
		return perhaps
	}
	e.mu.Lock()
	known, isKnown := e.slow[name]
	e.mu.Unlock()
	if isKnown {
		return known
	}
	select {
	case <-done:
		return perhaps
	default:
	}
	began := time.Now()
	found := backtrack(e.exact, name)
	if time.Since(began) > memorable {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.slow == nil {
			e.slow = map[string]answer{}
		}
		e.slow[name] = found
	}
	return found
}

func backtrack(e *regexp2.Regexp, name string) answer {
	switch matched, err := e.MatchString(byteText(name)); {
	case err != nil:
		return perhaps
	case matched:
		return yes
	default:
		return no
	}
}

// isPlain says whether the name is printable ASCII. PCRE and RE2 differ in the
// classes of other characters, and in "$" before a line feed.
func isPlain(name string) bool {
	return !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r > '~' })
}

// widen returns an expression for RE2 that matches every plain name that the
// pattern matches. It leaves out what looks ahead and behind, which can only narrow
// a match. It returns nil for constructs that RE2 does not have or that it reads
// otherwise than PCRE.
func widen(pattern string) *regexp.Regexp {
	if readOtherwise.MatchString(pattern) {
		return nil
	}
	var wider strings.Builder
	inside := 0 // the number of open groups, from that which looks ahead or behind on
	for _, token := range tokens.FindAllString(pattern, -1) {
		switch {
		case inside == 0 && strings.HasPrefix(token, "(?"):
			inside = 1
			wider.WriteString("(?:)")
		case inside == 0:
			wider.WriteString(token)
		case token[0] == '(':
			inside++
		case token == ")":
			inside--
		}
	}
	expression, err := regexp.Compile(byteText(wider.String()))
	if err != nil {
		return nil
	}
	return expression
}

var (
	// readOtherwise finds what RE2 reads otherwise than some PCRE, or what would make
	// it hard to see where a group ends: numbers after a backslash, quotations,
	// properties, verbs, comments, and quantifiers that only PCRE2 knows.
	readOtherwise = regexp.MustCompile(`\\[0-9EQpP]|\{\s|\{,|\(\*|#|-\[:`)
	// tokens are escape sequences, expressions in brackets, starts of groups that look
	// ahead or behind, and single characters.
	tokens = regexp.MustCompile(`(?s)` + constructs.String() + `|\(\?<?[=!]|.`)
)
