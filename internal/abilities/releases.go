package abilities

import "strings"

// Releases are ranges of versions.
type Releases []span

// span is a range from one version, included, to another, excluded. One that is empty is
// open on that side.
type span struct {
	from, before Version
}

func since(from string) Releases { return Releases{{from: MustParse(from)}} }

func before(end string) Releases { return Releases{{before: MustParse(end)}} }

func between(from, end string) Releases {
	return Releases{{from: MustParse(from), before: MustParse(end)}}
}

func (r Releases) or(other Releases) Releases { return append(r, other...) }

func (s span) contains(v Version) bool {
	return (s.from.number == nil || v.reaches(s.from)) && (s.before.number == nil || !v.reaches(s.before))
}

// String is what the documentation says, such as "3.13.3 or later".
func (r Releases) String() string {
	texts := make([]string, len(r))
	for i, s := range r {
		texts[i] = s.String()
	}
	return strings.Join(texts, "; ")
}

func (s span) String() string {
	switch {
	case s.before.number == nil:
		return s.from.text + " or later"
	case s.from.number == nil:
		return "before " + s.before.text
	default:
		return s.from.text + " or later, before " + s.before.text
	}
}
