package abilities

import (
	"fmt"
	"regexp"

	"github.com/hashicorp/go-version"
)

// Version is a version of RabbitMQ.
type Version struct {
	number *version.Version
	text   string
}

// form is narrower than what go-version takes: RabbitMQ reports at least two numbers and
// nothing before them.
var form = regexp.MustCompile(`^\d+\.\d`)

// Parse reads a version as RabbitMQ reports it: "3.10.8", "4.3.0-rc.1" or "4.0.5+build".
func Parse(text string) (Version, error) {
	number, err := version.NewVersion(text)
	if err != nil || !form.MatchString(text) {
		return Version{}, fmt.Errorf("%q is not a version of RabbitMQ", text)
	}
	return Version{number: number, text: text}, nil
}

// MustParse panics if the text is not a version. It is for constants.
func MustParse(text string) Version {
	v, err := Parse(text)
	if err != nil {
		panic(err)
	}
	return v
}

// String returns the version as the broker reported it.
func (v Version) String() string { return v.text }

// Release returns the release that a pre-release is meant to become.
func (v Version) Release() Version { return Version{number: v.number.Core(), text: v.text} }

// AtLeast says whether v is the minimum or later. A pre-release is before its release.
// Only this package and tests ask for versions; other code asks for an [Ability].
func (v Version) AtLeast(minimum string) bool { return v.reaches(MustParse(minimum)) }

func (v Version) reaches(minimum Version) bool { return v.number.GreaterThanOrEqual(minimum.number) }

// Has says whether brokers of the version have the ability. The zero value has none.
func (v Version) Has(a *Ability) bool {
	if v.number == nil {
		return false
	}
	for _, s := range a.In {
		if s.contains(v) {
			return true
		}
	}
	return false
}
