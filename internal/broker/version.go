package broker

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version is a version of RabbitMQ.
type Version struct {
	Major, Minor, Patch int
	// Pre is what follows a "-", for example "rc.1"; "" for a release.
	Pre  string
	text string
}

var versionForm = regexp.MustCompile(`^(\d{1,6})\.(\d{1,6})(?:\.(\d{1,6}))?(?:\.\d+)*(?:-([0-9A-Za-z.-]+))?(?:\+.*)?$`)

// ParseVersion reads a version as RabbitMQ reports it: "3.10.8", "4.3.0-rc.1"
// or "4.0.5+build". Build data and a fourth number are ignored.
func ParseVersion(text string) (Version, error) {
	parts := versionForm.FindStringSubmatch(text)
	if parts == nil {
		return Version{}, fmt.Errorf("%q is no version of RabbitMQ", text)
	}
	number := func(s string) int {
		n, _ := strconv.Atoi(s) // at most six digits, or none
		return n
	}
	return Version{
		Major: number(parts[1]),
		Minor: number(parts[2]),
		Patch: number(parts[3]),
		Pre:   parts[4],
		text:  text,
	}, nil
}

// String returns the version as the broker reported it.
func (v Version) String() string { return v.text }

// Compare returns -1, 0 or 1 when v is older than, equal to or newer than
// other. A pre-release is older than its release; two pre-releases of one
// release compare as text.
func (v Version) Compare(other Version) int {
	return cmp.Or(
		cmp.Compare(v.Major, other.Major),
		cmp.Compare(v.Minor, other.Minor),
		cmp.Compare(v.Patch, other.Patch),
		comparePre(v.Pre, other.Pre),
	)
}

// AtLeast says whether v is the minimum or newer. Like regexp.MustCompile it
// panics when minimum is no version, which is a programming error.
func (v Version) AtLeast(minimum string) bool {
	m, err := ParseVersion(minimum)
	if err != nil {
		panic("broker: AtLeast: " + err.Error())
	}
	return v.Compare(m) >= 0
}

func comparePre(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	default:
		return cmp.Compare(a, b)
	}
}
